"""Convolutions of all kinds: transposed, of volumes, with several filters a channel; and what is fused behind them."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

import atalla
from atalla.isa import Act
from tests.atalla.agreement import Case, agree, compiled
from tests.atalla.nets import Call


def transposed() -> list[Case]:
    """Strides, padding, output_padding, groups and dilation; filters smaller than the stride, and of few channels."""
    image, row, volume = torch.randn(2, 6, 5, 7), torch.randn(2, 6, 9), torch.randn(2, 4, 3, 4, 2)
    return [
        (nn.ConvTranspose2d(6, 5, 2, 2), (image,)),
        (nn.ConvTranspose2d(6, 5, 3, 2, 1, 1, bias=False), (image,)),
        (nn.ConvTranspose2d(6, 20, 4, 2, 1), (image.to(memory_format=torch.channels_last),)),
        (nn.ConvTranspose2d(6, 4, 3, (3, 2), (2, 1), (1, 0), groups=2, dilation=2), (image,)),
        (nn.ConvTranspose2d(6, 6, 5, 3, 2, groups=6), (image,)),
        (nn.ConvTranspose2d(6, 3, 2, 5), (image,)),  # places that no tap reaches
        (nn.ConvTranspose2d(6, 3, (1, 2), 4, bias=False), (image,)),
        (nn.ConvTranspose2d(6, 3, 7, 1, 6), (torch.randn(1, 6, 8, 9),)),
        (nn.ConvTranspose2d(2, 3, 5, 2, 4, 1), (torch.randn(3, 2, 4, 4),)),  # more padding than a part begins with
        (nn.ConvTranspose2d(32, 33, 6, 2, 2), (torch.randn(1, 32, 9, 10),)),  # by Winograd's
        (nn.ConvTranspose2d(6, 5, 3, 2), (torch.randn(6, 1, 1),)),
        (nn.ConvTranspose1d(6, 4, 4, 2, 1), (row,)),
        (nn.ConvTranspose1d(6, 6, 16, 8, 4, groups=3), (row,)),
        (nn.ConvTranspose3d(4, 5, 2, 2), (volume,)),
        (nn.ConvTranspose3d(4, 6, 3, (2, 1, 3), 1, (1, 0, 2), groups=2), (volume,)),
        (nn.ConvTranspose3d(4, 2, 3, 2, 1, 1, dilation=2), (volume[:1],)),
    ]


def volumes() -> list[Case]:
    x = torch.randn(2, 4, 5, 6, 7)
    return [
        (nn.Conv3d(4, 5, 3, padding=1), (x,)),
        (nn.Conv3d(4, 5, (1, 3, 3), (1, 2, 2), (0, 1, 1), bias=False), (x.to(memory_format=torch.channels_last_3d),)),
        (nn.Conv3d(4, 8, 3, 2, 2, dilation=2, groups=2), (x,)),
        (nn.Conv3d(4, 4, 3, padding="same", groups=4), (x,)),
        (nn.Conv3d(4, 3, (5, 1, 2)), (x[0],)),
        (nn.Conv3d(1, 3, 2, 3, 1), (torch.randn(1, 1, 7, 4, 4),)),
        (nn.Conv3d(4, 4, 1), (torch.randn(6, 4, 2, 1, 3),)),
        (nn.Conv3d(2, 3, (2, 1, 1), padding=(3, 0, 0)), (torch.randn(1, 2, 1, 2, 2),)),
    ]


def multiplied() -> list[Case]:
    """Several filters for each channel, in every layout."""
    x = torch.randn(2, 19, 7, 9)
    return [
        (nn.Conv2d(19, 38, 3, padding=1, groups=19), (x,)),
        (nn.Conv2d(19, 57, 5, 2, 2, groups=19, bias=False), (x.to(memory_format=torch.channels_last),)),
        (nn.Sequential(nn.Conv2d(2, 8, 3, groups=2), nn.ReLU()), (x[:, 3:5],)),
        (nn.Conv1d(6, 12, 3, groups=6), (torch.randn(2, 6, 8),)),
    ]


def test_several_filters_a_channel_are_one_for_each_of_more_channels() -> None:
    torch.manual_seed(0)
    made = agree(multiplied())
    assert [one.op.name for one in made.program.instructions if "CONV" in one.op.name] == ["DWCONV2D"] * 4


def test_transposed_convolutions_are_convolutions_of_parts() -> None:
    torch.manual_seed(0)
    made = agree(transposed())
    assert {one.op.name for one in made.program.instructions} == {"CONV2D", "DWCONV2D", "FILL", "COPY", "CONV2D_WINO"}


def test_volumes_are_images_of_more_channels() -> None:
    torch.manual_seed(0)
    agree(volumes())


def settled(channels: int, dims: int) -> nn.Module:
    norm = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)[dims - 1](channels)
    for tensor in (norm.running_var, norm.weight):
        nn.init.uniform_(tensor, 0.5, 1.5)
    for tensor in (norm.running_mean, norm.bias):
        nn.init.uniform_(tensor, -0.5, 0.5)
    return norm


@pytest.mark.parametrize("batch", [2, 3])
def test_lines_of_one_row_that_are_strided_are_found_again_for_each_image(batch: int) -> None:
    """A dim of one row has no step of its own: the next image begins where it begins, not a step further."""
    line = torch.empty_strided((batch, 1, 2, 8), (64, 64, 8, 1)).normal_()
    agree(
        [
            (nn.Conv1d(5, 1, 1, 2), (torch.randn(batch, 5, 3),)),
            (nn.Conv1d(8, 24, 1, 2), (torch.randn(batch, 8, 9),)),
            (nn.Conv2d(8, 5, 1, (1, 2)), (torch.randn(batch, 8, 1, 7).to(memory_format=torch.channels_last),)),
            (nn.ConvTranspose1d(5, 1, 1, 2), (torch.randn(batch, 5, 1),)),
            (nn.Linear(8, 3), (line,)),
        ]
    )


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.ConvTranspose2d(4, 6, 2, 2), (2, 4, 3, 5)),
        (nn.ConvTranspose1d(4, 6, 4, 2, 1), (2, 4, 5)),
        (nn.Conv3d(4, 6, 3, padding=1), (1, 4, 3, 4, 5)),
        (nn.Conv1d(4, 6, 3), (2, 4, 9)),
    ],
)
def test_what_follows_each_part_is_made_where_the_part_is(layer: nn.Module, shape: tuple[int, ...]) -> None:
    """A batch norm, a residual and an activation, which one product alone takes in: no EW is left."""
    torch.manual_seed(0)
    norm = settled(6, len(shape) - 2)
    net = Call(lambda m, x, y: torch.relu(m.norm(m.layer(x)) + m.side(y)), layer=layer, norm=norm, side=norm)
    x = torch.randn(shape)
    y = torch.randn_like(layer(x))
    plain = Call(lambda m, x: torch.relu(m.norm(m.layer(x))), layer=layer, norm=norm)
    made = agree([(plain.eval(), (x,))])
    ops = [one.op.name for one in made.program.instructions]
    assert "EW" not in ops, ops
    products = [one for one in made.program.instructions if one.op.name in {"CONV2D", "DWCONV2D"}]
    assert products and all(one.whole("act") == Act.RELU for one in products)
    agree([(net.eval(), (x, y))])


def test_a_place_that_no_tap_reaches_is_activated_too() -> None:
    torch.manual_seed(0)
    agree(
        [
            (
                nn.Sequential(nn.ConvTranspose2d(3, 5, 2, 4), settled(5, 2), nn.Sigmoid()).eval(),
                (torch.randn(2, 3, 4, 4),),
            )
        ]
    )


def test_dynamic_sizes() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.ConvTranspose2d(8, 4, 3, 2, 1, 1), nn.ReLU()).eval()
    sizes = {0: Dim("batch", min=1, max=4), 2: 2 * Dim("high", min=2, max=20), 3: 2 * Dim("wide", min=2, max=20)}
    program = torch.export.export(net, (torch.randn(2, 3, 8, 12),), dynamic_shapes=(sizes,))
    made = atalla.compile(program)
    assert not made.fallbacks
    for isa in (None, "reference"):
        loaded = atalla.load(made.data, isa=isa)
        for shape in ((2, 3, 8, 12), (1, 3, 4, 40), (4, 3, 22, 6)):
            x = torch.randn(shape)
            with torch.no_grad():
                torch.testing.assert_close(loaded.run((x,))[0], net(x), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("net", "inputs", "told"),
    [
        (Call(lambda _, x, w: nn.functional.conv_transpose2d(x, w)), (torch.ones(1, 2, 3, 3), torch.ones(2, 4, 2, 2)),
         "Weight and bias must be known when the program is compiled"),
        (nn.ConvTranspose2d(2, 3, 2).double(), (torch.ones(1, 2, 3, 3).double(),), "Tensors must be float32"),
    ],
)  # fmt: skip
def test_what_is_left_to_the_host_is_told(net: nn.Module, inputs: tuple[torch.Tensor, ...], told: str) -> None:
    made, _, _ = compiled([(net, inputs)])
    assert [one.reason for one in made.fallbacks] == [told]
