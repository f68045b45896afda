"""Names: what instructions are, for those who count what they took."""

from __future__ import annotations

from atalla.blob.reader import Listing
from atalla.blob.verify_flow import written
from atalla.device.simulation import Named


def names_of(listing: Listing) -> list[Named]:
    """Return what each instruction is, without the END."""
    found = []
    for row in listing.instructions[:-1]:
        call = listing.calls[row.attributes["call"]] if "call" in row.attributes else None
        made = next((listing.tensors[number] for number in written(listing, row)), None)
        name = f"{row.op.name} {call.target}" if call else row.op.name
        found.append(Named(name, row.node, row.line, made.shape if made else (), made.dtype.name if made else ""))
    return found
