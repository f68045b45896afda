"""Names: what instructions are, for those who count what they took."""

from __future__ import annotations

from atalla.blob.reader import Listing
from atalla.device.simulation import Named


def names_of(listing: Listing) -> list[Named]:
    """Return what each instruction is, without the END."""
    found = []
    for row in listing.instructions[:-1]:
        call = listing.calls[row.attributes["call"]] if "call" in row.attributes else None
        written = row.dst if row.dst is not None else next(iter(call.outputs), None) if call else None
        made = None if written is None else listing.tensors[written]
        name = f"{row.op.name} {call.target}" if call else row.op.name
        found.append(
            Named(name, row.node or "", row.line or "", made.shape if made else (), made.dtype.name if made else "")
        )
    return found
