"""Two profiles of one model side by side: which part of the model takes how long on each.

A profiler names operators in its runtime's own vocabulary, and compilers join some and take others apart. What all of
them keep are the products, convolutions and matrix products, in the program's order: the n-th product of a profile is
the n-th of the program. What runs between two of them counts to the earlier one, with which most runtimes join it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from cross_backend.artifact import Artifact
from cross_backend.backend.profiles import in_order, typical
from cross_backend.bench.bench import Subject
from cross_backend.bench.worker_bench import WorkerBench
from cross_backend.cache import Cache
from cross_backend.comparison.settings import Settings
from cross_backend.comparison.site import HERE
from cross_backend.exporting.operations import Operation, operations_in
from cross_backend.records import Part, SideBySide, Spent, Timing

RUNS, ROUNDS = 10, 3
"""Profiled runs of each of two artifacts in one round; they take turns, so that what drifts meets both."""
NOWHERE = -1
"""In place of an operation: what a delegate takes beside the operators that it told."""
_PRODUCT = re.compile(
    r"conv(?!ert)|gemm|mat_?mul|fully.?connected|(?<![a-z])linear(?![a-z_0-9])|inner.?product|matrix.?multiply|attention"
    r"|\b(?:add|b|badd)?b?mm\b",
    re.IGNORECASE,
)
"""In the name of a product, in any vocabulary: ``FusedConv``, ``QLinearConv``, ``aten::addmm``, ``Fully Connected``."""
_MOVE = re.compile(r"^(?:copy|pad)\b", re.IGNORECASE)
"""Begins the name of what only moves what a product made."""
_OF_ACTIVATIONS = re.compile(
    r"attention|batch.?mat|(?:^|[^a-z])(?:b|badd)?b?mm\b|^(?:aten::)?mat_?mul\b", re.IGNORECASE
)
"""In the name of a product of two activations; many runtimes join those of an attention with what lies between."""


def compared(a: Artifact, b: Artifact, capture: Path, settings: Settings, cache: Cache) -> SideBySide:
    """Profile two artifacts of one program, captured in a folder, in turns, and lay the profiles side by side.

    Raises:
        UnsupportedError: a runtime has no profiler whose order is read.
        CrossBackendError: it cannot be run.
    """
    both = profiled((a, b), settings, cache)
    totals = [typical([steps]) for steps in both]
    made = operations_in(capture, a)
    found = [by_operation(steps, made) for steps in both]
    reason = None
    if not made:
        reason = "its captured program lists no operators (an ONNX file, or one that cannot be read)"
    for artifact, rows in zip((a, b), found, strict=True):
        if reason is None and rows is None:
            reason = f"{artifact.target} joins products of the model, or runs others"
    if reason is not None or found[0] is None or found[1] is None:
        return SideBySide(a.target, b.target, totals[0], totals[1], reason=reason)
    return SideBySide(a.target, b.target, totals[0], totals[1], *parts(made, found[0], found[1]))


def profiled(artifacts: Sequence[Artifact], settings: Settings, cache: Cache) -> list[tuple[Timing, ...]]:
    """Profile artifacts in turns, in a process each; return each one's operators in the order in which they ran.

    Raises:
        UnsupportedError: a runtime has no profiler whose order is read.
        CrossBackendError: it cannot be run.
    """
    found: list[list[tuple[Timing, ...]]] = [[] for _ in artifacts]
    with ExitStack() as stack:
        benches = []
        for artifact in artifacts:
            bench = HERE.start_bench(artifact.target, settings, cache, stack)
            assert isinstance(bench, WorkerBench), "of this machine"
            benches.append((bench, Subject(artifact.payload_path, artifact.target, settings.threads)))
        for _ in range(ROUNDS):
            for rounds, (bench, subject) in zip(found, benches, strict=True):
                rounds.append(bench.steps(subject, RUNS))
    return [in_order(rounds) for rounds in found]


def by_operation(steps: Sequence[Timing], made: Sequence[Operation]) -> dict[int, list[Timing]] | None:
    """Return a profile's rows by the product of the program that they belong to (its index in ``made``).

    None where profile and program count different products, or none at all: a runtime joined some.
    """
    known = [index for index, one in enumerate(made) if _PRODUCT.search(one.operator)]
    begins = [_PRODUCT.search(row.name) is not None and not _MOVE.match(row.name) for row in steps]
    of_weights = [begun and not _OF_ACTIVATIONS.search(row.name) for begun, row in zip(begins, steps, strict=True)]
    ways = (
        (begins, known),
        (begins, [at for at in known for _ in range(2 if "attention" in made[at].operator else 1)]),
        (of_weights, [at for at in known if not _OF_ACTIVATIONS.search(made[at].operator)]),
    )
    for begun, products in ways:
        if products and sum(begun) == len(products):
            rows: dict[int, list[Timing]] = {}
            at = -1
            for row, begins_one in zip(steps, begun, strict=True):
                at += begins_one
                rows.setdefault(NOWHERE if row.kind == "delegate" else products[max(at, 0)], []).append(row)
            return rows
    return None


def parts(
    made: Sequence[Operation], a: dict[int, list[Timing]], b: dict[int, list[Timing]]
) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """Return what each takes by module, and by line of Python; the largest difference first."""
    modules: dict[tuple[str, str], tuple[list[Timing], list[Timing]]] = {}
    lines: dict[tuple[str, str], tuple[list[Timing], list[Timing]]] = {}
    named = [(index, one.module or one.name, one.line) for index, one in enumerate(made)]
    for index, name, line in [*named, (NOWHERE, "the delegate itself", "")]:
        for keyed, key in ((modules, (name, line)), (lines, (line or name, line))):
            for side, rows in enumerate((a.get(index, ()), b.get(index, ()))):
                if rows:
                    keyed.setdefault(key, ([], []))[side].extend(rows)
    return _ordered(modules), _ordered(lines)


def _ordered(found: dict[tuple[str, str], tuple[list[Timing], list[Timing]]]) -> tuple[Part, ...]:
    rows = [Part(*key, _spent(a), _spent(b)) for key, (a, b) in found.items()]
    return tuple(sorted(rows, key=lambda part: -abs(part.slower_by)))


def _spent(rows: Iterable[Timing]) -> Spent:
    kinds = typical([tuple(rows)])
    return Spent(sum(row.ms for row in kinds), tuple(row.name for row in kinds))
