"""Verify: proves that bytes are a sound blob; the same verdict as the loader in C (``csrc/blob.c``) on every input.

The order of the checks is part of the verdict: both stop at the first that fails. It is shipped, not only an oracle for
tests: ``atalla.load`` runs blobs by the reference where the C kernels were not built, and nothing else looks then.
"""

from __future__ import annotations

import math
import zlib

from atalla.blob.reader import Listing, section_rows
from atalla.blob.rows import TensorRow, need
from atalla.blob.verify_calls import check_calls
from atalla.blob.verify_flow import check_flow
from atalla.blob.verify_instructions import check_instruction
from atalla.blob.verify_symbols import check_symbols
from atalla.isa import WINOGRAD_TILES, Dtype, Layout, Op, OutputKind, Space, Verdict
from atalla.isa.format import LINE, MOST_BYTES, Bytes

PACKED_TYPES = {
    Layout.PANELS: {Dtype.F32}, Layout.DEPTHWISE: {Dtype.F32, Dtype.I8}, Layout.WINOGRAD: {Dtype.F32},
    Layout.QUADS: {Dtype.I8}, Layout.PAIRS: {Dtype.BF16},
}  # fmt: skip
"""Of packed weights."""


def verify(data: Bytes, *, constants: bool = False, trust: bool = False) -> Listing:
    """Look at everything, but at what constants are only where it is asked for: no run leaves its memory for them.

    Args:
        data: a blob.
        constants: compare them with their checksum, too.
        trust: it may call any operator on the host.

    Returns:
        What the blob says.

    Raises:
        BlobError: they are no sound blob; its ``code`` is the :class:`Verdict`.
    """
    listing = Listing(data)
    check_sections(listing)
    _check_tensors(listing)
    _check_lists(listing)
    _check_instructions(listing)
    check_flow(listing)
    check_symbols(listing)
    if not trust:
        check_calls(listing)
    if constants:
        check_constants(data)
    return listing


def check_constants(data: Bytes) -> None:
    """Compare the constants of a sound blob with their checksum.

    Raises:
        BlobError: they are others.
    """
    whole = memoryview(data)
    for name, _, at, size, _, crc in section_rows(data):
        need(name != b"CNST" or zlib.crc32(whole[at : at + size]) == crc, Verdict.CHECKSUM)


def check_sections(listing: Listing) -> None:
    """Compare all other sections with their checksums, and read the strings."""
    whole, _ = memoryview(listing.data), listing.sections  # what the table says comes before what lies there
    for name, _, at, size, _, crc in section_rows(listing.data):
        need(name == b"CNST" or zlib.crc32(whole[at : at + size]) == crc, Verdict.CHECKSUM)
    _ = listing.strings


def _check_tensors(listing: Listing) -> None:
    for number, row in enumerate(listing.tensors):
        need(row.root <= number, Verdict.TENSOR)
        packed = row.space is Space.CONST and row.root == number
        need(row.layout is Layout.STRIDED or packed, Verdict.TENSOR)
        need(within_caps(row), Verdict.TENSOR)
    for number in range(len(listing.tensors)):
        _check_bounds(listing, number)


def within_caps(row: TensorRow) -> bool:
    """Whether dims and strides are in their caps."""
    return all(0 <= extent <= MOST_BYTES for extent in row.shape) and all(
        -MOST_BYTES - 1 <= stride <= MOST_BYTES for stride in row.strides
    )


def _check_bounds(listing: Listing, number: int) -> None:
    """Check that a tensor stays in its storage, and a storage in its space."""
    row = listing.tensors[number]
    root = listing.tensors[row.root]
    need(math.prod(extent or 1 for extent in row.shape) <= MOST_BYTES, Verdict.TENSOR)
    need(root.root == row.root and root.space is row.space, Verdict.TENSOR)
    need(row.root == number or root.layout is Layout.STRIDED, Verdict.TENSOR)
    is_strided = row.layout is Layout.STRIDED
    reach, reached = (row.reach, row.reached_bytes) if is_strided else (None, 0)
    need((reach is None or reach[0] >= 0) and reached <= root.bytes, Verdict.BOUNDS)
    need(row.offset >= 0 and row.offset * row.dtype.size <= root.bytes, Verdict.BOUNDS)
    if row.root != number:
        need(not row.bytes and not row.place, Verdict.TENSOR)
        return
    need(row.offset == 0 and row.place >= 0, Verdict.TENSOR)
    if row.space in {Space.INPUT, Space.OUTPUT}:
        # The caller knows dims and strides, and passes no byte more.
        need(row.bytes <= MOST_BYTES and row.bytes == reached, Verdict.BOUNDS)
        return
    sizes = {Space.CONST: listing.constant_bytes, Space.ARENA: listing.arena_bytes, Space.STATE: listing.state_bytes}
    space = sizes[row.space]
    need(row.place % LINE == 0 and row.bytes <= space and row.place <= space - row.bytes, Verdict.BOUNDS)
    if not is_strided:
        need(row.dtype in PACKED_TYPES[row.layout], Verdict.BOUNDS)
        need(row.rank == (2 if row.layout is Layout.DEPTHWISE else 3), Verdict.BOUNDS)
        need(row.layout is not Layout.WINOGRAD or row.shape[1] in WINOGRAD_TILES, Verdict.BOUNDS)


def _check_lists(listing: Listing) -> None:
    """Check that inputs and outputs are the tensors that say so, and that all lists can be read."""
    _ = listing.operands, listing.words, listing.calls
    numbers = {Space.INPUT: listing.ends[0], Space.OUTPUT: listing.ends[1]}
    for space, rows in numbers.items():
        for place, row in enumerate(rows):
            if row.kind is not OutputKind.TENSOR:
                need(space is Space.OUTPUT and row.is_absent, Verdict.LISTS)
                continue
            need(row.tensor < len(listing.tensors) and row.bits == 0, Verdict.LISTS)
            tensor = listing.tensors[row.tensor]
            need((tensor.root, tensor.space, tensor.place) == (row.tensor, space, place), Verdict.LISTS)
    for number, tensor in enumerate(listing.tensors):
        if tensor.root == number and tensor.space in numbers:
            mine = numbers[tensor.space]
            need(tensor.place < len(mine), Verdict.LISTS)
            need((mine[tensor.place].kind, mine[tensor.place].tensor) == (OutputKind.TENSOR, number), Verdict.LISTS)
    end = 0
    for to, at, size in listing.initial:  # from the constants into the state, each byte once
        need(to >= end and size <= listing.state_bytes and to <= listing.state_bytes - size, Verdict.LISTS)
        need(size <= listing.constant_bytes and at <= listing.constant_bytes - size, Verdict.LISTS)
        end = to + size


def _check_instructions(listing: Listing) -> None:
    rows = listing.instructions
    need(bool(rows), Verdict.INSTRUCTION)
    for number, row in enumerate(rows, 1):
        need((row.op is Op.END) == (number == len(rows)), Verdict.INSTRUCTION)
    for row in rows:
        check_instruction(listing, row)
