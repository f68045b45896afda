"""Segments: which neighbouring instructions the accelerator runs, and where the host takes over, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from atalla.blob.reader import Listing
from atalla.isa import Op


@dataclass(frozen=True)
class Segment:
    """Neighbouring instructions that one side runs; each operator of the host is a segment of its own."""

    first: int
    """Number of its first instruction."""
    operations: tuple[str, ...]
    """Of the accelerator ``CONV2D``, …; of the host the one operator, ``aten.sort.default``."""
    reason: str | None
    """Why the host runs it; None for the accelerator."""
    line: str
    """The user's line of Python that asks for what the host runs."""

    @property
    def is_fallback(self) -> bool:
        """Whether the host runs it."""
        return self.reason is not None


def segments(listing: Listing) -> tuple[Segment, ...]:
    """Return the segments of a blob, in the order in which they run."""
    return tuple(_segments(listing))


def _segments(listing: Listing) -> Iterator[Segment]:
    reasons = listing.meta.get("fallbacks")
    rows = [(number, row) for number, row in enumerate(listing.instructions) if row.op is not Op.END]
    for on_host, group in groupby(rows, lambda pair: pair[1].op is Op.CALL_HOST):
        members = list(group)
        if not on_host:
            yield Segment(members[0][0], tuple(row.op.name for _, row in members), None, "")
            continue
        for number, row in members:
            reason = reasons.get(row.node) if isinstance(reasons, dict) else None
            target = listing.calls[row.attributes["call"]].target
            yield Segment(number, (target,), str(reason or "the blob does not say why"), row.line)


def describe(found: Sequence[Segment]) -> Iterator[str]:
    """Return a line for each segment: who runs it, what it holds, and why it fell back."""
    for number, segment in enumerate(found):
        if segment.is_fallback:
            where = f"  ; {segment.line}" if segment.line else ""
            yield f"segment {number:>2}  fallback     {segment.operations[0]}: {segment.reason}{where}"
            continue
        counts = Counter(segment.operations).most_common()
        kinds = ", ".join(f"{count} {name}" for name, count in counts)
        yield f"segment {number:>2}  accelerator  {kinds}"
