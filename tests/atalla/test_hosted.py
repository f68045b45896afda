"""Hosted: what a blob may call on the host, what it may not, and what becomes of what a call gives."""

from __future__ import annotations

import operator
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import atalla
from atalla import hosted
from atalla.isa import Dtype, Verdict
from atalla.run import guards, host
from tests.atalla.calls import SHAPE, X, blob
from tests.atalla.nets import Call
from tests.atalla.test_verify import c, python

ISAS = pytest.mark.parametrize("isa", [None, "reference"])
FLOATS = (Dtype.F32, SHAPE)


def test_the_list_is_what_the_rules_give() -> None:
    assert hosted.text() == hosted.LIST.read_text(), "python -m atalla.hosted > src/atalla/csrc/hosted.inc"


def test_what_is_there_by_name_changes_nothing_and_is_there() -> None:
    known = hosted.schemas()
    for name in hosted.EXPORTED:
        one = known.get(name) or operator.attrgetter(name)(torch.ops)._schema
        assert hosted.changes_nothing(one) and hosted.takes_values(one), name


FORBIDDEN = (
    *("aten.from_file.default", "inductor._reinterpret_tensor.default", "aten._reshape_alias.default"),
    *("aten.set_.source_Tensor", "aten.set.source_Tensor", "aten.resize_.default", "aten.resize.default"),
    *("aten.empty.memory_format", "aten.empty_like.default", "aten.new_empty_strided.default", "aten.copy_.default"),
    *("aten.add.out", "aten.add_.Tensor", "aten._print.default", "aten.save.default", "aten.manual_seed.default"),
    *("aten.native_batch_norm.default", "aten.batch_norm.default", "aten.lstm.data", "aten.embedding_bag.default"),
    *("prim.Print.default", "prims.device_put.default", "profiler._record_function_enter.default", "aten.sort", "aten"),
    *("quantized.add.default", "_c10d_functional.all_reduce.default", "inductor.accumulate_grad_.default", "", "ops"),
    *("__class__", "aten.__class__", "aten.sort.default.__class__", "aten.sort.default ", "aten.sort.defaul"),
)  # fmt: skip


@pytest.mark.parametrize("target", FORBIDDEN)
def test_both_loaders_refuse_what_does_more_than_compute(target: str) -> None:
    data = blob(target, [[X], {}], FLOATS)
    assert python(data) == c(data) == Verdict.HOST
    with pytest.raises(atalla.BlobError, match="on the host, which only a blob that you trust may"):
        atalla.load(data)
    with pytest.raises(atalla.KernelError, match="no operator that a blob may call"):
        host.invoke(target, "[[], {}]", [], [])


@ISAS
def test_no_file_is_made(tmp_path: Path, isa: str | None) -> None:
    path = tmp_path / "made"
    data = blob("aten.from_file.default", [[str(path), True, 12], {}], FLOATS)
    with pytest.raises(atalla.BlobError, match=r"it calls aten\.from_file\.default on the host"):
        atalla.load(data, isa=isa)
    assert not path.exists()


@ISAS
@pytest.mark.parametrize("offset", [12, 1 << 40])
def test_no_foreign_memory_is_read(offset: int, isa: str | None) -> None:
    attack = blob("inductor._reinterpret_tensor.default", [[X, list(SHAPE), [4, 1], offset], {}], FLOATS)
    with pytest.raises(atalla.BlobError, match="_reinterpret_tensor"):
        atalla.load(attack, isa=isa)
    secret = torch.arange(100.0)
    view = blob("aten.as_strided.default", [[X, list(SHAPE), [4, 1], offset], {}], FLOATS)
    with pytest.raises(atalla.KernelError, match=r"as_strided\.default failed on the host: .*out of bounds"):
        atalla.load(view, isa=isa).run((secret[20:32].view(SHAPE),))


@ISAS
def test_a_view_of_the_operand_itself_is_one(isa: str | None) -> None:
    x = torch.arange(100.0)[20:32].view(SHAPE)
    data = blob("aten.as_strided.default", [[X, [2, 2], [1, 4], 3], {}], (Dtype.F32, (2, 2)))
    assert atalla.load(data, isa=isa).run((x,))[0].tolist() == [[23, 27], [24, 28]]


@ISAS
def test_a_name_that_steers_a_terminal_is_shown(isa: str | None) -> None:
    with pytest.raises(atalla.BlobError) as caught:
        atalla.load(blob("aten.\x1b[31m\u202e.default", [[X], {}], FLOATS), isa=isa)
    assert r"aten.\x1b[31m\u202e.default" in str(caught.value) and str(caught.value).isprintable()


OUTPUTS: tuple[tuple[str, Any, tuple[tuple[Dtype, tuple[int, ...]], ...], str], ...] = (
    ("aten.relu.default", [[X], {}], ((Dtype.F32, (4, 3)),), r"has shape \[3, 4\] instead of \[4, 3\]"),
    ("aten.amax.default", [[X, [0], True], {}], (FLOATS,), r"has shape \[1, 4\] instead of \[3, 4\]"),
    ("aten.argsort.default", [[X], {}], (FLOATS,), r"is torch\.int64 instead of torch\.float32"),
    ("aten.sort.default", [[X], {}], (FLOATS,), "gave 2 tensors on the host instead of 1"),
    ("aten.relu.default", [[X], {}], (FLOATS, FLOATS), "gave 1 tensors on the host instead of 2"),
    ("aten.sort.default", [[X], {}, [7]], (FLOATS,), "list index out of range"),
    ("aten.nonzero.default", [[X], {}], ((Dtype.I64, (12, 2)),), r"has shape \[11, 2\] instead of \[12, 2\]"),
    ("aten.zeros.default", [[[3, 4]], {"device": {"device": "meta"}}], (FLOATS,), "runs on the processor, not on meta"),
    ("aten.zeros.default", [[[3, 4]], {"layout": {"torch": "sparse_coo"}}], (FLOATS,), "layout must be one that"),
    ("aten._fft_r2c.default", [[X, [1, 1], 0, True], {}], (FLOATS,), "the dims those of the tensor, each once"),
    ("aten.view_as_complex.default", [[X], {}], (FLOATS,), "failed on the host"),
)


@ISAS
@pytest.mark.parametrize(("target", "arguments", "outputs", "told"), OUTPUTS)
def test_what_a_call_gives_is_looked_at(
    target: str, arguments: Any, outputs: tuple[tuple[Dtype, tuple[int, ...]], ...], told: str, isa: str | None
) -> None:
    loaded = atalla.load(blob(target, arguments, *outputs), isa=isa)
    with pytest.raises(atalla.KernelError, match=told) as caught:
        loaded.run((torch.arange(12.0).view(SHAPE),))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        *("", "[", "{}", "[]", "null", "[[]]", "[" * 50_000, '[[{"tensor": 9}], {}]', '[[{"tensor": "x"}], {}]'),
        *('[[{"item": 0}], {}]', '[[{"pairs": 0}], {}]', '[[{"torch": "load"}], {}]', '[[{"torch": "nn"}], {}]'),
        *('[[{"device": "cuda"}], {}]', '[[{"float": "1"}], {}]', '[[{"tensor": 0}], {"x": 1}]', "[[1], {}, 3]"),
    ],
)
def test_arguments_without_a_meaning_are_one_line(text: str) -> None:
    loaded = atalla.load(blob("aten.relu.default", text, FLOATS), isa="reference")
    with pytest.raises(atalla.KernelError, match=r"aten\.relu\.default failed on the host") as caught:
        loaded.run((torch.zeros(SHAPE),))
    assert "\n" not in str(caught.value)


BAD: tuple[tuple[str, dict[str, Any]], ...] = (
    ("_fft_c2c", {"self": torch.zeros(4, dtype=torch.complex64), "dim": [7, 8], "normalization": 0, "forward": True}),
    ("_fft_c2c", {"self": torch.zeros(4), "dim": [0], "normalization": 0, "forward": True}),
    ("_fft_c2r", {"self": torch.zeros(0, 1, dtype=torch.complex64), "dim": [4], "normalization": 0,
                  "last_dim_size": -2}),
    ("_fft_r2c", {"self": torch.zeros(3, 3, dtype=torch.bfloat16), "dim": [1], "normalization": 0, "onesided": True}),
    ("_fft_r2c", {"self": torch.zeros(3, 3), "dim": [1, 1], "normalization": 0, "onesided": True}),
    ("_fft_r2c", {"self": torch.zeros(3, 3), "dim": [-2], "normalization": 0, "onesided": True}),
    ("_embedding_bag_forward_only", {"weight": torch.ones(5, 4), "indices": torch.tensor([1, 7]),
                                     "offsets": torch.tensor([0])}),
    ("_embedding_bag_forward_only", {"weight": torch.ones(5, 4), "indices": torch.tensor([1, 2]),
                                     "offsets": torch.tensor([0, 9])}),
    ("_embedding_bag", {"weight": torch.ones(5, 4), "indices": torch.tensor([1, 2]), "offsets": torch.tensor([0]),
                        "include_last_offset": True}),
    ("_fft_c2r", {"self": torch.zeros(2, 5, dtype=torch.complex64), "dim": [0, 1], "normalization": 0,
                  "last_dim_size": 3}),
    ("_pdist_forward", {"self": torch.zeros(2, 2, 1, 0), "p": 2.0}),
    ("_weight_norm_interface", {"v": torch.zeros(0, 3, 2), "g": torch.zeros(0, 8)}),
    ("linalg_eig", {"self": torch.full((4, 4), float("-inf"))}),
)  # fmt: skip


@pytest.mark.parametrize(("name", "given"), BAD)
def test_what_would_end_the_process_is_not_called(name: str, given: dict[str, Any]) -> None:
    """The operators themselves divide by zero, or read what is not there."""
    with pytest.raises(ValueError, match=" must "):
        guards.guard(getattr(torch.ops.aten, name).default, [], given)


@pytest.mark.parametrize("name", guards.GUARDS)
def test_guards_are_of_operators_that_may_be_called(name: str) -> None:
    assert not hosted.foreign([name])
    assert (guards.GUARDS[name].__doc__ or "").endswith(".")


@pytest.fixture
def custom() -> Iterator[str]:
    library = torch.library.Library("atalla_test", "FRAGMENT")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
    yield "atalla_test.twice.default"
    library._destroy()


@ISAS
def test_a_custom_operator_needs_trust(custom: str, isa: str | None) -> None:
    module = Call(lambda _, x: torch.ops.atalla_test.twice(x) + 1)
    x = torch.randn(3)
    made = atalla.compile(torch.export.export(module, (x,)))
    with pytest.raises(atalla.BlobError, match=rf"it calls {custom} on the host, which only a blob that you trust may"):
        atalla.load(made.data, isa=isa)
    torch.testing.assert_close(atalla.load(made.data, isa=isa, trust=True).run((x,))[0], x * 2 + 1)


def test_a_program_that_calls_what_no_blob_may_is_not_compiled() -> None:
    module = Call(lambda _, x: torch.ops.aten.resize(x, [9]))
    with pytest.raises(atalla.CompileError, match=r"aten\.resize\.default is not compiled: no blob may call it"):
        atalla.compile(torch.export.export(module, (torch.randn(2, 2),), strict=False))


@ISAS
def test_an_argument_may_be_named_as_a_kind_of_argument(isa: str | None) -> None:
    data = blob("aten.ones.default", [[list(SHAPE)], {"device": {"device": "cpu"}}], FLOATS)
    assert atalla.load(data, isa=isa).run((torch.zeros(SHAPE),))[0].tolist() == torch.ones(SHAPE).tolist()


@ISAS
def test_memory_that_nobody_wrote_is_zeros(isa: str | None) -> None:
    def forward(_: Call, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.empty(x.shape[0], 2), x], 1)[:, :2]

    made = atalla.compile(
        torch.export.export(Call(forward), (torch.randn(3, 4),), dynamic_shapes=(({0: torch.export.Dim("n")},),))
    )
    assert not atalla.load(made.data, isa=isa).run((torch.randn(5, 4),))[0].any()


@pytest.mark.slow
def test_mutated_calls_end_neither_the_process_nor_differ_between_the_loaders() -> None:
    """In a process of its own, with as much memory as a test may have."""
    command = [sys.executable, "-m", "tests.atalla.fuzz.calls", "300"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    ran, refused = map(int, done.stdout.split())
    assert ran > 20 and refused > 20
