"""Fused int8: products, pools and tables are really there, within a step of torch's emulation, and the same by every
kernel; what cannot be whole numbers stays float32 and right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

import atalla
from atalla.blob.reader import parse
from atalla.isa import Dtype, Op
from tests.atalla import int8_nets
from tests.atalla.agreement import Case, compiled
from tests.atalla.int8_nets import INT8, Calls, Q, convolution, emulated, floats, linear, quantized
from tests.atalla.native import sets_here

STEP = 0.04
"""Of most results here."""


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)) * 2


def ops(made: atalla.Compiled) -> Counter[Op]:
    """Return how many there are of each operation."""
    return Counter(Op(row.op) for row in parse(made.data).instructions)


def agree(cases: Sequence[Case], within: float) -> atalla.Compiled:
    """See that every kernel gives the reference's bits, and that these are near what torch gives."""
    made, inputs, wanted = compiled(cases)
    assert not made.fallbacks, made.fallbacks
    golden = [one.clone() for one in atalla.load(made.data, isa="reference").run(inputs)]
    for number, (one, other) in enumerate(zip(golden, wanted, strict=True)):
        assert one.dtype is other.dtype and one.shape == other.shape
        assert float((one.double() - other.double()).abs().max()) <= within * 1.001, number
    for isa in sorted(sets_here()):
        found = atalla.load(made.data, isa=isa, threads=2).run(inputs)
        assert all(map(torch.equal, found, golden)), isa
    return made


def test_what_cannot_be_whole_numbers_is_float32() -> None:
    x = numbers(5, 12)
    unknown = Calls(lambda x, w: functional.linear(emulated(x), floats(w)))

    def weight_only(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, floats(w))

    whole = torch.randint(-128, 128, (7, 12), generator=torch.Generator().manual_seed(2)).to(torch.int8)
    cases: list[Case] = [
        (linear(7, 12, axis=1, to=None), (x,)),
        (linear(7, 12, axis=-1, to=None), (x,)),
        (linear(7, 12, zeros=3, to=None), (x,)),
        (Calls(weight_only, w=whole), (x,)),
        (unknown, (x, whole)),
    ]
    found = ops(agree_floats(cases))
    assert not found[Op.QGEMM]


def agree_floats(cases: Sequence[Case]) -> atalla.Compiled:
    """See that all give about what torch gives."""
    made, inputs, wanted = compiled(cases)
    assert not made.fallbacks, made.fallbacks
    for isa in ("reference", *sorted(sets_here())):
        for one, other in zip(atalla.load(made.data, isa=isa).run(inputs), wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    return made


def test_sums_and_means_are_of_whole_numbers() -> None:
    """In float32 they would be added in an order of each kernel's own."""
    x = numbers(2, 40, 9, 11)

    def repeated(x: torch.Tensor) -> torch.Tensor:
        x = emulated(x)
        return emulated(x * x.mean((2, 3), keepdim=True))

    cases: list[Case] = [
        (Calls(lambda x: emulated(x).mean((2, 3))), (x,)),
        (Calls(lambda x: emulated(x, 0.03, -7).mean(1)), (x,)),
        (Calls(lambda x: emulated(x, 0.03, 100).sum((0, 3), keepdim=True)), (x,)),
        (Calls(lambda x: emulated(functional.adaptive_avg_pool2d(emulated(x), 1), 0.01, 3)), (x,)),
        (Calls(lambda x: emulated(emulated(x.permute(0, 2, 3, 1)).mean((1, 2)), 0.01)), (x,)),
        (Calls(repeated), (x,)),
        *[(made.eval(), inputs) for made, inputs in (int8_nets.gated(), int8_nets.network())],
    ]
    made = agree(cases, within=0.05)
    listing = parse(made.data)
    summed = [row for row in listing.instructions if row.op is Op.REDUCE]
    assert len(summed) == 9
    assert {listing.tensors[one].dtype for row in summed for one in row.sources if one is not None} == {Dtype.I8}


def test_a_sum_of_more_than_a_float32_holds_stays_one_of_floats() -> None:
    """And so does one whose count is not known."""
    for count, dtype in ((1 << 16, Dtype.I8), ((1 << 16) + 1, Dtype.F32)):
        listing = parse(compiled([(Calls(lambda x: emulated(x).mean(0)), (torch.zeros(count),))])[0].data)
        (row,) = (row for row in listing.instructions if row.op is Op.REDUCE)
        assert listing.tensors[row.sources[0] or 0].dtype is dtype
    dims = ({0: torch.export.Dim("n", min=2, max=99)},)
    program = torch.export.export(Calls(lambda x: emulated(x).mean(0)), (torch.zeros(7, 3),), dynamic_shapes=(dims,))
    listing = parse(atalla.compile(program).data)
    (row,) = (row for row in listing.instructions if row.op is Op.REDUCE)
    assert listing.tensors[row.sources[0] or 0].dtype is Dtype.F32


def test_the_largest_of_windows_is_of_int8_where_scales_are_equal() -> None:
    x = numbers(1, 8, 9, 9)

    def pool(x: torch.Tensor) -> torch.Tensor:
        return functional.max_pool2d(x, 3, 2, 1)

    same = Calls(lambda x: emulated(pool(emulated(x, 0.03, 4)), 0.03, 4))
    other = Calls(lambda x: emulated(pool(emulated(x, 0.03, 4)), 0.05, 1))
    for module, dtype in ((same, "I8"), (other, "F32")):
        made = agree([(module, (x,))], 0)
        listing = parse(made.data)
        (row,) = (row for row in listing.instructions if row.op == Op.POOL2D)
        assert listing.tensors[row.dst].dtype.name == dtype


def test_what_makes_one_int8_tensor_of_another_is_a_table() -> None:
    x = quantized(numbers(3, 40))
    table = Calls(lambda x: quantized(functional.hardswish(floats(x)) * 1.5, 0.07, 3))
    found = ops(agree([(table, (x,))], 0))
    assert (found[Op.GATHER], found[Op.EW]) == (1, 0)
    identity = Calls(lambda x: quantized(floats(x, 0.03, 9), 0.03, 9))
    found = ops(agree([(identity, (x,))], 0))
    assert (found[Op.GATHER], found[Op.EW]) == (0, 0)


def test_branches_that_meet() -> None:
    x, y = numbers(1, 8, 6, 6), numbers(1, 8, 6, 6)
    first, second = convolution((8, 8, 3, 3), (1, 1)), convolution((8, 8, 1, 1))
    reduce, expand = convolution((4, 8, 1, 1), act=functional.relu), convolution((8, 4, 1, 1))

    class Squeezed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.reduce, self.expand = first, reduce, expand

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            gate = functional.hardsigmoid(self.expand(self.reduce(emulated(x.mean((2, 3), keepdim=True)))))
            return emulated(x * emulated(gate, 1 / 255, -128), 0.05, 3)

    class Added(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = first, second

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            made = emulated(self.first(x) + emulated(x), 0.06, 2)
            return made, emulated(torch.cat([self.second(made), made], 1), 0.06, 2)

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = convolution((8, 8, 3, 3), (1, 1), to=None)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            made = self.first(x)
            return made, quantized(made, STEP, 5), made * 2

    made = agree([(Squeezed(), (x,)), (Added(), (y,)), (Twice(), (y,))], 2 * 0.06)
    assert ops(made)[Op.QCONV2D] == 6


def test_int8_may_go_in_and_out() -> None:
    layer = linear(9, 16, bias=True)

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            weight = Q.dequantize_per_channel(self.layer.weight, self.layer.scales, self.layer.zeros, 0, *INT8)
            return quantized(functional.linear(floats(x, 0.02, -3), weight, self.layer.bias), 0.05, 1)

    x = quantized(numbers(6, 16), 0.02, -3)
    found = ops(agree([(Whole(), (x,))], 1))
    assert (found[Op.QGEMM], found[Op.EW]) == (1, 0)
