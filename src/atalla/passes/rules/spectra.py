"""Spectra: the discrete Fourier transform of real signals as products by constant tables.

``X[k] = Σ x[t] · exp(-2πi · k · t / n)`` is one product by ``n`` columns. Where ``n = a · b`` is large it is two, as in
J. W. Cooley and J. W. Tukey, *An Algorithm for the Machine Calculation of Complex Fourier Series* (1965): transforms of
``a`` samples that lie ``b`` apart, then for each of their frequencies one of ``b``, into whose table the factors
between the two go. That is ``a + b`` products a sample for ``n``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from atalla import ir
from atalla.dims import contiguous_strides, equal, product
from atalla.isa import Dtype, Op, Step
from atalla.passes.constraints import Request, float32, has_elements
from atalla.passes.lowering import Lowering, constant, constant_data
from atalla.passes.rule import rule
from atalla.passes.rules.chain import Chain, broadcast
from atalla.passes.rules.linear import dense_rows
from atalla.passes.rules.views import permute, place

if TYPE_CHECKING:
    import torch

MOST_DIRECT = 512
"""Samples of which one product makes the spectrum where it can be: its table then has 1 MiB."""
MOST = 4096
"""Samples, at most: tables of 4 MiB. The host transforms longer signals."""
PAYS = 360
"""Samples from which on two products are faster than one, as ``benchmarks/atalla_spectra.py`` measured it."""


def one_dim(asked: Request) -> bool:
    """The transform must be along one dim."""
    return len(asked["dims"]) == 1


def few_samples(asked: Request) -> bool:
    """A signal must have at most 4096 samples, 512 where no two near factors make their number."""
    extent = asked["x"].shape[asked["dims"][0]]
    return isinstance(extent, int) and _parts(extent) is not None


@rule("_fft_r2c.default", makes=(Op.GEMM, Op.EW, Op.BMM), needs=(float32, has_elements, one_dim, few_samples))
def spectrum(low: Lowering, x: ir.Tensor, dims: Sequence[int], normalization: int, onesided: bool) -> ir.Complex:
    """Transform real numbers along one dim; a constant window that they were multiplied with is taken in."""
    axis = place(dims[0], len(x.shape))
    extent = int(x.shape[axis])
    parts = _parts(extent)
    assert parts is not None, "a constraint of the rule"
    x, window = _windowed(low, x, axis)
    order = [*(i for i in range(len(x.shape)) if i != axis), axis]
    rows = permute(low, x, order)
    count = extent // 2 + 1 if onesided else extent
    factor = (1.0, 1 / math.sqrt(extent), 1 / extent)[normalization]
    if parts == (extent, 1):
        pairs = _direct(low, rows, window, count, factor)
    else:
        pairs = _in_two(low, rows, window, count, factor, parts)
    back = [*(order.index(i) for i in range(len(order))), len(order)]
    return ir.Complex(permute(low, pairs, back))


def _parts(extent: int) -> tuple[int, int] | None:
    """Return two factors of a number of samples, ``(n, 1)`` for one product; None where tables would be too large."""
    small = max(one for one in range(1, math.isqrt(max(extent, 1)) + 1) if extent % one == 0)
    large = extent // small
    if PAYS <= extent <= MOST and 2 * (small + large) <= extent // 2:
        return large, small
    return (extent, 1) if extent <= MOST_DIRECT else None


def _windowed(low: Lowering, x: ir.Tensor, axis: int) -> tuple[ir.Tensor, torch.Tensor | None]:
    """Return what a constant window was multiplied with, and the window, where nothing else reads the product.

    So overlapping frames are read where they lie.
    """
    import torch

    assert low.node is not None, "a node is being lowered"
    source: Any = low.node.args[0]
    is_product = getattr(source, "target", None) is torch.ops.aten.mul.Tensor
    if not is_product or len(source.users) != 1 or axis != len(x.shape) - 1:
        return x, None
    first, second = (low.values.get(one) if hasattr(one, "users") else None for one in source.args)
    for framed, window in ((first, second), (second, first)):
        data = constant_data(window)
        if data is None or data.shape[-1:] != (x.shape[axis],) or data.numel() != x.shape[axis]:
            continue
        if isinstance(framed, ir.Tensor) and framed.dtype is Dtype.F32 and len(framed.shape) == len(x.shape):
            return (framed, data.flatten()) if all(map(equal, framed.shape, x.shape)) else (x, None)
    return x, None


def _direct(low: Lowering, rows: ir.Tensor, window: torch.Tensor | None, count: int, factor: float) -> ir.Tensor:
    """Return the pairs ``[…, count, 2]`` of signals ``[…, n]`` by one product."""
    extent = int(rows.shape[-1])
    table = _waves(range(extent), count, extent) * factor
    table = table if window is None else table * window.double()
    made = _product(low, dense_rows(low, rows), table)
    return made.view((*rows.shape[:-1], count, 2), (*made.strides[:-1], 1, count))


def _in_two(
    low: Lowering, rows: ir.Tensor, window: torch.Tensor | None, count: int, factor: float, parts: tuple[int, int]
) -> ir.Tensor:
    """Return the same by two products; sample ``t`` is ``t = b · i + j``, frequency ``k`` is ``k = p + a · q``."""
    import torch

    (a, b), extent = parts, int(rows.shape[-1])
    lead, step = rows.shape[:-1], rows.strides[-1]
    signals = product(lead)
    apart = _scaled(low, rows.view((*lead, b, a), (*rows.strides[:-1], step, b * step)), window, parts)
    first = _product(low, apart, _waves(range(a), a, a))  # [signals, j, real and imaginary, p]
    seen = first.view((a, signals, 2 * b), (1, 2 * extent, a))
    groups = -(-count // a)
    k = torch.arange(a)[:, None, None] + a * torch.arange(groups)[None, None, :]
    angles = (torch.arange(b)[None, :, None] * k % extent).double() * (2 * math.pi / extent)  # [p, j, q]
    cosines, sines = angles.cos() * factor, angles.sin() * factor
    of_real, of_imaginary = torch.stack([cosines, -sines], 2), torch.stack([sines, cosines], 2)  # [p, j, to, q]
    table = torch.stack([of_real, of_imaginary], 2).reshape(a, 2 * b, 2 * groups).float()
    second = low.new(Dtype.F32, (a, signals, 2 * groups))
    low.emit(Op.BMM, second, [seen, constant(table, "spectrum")], scale=1.0)
    shape = (signals, 2, groups, a)
    strides = (second.strides[1], groups, 1, second.strides[0])
    joined = low.contiguous(second.view(shape, strides))
    whole = contiguous_strides((*lead, 2, groups * a))
    return joined.view((*lead, count, 2), (*whole[:-2], 1, groups * a))


def _scaled(low: Lowering, x: ir.Tensor, window: torch.Tensor | None, parts: tuple[int, int]) -> ir.Tensor:
    """Return samples ``[…, b, a]``, which lie apart, behind each other, multiplied with the window."""
    if window is None:
        return low.copy(x)
    chain, (a, b) = Chain(), parts
    row = constant(window.float().view(a, b).t().contiguous(), "window")
    values = [chain.read(x), chain.read(broadcast(row, x.shape))]
    chain.step(Step.MUL, *values)
    return low.emit(Op.EW, low.new(Dtype.F32, x.shape), chain.sources, steps=tuple(chain.steps))


def _waves(samples: range, count: int, extent: int) -> torch.Tensor:
    """Return rows of cosines, then of negative sines, ``[2 · count, samples]``, float64."""
    import torch

    turns = torch.outer(torch.arange(count), torch.tensor(samples)) % extent
    angles = turns.double() * (2 * math.pi / extent)
    return torch.cat([angles.cos(), -angles.sin()])


def _product(low: Lowering, rows: ir.Tensor, table: torch.Tensor) -> ir.Tensor:
    """Emit the product of rows and the rows of a table, which stays float32 whatever weights are."""
    held = constant(table.float(), "spectrum")
    held.is_exact = True
    made = low.new(Dtype.F32, (*rows.shape[:-1], table.shape[0]))
    return low.emit(Op.GEMM, made, [rows, held, None])
