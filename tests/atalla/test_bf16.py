"""bfloat16: every instruction set gives the bits of the reference, networks are compiled to it, and stay near eager."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import atalla
from atalla.blob.reader import parse
from atalla.isa import Layout, Op
from atalla.isa.format import MOST_DEPTH
from tests.atalla import bf16_programs as programs
from tests.atalla.native import sets_here
from tests.atalla.nets import NETS
from tests.atalla.one_instruction import Given

Make = Callable[[int], Given]


def agree(make: Make, seeds: range) -> None:
    """See that kernels of one thread and of several give the reference's bits."""
    for seed in seeds:
        blob, inputs, wanted = make(seed)
        for isa in sorted(sets_here() - {"vnni"}):  # which has none of its own
            for threads in (1, 3):
                (found,) = atalla.load(blob, isa=isa, threads=threads).run(inputs)
                assert same_bits(found, wanted), (make.__name__, seed, isa, threads)


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Compare bits, but for what a NaN holds beside being one."""
    return bool(((one.view(torch.int32) == other.view(torch.int32)) | (one.isnan() & other.isnan())).all())


@pytest.mark.parametrize("make", programs.MAKERS)
def test_products_give_the_bits_of_the_reference(make: Make) -> None:
    agree(make, range(40))


@pytest.mark.slow
@pytest.mark.parametrize("make", programs.MAKERS)
def test_many_forms_give_the_bits_of_the_reference(make: Make) -> None:
    agree(make, range(100, 500))


def test_the_reference_is_a_product_of_rounded_numbers() -> None:
    """Written another way: in float64, of what torch rounds itself."""
    for seed in range(10):
        torch.manual_seed(seed)
        module, x = nn.Linear(100, 30).eval(), torch.randn(7, 100)
        data = atalla.compile(torch.export.export(module, (x,)), bf16=True).data
        (found,) = atalla.load(data, isa="reference").run([x])
        rounded = [one.bfloat16().double() for one in (x, module.weight.detach())]
        wanted = rounded[0] @ rounded[1].t() + module.bias.detach().double()
        torch.testing.assert_close(found.double(), wanted, rtol=1e-6, atol=1e-6)
        assert (found - module(x)).abs().max() > 1e-4, "nothing that near was rounded"


@pytest.mark.parametrize("name", ["mlp", "residual", "winograd", "eager_attention"])
def test_a_network_multiplies_in_bfloat16(name: str) -> None:
    torch.manual_seed(0)
    module, inputs = NETS[name]()
    with torch.no_grad():
        wanted = torch.utils._pytree.tree_leaves(module.eval()(*inputs))
    program = torch.export.export(module, inputs)
    full, made = atalla.compile(program), atalla.compile(program, bf16=True)
    rows = parse(made.data).instructions
    kinds = {row.op for row in rows}
    assert kinds & {Op.BGEMM, Op.BCONV2D} and not kinds & {Op.GEMM, Op.CONV2D, Op.CONV2D_WINO}
    weights = [row for row in parse(made.data).tensors if row.layout is Layout.PAIRS]
    assert sum(row.bytes for row in weights) < parse(full.data).constant_bytes * 0.6
    for isa in (*sorted(sets_here()), "reference"):
        for found, one in zip(atalla.load(made.data, isa=isa).run(inputs), wanted, strict=True):
            assert 0 < (found - one).norm() < 0.02 * one.norm()


def test_what_is_deeper_than_sums_may_be_stays_float32() -> None:
    module, x = nn.Linear(MOST_DEPTH + 1, 2).eval(), torch.randn(1, MOST_DEPTH + 1)
    made = atalla.compile(torch.export.export(module, (x,)), bf16=True)
    assert [row.op for row in parse(made.data).instructions] == [Op.GEMM, Op.END]


def test_all_sizes_of_a_batch_multiply_in_bfloat16() -> None:
    torch.manual_seed(0)
    module, x = nn.Sequential(nn.Linear(40, 50), nn.GELU(), nn.Linear(50, 3)).eval(), torch.randn(2, 40)
    program = torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("batch", max=64)},))
    loaded = atalla.load(atalla.compile(program, bf16=True).data)
    for batch in (1, 2, 33, 64):
        x = torch.randn(batch, 40)
        (found,) = loaded.run([x])
        assert (found - module(x)).norm() < 0.02 * module(x).norm()
