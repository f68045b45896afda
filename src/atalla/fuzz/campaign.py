"""Campaign: many programs, one after the other; each finding made small, and a script of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from atalla.fuzz.compare import Finding
from atalla.fuzz.executors import executors
from atalla.fuzz.generate import generate
from atalla.fuzz.graph import Graph
from atalla.fuzz.minimize import minimize
from atalla.fuzz.reproducer import fails, script
from atalla.fuzz.worker import PATIENCE_S, Worker

MOST_SMALL = 10
"""So many findings are made small; the rest is told as it is."""


@dataclass(frozen=True)
class Plan:
    """What is to be done."""

    cases: int = 200
    seed: int = 0
    """Of the first case; the next has the next."""
    seconds: float | None = None
    """After so long no new case begins."""
    precision: str = "float32"
    more: tuple[str, ...] = ()
    """Executors of others, ``package.module:function``."""
    patience_s: float = PATIENCE_S
    """A case that takes longer hangs."""
    small_s: float = 60.0
    """So long is a finding made smaller."""


@dataclass(frozen=True)
class Found:
    """A finding, with its script."""

    seed: int
    finding: Finding
    graph: Graph
    """As small as it got."""
    script: str
    is_confirmed: bool
    """Whether the script failed when it was run by itself."""


@dataclass
class Report:
    """What came of it."""

    plan: Plan
    outcomes: Counter[str] = field(default_factory=Counter)
    """``same``, ``refused``, ``skipped``, ``finding`` → cases."""
    operators: set[str] = field(default_factory=set)
    fallbacks: int = 0
    instructions: Counter[str] = field(default_factory=Counter)
    """Kind of instruction → programs that have it."""
    found: list[Found] = field(default_factory=list)
    details: Counter[str] = field(default_factory=Counter)
    """Why programs were refused or skipped."""

    @property
    def cases(self) -> int:
        """Return how many programs were tried."""
        return sum(self.outcomes.values())


def fuzz(plan: Plan, show: Callable[[Report, str], None] = lambda _report, _doing: None) -> Report:
    """Try programs, and return what came of them.

    Args:
        plan: what is to be done.
        show: called before each case, and while a finding is made small, with what is being done.

    Raises:
        AtallaError: an executor that was named is not there.
    """
    under_test = executors(plan.precision, plan.more)
    report, began = Report(plan), time.monotonic()
    worker = Worker(plan.precision, plan.more, plan.patience_s)
    try:
        for seed in range(plan.seed, plan.seed + plan.cases):
            if plan.seconds is not None and time.monotonic() - began > plan.seconds:
                break
            show(report, f"case {seed}")
            graph = generate(seed, plan.precision)
            outcome = worker.examine(graph)
            report.outcomes[outcome.status] += 1
            report.operators.update(outcome.operators)
            report.instructions.update(outcome.instructions)
            report.fallbacks += outcome.fallbacks
            if outcome.detail:
                report.details[f"{outcome.status}: {outcome.detail}"] += 1
            if outcome.finding:
                show(report, f"case {seed}: a finding is made small")
                is_first = len(report.found) < MOST_SMALL
                small = _small(graph, outcome.finding, worker, plan.small_s) if is_first else (graph, outcome.finding)
                text = script(*small, under_test)
                confirmed = is_first and fails(text, plan.patience_s + 60)
                report.found.append(Found(seed, small[1], small[0], text, confirmed))
    finally:
        worker.close()
    return report


def _small(graph: Graph, finding: Finding, worker: Worker, seconds: float) -> tuple[Graph, Finding]:
    """Return a smaller program that fails in the same way, and what is wrong with it."""
    last = finding

    def still_fails(candidate: Graph) -> bool:
        nonlocal last
        found = worker.examine(candidate).finding
        if found is None or not finding.resembles(found):
            return False
        last = found
        return True

    return minimize(graph, still_fails, seconds), last


def unreached(reports: Sequence[Report]) -> list[str]:
    """Return the native operators that no program of some campaigns had."""
    from atalla.passes.rules import all_rules

    return sorted(set(all_rules()) - {name for report in reports for name in report.operators})
