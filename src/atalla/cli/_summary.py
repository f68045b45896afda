"""Summary of a blob, for ``compile`` and ``info``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from atalla.blob.disasm import tensor
from atalla.blob.reader import Listing
from atalla.blob.segments import describe, segments
from atalla.cli import print_table, say, size
from atalla.isa import Op


def document(listing: Listing, size_bytes: int) -> dict[str, Any]:
    """Return the summary as JSON."""
    bound = _bound(listing)
    return {
        "size_bytes": size_bytes,
        "constant_bytes": listing.constant_bytes,
        "arena_bytes": listing.arena_bytes,
        "arena_bound_bytes": bound,
        "operations": dict(_operations(listing)),
        "segments": [
            {
                "runs_on": "host" if one.is_fallback else "accelerator",
                "first": one.first,
                "operations": dict(Counter(one.operations)),
                "reason": one.reason,
                "line": one.line or None,
            }
            for one in segments(listing)
        ],
    }


def print_summary(path: Path, listing: Listing, size_bytes: int, *more: tuple[str, str]) -> None:
    """Print the summary; ``more`` are further rows."""
    found = segments(listing)
    operations = _operations(listing)
    kinds = ", ".join(f"{count} {name}" for name, count in operations)
    bound = _bound(listing)
    gap = "" if bound is None else ", the least that is possible"
    if bound is not None and bound < listing.arena_bytes:
        gap = f", {listing.arena_bytes / bound - 1:.1%} above the bound of {size(bound)}"
    fallbacks = [one for one in found if one.is_fallback]
    rows = [
        ("inputs", ", ".join(tensor(listing, number) for number in listing.inputs) or "none"),
        ("outputs", ", ".join(_output(listing, kind, value) for kind, value in listing.outputs) or "none"),
        ("instructions", f"{sum(count for _, count in operations)}: {kinds}"),
        ("constants", size(listing.constant_bytes)),
        ("arena", f"{size(listing.arena_bytes)}{gap}"),
        ("fallbacks", f"{len(fallbacks)} of {len(found)} segments" if fallbacks else "none"),
    ]
    say(f"{path}: {size(size_bytes)}")
    print_table([(f"  {name}", text) for name, text in (*rows, *more)])
    if fallbacks:
        for line in describe(found):
            say(f"  {line}")


def _output(listing: Listing, kind: str, value: Any) -> str:
    return tensor(listing, value) if kind == "tensor" else str(value)


def _operations(listing: Listing) -> list[tuple[str, int]]:
    return Counter(row.op.name for row in listing.instructions if row.op is not Op.END).most_common()


def _bound(listing: Listing) -> int | None:
    """Return the bytes below which no plan can be, if the blob says so."""
    found = listing.meta.get("arena_bound")
    return found if isinstance(found, int) and 0 < found <= listing.arena_bytes else None
