"""Hunting: the targets of a comparison are searched for inputs on which they are wrong, one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cross_backend.cache import Cache
from cross_backend.comparison.benches import open_bench
from cross_backend.comparison.settings import Settings
from cross_backend.errors import CrossBackendError, UnsupportedError, one_line
from cross_backend.exporting.export import Exported
from cross_backend.localization.adversarial import Arrays, Hunt, Run, hunt
from cross_backend.program.captured import Captured, OnnxProgram
from cross_backend.program.kept_probes import keep_probes
from cross_backend.tensors import load_tensors, save_tensors
from cross_backend.verify.compare import precision_of

Show = Callable[[str, float], None]
"""Told in words what is done, and the share of the time that has passed."""


@dataclass(frozen=True)
class Hunted:
    """What the search gave for one target."""

    target: str
    hunt: Hunt | None
    """None where it did not run."""
    why: str = ""
    """Why it did not run, or how it ended early."""

    against: str | None = None
    """The other target; None where it was compared with the reference."""

    @property
    def sentence(self) -> str:
        """Return it for the reader."""
        name = self.target if self.against is None else f"{self.target} against {self.against}"
        if self.hunt is None:
            return f"{name}: no search, {self.why}"
        tried = f"{self.hunt.tried} inputs"
        if self.hunt.found is not None:
            return f"{name}: wrong on one of {tried}: {self.hunt.reason}. The input is kept as a probe."
        unstable = f", {self.hunt.unstable} left out as unstable" if self.hunt.unstable else ""
        return f"{name}: right on {tried}{unstable}; worst {self.hunt.worst:.2g} × the tolerance"

    def to_json(self) -> dict[str, Any]:
        """Return the row of the JSON document; null is what is not known because it did not run."""
        one = self.hunt
        return {
            "target": self.target,
            "against": self.against,
            "wrong": None if one is None else one.found is not None,
            "reason": self.why if one is None else one.reason or None,
            "probe": None if one is None or one.found is None else one.found.name,
            "tried": None if one is None else one.tried,
            "unstable": None if one is None else one.unstable,
            "worst": None if one is None else one.worst,
        }


def hunt_all(
    captured: Captured,
    rows: Sequence[Exported],
    seconds: float,
    settings: Settings,
    cache: Cache,
    show: Show = lambda _doing, _share: None,
    against: Exported | None = None,
) -> list[Hunted]:
    """Search each target that was lowered, for an equal share of the time; what is found is kept for later comparisons.

    Args:
        captured: the program.
        rows: the targets.
        seconds: of all searches together.
        settings: threads, seed, and the longest answer.
        cache: keeps what is found.
        show: told how far it is.
        against: a target with which each is compared in place of the reference.

    Raises:
        UnsupportedError: the program is an ONNX file, or has state.
    """
    program = captured.program()
    if isinstance(program, OnnxProgram):
        raise UnsupportedError("--adversarial needs a PyTorch program; an ONNX file has no reference to run here.")
    if captured.proof.get("state"):
        raise UnsupportedError("--adversarial needs a program without state; one call of this one depends on others.")
    sample = load_tensors(captured.sample_path)
    able = [row for row in rows if row.artifact is not None and row.resolved is not None]
    other = None if against is None or against.resolved is None else str(against.resolved.target)
    found: list[Hunted] = []
    share = seconds / max(len(able), 1)
    for index, row in enumerate(able):
        assert row.resolved is not None
        target = str(row.resolved.target)

        def told(tried: int, worst: float, left_s: float, index: int = index, target: str = target) -> None:
            left = math.ceil(left_s + (len(able) - 1 - index) * share)
            show(f"search {target}: {tried} inputs, worst {worst:.2g} × tolerance, {left} s left", 1 - left / seconds)

        try:
            with ExitStack() as stack, cache.scratch() as folder:
                run = _caller(row, folder / "first", settings, cache, stack)
                second = None if against is None else _caller(against, folder / "second", settings, cache, stack)
                precision = precision_of(row.resolved.options)
                bounded = captured.media is not None
                ended = hunt(
                    program, sample, run, precision, share, settings.seed, bounded=bounded, other=second, show=told
                )
        except CrossBackendError as error:
            found.append(Hunted(target, None, one_line(error), other))
            continue
        if ended.found is not None:
            keep_probes(cache, captured.digest, [ended.found])
        found.append(Hunted(target, ended, "", other))
    return found


def _caller(row: Exported, folder: Path, settings: Settings, cache: Cache, stack: ExitStack) -> Run:
    """Open a target; return what runs it on an input.

    Raises:
        CrossBackendError: it was not lowered, or cannot be opened.
    """
    if row.artifact is None or row.resolved is None:
        raise UnsupportedError(f"{row.text}: {row.reason}")
    bench, _ = open_bench(row.artifact.payload_path, str(row.resolved.target), settings, cache, stack)
    folder.mkdir()
    given, taken = folder / "given.npz", folder / "taken.npz"

    def run(inputs: Arrays) -> Arrays:
        save_tensors(given, {"input": inputs})
        bench.bind(given)
        bench.run(taken)
        return load_tensors(taken)["output"]

    return run


__all__ = ["Hunted", "Show", "hunt_all"]
