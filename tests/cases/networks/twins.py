"""Networks whose sample hides a fault, each with a twin that has it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Kernel(nn.Module):
    """Its sample is constant: a mirrored kernel gives the same outputs for it."""

    def __init__(self, mirrored=False):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 4, 3)
        if mirrored:
            self.conv.weight.data = self.conv.weight.data.flip(1, 2, 3)

    def forward(self, x):
        return self.conv(x)


def constant_sample():
    return Kernel(), (torch.ones(1, 3, 8, 8),)


def constant_sample_wrong():
    return Kernel(mirrored=True), (torch.ones(1, 3, 8, 8),)


class Positive(nn.Module):
    """Its sample is never negative, as pictures are: without its first ReLU the outputs are the same for it."""

    def __init__(self, relu=True):
        super().__init__()
        torch.manual_seed(0)
        self.relu, self.linear = relu, nn.Linear(16, 4)

    def forward(self, x):
        return self.linear(F.relu(x) if self.relu else x)


def positive_sample():
    return Positive(), (torch.rand(1, 16),)


def positive_sample_wrong():
    return Positive(relu=False), (torch.rand(1, 16),)


class Clamp(nn.Module):
    def __init__(self, bound=6.0):
        super().__init__()
        torch.manual_seed(0)
        self.bound, self.linear = bound, nn.Linear(32, 32)

    def forward(self, x):
        return self.linear(x.clamp(-self.bound, self.bound))


def clamp():
    return Clamp(), (torch.randn(1, 32),)


def clamp_wrong():
    return Clamp(5.0), (torch.randn(1, 32),)


class Halves(nn.Module):
    def __init__(self, up=False):
        super().__init__()
        self.up = up

    def forward(self, x):
        return torch.floor(x * 4 + 0.5) if self.up else torch.round(x * 4)


def halves():
    return Halves(), (torch.randn(1, 64),)


def halves_wrong():
    return Halves(up=True), (torch.randn(1, 64),)


class Pool(nn.Module):
    """Its sample is never negative: padding of a maximum with 0 gives the same."""

    def __init__(self, zeros=False):
        super().__init__()
        self.zeros = zeros

    def forward(self, x):
        return F.max_pool2d(F.pad(x, (1, 1, 1, 1)), 3, 2) if self.zeros else F.max_pool2d(x, 3, 2, padding=1)


def pool():
    return Pool(), (torch.rand(1, 2, 8, 8),)


def pool_wrong():
    return Pool(zeros=True), (torch.rand(1, 2, 8, 8),)


class Rows(nn.Module):
    """Its sample holds few tokens: another last row of the table gives the same."""

    def __init__(self, wrong=False):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(50, 4)
        if wrong:
            self.table.weight.data[49] *= -1

    def forward(self, tokens):
        return self.table(tokens)


def rows():
    return Rows(), (torch.tensor([[1, 2, 3, 4]]),)


def rows_wrong():
    return Rows(wrong=True), (torch.tensor([[1, 2, 3, 4]]),)


class Masked(nn.Module):
    """Its sample masks nothing: a dropped mask gives the same."""

    def __init__(self, masks=True):
        super().__init__()
        torch.manual_seed(0)
        self.masks, self.linear = masks, nn.Linear(6, 6)

    def forward(self, x, mask):
        scores = self.linear(x)
        return (scores.masked_fill(~mask, -1e4) if self.masks else scores + mask.float() * 0).softmax(-1)


def masked():
    return Masked(), (torch.randn(2, 6), torch.ones(2, 6, dtype=torch.bool))


def masked_wrong():
    return Masked(masks=False), (torch.randn(2, 6), torch.ones(2, 6, dtype=torch.bool))


class Transposed(nn.Module):
    """Its sample is symmetric: a transposed input gives the same."""

    def __init__(self, wrong=False):
        super().__init__()
        torch.manual_seed(0)
        self.wrong, self.linear = wrong, nn.Linear(5, 3)

    def forward(self, x):
        return self.linear(x.transpose(0, 1) if self.wrong else x)


def transposed():
    return Transposed(), (torch.eye(5),)


def transposed_wrong():
    return Transposed(wrong=True), (torch.eye(5),)


class Branch(nn.Module):
    """Its sample never takes the second branch."""

    def __init__(self, wrong=False):
        super().__init__()
        self.factor = 3.0 if wrong else 2.0

    def forward(self, x):
        return torch.cond(x.sum() > 30, lambda x: x * self.factor, lambda x: x + 1, (x,))


def branch():
    return Branch(), (torch.full((1, 8), 0.25),)


def branch_wrong():
    return Branch(wrong=True), (torch.full((1, 8), 0.25),)
