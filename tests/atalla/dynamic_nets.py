"""Small networks with dynamic shapes: (module, inputs of the example, dynamic shapes, shapes of other inputs)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.export import Dim

from tests.atalla.nets import Call, settled

Net = tuple[nn.Module, tuple[torch.Tensor, ...], Any, list[tuple[tuple[int, ...], ...]]]
MOST_BATCH, MOST_LENGTH = 8, 64


def _batch() -> Dim:
    return Dim("batch", min=1, max=MOST_BATCH)


def _length() -> Dim:
    return Dim("length", min=1, max=MOST_LENGTH)


def mlp() -> Net:
    net = nn.Sequential(nn.Linear(7, 19), nn.GELU(), nn.Linear(19, 5), nn.Softmax(-1))
    return net, (torch.randn(3, 7),), ({0: _batch()},), [((1, 7),), ((MOST_BATCH, 7),)]


def cnn() -> Net:
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
    )  # fmt: skip
    return settled(net), (torch.randn(2, 3, 15, 17),), ({0: _batch()},), [((1, 3, 15, 17),), ((8, 3, 15, 17),)]


def image_sizes() -> Net:
    """Height and width, too, which convolutions divide and round down."""
    net = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3, padding=1))
    sizes = {0: _batch(), 2: Dim("high", min=9, max=40), 3: Dim("wide", min=9, max=40)}
    return net, (torch.randn(2, 3, 15, 18),), (sizes,), [((1, 3, 9, 40),), ((3, 3, 40, 11),)]


def encoder() -> Net:
    layer = nn.TransformerEncoderLayer(24, 3, 40, dropout=0.0, batch_first=True, norm_first=True)
    net = nn.Sequential(nn.Embedding(50, 24), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False))
    return (
        net, (torch.randint(0, 50, (2, 9)),), ({0: _batch(), 1: _length()},),
        [((1, 2),), ((MOST_BATCH, MOST_LENGTH),), ((3, 1),)],
    )  # fmt: skip


def causal() -> Net:
    def forward(m: Call, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        ids = torch.arange(x.shape[1])
        mask = (ids[:, None] >= ids[None, :])[None, None] & keep[:, None, None, :]
        heads = m.a(x).view(x.shape[0], x.shape[1], 2, 4).transpose(1, 2)
        mixed = nn.functional.scaled_dot_product_attention(heads, heads, heads, attn_mask=mask)
        return mixed.transpose(1, 2).reshape(x.shape[0], -1, 8)

    sizes = {0: _batch(), 1: _length()}
    return (
        Call(forward, a=nn.Linear(8, 8)), (torch.randn(2, 7, 8), torch.ones(2, 7, dtype=torch.bool)),
        ((sizes, {0: sizes[0], 1: sizes[1]}),), [((1, 1, 8), (1, 1)), ((8, 64, 8), (8, 64))],
    )  # fmt: skip


def numbers() -> Net:
    """Sizes as numbers, as outputs, and as arguments of operators; an input whose size is twice a symbol."""

    def forward(_: Call, x: torch.Tensor, y: torch.Tensor) -> tuple[Any, ...]:
        halves = x.reshape(x.shape[0], 2, -1).sum(-1)
        return (
            halves / x.shape[1] + y[:, :2] * x.size(0), x.shape[0], x.shape[1] // 2, x.flip(1),
            torch.full((x.shape[0],), x.shape[0]), torch.arange(x.shape[0]), torch.cat([x, x], 1).mean(1),
        )  # fmt: skip

    batch, half = _batch(), Dim("half", min=2, max=MOST_LENGTH)
    return (
        Call(forward), (torch.randn(3, 8), torch.randn(3, 4)), (({0: batch, 1: 2 * half}, {0: batch}),),
        [((1, 4), (1, 4)), ((8, 128), (8, 4))],
    )  # fmt: skip


def like(example: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Give another input of that shape."""
    if example.dtype is torch.int64:
        return torch.randint(0, 50, tuple(shape))
    return torch.randn(tuple(shape)) if example.dtype.is_floating_point else torch.ones(tuple(shape), dtype=torch.bool)


DYNAMIC = {one.__name__: one for one in (mlp, cnn, image_sizes, encoder, causal, numbers)}
