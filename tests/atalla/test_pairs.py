"""Pairs: a 1 × 1 convolution and the depthwise one behind it in one pass give the bits that each gives by itself.

Whoever asks for a profile gets each instruction's own time, so nothing runs in one pass there: that is compared with.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import nn

import atalla
from atalla.blob.reader import Listing, parse
from atalla.isa import Op, Space
from tests.atalla.native import sets_here
from tests.atalla.nets import settled


@dataclass(frozen=True)
class Block:
    """A bottleneck: channels in, between and out; the depthwise filter; the image."""

    channels: tuple[int, int, int]
    kernel: int
    stride: int
    image: tuple[int, int, int]  # images, lines, pixels of a line
    dilation: int = 1
    padding: int | None = None
    act: type[nn.Module] = nn.ReLU

    def module(self) -> nn.Sequential:
        """Return it with seeded weights, behind a convolution of its own."""
        torch.manual_seed(0)
        first, wide, last = self.channels
        padding = self.kernel // 2 * self.dilation if self.padding is None else self.padding
        filters = nn.Conv2d(wide, wide, self.kernel, self.stride, padding, self.dilation, groups=wide)
        parts = (nn.Conv2d(first, wide, 1), self.act(), filters, self.act(), nn.Conv2d(wide, last, 1))
        return nn.Sequential(nn.Conv2d(3, first, 3, padding=1), nn.Sequential(*parts))


class Kept(nn.Module):
    """A block whose input is read again behind it, so that no output may lie in its place."""

    def __init__(self, block: nn.Sequential) -> None:
        super().__init__()
        self.first, self.rest = block

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what the block makes, and a mean of what it begins with."""
        begin = self.first(x)
        return self.rest(begin), begin.mean((2, 3))


BLOCKS = (
    Block((16, 64, 24), 3, 2, (1, 112, 112)),  # MobileNetV3-Large's first; the output lies where the input does
    Block((24, 72, 24), 3, 1, (1, 56, 56), act=nn.Hardswish),
    Block((24, 72, 40), 5, 2, (1, 57, 55)),
    Block((40, 240, 80), 5, 1, (1, 28, 30), act=nn.ReLU6),
    Block((8, 37, 8), 3, 1, (2, 61, 72)),  # no whole vectors, two images
    Block((16, 64, 16), 3, 2, (3, 50, 56), padding=0),
    Block((16, 48, 16), 3, 1, (1, 64, 64), dilation=3),
    Block((16, 48, 16), 5, 4, (1, 70, 64), padding=7),  # more padding than the filter is wide
    Block((16, 48, 16), 2, 5, (1, 64, 65), padding=0, act=nn.GELU),  # lines that no filter sees
    Block((16, 40, 300), 7, 1, (1, 3, 1100)),  # lines longer than a block, fewer than the filter
    Block((64, 48, 8), 3, 1, (1, 60, 60)),
)


class TwoReaders(Kept):
    """What is between the two has another reader, so it has to be in memory."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the sum of two that read it, and a mean of what both begin with."""
        expand, _, filters, _, last = self.rest
        begin = self.first(x)
        between = expand(begin)
        return last(filters(between).sigmoid() + between), begin.mean((2, 3))


KINDS: dict[str, Callable[[nn.Sequential], nn.Module]] = {"alone": lambda block: block, "kept": Kept}


@functools.cache
def compiled(block: Block, kind: str) -> tuple[bytes, torch.Tensor, list[torch.Tensor]]:
    """Return a blob, an input and what eager makes of it."""
    module = settled({**KINDS, "two readers": TwoReaders}[kind](block.module()))
    count, high, wide = block.image
    x = torch.randn(count, 3, high, wide, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        wanted = module(x)
    made = atalla.compile(torch.export.export(module, (x,)))
    return made.data, x, [wanted] if kind == "alone" else list(wanted)


def cases() -> list[tuple[Block, str]]:
    """Return each block alone and with its input kept, and one that must not be a pair."""
    return [*itertools.product(BLOCKS, KINDS), (BLOCKS[1], "two readers")]


def places(listing: Listing) -> tuple[range, range]:
    """Return the bytes of the arena that the first pair reads, and those that it writes."""
    for conv, dw in itertools.pairwise(listing.instructions):
        if (conv.op, dw.op) == (Op.CONV2D, Op.DWCONV2D):
            roots = [listing.tensors[listing.tensors[number].root] for number in (conv.sources[0], dw.dst)]
            assert all(root.space is Space.ARENA for root in roots)
            read, written = (range(root.place, root.place + root.bytes) for root in roots)
            return read, written
    raise AssertionError("no pair")


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize("isa", sorted(sets_here() - {"vnni"}))
def test_one_pass_gives_the_bits_of_two(isa: str, threads: int) -> None:
    for case in cases():
        data, x, wanted = compiled(*case)
        found = atalla.load(data, isa=isa, threads=threads).run((x,))
        apart = atalla.load(data, isa=isa, threads=threads, profile=True).run((x,))
        for one, other, right in zip(found, apart, wanted, strict=True):
            assert torch.equal(one, other), case
            torch.testing.assert_close(one, right, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("kind", "meets"), [("alone", {True, False}), ("kept", {False})])
def test_outputs_lie_in_the_place_of_the_input_or_not(kind: str, meets: set[bool]) -> None:
    """Where they do, lines are written where others were read before: the cases are of both kinds."""
    found = [places(parse(compiled(block, kind)[0])) for block in BLOCKS]
    assert {read.start < written.stop and written.start < read.stop for read, written in found} == meets
