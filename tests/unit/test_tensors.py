"""Tensors: specifications, errors that name both sides, conversion, and files that cannot fool the reader."""

from __future__ import annotations

import gc
import json
import math
import struct
import sys
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cross_backend.errors import ArtifactError, RunError, UnavailableError
from cross_backend.serialization import from_json, to_json
from cross_backend.tensors import (
    TensorSpec,
    check_inputs,
    dtype_of,
    from_numpy,
    in_kind_of,
    kind_of,
    load_tensors,
    random_inputs,
    read_specs,
    save_tensors,
    to_numpy,
)

DTYPES = ("float32", "float64", "float16", "int64", "int32", "int8", "uint8", "bool")
SPEC = TensorSpec("x", "float32", (2, 3))


@given(
    st.sampled_from([*DTYPES, "bfloat16"]),
    st.lists(st.one_of(st.integers(0, 9), st.sampled_from(["batch", "s0 + 1"])), max_size=4),
)
def test_a_specification_survives_json(dtype: str, shape: list[int | str]) -> None:
    spec = TensorSpec("name", dtype, tuple(shape))
    assert from_json(TensorSpec, json.loads(json.dumps(to_json(spec)))) == spec


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_and_numpy_are_described_alike(dtype: str) -> None:
    array = np.zeros((2, 3), dtype)
    spec = TensorSpec.of("x", array)
    assert spec == TensorSpec.of("x", torch.from_numpy(array)) == TensorSpec("x", dtype, (2, 3))
    assert str(spec) == f"{dtype}[2, 3]"
    assert spec.accepts(array) and spec.accepts(torch.from_numpy(array))


def test_a_dynamic_extent_takes_any_size() -> None:
    spec = TensorSpec("x", "float32", ("batch", 3))
    assert str(spec) == "float32[batch, 3]"
    assert all(spec.accepts(np.zeros((n, 3), np.float32)) for n in (0, 1, 7))
    assert not spec.accepts(np.zeros((2, 4), np.float32))
    assert not spec.accepts(np.zeros((3,), np.float32))


@pytest.mark.parametrize(
    ("given_input", "shown"),
    [
        (np.zeros((2, 4), np.float32), "float32[2, 4]"),
        (np.zeros((6,), np.float32), "float32[6]"),
        (np.zeros((2, 3)), "float64[2, 3]"),
        (np.zeros((2, 3), ">f4"), ">f4[2, 3]"),
        (torch.zeros(2, 3, dtype=torch.float16), "float16[2, 3]"),
        ([[1.0, 2.0, 3.0]], "list"),
        (3, "int"),
        (None, "NoneType"),
    ],
)
def test_a_mismatch_names_both_sides(given_input: Any, shown: str) -> None:
    with pytest.raises(RunError) as caught:
        check_inputs([SPEC], [given_input])
    text = str(caught.value)
    assert "'x'" in text and "float32[2, 3]" in text and shown in text
    assert "\n" not in text


@pytest.mark.parametrize("count", [0, 2])
def test_a_wrong_count_names_both_sides(count: int) -> None:
    with pytest.raises(RunError, match=rf"takes 1 input\(s\) \(x: float32\[2, 3\]\), but {count} were given"):
        check_inputs([SPEC], [np.zeros((2, 3), np.float32)] * count)


def test_what_fits_passes() -> None:
    check_inputs([], [])
    check_inputs([SPEC, SPEC], [np.zeros((2, 3), np.float32), torch.zeros(2, 3)])


def test_torch_becomes_numpy() -> None:
    leaf = torch.tensor([1.0, 2.0], requires_grad=True)
    np.testing.assert_array_equal(to_numpy(leaf), [1.0, 2.0])
    array = np.arange(3)
    assert to_numpy(array) is array


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (3,), (2, 3)])
def test_bfloat16_keeps_its_bits_on_the_way_to_numpy_and_back(shape: tuple[int, ...]) -> None:
    values = torch.arange(math.prod(shape), dtype=torch.float32).reshape(shape) / 3
    half = values.bfloat16()
    array = to_numpy(half)
    assert (array.dtype, array.shape, kind_of(array)) == (dtype_of("bfloat16"), shape, "f")
    np.testing.assert_array_equal(array.astype(np.float32), half.float().numpy(), strict=True)
    back = from_numpy(array)
    assert back.dtype == torch.bfloat16 and back.shape == half.shape and torch.equal(back, half)


def test_any_layout_of_bfloat16_becomes_the_same_numbers() -> None:
    half = torch.arange(24.0).bfloat16().reshape(1, 2, 3, 4)
    for laid_out in (half.to(memory_format=torch.channels_last), half.transpose(1, 3), half[:, :, ::2]):
        np.testing.assert_array_equal(to_numpy(laid_out).astype(np.float32), laid_out.float().numpy())


def test_a_tensor_made_of_an_array_is_its_own_and_in_row_major_order() -> None:
    array = np.arange(6, dtype=np.int8).reshape(2, 3).T
    tensor = from_numpy(array)
    assert tensor.is_contiguous() and tensor.tolist() == array.tolist()
    array[:] = 0
    assert tensor.tolist() != array.tolist()


def test_an_input_of_another_type_than_bfloat16_is_told_how_to_become_one() -> None:
    spec = TensorSpec("x", "bfloat16", (2,))
    with pytest.raises(RunError, match=r"must be bfloat16\[2\], but float32\[2\] was given\. Give a torch"):
        check_inputs([spec], [np.zeros(2, np.float32)])
    check_inputs([spec, spec], [torch.zeros(2).bfloat16(), np.zeros(2, dtype_of("bfloat16"))])


def test_bfloat16_is_asked_for_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(UnavailableError, match=r"bfloat16 needs ml_dtypes; .* -m pip install ml_dtypes"):
        dtype_of("bfloat16")


def test_outputs_follow_the_kind_of_the_inputs() -> None:
    array, tensor = np.ones(2, np.float32), torch.ones(2)
    assert [type(y) for y in in_kind_of([array], [array, tensor])] == [np.ndarray, np.ndarray]
    assert [type(y) for y in in_kind_of([tensor], [array, tensor])] == [torch.Tensor, torch.Tensor]
    assert [type(y) for y in in_kind_of([array, tensor], [array])] == [torch.Tensor]


def test_a_torch_output_does_not_share_the_runtimes_memory() -> None:
    array = np.ones(2, np.float32)
    (tensor,) = in_kind_of([torch.ones(1)], [array])
    array[:] = 5
    assert tensor.tolist() == [1, 1]


def test_a_numpy_output_does_not_share_the_runtimes_memory() -> None:
    array = np.ones(2, np.float32)
    (kept,) = in_kind_of([np.ones(1)], [array])
    array[:] = 5
    assert kept.tolist() == [1, 1]


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_random_inputs_fit_and_repeat(dtype: str) -> None:
    specs = [TensorSpec("a", dtype, (2, "batch", 3)), TensorSpec("b", dtype, ())]
    drawn = random_inputs(specs, seed=3)
    check_inputs(specs, drawn)
    assert [x.shape for x in drawn] == [(2, 1, 3), ()]
    for first, second in zip(drawn, random_inputs(specs, seed=3), strict=True):
        np.testing.assert_array_equal(first, second)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,6}", fullmatch=True), st.integers(0, 12), max_size=3))
def test_groups_of_tensors_survive_the_file(sizes: dict[str, int]) -> None:
    import tempfile

    groups = {name: [np.full((2, i), i) for i in range(count)] for name, count in sizes.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.npz"
        save_tensors(path, groups)
        loaded = load_tensors(path)
    assert set(loaded) == {name for name, count in sizes.items() if count}
    for name, arrays in loaded.items():
        assert [a.shape for a in arrays] == [(2, i) for i in range(sizes[name])]


def test_the_same_tensors_make_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save_tensors(tmp_path / name, {"input": [np.arange(5.0)]})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="does not exist"):
        load_tensors(tmp_path / "none.npz")


@pytest.mark.parametrize("how", ["empty", "garbage", "cut", "flipped", "pickled", "unnumbered"])
def test_a_damaged_file_is_refused_in_one_line(tmp_path: Path, how: str) -> None:
    path = tmp_path / "t.npz"
    save_tensors(path, {"input": [np.arange(1000.0)]})
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    content = {"empty": b"", "garbage": b"\0\1\2" * 50, "cut": bytes(data[:-40]), "flipped": bytes(data)}
    if how in content:
        path.write_bytes(content[how])
    elif how == "pickled":
        np.savez(path, input_0=np.array([{"a": 1}], dtype=object))
    else:
        np.savez(path, something=np.zeros(1))
    text = ""
    try:
        load_tensors(path)
    except ArtifactError as error:
        text = str(error)
    gc.collect()  # a handle that was left open shows here, not at the end of the run
    assert str(path) in text and "\n" not in text


def npz(path: Path, *members: tuple[str, bytes], packing: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


def header(shape: tuple[int, ...], descr: str = "<f4", version: tuple[int, int] = (1, 0)) -> bytes:
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    return b"\x93NUMPY" + bytes(version) + struct.pack("<H" if version == (1, 0) else "<I", len(text)) + text


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [*DTYPES, ">f4", "complex64"])
def test_arrays_of_all_kinds_are_read(dtype: str, order: Any, tmp_path: Path) -> None:
    kept = np.arange(24).reshape(2, 3, 4).astype(dtype).copy(order=order)
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "t.npz", input_0=kept, input_1=kept[:0], input_2=kept[0, 0, 0])  # type: ignore[operator]
        whole, empty, scalar = load_tensors(tmp_path / "t.npz")["input"]
        assert whole.dtype == kept.dtype and np.array_equal(whole, kept) and whole.flags.writeable
        assert empty.shape == (0, 3, 4) and scalar.shape == () and scalar == kept[0, 0, 0]


@pytest.mark.parametrize("layout", ["C", "F"])
def test_bfloat16_is_read_as_numpy_writes_it(layout: Any, tmp_path: Path) -> None:
    """NumPy has no name for it and writes two bytes without one, ours and the user's files alike."""
    kept = np.asarray(np.arange(6).reshape(2, 3) / 3, dtype_of("bfloat16")).copy(order=layout)
    np.savez(tmp_path / "own.npz", input_0=kept, input_1=kept[:0], input_2=kept[0, 0])
    save_tensors(tmp_path / "ours.npz", {"input": [from_numpy(kept), kept[:0], kept[0, 0]]})
    for name in ("own.npz", "ours.npz"):
        whole, empty, scalar = load_tensors(tmp_path / name)["input"]
        np.testing.assert_array_equal(whole, kept, strict=True)
        assert whole.dtype == empty.dtype == scalar.dtype == dtype_of("bfloat16")
        assert (empty.shape, scalar.shape, float(scalar)) == ((0, 3), (), 0)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_all_versions_of_headers_are_read(version: tuple[int, int], tmp_path: Path) -> None:
    path = npz(tmp_path / "t.npz", ("input_0.npy", header((2,), version=version) + bytes(8)))
    assert load_tensors(path)["input"][0].tolist() == [0, 0]


def test_zeros_that_pack_well_are_read(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "mask.npz", input_0=np.zeros((1, 1, 2048, 2048), bool))
    assert (tmp_path / "mask.npz").stat().st_size < 2048 * 2048 / 500
    assert not load_tensors(tmp_path / "mask.npz")["input"][0].any()


def unpacked_peak(path: Path) -> tuple[str, int]:
    """Give what is said of a file, and the most memory that reading it took."""
    tracemalloc.start()
    try:
        with pytest.raises(ArtifactError, match="damaged or not a tensor file") as refused:
            load_tensors(path)
        return str(refused.value), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("announced", "shape", "said"),
    [
        (64 << 20, 16 << 20, "too many for a file of its size"),
        (3 << 30, 16 << 20, "too many for a file of its size"),
        (1000, 16 << 20, "Bad CRC-32"),
        (1000, 218, "Bad CRC-32"),
    ],
)
def test_a_file_that_unpacks_to_a_thousandfold_is_refused(
    announced: int, shape: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cross_backend.tensors.MAX_PACKED_ZEROS", 32 << 20)
    whole = header((shape,)) + bytes(64 << 20)
    path = npz(tmp_path / "bomb.npz", ("input_0.npy", whole))
    assert path.stat().st_size < 100_000
    path.write_bytes(path.read_bytes().replace(struct.pack("<I", len(whole)), struct.pack("<I", announced)))
    found, peak = unpacked_peak(path)
    assert said in found and peak < 5_000_000


@pytest.mark.parametrize("shape", [(1 << 50,), (1 << 33, 1 << 33), (10**30,), (-1,), (3,), (1,)])
@pytest.mark.parametrize("packing", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_nothing_is_allocated_that_the_file_does_not_hold(shape: tuple[int, ...], packing: int, tmp_path: Path) -> None:
    said, peak = unpacked_peak(npz(tmp_path / "t.npz", ("input_0.npy", header(shape) + bytes(8)), packing=packing))
    assert "not as long as its header says" in said and peak < 5_000_000


@pytest.mark.parametrize("descr", ["|O", "<U8", "|V8", "|V1", "<M8[D]"])
def test_only_numbers_are_read(descr: str, tmp_path: Path) -> None:
    said, _ = unpacked_peak(
        npz(tmp_path / "t.npz", ("input_0.npy", header((1,), descr) + b"cos\nsystem\n(S'true'\ntR."))
    )
    assert "and no numbers" in said


def test_an_archive_with_too_many_members_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cross_backend.tensors.MAX_MEMBERS", 3)
    path = npz(tmp_path / "t.npz", *((f"input_{i}.npy", b"") for i in range(4)))
    assert "4 tensors" in unpacked_peak(path)[0]


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_ways_of_packing_are_refused(packing: int, tmp_path: Path) -> None:
    path = npz(tmp_path / "t.npz", ("input_0.npy", header((2,)) + bytes(8)), packing=packing)
    assert "neither stored nor deflated" in unpacked_peak(path)[0]


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        ("object", [1, 4]),
        ("O", [1]),
        ("<U3", [1]),
        ("float32, float32", [1]),
        ("datetime64[s]", [1]),
        ("float32", [2**62, 2**62]),
        ("float32", [-1, 4]),
        ("float32", [0, 2**62]),
        ("float32", [2**47]),
        ("float32", ["n", -4]),
    ],
)
def test_a_specification_that_no_tensor_has_is_refused(dtype: str, shape: list[int | str]) -> None:
    with pytest.raises(ValueError, match=r"which (no|is no) t"):
        read_specs([{"name": "x", "dtype": dtype, "shape": shape}])


def test_specifications_of_every_type_that_backends_write_are_read() -> None:
    for dtype in ("float32", "float16", "bfloat16", "float64", "int8", "uint8", "int64", "bool", "complex64"):
        (spec,) = read_specs([{"name": "x", "dtype": dtype, "shape": ["n", 0, 4]}])
        assert spec == TensorSpec("x", dtype, ("n", 0, 4))
