"""Small networks that were refused or passed wrongly; ``NAME_wrong`` is a twin that must not pass for ``NAME``."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


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
    return Branch(), (torch.rand(1, 8),)


def branch_wrong():
    return Branch(wrong=True), (torch.rand(1, 8),)
