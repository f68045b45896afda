"""Kernels: every kind of tile, at sizes around its own, under every instruction set that this processor has."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import atalla
from atalla.build import AVX512, build
from tests.atalla.native import sets_here
from tests.atalla.nets import NETS
from tests.atalla.test_compile import compiled, same

COLUMNS = (1, 7, 8, 16, 20, 32, 45, 100)
SETS = sorted(sets_here() & {"base", "avx2", "avx512"})
"""Those that this processor has; ``test_compile`` shows that others are refused."""
SHARED = (1 << 40, 1)
"""Work from which on threads share it: never, and always."""


class Products(nn.Module):
    """Products of one matrix by several, with activations and a residual."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(depth, n, bias=n % 2 == 0) for n in COLUMNS)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        acts = (nn.functional.relu, nn.functional.hardswish, nn.functional.gelu, nn.functional.silu, torch.tanh)
        made = [layer(x) for layer in self.layers]
        residual = self.layers[-1](x * 2) + made[-1]
        return [act(one) for act, one in zip(acts, made, strict=False)] + made[len(acts) :] + [residual]


class Depthwise(nn.Module):
    """One filter a channel, of several widths, strides and dilations."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        sizes = [(3, 1, 1), (3, 2, 1), (5, 1, 1), (5, 2, 1), (3, 1, 2), (4, 3, 1), (5, 1, 3), (3, 2, 2)]
        self.layers = nn.ModuleList(
            nn.Conv2d(channels, channels, k, stride=s, dilation=d, padding=k // 2 * d, groups=channels)
            for k, s, d in sizes
        )

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        acts = (nn.functional.relu6, nn.functional.hardswish, nn.functional.silu)
        made = [acts[i % 3](layer(x)) for i, layer in enumerate(self.layers)]
        return [*made, self.layers[0](x) + x]


class Grouped(nn.Module):
    """Groups of few channels, alike in and out: several of them, or parts, fill a vector."""

    def __init__(self, channels: int, depth: int) -> None:
        super().__init__()
        sizes = [(3, 1), (3, 2), (5, 1), (5, 2), ((1, 3), (3, 1)), (7, 1)]
        self.layers = nn.ModuleList(
            nn.Conv2d(channels, channels, k, s, (k if isinstance(k, int) else 1) // 2, groups=channels // depth)
            for k, s in sizes
        )

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        acts = (nn.functional.relu6, nn.functional.hardswish, nn.functional.silu, nn.functional.relu)
        made = [acts[i % 4](layer(x)) for i, layer in enumerate(self.layers)]
        return [*made, self.layers[0](x) + x]


class Stem(nn.Module):
    """Convolutions of few channels, which read the image as it lies."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        sizes = [(3, 2, 1), (7, 2, 1), (3, 1, 1), (1, 1, 1), (3, 3, 2), (4, 1, 3)]
        self.layers = nn.ModuleList(
            nn.Conv2d(channels, 18, k, stride=s, dilation=d, padding=k // 2) for k, s, d in sizes
        )

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        made = [nn.functional.hardswish(layer(x)) for layer in self.layers]
        return [*made, self.layers[2](x) + made[2]]


class Picture(nn.Module):
    """Filters that step by two columns over three channels, to few channels; at every edge, and beside it."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [(16, 3, 2, 1, 1), (9, 1, 1, 1, 0), (16, 7, 3, 1, (3, 2)), (16, 5, 2, 2, (0, 1)), (8, 9, 2, 1, (4, 1))]
        self.layers = nn.ModuleList(
            nn.Conv2d(3, columns, (high, 3), (down, 2), pad, (apart, 1), bias=high != 5)
            for columns, high, down, apart, pad in sizes
        )

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        acts = (nn.functional.hardswish, nn.functional.relu6, nn.functional.silu)
        return [acts[i % 3](layer(x)) for i, layer in enumerate(self.layers)]


class Rows(nn.Module):
    """What goes along rows, neighbours in memory or not; long sums are made of halves."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        apart = x.reshape(-1, 4)
        along = [x.sum(1), x.mean(1), x.var(1), x.amax(1), x.softmax(1), x.logsumexp(1)]
        return [*along, apart.sum(0), apart.mean(0), apart.var(0)]


class Pools(nn.Module):
    """The largest of windows whose elements lie apart, at the edges, too."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        sizes = [(3, 1, 1, 2), (3, 2, 1, 2), (5, 1, 2, 2), (2, 1, 1, 3), (3, 1, 0, 3), (3, 2, 1, 1)]
        return [nn.functional.max_pool2d(x, k, s, p, d) for k, s, p, d in sizes]


class Twice(nn.Module):
    """A product takes one activation; a second one, and what is added behind one, stay by themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(20, 20) for _ in range(3))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        one, two, three = self.first(x).relu(), self.second(x).relu(), self.third(x)
        return [one.tanh(), two + x, nn.functional.relu6(nn.functional.hardswish(three))]


class Turned(nn.Module):
    """Copies: neighbours that become neighbours along another dim, and elements that are repeated."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        turned = [x.permute(0, 2, 3, 1), x.permute(3, 2, 1, 0), x.transpose(1, 2), x[:, 1:, :, 2:].permute(1, 3, 0, 2)]
        again = [x.repeat_interleave(2, 3), x.repeat_interleave(3, 1).permute(0, 2, 3, 1), x[..., :1].expand_as(x)]
        return [one.contiguous() for one in (*turned, *again)]


class Chains(nn.Module):
    """Chains over rows: dense, in steps, the same in all, one number each; whole numbers, masks, many steps."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        last, first, column = x[0, 0, 0], x[..., :1], x[:, :1, :1]
        turned, even, mask = x.transpose(1, 2), x[:, :, ::2], x > 0
        long = x
        for i in range(1, 12):
            long = (long * 0.5 + i).abs() - x
        places = torch.arange(x.shape[-1])
        return [
            torch.relu(x * last + last.flip(0)),
            (x * torch.rsqrt(first * first + 1)) * last,
            (turned * 2 + turned.abs()) * column.transpose(1, 2),
            (even + 1) * even.sigmoid(),
            torch.where(mask, x, first) * torch.where(mask & (x < 1), 0.5, 2.0),
            torch.where(places % 3 == 1, x - 1, x * places),
            long,
        ]


def cases() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    """Give networks and inputs by name."""
    found: dict[str, tuple[nn.Module, torch.Tensor]] = {}
    for rows in (1, 2, 5, 6, 13, 29, 200, 384):
        for depth in (3, 700):
            found[f"product_{rows}x{depth}"] = (Products(depth), torch.randn(rows, depth))
    for channels, wide in ((8, 7), (20, 5), (20, 16), (3, 23)):
        found[f"depthwise_{channels}_{wide}"] = (Depthwise(channels), torch.randn(2, channels, 9, wide))
    for depth, groups, wide in ((4, 8, 7), (4, 5, 16), (8, 3, 23), (8, 13, 9), (2, 16, 8), (8, 4, 5)):
        channels = depth * groups
        found[f"grouped_{groups}x{depth}_{wide}"] = (Grouped(channels, depth), torch.randn(2, channels, 6, wide))
    for channels in (1, 3, 4):
        image = torch.randn(2, channels, 11, 230)
        found[f"stem_{channels}"] = (Stem(channels), image)
        found[f"stem_{channels}_last"] = (Stem(channels), image.to(memory_format=torch.channels_last))
    for wide in (26, 27, 28, 29, 30, 61, 224):
        found[f"picture_{wide}"] = (Picture(), torch.randn(2, 3, 20, wide))
    for length in (8, 256, 260, 1000):
        found[f"rows_{length}"] = (Rows(), torch.randn(3, length))
    found["pools"] = (Pools(), torch.randn(2, 9, 10, 13))
    for shape in ((2, 9, 10, 13), (1, 37, 16, 8), (3, 8, 1, 17), (1, 3, 5, 7)):
        found[f"turned_{'x'.join(map(str, shape))}"] = (Turned(), torch.randn(shape))
    for shape in ((2, 3, 5, 1), (2, 3, 9, 20), (1, 4, 33, 32), (2, 2, 7, 96), (1, 3, 6, 300), (1, 1, 3, 1100)):
        found[f"chains_{'x'.join(map(str, shape))}"] = (Chains(), torch.randn(shape))
    found["twice"] = (Twice(), torch.randn(6, 20))
    return found


def made(name: str) -> tuple[bytes, torch.Tensor, list[torch.Tensor]]:
    """Give a blob, its input, and what float64 gives."""
    torch.manual_seed(0)
    module, x = cases()[name]
    with torch.no_grad():
        wanted = [one.float() for one in module.double()(x.double())]
    program = torch.export.export(module.float().eval(), (x,))
    return atalla.compile(program).data, x, wanted


@pytest.mark.parametrize("name", cases())
def test_every_tile_gives_what_float64_gives(name: str) -> None:
    blob, x, wanted = made(name)
    for isa in SETS:
        for threads in (1, 2):
            same(atalla.load(blob, isa=isa, threads=threads).run((x,)), wanted, 1e-5)


@pytest.mark.parametrize("columns", [8, 23, 24, 40])
@pytest.mark.parametrize("channels", [3, 6, 40])
def test_channels_have_the_same_bits_beside_others(channels: int, columns: int) -> None:
    """Where half a vector of columns is left, rows share vectors; beside columns that fill it they do not."""
    torch.manual_seed(0)
    wide = nn.Conv2d(channels, 48, 3, stride=(2, 1))
    some = nn.Conv2d(channels, columns, 3, stride=(2, 1))
    some.load_state_dict({name: data[:columns] for name, data in wide.state_dict().items()})
    x = torch.randn(1, channels, 9, 13)
    one, other = (atalla.compile(torch.export.export(module.eval(), (x,))).data for module in (some, wide))
    for isa in SETS:
        (wanted,) = atalla.load(other, isa=isa).run((x,))
        for threads in (1, 2):
            (found,) = atalla.load(one, isa=isa, threads=threads).run((x,))
            assert torch.equal(found, wanted[:, :columns]), (isa, threads)


@pytest.mark.parametrize("name", [name for name in cases() if name.startswith("picture")])
def test_a_picture_has_the_same_bits_however_it_lies(name: str) -> None:
    """Whose channels are innermost is laid out anew; threads begin at rows of their own."""
    torch.manual_seed(0)
    module, x = cases()[name]
    last = x.to(memory_format=torch.channels_last)
    one, other = (atalla.compile(torch.export.export(module.eval(), (image,))).data for image in (x, last))
    for isa in SETS:
        wanted = atalla.load(other, isa=isa).run((last,))
        for threads in (1, 2, 3):
            found = atalla.load(one, isa=isa, threads=threads).run((x,))
            assert all(map(torch.equal, found, wanted)), (isa, threads)


class ByRow(nn.Module):
    """A matrix by a row, which comes first or last, or by another matrix, or alone."""

    def forward(self, x: torch.Tensor, row: torch.Tensor, other: torch.Tensor) -> list[torch.Tensor]:
        return [x * row, row - x, other - x, x.abs(), (x * row).relu() + other]


@pytest.mark.parametrize("length", [1, 3, 8, 16, 24, 40, 63, 72, 120, 129, 200, 256, 500, 512, 513])
def test_rows_that_are_put_together_give_what_each_gives(length: int) -> None:
    """A multiple of what is put together and not, of rows that are whole vectors and not, and pieces of threads."""
    torch.manual_seed(0)
    rows = torch.export.Dim("count", min=1, max=2000)
    given, shapes = (
        (torch.randn(9, length), torch.randn(length), torch.randn(9, length)),
        ({0: rows}, None, {0: rows}),
    )
    blob = atalla.compile(torch.export.export(ByRow(), given, dynamic_shapes=shapes)).data
    for count, threads in ((1, 1), (2, 1), (7, 1), (33, 1), (50, 2), (1999, 3)):
        given = torch.randn(count, length), torch.randn(length), torch.randn(count, length)
        for isa in SETS:
            found = atalla.load(blob, isa=isa, threads=threads).run(given)
            assert all(map(torch.equal, found, ByRow()(*given))), (isa, count, threads)


@pytest.mark.parametrize("isa", SETS)
def test_bits_depend_neither_on_the_tiles_nor_on_the_threads(isa: str) -> None:
    """Each number of rows is cut into other tiles, each number of threads into other chunks."""
    torch.manual_seed(0)
    module, x = Products(700).eval(), torch.randn(300, 700)
    rows = torch.export.Dim("rows", min=1, max=300)
    blob = atalla.compile(torch.export.export(module, (x,), dynamic_shapes=({0: rows},))).data
    alone = atalla.load(blob, isa=isa)
    whole = alone.run((x,))
    for threads, counts in ((1, range(1, 40)), (2, (1, 7, 29, 150, 300)), (3, (2, 13, 257))):
        loaded = alone if threads == 1 else atalla.load(blob, isa=isa, threads=threads)
        for count in counts:
            found = loaded.run((x[:count],))
            assert all(torch.equal(one, every[:count]) for one, every in zip(found, whole, strict=True)), count


@pytest.mark.slow
@pytest.mark.timeout(1500)  # two builds with all kernels, beside other tests
def test_the_template_for_avx512_is_right_whatever_this_processor_has_and_its_tiles_give_the_same_bits(
    tmp_path: Path,
) -> None:
    """The same C with vectors of 16 floats, made of two of 8 where the processor has none; in a process of its own.

    Which of tiles of two and of three vectors a processor takes, by its maker, was measured; so was whether it asks for
    one row's weights, and what threads share: here nothing, and all.
    """
    if "avx2" not in sets_here():
        return
    made_of_two = ("-mavx2", "-mfma", "-Og")  # 20 s; a minute and a half with -O1
    template = (*AVX512, "-O1") if "avx512" in sets_here() else made_of_two
    sets = {"kernels_base": ("-O1",), "kernels_avx512": template}
    networks = tmp_path / "networks.pt"
    blobs = {name: (built.data, inputs, wanted) for name in NETS for built, inputs, wanted in [compiled(name)]}
    torch.save(blobs | {name: (blob, (x,), wanted) for name in cases() for blob, x, wanted in [made(name)]}, networks)
    code, digests = f"from tests.atalla.test_kernels import agree; print(agree({str(networks)!r}))", []
    for by_threes in (0, 1):
        path = tmp_path / f"{by_threes}.so"
        flags = ["-DATALLA_ALL_SETS", f"-DATALLA_BY_THREES={by_threes}", f"-DATALLA_ASKS_AHEAD={by_threes}"]
        flags += [f"-DATALLA_WORTH_SHARING={SHARED[by_threes]}", "-Wno-psabi"]
        build(path, flags, sets)
        environment = {**os.environ, "ATALLA_LIBRARY": str(path)}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
        digests.append(done.stdout.strip().splitlines()[-1])
    assert digests[0] == digests[1]


def agree(networks: str) -> str:
    """Compare networks under the instruction set that this processor may lack; return a digest of what products and
    convolutions give.
    """
    found = hashlib.sha256()
    for name, (blob, inputs, wanted) in torch.load(networks).items():
        for threads in (1, 2):
            outputs = atalla.load(blob, isa="avx512", threads=threads).run(inputs)
            same(outputs, wanted, 2e-5 if name in NETS else 1e-5)
            if name.startswith(("product", "stem", "picture")):
                for one in outputs:
                    found.update(one.contiguous().numpy().tobytes())
    return found.hexdigest()
