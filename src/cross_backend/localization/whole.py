"""Whole: the program that is searched, as the search sees it; PyTorch programs and ONNX files look the same here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.localization.found import GraphStep

if TYPE_CHECKING:
    from cross_backend.localization.found import Suspect
    from cross_backend.program.captured import Captured

Values = Mapping[str, Any]
"""Name of a value → NumPy array."""


class Whole(ABC):
    """A program with names for its operators and values."""

    units: Sequence[tuple[str, ...]]
    """Values of each operator, in topological order; the search cuts between them."""
    outputs: Sequence[str]
    """Names of the values that the program returns."""

    @abstractmethod
    def needs(self, unit: Sequence[str]) -> frozenset[str]:
        """Return the names of the values that an operator takes, without weights and constants."""

    @abstractmethod
    def values(self, inputs: Sequence[Any]) -> Values:
        """Return all tensors that the reference computes for an input; the inputs are among them.

        Raises:
            CaptureError: the reference fails.
        """

    @abstractmethod
    def rounded(self, inputs: Sequence[Any]) -> Values:
        """Return the same under other rounding errors; nothing where that cannot be done."""

    @abstractmethod
    def compute(self, wanted: Collection[str], given: Values) -> Values:
        """Return values that the reference computes from others.

        Args:
            wanted: names of values.
            given: what is known; everything else that is needed is computed.
        """

    @abstractmethod
    def write(
        self,
        name: str,
        nodes: Collection[str],
        given: Values,
        calibration: Sequence[Values],
        folder: Path,
        outputs: Collection[str] | None = None,
        *,
        flat: bool = False,
    ) -> Captured:
        """Write some operators as a captured program.

        Args:
            name: of the workload.
            nodes: values of those operators.
            given: all values for one input: its sample.
            calibration: all values for each input that quantisers observe.
            folder: empty.
            outputs: values that leave; those that others use where None.
            flat: whether they may leave as one row, which some compilers take where they refuse several dimensions.

        Raises:
            UnsupportedError: they cannot be a program.
        """

    @abstractmethod
    def suspect(self, unit: Sequence[str], given: Values) -> Suspect:
        """Return what there is to say of an operator."""

    @abstractmethod
    def variants(self, unit: Sequence[str], given: Values) -> Sequence[tuple[str, Values]]:
        """Return what an operator would compute if a known fault were in it: (the fault in words, its values).

        Attributes at their defaults and weights that are transposed, for example.
        """

    def module_of(self, unit: Sequence[str]) -> str:  # noqa: ARG002
        """Return the path of the module that called an operator; empty where there is none."""
        return ""

    # --- The same for all

    def graph(self, values: Values) -> tuple[GraphStep, ...]:
        """Return all operators with what they feed on.

        Args:
            values: of one input.
        """
        found = []
        for unit, sources in zip(self.units, self._sources(), strict=True):
            one, module = self.suspect(unit, values), self.module_of(unit)
            found.append(GraphStep(one.node, one.operator, module, one.line, tuple(unit), tuple(sorted(sources))))
        return tuple(found)

    def _sources(self) -> list[set[int]]:
        """Return for each operator those whose values it takes, by number."""
        makers = {name: at for at, unit in enumerate(self.units) for name in unit}
        return [{makers[name] for name in self.needs(unit) if name in makers} for unit in self.units]

    def downstream(self, names: Collection[str]) -> set[str]:
        """Return the values that depend on any of these, without these."""
        reached, found = set(names), set()
        for unit in self.units:
            if self.needs(unit) & reached:
                reached |= set(unit)
                found |= set(unit)
        return found - set(names)

    def closed(self, numbers: Collection[int]) -> list[int]:
        """Return operators by number, with those that lie on paths between them."""
        after, before, sources = set(numbers), set(numbers), self._sources()
        for at in range(len(self.units)):
            if sources[at] & after:
                after.add(at)
        for at in reversed(range(len(self.units))):
            if at in before:
                before |= sources[at]
        return sorted(after & before)

    def producers(self, numbers: Collection[int]) -> set[int]:
        """Return the operators whose values these take."""
        sources = self._sources()
        return {one for at in numbers for one in sources[at]}

    def consumers(self, numbers: Collection[int]) -> set[int]:
        """Return the operators that take values of these."""
        made = {name for at in numbers for name in self.units[at]}
        return {at for at, unit in enumerate(self.units) if self.needs(unit) & made}

    def finish(self, values: Values, replaced: Values) -> list[Any]:
        """Return the program's outputs where some values are others than the reference's.

        Args:
            values: the reference's.
            replaced: the others.
        """
        after = self.downstream(replaced)
        known = {name: value for name, value in values.items() if name not in after} | dict(replaced)
        computed = self.compute(self.outputs, known)
        return [computed[name] for name in self.outputs]
