"""A PyTorch program as the search sees it: run node by node, and cut between any two operators."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.errors import CaptureError, failing_as
from cross_backend.localization.extents import computes_with_extents, with_extents
from cross_backend.localization.found import Suspect
from cross_backend.localization.functional import functional
from cross_backend.localization.part import part, units
from cross_backend.localization.variants import variants_of
from cross_backend.localization.whole import Values, Whole
from cross_backend.program.lines import user_line
from cross_backend.program.noise import Noise
from cross_backend.program.running import name_of
from cross_backend.program.state import value_of
from cross_backend.program.writing import write_part
from cross_backend.tensors import TensorSpec, from_numpy, to_numpy

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from cross_backend.program.captured import Captured


class TorchWhole(Whole):
    """A flat program; operators that write in place are made functional first."""

    def __init__(self, program: ExportedProgram, inputs: Sequence[Any]) -> None:
        """Prepare a captured program.

        Args:
            program: flat.
            inputs: by whose extents one that computes with its own is cut.

        Raises:
            UnsupportedError: it cannot be cut.
        """
        self._hold(functional(program))
        if computes_with_extents(self.program):
            self._hold(with_extents(self.program, self._start(inputs)))

    def _hold(self, program: ExportedProgram) -> None:
        self.program = program
        self.units = units(self.program)
        self._nodes = {node.name: node for node in self.program.graph.nodes}
        signature = self.program.graph_signature
        self._inputs = [str(name) for name in signature.user_inputs]
        self.outputs = [str(name) for name in signature.user_outputs]
        self._targets = {spec.arg.name: spec.target for spec in signature.input_specs if spec.target is not None}
        state = set(signature.buffers_to_mutate.values())
        self._state = {name for name, target in self._targets.items() if target in state}
        self._fixed = {name for name in self._targets if name not in self._state}

    def needs(self, unit: Sequence[str]) -> frozenset[str]:  # noqa: D102  the declaration says it
        nodes = [one for name in unit for one in self._nodes[name].all_input_nodes]
        return frozenset(n.name for n in nodes if n.op != "get_attr" and n.name not in self._fixed) - set(unit)

    def _held(self, name: str) -> Any:
        """Return a weight, constant or state's initial value."""
        return value_of(self.program, self._targets[name])

    def _start(self, inputs: Sequence[Any]) -> dict[str, Any]:
        held = {name: self._held(name) for name in self._targets}
        return held | dict(zip(self._inputs, map(from_numpy, inputs), strict=True))

    def _run(self, known: Mapping[str, Any], change: Callable[[Any, Any], Any] | None = None) -> dict[str, Any]:
        """Run what is not known of the graph; return all values, torch tensors."""
        import torch

        found: dict[str, Any] = {}

        class Noting(torch.fx.Interpreter):
            def run_node(self, n: Any) -> Any:
                made = super().run_node(n)
                made = made if change is None or n.op != "call_function" else change(n, made)
                found[n.name] = made
                return made

        run = Noting(self.program.graph_module, garbage_collect_values=False)
        env = {self._nodes[name]: value for name, value in known.items()}
        skipped = {node: None for node in self.program.graph.nodes if node.op == "placeholder" and node not in env}
        with torch.no_grad(), failing_as(CaptureError, "the reference fails"):
            run.run(initial_env=env | skipped)
        return {**known, **found}

    def values(self, inputs: Sequence[Any]) -> Values:  # noqa: D102
        return self._arrays(self._run(self._start(inputs)))

    def rounded(self, inputs: Sequence[Any]) -> Values:  # noqa: D102
        import torch
        from torch.utils._pytree import tree_map

        noise = Noise(1, 1)
        views = {"view", "reshape", "permute", "transpose", "getitem", "unsqueeze", "squeeze", "slice", "cat", "split"}

        def change(node: Any, value: Any) -> Any:
            return value if name_of(node) in views else tree_map(noise.disturbed, value)

        start = {name: noise.disturbed(one) for name, one in self._start(inputs).items() if torch.is_tensor(one)}
        try:
            return self._arrays(self._run(start, change))
        except CaptureError:
            return {}

    def compute(self, wanted: Collection[str], given: Values) -> Values:  # noqa: D102
        import torch

        known = {name: from_numpy(x) for name, x in given.items() if name in self._nodes}
        found: dict[str, Any] = {name: known[name] for name in wanted if name in known}
        missing = [name for name in wanted if name not in known]
        if missing:
            env: dict[Any, Any] = {self._nodes[name]: value for name, value in known.items()}
            run = torch.fx.Interpreter(self.program.graph_module, garbage_collect_values=False)
            run.env = env
            with torch.no_grad(), failing_as(CaptureError, "the reference fails"):
                for node in self._needed(missing, env):
                    env[node] = self._held(node.name) if node.op == "placeholder" else run.run_node(node)
            found |= {name: env[self._nodes[name]] for name in missing}
        return self._arrays(found)

    def _needed(self, names: Sequence[str], known: Mapping[Any, Any]) -> list[Any]:
        """Return the nodes that lead to some values and are not known, in order."""
        wanted, waiting = set(), [self._nodes[name] for name in names]
        while waiting:
            node = waiting.pop()
            if node not in wanted and node not in known:
                wanted.add(node)
                waiting += node.all_input_nodes
        return [node for node in self.program.graph.nodes if node in wanted]

    def _arrays(self, values: Mapping[str, Any]) -> Values:
        import torch

        return {
            name: to_numpy(value).copy()
            for name, value in values.items()
            if isinstance(value, torch.Tensor) and name not in self._fixed
        }

    def write(  # noqa: D102
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
        made = part(self.program, nodes, outputs, flat=flat)
        taken = {n: given[n] for n in made.inputs}
        left = {n: given[n].reshape(-1) if flat and given[n].ndim > 2 else given[n] for n in made.outputs}
        made.program.example_inputs = (tuple(map(from_numpy, taken.values())), {})
        return write_part(made.program, name, folder, taken, left, calibration)

    def suspect(self, unit: Sequence[str], given: Values) -> Suspect:  # noqa: D102
        node = self._nodes[unit[0]]
        inputs = [self._shown(one) for one in node.all_input_nodes if one.op != "get_attr"]
        outputs = [str(TensorSpec.of(name, given[name])) for name in unit if name in given]
        line = user_line(node.meta.get("stack_trace"))
        return Suspect(unit[0], str(node.target), line, tuple(inputs), tuple(outputs), dict(_attributes(node)))

    def module_of(self, unit: Sequence[str]) -> str:  # noqa: D102
        stack = self._nodes[unit[0]].meta.get("nn_module_stack") or {}
        return str(list(stack.values())[-1][0]) if stack else ""

    def _shown(self, node: Any) -> str:
        value = node.meta.get("val")
        return str(TensorSpec.of(node.name, value)) if hasattr(value, "dtype") else str(value)

    def variants(self, unit: Sequence[str], given: Values) -> Sequence[tuple[str, Values]]:  # noqa: D102
        def tensor(node: Any) -> Any:
            return self._held(node.name) if node.name in self._fixed else from_numpy(given[node.name])

        return [
            (words, dict(zip(unit[1:] or unit, map(to_numpy, made), strict=False)))
            for words, made in variants_of(self._nodes[unit[0]], tensor)
        ]


def _attributes(node: Any) -> Iterator[tuple[str, str]]:
    """Yield the arguments of an operator that are no tensors, by name."""
    schema = getattr(node.target, "_schema", None)
    names = [argument.name for argument in schema.arguments] if schema else []
    for at, value in enumerate(node.args):
        if not _holds_nodes(value):
            yield (names[at] if at < len(names) else str(at)), str(value)
    for name, value in node.kwargs.items():
        if not _holds_nodes(value):
            yield name, str(value)


def _holds_nodes(value: Any) -> bool:
    return hasattr(value, "op") or (isinstance(value, list | tuple) and any(map(_holds_nodes, value)))
