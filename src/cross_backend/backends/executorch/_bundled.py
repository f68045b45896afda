"""ExecuTorch's bundled programs (``.bpte``): a ``.pte`` with the inputs and expected outputs of its test cases.

They are written with ``executorch.devtools`` and read with the few lines below: importing the reader that it generates
takes 3.6 s, and its other one goes through JSON. Fields of a flatbuffer's table are found by their place in the
schema, which never changes (https://flatbuffers.dev/internals, devtools/bundled_program/schema, schema/program.fbs).
"""

from __future__ import annotations

import mmap
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.artifact import Artifact, digest_path
from cross_backend.backend import BundledPrograms
from cross_backend.backends._foreign import artifact_of
from cross_backend.backends._to_torch import to_torch
from cross_backend.errors import ArtifactError, LowerError, UnsupportedError, failing_as
from cross_backend.tensors import TensorSpec, dtype_of, load_tensors, save_tensors

if TYPE_CHECKING:
    import numpy as np

    from cross_backend.tensors import Tensors

MAGIC = b"BP08"
"""At byte 4."""
METHOD = "forward"
BACKENDS: Mapping[str, str] = {
    "AtallaBackend": "executorch.atalla",
    "CoreMLBackend": "executorch.coreml",
    "EthosUBackend": "executorch.ethos_u",
    "MPSBackend": "executorch.mps",
    "OpenvinoBackend": "executorch.openvino",
    "QnnBackend": "executorch.qnn",
    "VulkanBackend": "executorch.vulkan",
    "XnnpackBackend": "executorch.xnnpack",
}
"""Delegate id → our backend, to name a file's target by what is in it."""
DTYPES: Mapping[int, str] = {
    0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "float16", 6: "float32", 7: "float64", 11: "bool",
    15: "bfloat16", 27: "uint16", 28: "uint32", 29: "uint64",
}  # fmt: skip
"""Number in ``scalar_type.fbs`` → NumPy's name."""
_TENSOR = 1
"""Its place in a test case's union of values; the others are plain numbers."""
_PROGRAM_TENSOR = 5
"""Its place in a program's union of values."""


def write_bundled(payload: Path, inputs: Tensors, expected: Tensors, path: Path) -> None:
    """Write a ``.pte`` and one test case of its method ``forward`` as a bundled program.

    Raises:
        LowerError: with the reason that executorch's own writer gave.
    """
    from executorch.devtools import BundledProgram
    from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
    from executorch.devtools.bundled_program.serialize import serialize_from_bundled_program_to_flatbuffer

    case = MethodTestCase([to_torch(x) for x in inputs], [to_torch(y) for y in expected])
    with failing_as(LowerError, f"ExecuTorch cannot bundle {payload.name}"):
        program = BundledProgram(None, [MethodTestSuite(METHOD, [case])], pte_file_path=str(payload))
        data = serialize_from_bundled_program_to_flatbuffer(program)
    path.write_bytes(data)


def _write(artifact: Artifact, path: Path) -> None:
    if artifact.sample_path is None:
        raise UnsupportedError(f"{artifact.name} has no sample to bundle.")
    sample = load_tensors(artifact.sample_path)
    write_bundled(artifact.payload_path, sample["input"], sample["expected"], path)


def _begins(head: bytes) -> bool:
    """Whether a file is one by its magic, of any version: two digits."""
    return head[4:6] == MAGIC[:2] and head[6:8].isdigit()


def read_bundled(path: Path, folder: Path) -> tuple[Artifact, tuple[Path, ...]]:
    """Take a bundled program apart; see :attr:`BundledPrograms.read`."""
    data = path.read_bytes()
    if data[4:8] != MAGIC:
        raise ArtifactError(f"{path} is no bundled program of the format {MAGIC.decode()} that this version reads.")
    try:
        bundled = _Table.root(data)
        program = bundled.vector(2)
        suites = [suite for suite in bundled.tables(1) if suite.text(0) == METHOD]
        cases = [(_arrays(case.tables(0)), _arrays(case.tables(1))) for suite in suites for case in suite.tables(1)]
        delegates = delegates_in(program)
        inputs = _specs("input", [case[0] for case in cases])
        outputs = _specs("output", [case[1] for case in cases])
    except (struct.error, IndexError, ValueError) as error:
        raise ArtifactError(f"{path} is damaged: the parts of this bundled program do not fit together.") from error
    if not cases or not all(expected for _, expected in cases):
        raise UnsupportedError(f"{path} has no expected outputs for its method {METHOD}, so nothing can be verified.")
    payload = folder / f"{path.stem}.pte"
    payload.write_bytes(program)
    files = tuple(folder / f"case_{index}.npz" for index in range(len(cases)))
    for file, case in zip(files, cases, strict=True):
        save_tensors(file, {"input": case[0], "expected": case[1]})
    alone = artifact_of(payload, target_of(delegates), inputs, outputs, delegates)
    artifact = replace(alone, sample=files[0].name, sample_sha256=digest_path(files[0]))
    artifact.write_manifest()
    return artifact, files


BUNDLED = BundledPrograms(".bpte", _begins, _write, read_bundled)
"""What all of ExecuTorch's backends have."""


def target_of(delegates: Counter[str]) -> str:
    """Name the backend that has most of a file's delegates; the portable kernels where it has none of ours."""
    return next((BACKENDS[name] for name, _ in delegates.most_common() if name in BACKENDS), "executorch.portable")


def delegates_in(program: bytes) -> Counter[str]:
    """Count the delegates of a program's method by their ids."""
    plans = [plan for plan in _Table.root(program).tables(1) if plan.text(0) == METHOD]
    return Counter(delegate.text(0) for plan in plans for delegate in plan.tables(7))


def input_orders(program: bytes | mmap.mmap) -> list[tuple[int, ...] | None]:
    """Return the order in which each input of a program's method lies in memory, outermost dimension first.

    None stands for row-major order, and for what is no tensor.

    Raises:
        struct.error, IndexError, ValueError: the program is damaged.
    """
    plan = next((plan for plan in _Table.root(program).tables(1) if plan.text(0) == METHOD), None)
    if plan is None:
        return []
    values = plan.tables(2)
    places = plan.vector(3, width=4)
    return [_order(values[place]) for (place,) in struct.iter_unpack("<I", places)]


def _order(value: _Table) -> tuple[int, ...] | None:
    if value.byte(0) != _PROGRAM_TENSOR:
        return None
    order = tuple(value.table(1).vector(3))
    rows = tuple(range(len(order)))
    if tuple(sorted(order)) != rows:
        raise ValueError(f"{list(order)} is no order of dimensions")
    return None if order == rows else order


def _specs(name: str, cases: Sequence[Sequence[Any]]) -> tuple[TensorSpec, ...]:
    """Describe the tensors of all cases; an extent that differs among them is a dynamic one.

    Raises:
        ValueError: the cases hold unlike tensors.
    """
    specs = []
    for index, arrays in enumerate(zip(*cases, strict=True)):
        first = TensorSpec.of(f"{name}_{index}", arrays[0])
        extents = zip(*(array.shape for array in arrays), strict=True)
        shape = tuple(seen[0] if len(set(seen)) == 1 else f"n{axis}" for axis, seen in enumerate(extents))
        specs.append(TensorSpec(first.name, first.dtype, shape))
    return tuple(specs)


def _arrays(values: Iterable[_Table]) -> list[np.ndarray[Any, Any]]:
    """Decode a test case's values.

    Raises:
        UnsupportedError: one is a plain number, or its type is one that NumPy lacks.
    """
    import numpy as np

    arrays = []
    for value in values:
        if value.byte(0) != _TENSOR:
            raise UnsupportedError("a test case holds a plain number; only tensors are verified.")
        tensor = value.table(1)
        if tensor.byte(0) not in DTYPES:
            raise UnsupportedError(f"a test case holds a tensor of type {tensor.byte(0)}, which NumPy lacks.")
        sizes = np.frombuffer(tensor.vector(1, width=4), "<i4")
        order = tensor.vector(3)
        if sorted(order) != list(range(len(sizes))):
            raise ValueError
        outermost = list(order)
        data = np.frombuffer(tensor.vector(2), dtype_of(DTYPES[tensor.byte(0)])).reshape(sizes[outermost])
        arrays.append(np.ascontiguousarray(data.transpose(np.argsort(outermost))).reshape(sizes))
    return arrays


class _Allowance:
    """How many bytes of a buffer may still be read: parts that lie on each other would make much out of little."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
        self._left = 2 * len(data)

    def take(self, size_bytes: int) -> None:
        """Count what is read.

        Raises:
            ValueError: more than the buffer can hold.
        """
        self._left -= size_bytes
        if self._left < 0:
            raise ValueError("parts lie on each other")


class _Table:
    """One table of a flatbuffer."""

    def __init__(self, data: bytes | mmap.mmap, at: int, allowance: _Allowance) -> None:
        self._data, self._at, self._allowance = data, at, allowance

    @classmethod
    def root(cls, data: bytes | mmap.mmap) -> _Table:
        """Return the table that a buffer begins with."""
        (at,) = struct.unpack_from("<I", data)
        return cls(data, at, _Allowance(data))

    def byte(self, slot: int) -> int:
        """Return a number of one byte; 0 where it is left out."""
        at = self._field(slot)
        return self._data[at] if at else 0

    def table(self, slot: int) -> _Table:
        """Return the table that a field points to."""
        return _Table(self._data, self._target(self._field(slot)), self._allowance)

    def vector(self, slot: int, width: int = 1) -> bytes:
        """Return a vector's bytes, whose items have ``width`` of them."""
        begin, count = self._vector(slot)
        self._allowance.take(count * width)
        return self._data[begin : begin + count * width]

    def text(self, slot: int) -> str:
        """Return a string."""
        return self.vector(slot).decode()

    def tables(self, slot: int) -> list[_Table]:
        """Return a vector of tables."""
        begin, count = self._vector(slot)
        self._allowance.take(4 * count)
        return [_Table(self._data, self._target(begin + 4 * index), self._allowance) for index in range(count)]

    def _vector(self, slot: int) -> tuple[int, int]:
        """Return where the items of a vector begin, and their number; none where it is left out."""
        at = self._field(slot)
        if not at:
            return 0, 0
        begin = self._target(at)
        count: int = struct.unpack_from("<I", self._data, begin)[0]
        return begin + 4, count

    def _target(self, at: int) -> int:
        """Follow a reference; it counts from its own place."""
        return at + int(struct.unpack_from("<I", self._data, at)[0])

    def _field(self, slot: int) -> int:
        """Return where a field lies; 0 where it is left out."""
        vtable = self._at - struct.unpack_from("<i", self._data, self._at)[0]
        size = struct.unpack_from("<H", self._data, vtable)[0]
        entry = 4 + 2 * slot
        offset = struct.unpack_from("<H", self._data, vtable + entry)[0] if entry < size else 0
        return self._at + offset if offset else 0
