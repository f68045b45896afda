"""Reproducer: the smallest program that shows a vendor's fault, as a script and as a text for its tracker."""

from __future__ import annotations

import itertools
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from atalla.fuzz.graph import Graph
from atalla.fuzz.minimize import minimize
from cross_backend.cache import Cache
from cross_backend.errors import RunError, UnsupportedError, WorkerError, WorkerTimeoutError
from cross_backend.localization.attempt import CRASH, DIFFERS, ERROR, FAILS, HANG, Attempt, Attempted, is_wrong
from cross_backend.localization.script import MOST_LINES, head, limits_of, script
from cross_backend.localization.tracker import tracker_text
from cross_backend.lowering.lower import versions
from cross_backend.machine import version_of
from cross_backend.registry import Resolved, check_runs
from cross_backend.verify.compare import precision_of, tolerance_of
from cross_backend.worker.process import Worker

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

LEAST = 1e-3
"""Relative difference from which on a script shows a fault, where the fault is not smaller."""
SHARE = 0.25
"""Of a smaller fault, so much is the limit."""
ROUNDING = 1e-6
"""Relative difference that the order of a sum makes in float32; nothing below it is a fault."""
MOST_BYTES = 1 << 20
"""Of a script."""
PATIENCE_S = 240.0
"""How much longer a script may take by itself than in a worker, which has imported everything before."""
MOST_TITLE = 160
"""Characters."""

Show = Callable[[str, int, int], None]
"""Told what is done, how many lowerings there were, and how many there may be."""


def _unseen(_doing: str, _done: int, _total: int) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class Budget:
    """How long a program is made smaller."""

    lowerings: int = 80
    """With the vendor's package."""
    seconds: float = 120.0
    timeout_s: float = 120.0
    """Of one lowering and run."""


@dataclass(frozen=True)
class Reproducer:
    """What was written, and what it shows."""

    script: Path
    text: Path
    """For the vendor's tracker, Markdown."""
    lines: int
    nodes: int
    """Operators of the program."""
    fault: str
    """One line."""
    printed: str
    """What the script prints when it runs by itself."""
    lowerings: int


@dataclass
class _Vendor:
    """Asks the vendor's package in a worker, which is replaced where it dies."""

    resolved: Resolved
    lines: Sequence[str]
    budget: Budget
    show: Show
    cache: Cache
    calls: int = 0
    worker: Worker | None = field(default=None)

    def tried(self, graph: Graph, doing: str) -> Attempted:
        """Lower and run a program."""
        self.show(doing, self.calls, self.budget.lowerings + 1)
        self.calls += 1
        if self.worker is None or not self.worker.alive:
            self.close()
            self.worker = Worker(self.cache.log("reproducer"), self.resolved.lowering_python)
        try:
            return self.worker.ask(Attempt(head(graph, self.lines)), self.budget.timeout_s)
        except WorkerTimeoutError as error:
            return Attempted(HANG, str(error))
        except WorkerError as error:
            return Attempted(CRASH, str(error).partition(" (log")[0])

    def close(self) -> None:
        """End the worker."""
        if self.worker is not None:
            self.worker.__exit__(None, None, None)


def reproduce(
    program: ExportedProgram,
    inputs: Sequence[torch.Tensor],
    resolved: Resolved,
    folder: Path,
    stem: str,
    budget: Budget | None = None,
    show: Show = _unseen,
    cache: Cache | None = None,
) -> Reproducer:
    """Write ``STEM.py``, which shows a fault with the vendor's package alone, and ``STEM.md`` for its tracker.

    The program is made smaller for as long as the fault stays of its kind. Each step is lowered and run for real. The
    script is then run by itself.

    Args:
        program: the part that goes wrong, as small as it is known; flat inputs.
        inputs: on which it goes wrong.
        resolved: target that computes it wrongly.
        folder: receives both files; it exists.
        stem: of their names.
        budget: of making it smaller.
        show: told of each lowering.
        cache: where the worker's log lies.

    Raises:
        UnsupportedError: the backend has no short script, the program is no Python, or the fault does not show
            without this package; the text says which.
        UnavailableError: the target cannot run here.
    """
    from cross_backend.localization.as_python import written

    check_runs(resolved)
    lines = resolved.backend.reproduction(resolved.options)
    budget = budget or Budget()
    vendor = _Vendor(resolved, lines, budget, show, cache or Cache())
    try:
        graph = written(program, inputs).pruned()
        first = vendor.tried(graph, "run it with the vendor's package alone")
        relative = _limit(resolved, first)
        if not is_wrong(first, relative):
            raise UnsupportedError(_not_shown(resolved, first))
        small, last = _smallest(graph, first, relative, vendor)
    finally:
        vendor.close()
    for one, tried in dict.fromkeys([(small, last), (graph, first)]):
        found = _written_by(one, tried, relative, resolved, lines, folder, stem, vendor)
        if found is not None:
            return found
    raise UnsupportedError(
        f"{resolved.backend.title} shows the difference in our worker and not in a process of its own: "
        f"{first.detail}. It may depend on what ran before."
    )


def _limit(resolved: Resolved, first: Attempted) -> float:
    """Return the relative difference from which on outputs are wrong."""
    known = max(LEAST, tolerance_of(precision_of(resolved.options)))
    return max(ROUNDING, min(known, SHARE * first.deviation)) if first.kind == DIFFERS else known


def _not_shown(resolved: Resolved, first: Attempted) -> str:
    why = f"rounding may change its outputs so ({first.unsteady})" if first.unsteady else first.detail
    return (
        f"{resolved.backend.title} does not show the fault without cross-backend: {why}. "
        "The fault may lie in how cross-backend lowers this part."
    )


def _smallest(graph: Graph, first: Attempted, relative: float, vendor: _Vendor) -> tuple[Graph, Attempted]:
    """Return the smallest program that still fails in the same way, and how it does."""
    from cross_backend.localization.plainer_leaves import PlainerLeaves

    last = first

    def still_fails(candidate: Graph) -> bool:
        nonlocal last
        nodes = sum(bool(node.operator) for node in candidate.nodes)
        found = vendor.tried(candidate, f"make it smaller: {nodes} operator{'s' if nodes != 1 else ''}")
        if not (first.resembles(found) and is_wrong(found, relative)):
            return False
        last = found
        return True

    budget = vendor.budget
    return minimize(graph, still_fails, budget.seconds, PlainerLeaves(), budget.lowerings), last


def _written_by(
    graph: Graph,
    tried: Attempted,
    relative: float,
    resolved: Resolved,
    lines: Sequence[str],
    folder: Path,
    stem: str,
    vendor: _Vendor,
) -> Reproducer | None:
    """Write both files, where the script shows the fault by itself."""
    nodes = [node.operator for node in graph.nodes if node.operator]
    title = f"{resolved.backend.title}, {', '.join(dict.fromkeys(nodes))}: {tried.detail}"[:MOST_TITLE]
    limits = None if tried.kind in FAILS else limits_of(tried.scale, relative, whole=tried.whole)
    text = script(graph, lines, title, limits)
    if len(text) > MOST_BYTES:
        raise UnsupportedError(
            f"the smallest program found needs {len(text) / 1e6:.1f} MB of its own values, too much for a script."
        )
    vendor.show("run the script by itself", vendor.calls, vendor.calls + 1)
    printed = shown_by(text, resolved.lowering_python, tried, vendor.budget.timeout_s)
    if printed is None:
        return None
    path = folder / f"{stem}.py"
    path.write_text(text, encoding="utf-8")
    taking = {name: found for name, found in versions(resolved).items() if name != "cross-backend"}
    known = {"torch": version_of("torch") or "", **taking}
    report = path.with_suffix(".md")
    report.write_text(tracker_text(resolved.backend.title, nodes, tried.detail, known, printed, text), encoding="utf-8")
    return Reproducer(path, report, text.count("\n"), len(nodes), title, printed, vendor.calls)


def shown_by(text: str, python: str, tried: Attempted, timeout_s: float) -> str | None:
    """Return what a script prints in an isolated process; None where it does not end as it is to.

    Raises:
        RunError: it does not end, although the fault is not that it hangs.
    """
    limit_s = timeout_s + PATIENCE_S
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reproducer.py"
        path.write_text(text, encoding="utf-8")
        try:
            done = subprocess.run(
                [python, "-I", str(path)],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=limit_s,
            )
        except subprocess.TimeoutExpired as error:
            if tried.kind == HANG:
                return "(no end)"
            why = f"the script did not end within {limit_s:.0f} s in a process of its own"
            raise RunError(f"{why}; run this again when this machine is less busy.") from error
    if tried.kind == CRASH:
        return f"{done.stdout}(killed by signal {-done.returncode})\n" if done.returncode < 0 else None
    if tried.kind == ERROR:
        lines = list(itertools.dropwhile(lambda line: "Traceback" not in line, done.stderr.splitlines()))
        return f"{done.stdout}{lines[-1]}\n" if done.returncode == 1 and lines else None
    return done.stdout if done.returncode == 1 and "\ngot\n" in done.stdout else None


__all__ = ["MOST_LINES", "Budget", "Reproducer", "Show", "reproduce", "shown_by"]
