"""Verify, calls of the host: their operators are among those that any blob may call."""

from __future__ import annotations

from atalla.blob.reader import Listing
from atalla.errors import BlobError
from atalla.hosted import foreign
from atalla.isa import Verdict


def check_calls(listing: Listing) -> None:
    """Look for the operators that a sound blob calls on the host among those that any blob may call.

    Raises:
        BlobError: one is not there.
    """
    names = foreign(call.target for call in listing.calls)
    if names:
        told = names[0][:200] + (f" and {len(names) - 1} others" if len(names) > 1 else "")
        raise BlobError(Verdict.HOST, f"it calls {told} on the host, which only a blob that you trust may (trust=True)")
