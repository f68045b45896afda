"""Resized and sampled images: kernels give the reference's bits, and both what eager gives."""

from __future__ import annotations

import itertools
import struct

import pytest
import torch
from torch import nn
from torch.export import Dim

import atalla
from atalla.isa import Op, Verdict
from tests.atalla.agreement import Case, agree, compiled
from tests.atalla.nets import Call
from tests.atalla.test_verify import c, python, with_word

functional = nn.functional


def resized(**options: object) -> nn.Module:
    return Call(lambda _, x: functional.interpolate(x, **options))


def linear() -> list[Case]:
    """Larger and smaller, one pixel, sizes that stay, factors of which the sizes say another step."""
    rows, image, volume = torch.randn(2, 5, 9), torch.randn(2, 20, 5, 7), torch.randn(2, 3, 4, 5, 3)
    last = image.to(memory_format=torch.channels_last)
    how: list[dict[str, object]] = [
        {"size": (11, 4)}, {"size": (5, 13)}, {"size": (1, 1)}, {"scale_factor": 2}, {"scale_factor": (1.7, 0.6)},
        {"scale_factor": 1.1}, {"scale_factor": 1.7, "recompute_scale_factor": True},
    ]  # fmt: skip
    found: list[Case] = []
    for options, aligned in itertools.product(how, (False, True)):
        found.append((resized(mode="bilinear", align_corners=aligned, **options), (last if aligned else image,)))
    for aligned in (False, True):
        found.append((resized(mode="linear", align_corners=aligned, size=23), (rows,)))
        found.append((resized(mode="trilinear", align_corners=aligned, size=(6, 5, 7)), (volume,)))
        found.append((resized(mode="trilinear", align_corners=aligned, scale_factor=(1.5, 2, 1)), (volume,)))
        found.append((resized(mode="bilinear", align_corners=aligned, size=(3, 4)), (torch.randn(1, 1, 1, 1),)))
    return found


def nearest() -> list[Case]:
    rows, image, volume = torch.randn(2, 5, 9), torch.randn(2, 17, 5, 7), torch.randn(2, 3, 4, 5, 3)
    last = image.to(memory_format=torch.channels_last)
    found: list[Case] = []
    for mode, x in itertools.product(("nearest", "nearest-exact"), (image, last)):
        found += [(resized(mode=mode, size=(11, 4)), (x,)), (resized(mode=mode, scale_factor=2), (x,))]
        found += [(resized(mode=mode, scale_factor=s), (x,)) for s in (1.2, 1.05, 2.3, 0.3)]
    for mode in ("nearest", "nearest-exact"):
        found += [(resized(mode=mode, size=23), (rows,)), (resized(mode=mode, scale_factor=(1.5, 2, 1.4)), (volume,))]
    whole = torch.randint(-9, 9, (2, 3, 4, 5))
    return [
        *found,
        (resized(scale_factor=3), (rows.flip(0),)),
        (resized(scale_factor=(2, 3)), (whole.to(torch.uint8),)),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("cases", [linear, nearest])
def test_images_of_another_size(cases: object) -> None:
    torch.manual_seed(0)
    assert callable(cases)
    agree(cases(), 1e-5 if cases is linear else 0, bits=True)


def test_what_is_no_number_stays_where_it_is() -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 2, 5, 6)
    x[0, 0, 2, 3], x[0, 1, 0, 0], x[0, 1, 4, 5] = float("inf"), float("nan"), float("-inf")
    agree([(resized(mode="bilinear", scale_factor=2), (x,)), (resized(scale_factor=1.5), (x,))], 1e-5, bits=True)


def grids() -> list[Case]:
    """Inside and far outside, on pixels and between them."""
    torch.manual_seed(1)
    x, grid = torch.randn(2, 19, 5, 7), torch.randn(2, 6, 3, 2) * 1.5
    grid[0, 0, 0], grid[0, 0, 1], grid[0, 1, 0] = 1.0, -1.0, torch.tensor([250.5, -30.25])
    found: list[Case] = []
    for mode, padding, aligned in itertools.product(
        ("bilinear", "nearest"), ("zeros", "border", "reflection"), (False, True)
    ):
        module = Call(
            lambda _, x, grid, m=mode, p=padding, a=aligned: functional.grid_sample(x, grid, m, p, align_corners=a)
        )
        found.append((module, (x, grid)))
    warp = Call(
        lambda _, x, theta: functional.grid_sample(
            x, functional.affine_grid(theta, [2, 1, 4, 4], align_corners=False), align_corners=False
        )
    )
    return [*found, (warp, (torch.randn(2, 1, 1, 3), torch.randn(2, 2, 3)))]


@pytest.mark.slow
def test_images_where_a_grid_says() -> None:
    agree(grids(), 1e-4, bits=True)


def test_dynamic_sizes() -> None:
    torch.manual_seed(0)
    net = Call(lambda _, x: (resized(scale_factor=2, mode="bilinear")(x), functional.interpolate(x, scale_factor=2)))
    sizes = {0: Dim("batch", min=1, max=4), 2: Dim("high", min=2, max=20), 3: Dim("wide", min=2, max=20)}
    made = atalla.compile(torch.export.export(net, (torch.randn(2, 3, 5, 6),), dynamic_shapes=((sizes,),)))
    assert not made.fallbacks
    for isa in (None, "reference"):
        loaded = atalla.load(made.data, isa=isa)
        for shape in ((2, 3, 5, 6), (1, 3, 20, 2)):
            x = torch.randn(shape)
            torch.testing.assert_close(loaded.run((x,)), list(net(x)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("module", "told"),
    [
        (resized(size=(5, 5), mode="bilinear", antialias=True), "bilinear upsampling with antialias"),
        (
            Call(lambda _, x: resized(scale_factor=1.1)(x[0])),
            "Of rows and volumes a factor that is not 1 must change the size",
        ),
        (
            Call(lambda _, x: functional.grid_sample(x, x[:, :2].permute(0, 2, 3, 1), "bicubic", align_corners=True)),
            "What is sampled where a grid says must be interpolated bilinearly, or be the nearest pixel",
        ),
    ],
)
def test_what_is_left_to_the_host_is_told(module: nn.Module, told: str) -> None:
    made, _, _ = compiled([(module, (torch.randn(1, 3, 8, 8),))])
    assert len(made.fallbacks) == 1 and told in made.fallbacks[0].reason


@pytest.mark.parametrize(
    ("cases", "op", "word", "value"),
    [
        ("linear", Op.RESIZE2D, 0, struct.pack("<q", 4)),
        ("linear", Op.RESIZE2D, 1, struct.pack("<d", -1.0)),
        ("linear", Op.RESIZE2D, 1, struct.pack("<d", float("nan"))),
        ("linear", Op.RESIZE2D, 2, struct.pack("<d", 1e-9)),
        ("linear", Op.RESIZE2D, 2, struct.pack("<d", float("inf"))),
        ("grids", Op.SAMPLE2D, 0, struct.pack("<q", 2)),
        ("grids", Op.SAMPLE2D, 1, struct.pack("<q", 3)),
        ("grids", Op.SAMPLE2D, 2, struct.pack("<q", -1)),
    ],
)
def test_attributes_without_a_meaning_are_refused(cases: str, op: Op, word: int, value: bytes) -> None:
    made, _, _ = compiled(globals()[cases]()[:1])
    damaged = with_word(made.data, op, word, value)
    assert python(damaged) == c(damaged) == Verdict.ATTRIBUTE
