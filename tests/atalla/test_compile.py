"""Compile: what a blob computes is what eager computes, by the reference and by every kernel that this machine runs."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import atalla
from atalla.blob.disasm import disassemble
from atalla.blob.reader import parse
from atalla.isa import Act
from tests.atalla.native import sets_here
from tests.atalla.nets import HOSTED, NETS, Call


@functools.cache
def compiled(name: str, exact: bool = False) -> tuple[atalla.Compiled, tuple[torch.Tensor, ...], list[torch.Tensor]]:
    torch.manual_seed(0)
    module, inputs = NETS[name]()
    program = torch.export.export(module.eval(), inputs)
    with torch.no_grad():
        wanted = pytree.tree_leaves(module(*inputs))
    return atalla.compile(program, exact=exact), inputs, wanted


def same(found: list[torch.Tensor], wanted: list[torch.Tensor], tolerance: float) -> None:
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype is other.dtype and one.shape == other.shape
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("name", NETS)
def test_the_reference_gives_what_eager_gives(name: str) -> None:
    made, inputs, wanted = compiled(name)
    same(atalla.load(made.data, isa="reference").run(inputs), wanted, 2e-5)
    assert bool(made.fallbacks) == (name in HOSTED), made.fallbacks


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("isa", ["base", "avx2", "avx512"])
@pytest.mark.parametrize("name", NETS)
def test_kernels_give_what_eager_gives(name: str, isa: str, threads: int) -> None:
    """Of the instruction sets that this processor lacks, it is said that it lacks them."""
    made, inputs, wanted = compiled(name)
    if isa not in sets_here():
        with pytest.raises(atalla.KernelError, match="no such instruction set"):
            atalla.load(made.data, isa=isa)
        return
    loaded = atalla.load(made.data, isa=isa, threads=threads)
    assert loaded.isa == isa
    same(loaded.run(inputs), wanted, 2e-5)
    same(loaded.run(inputs), wanted, 2e-5)  # what the first run left in memory changes nothing


@pytest.mark.parametrize(
    ("inside", "outside", "size", "batch", "places", "strides"),
    [
        (16, 16, 13, 1, 36, 1), (16, 16, 12, 1, None, 1), (32, 48, 12, 1, 36, 1), (12, 64, 56, 1, None, 1),
        (32, 32, 8, 1, 16, 1), (32, 48, 6, 1, None, 1), (48, 48, 6, 1, 16, 1), (512, 48, 4, 1, None, 1),
        (48, 48, 1, 40, None, 1), (48, 48, 2, 40, 16, 1), (48, 48, 3, 40, 36, 1),
        (96, 96, 16, 1, 25, 2), (96, 96, 14, 1, None, 2), (95, 256, 56, 1, None, 2), (512, 512, 13, 1, None, 2),
        (96, 96, 56, 1, None, (1, 2)), (96, 96, 56, 1, None, (2, 1)), (96, 96, 56, 1, None, 3),
    ],
)  # fmt: skip
def test_winograd_is_chosen_where_it_was_measured_to_pay(
    inside: int, outside: int, size: int, batch: int, places: int | None, strides: int | tuple[int, int]
) -> None:
    """The fewer channels decide; 13 × 13 has sixteen tiles of 4 × 4, 12 × 12 nine; each tile costs all its products."""
    module, x = torch.nn.Conv2d(inside, outside, 3, strides, 1), torch.randn(batch, inside, size, size)
    made = atalla.compile(torch.export.export(module.eval(), (x,)))
    found = [one for one in made.program.instructions if one.op.name == "CONV2D_WINO"]
    assert [one.sources[1].shape[1] for one in found] == ([places] if places else [])


def test_exact_means_no_winograd() -> None:
    (fast, _, _), (exact, inputs, wanted) = compiled("winograd"), compiled("winograd", exact=True)
    assert "CONV2D_WINO" in {row.op.name for row in atalla.load(fast.data).listing.instructions}
    loaded = atalla.load(exact.data)
    assert {row.op.name for row in loaded.listing.instructions} == {"COPY", "CONV2D", "END"}
    same(loaded.run(inputs), wanted, 2e-6)


@pytest.mark.parametrize("isa", [None, "reference"])
def test_inputs_that_do_not_fit_are_refused(isa: str | None) -> None:
    loaded = atalla.load(compiled("mlp")[0].data, isa=isa)
    for wrong, told in (
        ((), "0 inputs instead of 1"),
        ((torch.zeros(3, 8),), r"shape \[3, 8\] instead of \[3, 7\]"),
        ((torch.zeros(3, 7, dtype=torch.float64),), "float64 instead of torch.float32"),
    ):
        with pytest.raises(atalla.InputError, match=told):
            loaded.run(wrong)


def test_an_index_out_of_the_table_is_an_error_and_the_next_run_is_right() -> None:
    made, inputs, wanted = compiled("transformer")
    loaded = atalla.load(made.data)
    with pytest.raises(atalla.KernelError, match="out of the table"):
        loaded.run((torch.full((2, 9), 50),))
    same(loaded.run(inputs), wanted, 2e-5)


def test_inputs_in_other_strides_are_laid_out() -> None:
    made, (x,), wanted = compiled("residual")
    strange = torch.empty(2, 3, 30, 34)[:, :, ::2, ::2].copy_(x)
    same(atalla.load(made.data).run((strange,)), wanted, 2e-5)


def test_damaged_bytes_are_no_blob() -> None:
    """Each byte of header, tables and instructions once: the loader says what is wrong."""
    data = compiled("mlp")[0].data
    for at in [*range(600), *range(600, len(data), 61)]:
        damaged = bytearray(data)
        damaged[at] ^= 0x41
        with pytest.raises(atalla.BlobError):
            atalla.load(bytes(damaged), verify_constants=True)
    for size in (0, 1, 63, 64, 200, len(data) - 1):
        with pytest.raises(atalla.BlobError):
            atalla.load(data[:size])


def test_times_are_of_each_instruction() -> None:
    made, inputs, _ = compiled("mlp")
    loaded = atalla.load(made.data, profile=True)
    loaded.run(inputs)
    assert len(loaded.times_ns()) == len(loaded.listing.instructions)
    assert sum(loaded.times_ns()) > 0 and atalla.load(made.data).times_ns() == []


def test_a_listing_names_tensors_places_and_lines() -> None:
    text = "\n".join(disassemble(compiled("mlp")[0].data))
    assert "GEMM        gelu:f32[3×19]@arena+0x0 ← src=" in text
    assert "weight=0.weight:f32[19×1×7] panels@const+0x0" in text and "{act=GELU}  ; linear at linear.py:" in text
    assert "CALL_HOST" in "\n".join(disassemble(compiled("fallback")[0].data))


def ops(name: str) -> list[str]:
    return [row.op.name for row in parse(compiled(name)[0].data).instructions]


def test_neighbours_become_one_instruction() -> None:
    """A batch norm, an activation and a residual; attention that is spelt out; what is only transposed for the next."""
    assert ops("mlp") == ["GEMM", "GEMM", "SOFTMAX", "END"]
    assert ops("residual") == ["CONV2D", "CONV2D", "CONV2D", "REDUCE", "GEMM", "END"]
    assert ops("eager_attention") == ["GEMM", "GEMM", "GEMM", "ATTENTION", "GEMM", "END"]
    assert ops("masked") == ["EW", "ATTENTION", "END"]
    (last,) = [row for row in parse(compiled("residual")[0].data).instructions if row.sources[3:] not in {(), (None,)}]
    assert last.op.name == "CONV2D" and last.attributes["act"] == Act.RELU


def test_the_arena_is_as_small_as_can_be() -> None:
    for name in NETS:
        made = compiled(name)[0]
        assert made.arena_bytes == made.arena_bound == parse(made.data).arena_bytes


@pytest.mark.parametrize(
    ("function", "x", "told"),
    [
        (lambda _, x: torch.fft.fft(x), torch.zeros(4), "output .* is complex: return torch.view_as_real"),
        (lambda _, x: x.abs(), torch.zeros(4, dtype=torch.complex64), "input .* is complex: .*torch.view_as_complex"),
    ],
)
def test_complex_numbers_stay_inside(function: Callable[..., object], x: torch.Tensor, told: str) -> None:
    module = Call(function)
    with pytest.raises(atalla.CompileError, match=told):
        atalla.compile(torch.export.export(module, (x,)))


def test_a_check_of_linear_algebra_is_made_at_each_run() -> None:
    module = Call(lambda _, x: torch.linalg.inv(x) + 1)
    loaded = atalla.load(atalla.compile(torch.export.export(module, (torch.eye(3),))).data)
    same(loaded.run((torch.eye(3) * 2,)), [torch.eye(3) / 2 + 1], 0)
    with pytest.raises(atalla.KernelError, match="singular"):
        loaded.run((torch.zeros(3, 3),))


@pytest.mark.parametrize("isa", [None, "reference"])
@pytest.mark.parametrize(
    ("function", "x", "outputs"),
    [
        (lambda _, x: torch.sort(x, -1)[1] + 1, torch.randn(3, 5), 1),
        (lambda _, x: torch.sort(x, -1)[0], torch.randn(3, 0), 1),
        (lambda _, x: torch.sort(x, -1), torch.randn(3, 5), 2),
        (lambda _, x: torch.cumprod(x, 1), torch.randn(0, 3, 3), 1),
    ],
)
def test_a_call_of_the_host_makes_what_is_read(
    function: Callable[..., object], x: torch.Tensor, outputs: int, isa: str | None
) -> None:
    loaded = atalla.load(atalla.compile(torch.export.export(Call(function), (x,))).data, isa=isa)
    assert {len(call.outputs) for call in loaded.listing.calls} == {outputs}
    same(loaded.run((x,)), pytree.tree_leaves(function(None, x)), 0)


def test_what_nobody_reads_is_not_called() -> None:
    def forward(_: Call, x: torch.Tensor) -> torch.Tensor:
        b = torch.sort(x)[0]
        b.copy_(x * 2)
        return b + torch.zeros_like(torch.sort(x, 0)[0])

    x = torch.randn(300, 50)
    made = atalla.compile(torch.export.export(Call(forward), (x,)))
    assert not made.fallbacks and not parse(made.data).calls
    same(atalla.load(made.data).run((x,)), [x * 2], 0)


@pytest.mark.parametrize("is_changed", [False, True])
def test_a_type_that_a_blob_cannot_hold_is_an_error_of_ours(is_changed: bool) -> None:
    class Held(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("held", torch.zeros(3, dtype=torch.complex64 if is_changed else torch.uint16))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if is_changed:
                self.held.add_(x)
            return x + self.held.abs() if is_changed else x + self.held.float()

    with pytest.raises(atalla.CompileError, match="a type that a blob cannot hold"):
        atalla.compile(torch.export.export(Held(), (torch.ones(3),)))
