"""Pools of rows, images and volumes, rounded up or shared out: as eager has them."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn
from torch.export import Dim

import atalla
from tests.atalla.agreement import Case, agree, compiled
from tests.atalla.nets import Call


def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    image = torch.randn(2, 6, 11, 13)
    image[0, 0, 3, 4], image[1, 2, 10, 12] = float("nan"), float("-inf")
    return torch.randn(2, 6, 20), image, torch.randn(2, 4, 6, 7, 8)


def largest() -> list[Case]:
    row, image, volume = inputs()
    options = [
        *((2,), (3, 2, 1), (3, 2, 1, 2)),
        *({"kernel_size": 3, "stride": 2, "ceil_mode": True}, {"kernel_size": 2, "stride": 3, "ceil_mode": True}),
    ]
    found: list[Case] = []
    for one, (kind, x) in itertools.product(
        options, ((nn.MaxPool1d, row), (nn.MaxPool2d, image), (nn.MaxPool3d, volume))
    ):
        found.append((kind(**one) if isinstance(one, dict) else kind(*one), (x,)))
    return [
        *found,
        (nn.MaxPool3d((1, 3, 2), (1, 2, 1)), (volume.to(memory_format=torch.channels_last_3d),)),
        (nn.MaxPool3d((3, 1, 1), 1, (1, 0, 0)), (volume[0],)),
        (nn.MaxPool1d(4), (row[0],)),
        (nn.MaxPool2d((1, 40), padding=(0, 20)), (image,)),
    ]


def means() -> list[Case]:
    row, image, volume = inputs()
    found: list[Case] = []
    for counts, ceil, divisor in itertools.product((False, True), (False, True), (None, 5)):
        rest = {"count_include_pad": counts, "ceil_mode": ceil}
        found.append((nn.AvgPool2d(3, 2, 1, divisor_override=divisor, **rest), (image[1:, :2],)))
        found.append((nn.AvgPool2d((2, 4), (3, 2), (1, 2), divisor_override=divisor, **rest), (image[1, 3:],)))
        found.append((nn.AvgPool3d((3, 2, 3), 2, (1, 0, 1), divisor_override=divisor, **rest), (volume,)))
        if divisor is None:
            found.append((nn.AvgPool1d(3, 2, 1, **rest), (row,)))
    return found


def shared_out() -> list[Case]:
    row, image, volume = inputs()
    found: list[Case] = []
    for size in (1, 3, 5, 20, 23):
        found += [(nn.AdaptiveMaxPool1d(size), (row,)), (nn.AdaptiveAvgPool1d(size), (row,))]
    for shape in ((1, 1), (3, 4), (11, 1), (7, 7), (None, 5), (22, 26), (12, 13)):
        found += [
            (nn.AdaptiveMaxPool2d(shape), (image,)),
            (nn.AdaptiveAvgPool2d(shape), (image[:, 3:].nan_to_num(neginf=0),)),
        ]
    for deep in ((1, 1, 1), (3, 7, 4), (4, 5, 3), (6, 1, 16)):
        found += [(nn.AdaptiveMaxPool3d(deep), (volume,)), (nn.AdaptiveAvgPool3d(deep), (volume[0],))]
    return found


@pytest.mark.parametrize("name", ["largest", "means", "shared_out"])
def test_pools(name: str) -> None:
    made = agree(globals()[name](), 0 if name == "largest" else 1e-6)
    assert "CALL_HOST" not in {one.op.name for one in made.program.instructions}


def test_the_largest_of_what_is_no_number() -> None:
    """NaN at each place of a window, infinities of both signs beside each other, nothing but the lowest."""
    torch.manual_seed(0)
    kinds = torch.tensor([float("nan"), float("inf"), float("-inf"), *torch.randn(13)])
    mixed = kinds[torch.randint(len(kinds), (1, 20, 24, 24))]
    lowest = torch.full((1, 20, 5, 5), float("-inf"))
    agree([(nn.MaxPool2d(*size), (x,)) for size in ((2,), (3, 2, 1), (5, 3)) for x in (mixed, lowest)], 0, bits=True)


def test_windows_that_are_as_long_are_one_pool() -> None:
    """12 of 18 places: every second window, so two pools and not 12."""
    made, _, _ = compiled([(nn.AdaptiveMaxPool1d(12), (torch.randn(1, 3, 18),))])
    assert [one.op.name for one in made.program.instructions].count("POOL2D") == 2


def test_a_mean_of_dynamic_size() -> None:
    net = Call(lambda _, x: nn.functional.adaptive_max_pool2d(x, 1) + nn.functional.adaptive_avg_pool2d(x, 1))
    sizes = {2: Dim("high", min=2, max=20), 3: Dim("wide", min=2, max=20)}
    made = atalla.compile(torch.export.export(net, (torch.randn(2, 3, 5, 6),), dynamic_shapes=((sizes,),)))
    assert not made.fallbacks
    x = torch.randn(2, 3, 17, 2)
    torch.testing.assert_close(atalla.load(made.data).run((x,))[0], net(x))


@pytest.mark.parametrize(
    ("module", "told"),
    [
        (nn.MaxPool2d(2, return_indices=True), "Only the largest elements of a pool's windows must be used"),
        (nn.AdaptiveMaxPool2d(2, return_indices=True), "Only the largest elements of a pool's windows must be used"),
        (nn.FractionalMaxPool2d(2, 3), "fractional max pooling"),
    ],
)
def test_what_is_left_to_the_host_is_told(module: nn.Module, told: str) -> None:
    made = atalla.compile(torch.export.export(module, (torch.randn(1, 3, 8, 8),)))
    assert any(told in one.reason for one in made.fallbacks)
