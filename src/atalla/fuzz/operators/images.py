"""Pools, resized images, and images that are sampled where a grid says."""

from __future__ import annotations

from atalla.fuzz.draw import FLOAT, Draw
from atalla.fuzz.operators.table import makes


def _image(draw: Draw, dims: int) -> tuple[str, list[int]]:
    """Return an image and its sizes."""
    x = draw.some(FLOAT, dims + 2)
    return x, list(draw.shape(x)[2:])


def _pool(draw: Draw, sizes: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Return kernel, stride and padding."""
    kernel = [min(draw.one(1, 2, 3, 5), size) for size in sizes]
    return kernel, [draw.one(1, 2, 3) for _ in sizes], [draw.whole(0, one // 2) for one in kernel]


@makes("max_pool2d.default")
def max_pool(draw: Draw, name: str) -> None:
    x, sizes = _image(draw, 2)
    draw.emit(name, x, *_pool(draw, sizes), [draw.one(1, 1, 2)] * 2, draw.maybe())


@makes("max_pool2d_with_indices.default", "max_pool3d_with_indices.default")
def max_pool_with_places(draw: Draw, name: str) -> None:
    x, sizes = _image(draw, 2 if "2d" in name else 3)
    made = draw.emit(name, x, *_pool(draw, sizes), [draw.one(1, 1, 2)] * len(sizes), draw.maybe(0.3))
    draw.part(made, 0)
    if draw.maybe(0.15):
        draw.part(made, 1)


@makes("avg_pool2d.default", "avg_pool3d.default")
def mean_pool(draw: Draw, name: str) -> None:
    x, sizes = _image(draw, 2 if "2d" in name else 3)
    divisor = draw.one((), (), (draw.whole(1, 9),))
    draw.emit(name, x, *_pool(draw, sizes), draw.maybe(0.3), draw.maybe(), *divisor)


@makes("adaptive_avg_pool2d.default", "_adaptive_avg_pool3d.default")
@makes("adaptive_max_pool2d.default", "adaptive_max_pool3d.default")
def adaptive_pool(draw: Draw, name: str) -> None:
    x, sizes = _image(draw, 2 if "2d" in name else 3)
    made = draw.emit(name, x, [draw.one(1, 2, size, draw.whole(1, 7)) for size in sizes])
    if "max" in name:
        draw.part(made, 0)


def _target(draw: Draw, sizes: list[int]) -> tuple[object, object]:
    """Return a size, or factors."""
    if draw.maybe():
        return [draw.one(1, size, 2 * size, draw.whole(1, 20)) for size in sizes], "None"
    return "None", [draw.one(1.0, 2.0, 2.0, 3.0, 0.5, 1.7) for _ in sizes]


@makes(*(f"{kind}{dims}d.vec" for kind in ("upsample_nearest", "_upsample_nearest_exact") for dims in (1, 2, 3)))
def nearest(draw: Draw, name: str) -> None:
    x, sizes = _image(draw, int(name.removesuffix("d.vec")[-1]))
    draw.emit(name, x, *_target(draw, sizes))


@makes("upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_trilinear3d.vec")
def interpolated(draw: Draw, name: str) -> None:
    x, sizes = _image(draw, int(name.removesuffix("d.vec")[-1]))
    size, factors = _target(draw, sizes)
    draw.emit(name, x, size, draw.maybe(), factors)


@makes("grid_sampler.default", "grid_sampler_2d.default")
def sampled(draw: Draw, name: str) -> None:
    x, _ = _image(draw, 2)
    grid = draw.leaf((draw.shape(x)[0], draw.whole(1, 9), draw.whole(1, 9), 2), draw.one("small", "grid", "float"))
    draw.emit(name, x, grid, draw.one(0, 0, 1), draw.whole(0, 2), draw.maybe())
