"""Bundled programs: what we write ExecuTorch's own runtime verifies, and what its writer writes we read."""

from __future__ import annotations

import random
import struct
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cross_backend as xb
from cross_backend.artifact import Artifact, digest_path
from cross_backend.backends.executorch._bundled import BACKENDS, BUNDLED, read_bundled, write_bundled
from cross_backend.errors import ArtifactError, CrossBackendError, LowerError, UnsupportedError
from cross_backend.registry import find_backend, rows
from cross_backend.tensors import TensorSpec, load_tensors, to_numpy

DTYPES = (
    *("uint8", "int8", "int16", "int32", "int64", "uint16", "uint32"),
    *("float16", "bfloat16", "float32", "float64", "bool"),
)
Cases = list[tuple[list[Any], list[Any] | None]]


@pytest.fixture(scope="module")
def artifact() -> Callable[[str], Artifact]:
    """Give a function that lowers a small network with a dynamic batch and an integer output, sample included."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(6, 4)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = self.linear(x)
            return y, y.argmax(dim=1)

    torch.manual_seed(0)
    program = xb.capture(Net().eval(), (torch.randn(3, 6),), ({0: torch.export.Dim("batch", min=1, max=6)},))
    return lambda target: xb.lower(program, target, name="net")


@pytest.fixture
def bundle(artifact: Callable[[str], Artifact], tmp_path: Path) -> Callable[[str], Path]:
    """Give a function that writes a bundled program."""

    def write(target: str = "portable") -> Path:
        made = artifact(target)
        path = tmp_path / f"{made.name}.bpte"
        BUNDLED.write(made, path)
        return path

    return write


def others(payload: Path, cases: Cases, path: Path, method: str = "forward") -> Path:
    """Write a bundled program as others do, with executorch's own writer."""
    from executorch.devtools import BundledProgram
    from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
    from executorch.devtools.bundled_program.serialize import serialize_from_bundled_program_to_flatbuffer

    suite = MethodTestSuite(method, [MethodTestCase(inputs, expected) for inputs, expected in cases])
    bundled = BundledProgram(None, [suite], pte_file_path=str(payload))
    path.write_bytes(serialize_from_bundled_program_to_flatbuffer(bundled))
    return path


@pytest.mark.parametrize("target", ["portable", "xnnpack", pytest.param("vulkan", marks=pytest.mark.slow)])
def test_what_was_written_is_read(
    target: str, artifact: Callable[[str], Artifact], bundle: Callable[[str], Path], tmp_path: Path
) -> None:
    made = artifact(target)
    read, cases = BUNDLED.read(bundle(target), tmp_path)
    assert read.payload_path.read_bytes() == made.payload_path.read_bytes()
    assert Artifact.read(read.manifest_path) == read
    assert read.target == made.target and read.placement.delegates == made.placement.delegates
    (case,) = cases
    assert made.sample_path is not None and read.sample_path == case
    sample, found = load_tensors(made.sample_path), load_tensors(case)
    for group in ("input", "expected"):
        for want, got in zip(sample[group], found[group], strict=True):
            np.testing.assert_array_equal(got, want, strict=True)
    assert [str(spec) for spec in read.inputs] == ["float32[3, 6]"]
    assert [str(spec) for spec in read.outputs] == ["float32[3, 4]", "int64[3]"]


def test_executorchs_runtime_verifies_what_was_written(
    artifact: Callable[[str], Artifact], bundle: Callable[[str], Path], tmp_path: Path
) -> None:
    from executorch.extension.pybindings import _C

    def verify(path: Path) -> None:
        module = _C._load_bundled_program_from_buffer(path.read_bytes())
        module.verify_result_with_bundled_expected_output("forward", 0, 1e-4, 1e-5)

    verify(bundle("xnnpack"))
    made = artifact("xnnpack")
    assert made.sample_path is not None
    sample = load_tensors(made.sample_path)
    wrong = [sample["expected"][0] + 1, sample["expected"][1]]
    write_bundled(made.payload_path, sample["input"], wrong, tmp_path / "wrong.bpte")
    with pytest.raises(RuntimeError, match="verification failed"):
        verify(tmp_path / "wrong.bpte")


def test_every_case_of_others_is_read(artifact: Callable[[str], Artifact], tmp_path: Path) -> None:
    cases: Cases = [([torch.randn(n, 6)], [torch.randn(n, 4), torch.ones(n, dtype=torch.int64)]) for n in (2, 5, 1)]
    path = others(artifact("portable").payload_path, cases, tmp_path / "theirs.bpte")
    read, files = read_bundled(path, tmp_path)
    assert read.workload == "theirs" and len(files) == 3
    assert read.inputs == (TensorSpec("input_0", "float32", ("n0", 6)),), "the batch differs among the cases"
    for (inputs, expected), file in zip(cases, files, strict=True):
        found = load_tensors(file)
        np.testing.assert_array_equal(found["input"][0], inputs[0].numpy())
        assert expected is not None
        np.testing.assert_array_equal(found["expected"][1], expected[1].numpy())


@pytest.mark.parametrize("dtype", DTYPES)
def test_types_and_shapes_are_kept(dtype: str, artifact: Callable[[str], Artifact], tmp_path: Path) -> None:
    tensors = [torch.ones(shape, dtype=getattr(torch, dtype)) for shape in ((), (0,), (2, 1, 3))]
    path = others(artifact("portable").payload_path, [(tensors, tensors)], tmp_path / "types.bpte")
    read, (case,) = read_bundled(path, tmp_path)
    assert [spec.shape for spec in read.inputs] == [(), (0,), (2, 1, 3)]
    assert {spec.dtype for spec in (*read.inputs, *read.outputs)} == {dtype}
    for want, got in zip(tensors, load_tensors(case)["expected"], strict=True):
        np.testing.assert_array_equal(got, to_numpy(want), strict=True)


def test_tensors_in_another_order_become_row_major(artifact: Callable[[str], Artifact], tmp_path: Path) -> None:
    tensor = torch.arange(120.0).reshape(2, 3, 4, 5)
    last = tensor.to(memory_format=torch.channels_last)
    path = others(artifact("portable").payload_path, [([last], [last.bfloat16()])], tmp_path / "last.bpte")
    _, (case,) = read_bundled(path, tmp_path)
    found = load_tensors(case)
    np.testing.assert_array_equal(found["input"][0], tensor.numpy(), strict=True)
    np.testing.assert_array_equal(found["expected"][0], to_numpy(tensor.bfloat16()), strict=True)


@pytest.mark.parametrize(
    ("case", "method", "words"),
    [
        (([torch.ones(1, 6)], None), "forward", "no expected outputs"),
        (([torch.ones(1, 6)], [torch.ones(1)]), "backward", "method forward"),
        (([torch.ones(1, 6), 3], [torch.ones(1)]), "forward", "plain number"),
        (([torch.ones(1, 6).to(torch.complex64)], [torch.ones(1)]), "forward", "which NumPy lacks"),
    ],
    ids=["nothing expected", "another method", "number", "complex64"],
)
def test_what_cannot_be_verified_is_refused(
    case: tuple[list[Any], list[Any] | None],
    method: str,
    words: str,
    artifact: Callable[[str], Artifact],
    tmp_path: Path,
) -> None:
    path = others(artifact("portable").payload_path, [case], tmp_path / "odd.bpte", method)
    with pytest.raises(UnsupportedError, match=words):
        read_bundled(path, tmp_path)


def test_cases_that_hold_unlike_tensors_are_damage(artifact: Callable[[str], Artifact], tmp_path: Path) -> None:
    one = torch.ones(1, 6)
    path = others(artifact("portable").payload_path, [([one], [one]), ([one, one], [one])], tmp_path / "odd.bpte")
    with pytest.raises(ArtifactError, match="do not fit together"):
        read_bundled(path, tmp_path)


@pytest.mark.parametrize("content", [b"", b"BP08", b"no program at all", b"\0\0\0\0BP07" + bytes(64)])
def test_what_is_no_bundled_program(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.bpte").write_bytes(content)
    with pytest.raises(ArtifactError, match="no bundled program of the format BP08"):
        read_bundled(tmp_path / "x.bpte", tmp_path)


def test_damage_never_raises_anything_else(bundle: Callable[[str], Path], tmp_path: Path) -> None:
    """Flipped bytes may go unnoticed (a weight, a value of the sample); the outputs tell. Truncation is always seen."""
    whole, draw = bundle("portable").read_bytes(), random.Random(0)
    broken = [whole[:size] for size in range(0, len(whole) - 64, 31)]
    for _ in range(500):
        flipped = bytearray(whole)
        for _ in range(draw.randrange(1, 4)):
            flipped[draw.randrange(8, len(flipped))] = draw.randrange(256)
        broken.append(bytes(flipped))
    refused = 0
    for content in broken:
        (tmp_path / "x.bpte").write_bytes(content)
        try:
            read_bundled(tmp_path / "x.bpte", tmp_path)
        except CrossBackendError:
            refused += 1
        else:
            assert len(content) == len(whole), f"{len(content)} of {len(whole)} bytes were taken for the whole"
    assert refused > len(broken) / 4


def test_every_backend_with_a_delegate_is_known_by_it() -> None:
    """So that a file made by others runs, or is refused, under the right name."""
    backends = [find_backend(name) for name in rows() if name.startswith("executorch.")]
    assert {b.delegate_id: b.name for b in backends if b.delegate_id} == BACKENDS  # type: ignore[attr-defined]


def test_only_executorch_has_them() -> None:
    assert {name.partition(".")[0] for name in rows() if find_backend(name).bundled} == {"executorch"}
    assert all(find_backend(name).bundled is BUNDLED for name in rows() if name.startswith("executorch."))


def test_what_cannot_be_bundled_leaves_no_file(artifact: Callable[[str], Artifact], tmp_path: Path) -> None:
    made, path = artifact("portable"), tmp_path / "x.bpte"
    with pytest.raises(UnsupportedError, match="no sample"):
        BUNDLED.write(replace(made, sample=None), path)
    with pytest.raises(LowerError, match=r"cannot bundle absent\.pte"):
        write_bundled(tmp_path / "absent.pte", [np.ones(1)], [np.ones(1)], path)
    assert not path.exists()


def test_a_bundle_of_ten_megabytes_is_read_at_once(tmp_path: Path) -> None:
    """Through JSON, as executorch's own reader does it, this takes seconds."""
    program = xb.capture(torch.nn.Linear(2048, 1280).eval(), (torch.randn(1, 2048),))
    made = xb.lower(program, "portable", name="large")
    BUNDLED.write(made, tmp_path / "large.bpte")
    assert (tmp_path / "large.bpte").stat().st_size > 10_000_000
    started = time.process_time()
    read, _ = read_bundled(tmp_path / "large.bpte", tmp_path)
    assert time.process_time() - started < 1
    assert read.sha256 == digest_path(made.payload_path)


def fold(entries: int) -> bytes:
    """Give a bundled program of one suite, one case and one tensor, each of which stands in a vector many times."""
    data = bytearray(struct.pack("<I4s", 12, b"BP08").ljust(12, b"\0"))

    def table(slots: int) -> int:
        """Append a table whose fields are all offsets; give where the first of them lies."""
        data.extend(struct.pack(f"<HH{slots}H", 4 + 2 * slots, 4 + 4 * slots, *(4 + 4 * i for i in range(slots))))
        data.extend(b"\0" * (-len(data) % 4))
        begin = len(data)
        vtable = begin - (-(-(4 + 2 * slots) // 4) * 4)
        data.extend(struct.pack("<i", begin - vtable) + bytes(4 * slots))
        return begin + 4

    def many(field: int) -> None:
        """Append a vector that a field points to, whose items all point to the table behind it."""
        struct.pack_into("<I", data, field, len(data) - field)
        data.extend(struct.pack("<I", entries))
        first = len(data)
        behind = first + 4 * entries + 8  # its vtable comes first
        data.extend(b"".join(struct.pack("<I", behind - (first + 4 * i)) for i in range(entries)))

    root = table(3)
    struct.pack_into("<I", data, 0, root - 4)
    for _ in range(3):  # suites, their cases, their tensors
        many(root + 4)
        root = table(2)
        struct.pack_into("<I", data, root, len(data) - root)
        data.extend(struct.pack("<I7sx", 7, b"forward"))
    return bytes(data)


def test_parts_that_lie_on_each_other_do_not_make_much_out_of_little(tmp_path: Path) -> None:
    data = fold(2000)
    assert len(data) < 30_000
    (tmp_path / "x.bpte").write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(ArtifactError, match="do not fit together"):
            read_bundled(tmp_path / "x.bpte", tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()
