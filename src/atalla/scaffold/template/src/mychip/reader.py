"""Reader: bytes as a blob, once every number was looked at; ``csrc/blob.c`` refuses the same in the same words."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from mychip.blob import COUNTS, MAGIC, MEMORY_FLOATS, NONE, SOURCES, VERSION, Blob, Instruction, Op, Tensor
from mychip.errors import BlobError

_BEGIN = len(MAGIC) + 8


def read(data: bytes) -> Blob:
    """Return what the bytes say, once all of it was looked at.

    Raises:
        BlobError: they are no sound blob; the driver in C says the same of them.
    """
    if len(data) < _BEGIN + COUNTS.size or not data.startswith(MAGIC):
        raise BlobError("no blob of mychip")
    version, checksum = struct.unpack_from("<II", data, len(MAGIC))
    if version != VERSION:
        raise BlobError("made for another version of mychip")
    if checksum != zlib.crc32(data[_BEGIN:]):
        raise BlobError("damaged: its checksum is another")
    tensors, instructions, inputs, outputs, constants, memory = COUNTS.unpack_from(data, _BEGIN)
    sizes = (3 * tensors, 5 * instructions, inputs, outputs, constants)
    if len(data) != _BEGIN + COUNTS.size + 4 * sum(sizes):
        raise BlobError("its size is not the one that its header says")
    words = np.frombuffer(data, "<u4", offset=_BEGIN + COUNTS.size)
    tables = np.split(words, np.cumsum(sizes)[:-1])
    blob = Blob(
        tuple(Tensor(*row) for row in tables[0].reshape(-1, 3).tolist()),
        tuple(Instruction(op, result, tuple(rest)) for op, result, *rest in tables[1].reshape(-1, 5).tolist()),
        tuple(tables[2].tolist()),
        tuple(tables[3].tolist()),
        tables[4].view("<f4"),
        memory,
    )
    _check(blob)
    return blob


def _check(blob: Blob) -> None:
    """Look at every number.

    Raises:
        BlobError: a run would read or write what is not there.
    """
    constants, count = len(blob.constants), len(blob.tensors)
    if blob.memory > MEMORY_FLOATS or constants > blob.memory:
        raise BlobError("more memory than the chip has")
    for tensor in blob.tensors:
        if tensor.end > blob.memory or tensor.place < constants < tensor.end:
            raise BlobError("a tensor outside of memory")
    if any(number >= count or _is_constant(blob, number) for number in blob.inputs):
        raise BlobError("an input that is no tensor")
    if any(number >= count for number in blob.outputs):
        raise BlobError("an output that is no tensor")
    for one in blob.instructions:
        _check_instruction(blob, one)


def _is_constant(blob: Blob, number: int) -> bool:
    return blob.tensors[number].place < len(blob.constants)


def _check_instruction(blob: Blob, one: Instruction) -> None:
    if one.op not in SOURCES:
        raise BlobError("an instruction that the chip does not have")
    if one.result >= len(blob.tensors) or _is_constant(blob, one.result):
        raise BlobError("an instruction writes to no tensor")
    result = blob.tensors[one.result]
    least, most = SOURCES[Op(one.op)]
    for i, number in enumerate(one.sources):
        if i < least if number == NONE else i >= most or number >= len(blob.tensors):
            raise BlobError("an instruction reads from no tensor")
        if number != NONE and not _apart(result, blob.tensors[number]):
            raise BlobError("an instruction overwrites what it reads")
    if not _shapes_fit(Op(one.op), result, *(blob.tensors[number] for number in one.sources if number != NONE)):
        raise BlobError("an instruction whose shapes do not fit")


def _apart(one: Tensor, other: Tensor) -> bool:
    return one.end <= other.place or other.end <= one.place


def _shapes_fit(op: Op, result: Tensor, *sources: Tensor) -> bool:
    if op is not Op.LINEAR:
        return all((one.rows, one.columns) == (result.rows, result.columns) for one in sources)
    x, weight, *bias = sources
    fits = (result.rows, result.columns, x.columns) == (x.rows, weight.rows, weight.columns)
    return fits and all((one.rows, one.columns) == (1, weight.rows) for one in bias)
