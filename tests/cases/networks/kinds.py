"""Networks of which layouts and element types of inputs are the matter."""

from __future__ import annotations

import torch
from torch import nn


def channels_last():
    last = torch.channels_last
    return nn.Conv2d(3, 8, 3).to(memory_format=last), (torch.randn(1, 3, 9, 9).to(memory_format=last),)


def bfloat16():
    return nn.Sequential(nn.Linear(8, 8), nn.GELU()).bfloat16(), (torch.randn(2, 8).bfloat16(),)


class LastInside(nn.Module):
    """It lays its input out channels last itself, and returns what lies so."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)

    def forward(self, x):
        y = self.conv(x.to(memory_format=torch.channels_last))
        return y, y.mean((2, 3))


def last_inside():
    return LastInside(), (torch.randn(1, 3, 9, 9),)


def strided():
    return nn.Linear(4, 3), (torch.randn(4, 2).t(),)


def float16():
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU()).half(), (torch.randn(2, 8).half(),)


class Widened(nn.Module):
    """Its input is narrow, its arithmetic is float32."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x):
        return self.linear(x.float())


def float16_input():
    return Widened(), (torch.randn(2, 8).half(),)


def bfloat16_input():
    return Widened(), (torch.randn(2, 8).bfloat16(),)


class Picture(nn.Module):
    """Bytes in, scores out: colours become numbers inside of the model."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=2)

    def forward(self, pixels):
        x = (pixels.permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.25
        return self.conv(x).relu().mean((2, 3))


def picture():
    return Picture(), (torch.randint(0, 256, (1, 8, 8, 3), dtype=torch.uint8),)


class Steps(nn.Module):
    """Whole numbers of 8 bits with a scale, as a quantised stage before it gives them."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, steps):
        return self.linear((steps.float() + 3) * 0.05)


def int8_input():
    return Steps(), (torch.randint(-128, 128, (2, 8), dtype=torch.int8),)


class Scaled(nn.Module):
    def forward(self, x, scale):
        return x * scale, x.sum() + scale


def scalar_input():
    return Scaled(), (torch.randn(2, 4), torch.tensor(1.5))


class Past(nn.Module):
    """A cache that is empty at the first step."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, past, x):
        whole = torch.cat([past, x], 1)
        return self.linear(whole), whole


def empty_past():
    return Past(), (torch.zeros(1, 0, 4), torch.randn(1, 2, 4))


def no_rows():
    return nn.Linear(4, 3), (torch.zeros(0, 4),)


class Truths(nn.Module):
    def forward(self, mask, x):
        return torch.where(mask, x, -x), mask.logical_not()


def bool_input():
    return Truths(), (torch.tensor([[True, False, True, True]]), torch.randn(1, 4))
