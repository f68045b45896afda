"""What Atalla chooses between, side by side: tiles, what is asked for before it is used, convolutions by Winograd's.

python benchmarks/atalla_choices.py [--rounds 100] [--isa avx512] [--only winograd]

All give the second way's speed over the first's, above 1 the second is faster: the ratio of the processor time of the
fastest quarter of all visits, which other work disturbs least. All of it runs on one processor.
Kernels choose tiles and what they ask for (csrc/kernels/choices.h), which changes no bit; the compiler takes Winograd's
(``WINOGRAD_PAYS`` in passes/pack.py), and does not know the processor. Its weights are 4, 2.8 or 1.8 times as many as
the filter's, so there are as many layers as do not fit into a cache.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from _table import show

PRODUCTS = (
    *((128, 768, 768), (128, 768, 3072), (128, 3072, 768), (1500, 384, 384), (1500, 384, 1536), (1500, 1536, 384)),
    *((3136, 64, 256), (3136, 256, 64), (784, 128, 512), (784, 512, 128), (196, 256, 1024), (196, 1024, 256)),
    *((49, 512, 2048), (49, 2048, 512), (3136, 16, 72), (784, 72, 24), (196, 40, 240), (49, 96, 576), (16, 512, 512)),
)
"""Rows, depth and columns, of BERT, Whisper, ResNet-50 and MobileNetV3."""
CHANNELS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512)
SIZES = {36: (7, 10, 14, 28, 56), 16: (4, 5, 7, 8, 10), 25: (7, 8, 10, 14, 28)}
"""Pixels a side of what a filter of 3 × 3 makes, by places of a tile of Winograd's."""
VISIT_S = 0.003
"""What one visit takes, about."""
CALM = 0.25
"""Share of the visits that count."""
COLD_BYTES, MOST_LAYERS = 16 << 20, 32
"""Weights of Winograd's that one call reads, if that takes no more layers than these."""


class Process:
    """A process that opens one library, and times calls of programs when it is asked to."""

    def __init__(self, library: Path | None, isa: str | None) -> None:
        """Start it; ``library`` is the package's own where it is None, ``isa`` the best that the processor has."""
        environment = {**os.environ, **({"ATALLA_LIBRARY": str(library)} if library else {})}
        command = [sys.executable, __file__, "--serve", *(("--isa", isa) if isa else ())]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def time_ns(self, blob: Path, calls: int) -> float:
        """Return the nanoseconds of processor time of one of so many calls."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([str(blob), calls]) + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()


def serve(isa: str | None) -> None:
    """Answer what :meth:`Process.time_ns` asks until there is nothing more."""
    import torch

    import atalla

    calls: dict[str, Any] = {}
    for line in sys.stdin:
        path, count = json.loads(line)
        if path not in calls:
            loaded = atalla.load(path, threads=1, isa=isa)
            torch.manual_seed(0)
            given = [torch.randn(loaded.listing.tensors[number].shape) for number in loaded.listing.inputs]
            calls[path] = loaded.bind(given)
        call = calls[path]
        call()
        began = time.process_time_ns()
        for _ in range(count):
            call()
        print((time.process_time_ns() - began) / count, flush=True)


def ratio(ways: Sequence[tuple[Process, Path]], rounds: int) -> tuple[float, float]:
    """Return the speed of the second way over the first's, and the first's microseconds."""
    counts = [max(1, round(VISIT_S * 1e9 / process.time_ns(blob, 2))) for process, blob in ways]
    found: list[list[float]] = [[], []]
    for turn in range(rounds):
        for i in (0, 1) if turn % 2 else (1, 0):
            found[i].append(ways[i][0].time_ns(ways[i][1], counts[i]))
    first, second = (statistics.fmean(sorted(one)[: max(1, round(rounds * CALM))]) for one in found)
    return first / second, first / 1e3


def compiled(folder: Path, module: Any, shape: Sequence[int], *, exact: bool) -> Path:
    """Return a compiled file of a module."""
    import torch

    import atalla

    path = folder / f"{len(list(folder.iterdir()))}.atalla"
    program = torch.export.export(module.eval(), (torch.randn(*shape),))
    path.write_bytes(atalla.compile(program, exact=exact).data)
    return path


def products(folder: Path, rounds: int, isa: str | None, choice: str, title: str, ways: tuple[str, str]) -> None:
    """Print the products by libraries with a choice of csrc/kernels/choices.h forced to 0 and to 1."""
    import torch

    from atalla.build import build

    libraries = [folder / f"{choice}_{value}.so" for value in (0, 1)]
    for value, library in enumerate(libraries):
        build(library, [f"-D{choice}={value}"])
    rows = []
    with ExitStack() as stack:
        processes = [stack.enter_context(Process(library, isa)) for library in libraries]
        for height, depth, columns in PRODUCTS:
            torch.manual_seed(0)
            blob = compiled(folder, torch.nn.Linear(depth, columns, bias=False), (height, depth), exact=True)
            faster, first_us = ratio([(process, blob) for process in processes], rounds)
            gflops = 2e-3 * height * depth * columns / first_us
            rows.append((f"{height} × {depth} × {columns}", f"{first_us:.1f}", f"{gflops:.0f}", f"{faster:.2f}"))
    show(title, ("rows × depth × columns", f"{ways[0]} µs", "GFLOP/s", ways[1]), rows)


def tiles(folder: Path, rounds: int, isa: str | None) -> None:
    """Print the products, with AVX-512, by tiles of two and of three vectors."""
    title = "Products: tiles of two vectors, and of three"
    products(folder, rounds, isa, "ATALLA_BY_THREES", title, ("by twos", "by threes"))


def rows(folder: Path, rounds: int, isa: str | None) -> None:
    """Print the products, with AVX2: the rows that a tile writes asked for when it begins, and not."""
    title = "Products: the rows that a tile writes not asked for, and asked for"
    products(folder, rounds, isa, "ATALLA_FETCHES_ROWS", title, ("not asked", "asked for"))


def ahead(folder: Path, rounds: int, isa: str | None) -> None:
    """Print products of one row, with AVX-512, of 16 MiB of weights: asked for ahead, and not."""
    import torch

    from atalla.build import build

    libraries = [folder / f"asks_{asks}.so" for asks in (1, 0)]
    for asks, library in zip((1, 0), libraries, strict=True):
        build(library, [f"-DATALLA_ASKS_AHEAD={asks}"])
    rows = []
    with ExitStack() as stack:
        processes = [stack.enter_context(Process(library, isa)) for library in libraries]
        for side in (576, 960, 1280, 2048):
            torch.manual_seed(0)
            count = -(-COLD_BYTES // (4 * side**2))
            module = torch.nn.Sequential(*(torch.nn.Linear(side, side, bias=False) for _ in range(count)))
            blob = compiled(folder, module, (1, side), exact=True)
            faster, first_us = ratio([(process, blob) for process in processes], rounds)
            rows.append((f"{side} × {side}", f"{4e-3 * count * side**2 / first_us:.0f}", f"{faster:.2f}"))
    show("Products of one row: asked for ahead, and not", ("depth × columns", "asked GB/s", "not asked"), rows)


def winograd(folder: Path, rounds: int, isa: str | None) -> None:
    """Print the convolutions, direct and by Winograd's, for each kind of its tiles."""
    import torch

    from atalla.isa import WINOGRAD_TILES
    from atalla.passes import pack

    class Beside(torch.nn.ModuleList):
        """Layers that read one image."""

        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            return [layer(x) for layer in self]

    def cell(process: Process, channels: int, size: int, stride: int) -> str:
        torch.manual_seed(0)
        count = min(-(-COLD_BYTES // (36 * 4 * channels**2)), MOST_LAYERS)
        module = Beside(torch.nn.Conv2d(channels, channels, 3, stride, 1, bias=False) for _ in range(count))
        shape = (1, channels, size * stride, size * stride)
        blobs = [compiled(folder, module, shape, exact=exact) for exact in (True, False)]
        return f"{ratio([(process, blob) for blob in blobs], rounds)[0]:.2f}"

    with Process(None, isa) as process:
        for places, sizes in SIZES.items():
            side, stride = WINOGRAD_TILES[places]
            pack.WINOGRAD_PAYS, pack.MOST_PRODUCTS = {places: {1: 1}}, 1.0
            rows = [[str(one), *(cell(process, one, size, stride) for size in sizes)] for one in CHANNELS]
            title = f"Convolutions of 3 × 3, stride {stride}: direct, and by Winograd's with tiles of {side} × {side}"
            show(title, ("channels", *(f"{n} × {n}" for n in sizes)), rows)


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100, help="at least 4")
    parser.add_argument("--isa", help="instruction set, of those that the processor has")
    parser.add_argument("--only", choices=("tiles", "rows", "ahead", "winograd"), help="one of the tables")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        serve(asked.isa)
        return 0
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        for table in (tiles, rows, ahead, winograd):
            if asked.only in {None, table.__name__}:
                table(Path(folder), asked.rounds, asked.isa)
    return 0


if __name__ == "__main__":
    sys.exit(main())
