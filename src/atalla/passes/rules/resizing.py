"""Resizing: rows, images and volumes of another size, and images where a grid says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atalla import ir
from atalla.dims import equal, simplify, strides_of_pixels
from atalla.isa import Dtype, Op, Outside, Resize, Sample
from atalla.passes.constraints import Request, float32, has_elements
from atalla.passes.lowering import Lowering
from atalla.passes.rule import rule
from atalla.passes.rules.convolution import CHANNELS_LAST, as_image, channels_last
from atalla.passes.rules.pools import along, planes


def known_factors(asked: Request) -> bool:
    """Factors of a resized image must be numbers that are known when the program is compiled."""
    return asked["factors"] is None or all(isinstance(one, int | float) for one in asked["factors"])


def floats_or_whole_times(asked: Request) -> bool:
    """Images that are resized must be float32, unless the sizes are known and grow by whole numbers."""
    return asked["x"].dtype is Dtype.F32 or _whole_times(asked["x"].shape, asked.shape) is not None


def changes_sizes(asked: Request) -> bool:
    """Of rows and volumes a factor that is not 1 must change the size: else torch takes elements twice, or does not."""
    factors, sizes = asked["factors"], list(zip(asked["x"].shape[2:], asked.shape[2:], strict=True))
    if factors is None or len(sizes) == 2:
        return True
    return all(
        one in {0.5, 1} or one >= 2 or (isinstance(have, int) and have != made)
        for one, (have, made) in zip(factors, sizes, strict=True)
    )


def _whole_times(old: Sequence[Any], new: Sequence[Any]) -> list[int] | None:
    """Return how many times each dim behind the channels grows; None where it is no whole number that is known."""
    pairs = list(zip(old[2:], new[2:], strict=True))
    if not all(isinstance(n, int) for pair in pairs for n in pair) or any(n % o for o, n in pairs):
        return None
    return [n // o for o, n in pairs]


@rule(
    "upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec",
    makes=(Op.RESIZE2D, Op.COPY), needs=(has_elements, known_factors, changes_sizes, floats_or_whole_times),
)  # fmt: skip
def upsample_nearest(low: Lowering, x: ir.Tensor, size: Any, factors: Sequence[float] | None) -> ir.Tensor:
    """The nearest element below each place."""
    times = _whole_times(x.shape, low.output_type()[1])
    if times is None or (x.dtype is Dtype.F32 and equal(x.strides[1], 1)):
        return _resized(low, x, Resize.NEAREST, factors)
    return _repeated(low, x, times)


def _repeated(low: Lowering, x: ir.Tensor, times: Sequence[int]) -> ir.Tensor:
    """Return every element a whole number of times."""
    dst = low.like_node(x.order)
    shape, into, of = list(x.shape[:2]), list(dst.strides[:2]), list(x.strides[:2])
    for count, extent, stride, step in zip(times, x.shape[2:], dst.strides[2:], x.strides[2:], strict=True):
        shape += [extent, count]
        into += [simplify(stride * count), stride]
        of += [step, 0]
    low.emit(Op.COPY, dst.view(shape, into), [x.view(shape, of)])
    return dst


@rule(
    "_upsample_nearest_exact1d.vec", "_upsample_nearest_exact2d.vec", "_upsample_nearest_exact3d.vec",
    makes=(Op.RESIZE2D,), needs=(float32, has_elements, known_factors),
)  # fmt: skip
def upsample_nearest_exact(low: Lowering, x: ir.Tensor, size: Any, factors: Sequence[float] | None) -> ir.Tensor:
    """The element whose centre is nearest to each place's."""
    return _resized(low, x, Resize.NEAREST_EXACT, factors)


@rule(
    "upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_trilinear3d.vec",
    makes=(Op.RESIZE2D,), needs=(float32, has_elements, known_factors),
)  # fmt: skip
def upsample_linear(
    low: Lowering, x: ir.Tensor, size: Any, is_aligned: bool, factors: Sequence[float] | None
) -> ir.Tensor:
    """What lies between the neighbours of each place."""
    return _resized(low, x, Resize.LINEAR_ALIGNED if is_aligned else Resize.LINEAR, factors)


def _resized(low: Lowering, x: ir.Tensor, kind: Resize, factors: Sequence[float] | None) -> ir.Tensor:
    _, shape = low.output_type()
    scales = [0.0] * (len(shape) - 2) if factors is None else [float(one) for one in factors]
    if len(shape) == 3:
        row = _image(low, as_image(x), (*shape[:2], 1, shape[2]), kind, (0.0, scales[0]))
        return row.view(shape, (*row.strides[:2], row.strides[3]))
    if len(shape) == 4:
        return _image(low, x, shape, kind, (scales[0], scales[1]))
    return _volume(low, x, kind, scales)


def _image(low: Lowering, x: ir.Tensor, shape: Sequence[Any], kind: Resize, scales: tuple[float, float]) -> ir.Tensor:
    dst = low.new(x.dtype, shape, strides_of_pixels(shape))
    return low.emit(Op.RESIZE2D, dst, [channels_last(low, x)], kind=int(kind), scale_h=scales[0], scale_w=scales[1])


def _volume(low: Lowering, x: ir.Tensor, kind: Resize, scales: Sequence[float]) -> ir.Tensor:
    """Return a volume of another size: its planes are resized, and then its depth, planes being rows."""
    _, shape = low.output_type()
    flat, deep = planes(low, x), (*x.shape[:3], *shape[3:])
    made = _image(low, flat, (*flat.shape[:2], *shape[3:]), kind, (scales[1], scales[2]))
    rows = along(made.view(deep, strides_of_pixels(deep)), 2)
    made = _image(low, rows, (*deep[:2], shape[2], rows.shape[3]), kind, (scales[0], 0.0))
    return made.view(shape, strides_of_pixels(shape))


def image_and_grid(asked: Request) -> bool:
    """Only images are sampled where a grid says, no volumes."""
    return len(asked["x"].shape) == 4


def linear_or_nearest(asked: Request) -> bool:
    """What is sampled where a grid says must be interpolated bilinearly, or be the nearest pixel."""
    return asked["mode"] in {0, 1}


@rule(
    "grid_sampler_2d.default", "grid_sampler.default",
    makes=(Op.SAMPLE2D,), needs=(float32, image_and_grid, has_elements, linear_or_nearest),
)  # fmt: skip
def grid_sampler(low: Lowering, x: ir.Tensor, grid: ir.Tensor, mode: int, padding: int, is_aligned: bool) -> ir.Tensor:
    """An image where a grid says."""
    kinds, outsides = (Sample.LINEAR, Sample.NEAREST), (Outside.ZEROS, Outside.BORDER, Outside.REFLECTION)
    return low.emit(
        Op.SAMPLE2D, low.like_node(CHANNELS_LAST), [channels_last(low, x), grid],
        kind=int(kinds[mode]), outside=int(outsides[padding]), aligned=int(is_aligned),
    )  # fmt: skip
