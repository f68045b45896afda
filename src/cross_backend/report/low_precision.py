"""Low precision: what of a program computes in it, and why one that does not pay is not faster than float32."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cross_backend.placement import Operators, Placement
from cross_backend.records import Panel, Result, Timing
from cross_backend.report import tables

SHOWN = 3
"""Kinds of operators that a sentence names."""
_CONVERTS = re.compile(
    r"quanti[sz]e(?!d)(?!matmul)|\bconvert\b|\breorder\b|choose_qparams|_to_copy|\bcast\b", re.IGNORECASE
)
"""Names, in the runtimes' own vocabularies, of what only quantises, dequantises or casts."""


def facts(placement: Placement) -> list[tuple[str, str]]:
    """Return (what, value) rows of a certificate; none where it is of float32."""
    found = placement.arithmetic
    if found is None:
        return []
    rows = [("low precision", _counted(found.low, len(found.low)) or "none")]
    if found.kept:
        rows.append(("in float", _counted(found.kept, len(found.kept))))
    return [*rows, ("conversions", f"{found.conversions} between the two")]


def _counted(rows: Sequence[Operators], most: int) -> str:
    shown = [f"{row.name} × {row.count}" for row in rows[:most]]
    return ", ".join([*shown, *(["…"] if len(rows) > most else [])])


def not_faster(panel: Panel) -> list[str]:
    """Return a sentence for each target of lower precision that is not faster than its backend in float32."""
    told = []
    for result in panel.ranked:
        found = result.placement.arithmetic if result.placement else None
        full = _in_float32(panel, result)
        if found is None or full is None or result.rank is None or full.rank is None or result.rank < full.rank:
            continue
        kept = sum(row.count for row in found.kept)
        causes = [f"{kept} operators stay in float ({_counted(found.kept, SHOWN)})"] if kept else []
        causes += [f"{found.conversions} conversions remain"] if found.conversions else []
        low = sum(row.count for row in found.low)
        why = (
            " and ".join(causes) if causes else f"its {low} operators compute in it, and gain nothing on this processor"
        )
        told.append(f"{result.title} is not faster than {full.title}: {why}.")
    return told


def agreements(panel: Panel) -> list[str]:
    """Return a sentence for each target of lower precision on how like float32 its answers are."""
    told = []
    for result in panel.ranked:
        found = result.agreement
        if found is None:
            continue
        other = next((one.title for one in panel.results if one.target == found.reference), found.reference)
        count = f"{found.inputs} input{'s' if found.inputs > 1 else ''}"
        first = ""
        if found.top1 is not None:
            near = "" if found.top5 is None else f" (top-5: {tables.percent(found.top5)})"
            first = f"agrees with {other} on the top class of {tables.percent(found.top1)} of {count}{near}"
        outputs = ", ".join(tables.sqnr(db) for db in found.sqnr_db[:SHOWN])
        more = ", …" if len(found.sqnr_db) > SHOWN else ""
        noise = f"SQNR {'of each output ' if len(found.sqnr_db) > 1 else ''}{outputs}{more}"
        noise = f"{noise}, worst input ({found.worst}): {tables.sqnr(found.worst_db)}"
        told.append(f"{result.title} {first or f'beside {other} on {count}'}; {noise}.")
    return told


def _in_float32(panel: Panel, result: Result) -> Result | None:
    """Return the same target in float32, where that has a rank."""
    wanted = _other_options(result)
    return next(
        (one for one in panel.ranked if one.precision in {None, "fp32"} and _other_options(one) == wanted), None
    )


def _other_options(result: Result) -> tuple[str, ...]:
    name, _, options = result.target.partition("?")
    return (name, *(one for one in options.split("&") if one and not one.startswith("precision=")))


def conversion_share(rows: Sequence[Timing]) -> float:
    """Return the share of a profile's time that quantises, dequantises and casts, 0 to 1."""
    total = sum(row.ms for row in rows)
    return sum(row.ms for row in rows if _CONVERTS.search(row.name)) / total if total else 0.0


def spent(rows: Sequence[Timing]) -> str:
    """Return the sentence on it."""
    return f"{tables.percent(conversion_share(rows))} of the profiled time quantises, dequantises and casts."
