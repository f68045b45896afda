"""Networks of state, shapes, operators and roundings that were refused or judged wrongly."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Cache(nn.Module):
    """A key-value cache in buffers, written by position."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.register_buffer("keys", torch.zeros(1, 6, 8))
        self.register_buffer("values", torch.zeros(1, 6, 8))

    def forward(self, x, position):
        self.keys.index_copy_(1, position, self.k(x))
        self.values.index_copy_(1, position, self.v(x))
        seen = torch.arange(6)[None, :] <= position[:, None]
        scores = (self.q(x) @ self.keys.transpose(1, 2)).masked_fill(~seen, -1e9)
        return scores.softmax(-1) @ self.values


def cache():
    return Cache(), (torch.randn(1, 1, 8), torch.tensor([0]))


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        self.calls += 1
        return self.linear(x) + self.calls


def counter():
    return Counter(), (torch.randn(2, 4),)


def counter_from_five():
    module = Counter()
    module.calls += 5
    return module, (torch.randn(2, 4),)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        y = self.linear(x)
        return y, y


def twice():
    return Twice(), (torch.randn(2, 4),)


def resampled():
    return nn.Sequential(
        nn.Conv2d(3, 12, 3, padding=1), nn.PixelShuffle(2), nn.Upsample(scale_factor=1.5, mode="bilinear")
    ), (torch.randn(1, 3, 9, 7),)


def weight_norm():
    return nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 8, 3, dilation=2, padding=2)),
        nn.PReLU(8),
        nn.GroupNorm(2, 8),
    ), (torch.randn(1, 4, 33),)


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(20, 5, mode="mean")

    def forward(self, tokens, offsets):
        return self.bag(tokens, offsets)


def bag():
    return Bag(), (torch.randint(0, 20, (9,)), torch.tensor([0, 4, 6]))


class OneMoves(nn.Module):
    """Its second output is 0 whatever comes in: nothing is proved of that one."""

    def forward(self, x):
        return x * 2, F.relu(-x.abs())


def one_moves():
    return OneMoves(), (torch.randn(2, 5),)


class Cancels(nn.Module):
    """A right program whose rounding is inside of it."""

    def forward(self, x):
        return (x + 1e4) - 1e4


def cancels():
    return Cancels(), (torch.randn(2, 64),)


class Offset(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)

    def forward(self, x):
        return self.norm(x * 1e-2 + 300)


def offset():
    return Offset(), (torch.randn(2, 64),)


class NamedInput(nn.Module):
    """An argument named as one of Python's builtins, and a dict for an answer: torchvision's LR-ASPP has both."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, input):  # noqa: A002
        return {"out": self.linear(input)}


def named_input():
    return NamedInput(), (torch.randn(2, 4),)


class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(4, 5, batch_first=True)

    def forward(self, x):
        return self.gru(x)[0]


def gru():
    return Gru(), (torch.randn(1, 3, 4),)


class Diff(nn.Module):
    def forward(self, x):
        return torch.diff(x)


def diff():
    return Diff(), (torch.randn(2, 5),)
