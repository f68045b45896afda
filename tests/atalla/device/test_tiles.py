"""Tiles: instructions in parts give the bits of the whole, in any room, where views lie and from copies of them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

import atalla
from atalla.isa import Op
from atalla.torchvision import make_importable
from tests.atalla import int8_programs
from tests.atalla.device.drivers import DRIVER, FAST, write_program
from tests.atalla.native import OF_NARROW_PRODUCTS, executable, sets_here
from tests.atalla.nets import NETS
from tests.atalla.test_compile import compiled
from tests.atalla.test_sanitizers import ADDRESS, LITTLE

PRODUCTS = {Op.GEMM, Op.CONV2D, Op.CONV2D_WINO, Op.QGEMM, Op.QCONV2D, Op.BGEMM, Op.BCONV2D}
CUT = [op for op in Op if op not in PRODUCTS | {Op.END, Op.CALL_HOST}]
SETS = sorted(sets_here() - OF_NARROW_PRODUCTS)


@dataclass(frozen=True)
class Checked:
    """What a run of the driver counts."""

    calls: int
    """Instructions, or random calls."""
    tiles: int
    """Of all calls in all rooms."""
    bound: int
    """Tiles at least, by the bytes that a call's views have together."""
    refused: int
    """Rooms of one byte less than the least."""
    in_place: int
    """Tiles with a view that stays where it is, because its copy would be added up in another order."""
    most_least: int
    """Bytes of the smallest room in which all calls can be cut."""


def run(flags: Sequence[str], *arguments: str) -> Checked:
    """Run the driver, built with these flags; it ends itself at the first call that is not what it should be."""
    program = executable(DRIVER, flags, isas=["base"] if flags == LITTLE else None)
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-4000:]
    return Checked(*map(int, done.stdout.split()))


@pytest.mark.parametrize(
    "op", [pytest.param(op, marks=pytest.mark.slow if op is Op.COPY else ()) for op in CUT], ids=lambda op: op.name
)
def test_parts_give_the_bits_of_the_whole(op: Op) -> None:
    count = 30 if op in {Op.BMM, Op.ATTENTION} else 100
    found = run(LITTLE, "random", "base", str(int(op)), "0", str(count))
    assert found.calls == count and found.refused > 0.8 * count
    assert found.tiles >= found.calls


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("isa", SETS)
@pytest.mark.parametrize("op", CUT, ids=lambda op: op.name)
def test_many_calls_in_parts_give_the_bits_of_the_whole(op: Op, isa: str) -> None:
    count = 100 if op in {Op.BMM, Op.ATTENTION} else 300
    assert run(FAST, "random", isa, str(int(op)), "1000", str(count)).calls == count


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("isa", SETS)
@pytest.mark.parametrize("op", CUT, ids=lambda op: op.name)
def test_no_part_reaches_out_of_its_copies(op: Op, isa: str) -> None:
    """Under sanitizers: copies have not one byte more."""
    assert run(ADDRESS, "random", isa, str(int(op)), "0", "30").calls == 30


@pytest.mark.parametrize("op", [Op.EW, Op.COPY, Op.SOFTMAX, Op.CUMSUM], ids=lambda op: op.name)
def test_rooms_are_filled(op: Op) -> None:
    """By calls whose elements are used once; small rooms have to be rounded up to lines, and hold whole rows."""
    found = run(LITTLE, "random", "base", str(int(op)), "0", "300")
    assert found.tiles < 1.5 * found.bound + found.calls


@pytest.mark.parametrize(("op", "stays"), [(Op.REDUCE, True), (Op.NORM, True), (Op.SOFTMAX, False), (Op.BMM, False)])
def test_only_what_would_be_added_up_in_another_order_stays_where_it_is(op: Op, stays: bool) -> None:
    assert bool(run(LITTLE, "random", "base", str(int(op)), "0", "30").in_place) == stays


def check_programs(names: Iterable[str], flags: Sequence[str], isa: str, folder: Path) -> Checked:
    """Run networks, and programs of one instruction on int8."""
    paths = []
    for name in names:
        made, inputs, _ = compiled(name)
        paths.append(folder / name)
        write_program(paths[-1], made.data, inputs)
    for make in int8_programs.MAKERS:
        for seed in range(4):
            blob, given, _ = make(seed)
            paths.append(folder / f"{make.__name__}{seed}")
            write_program(paths[-1], blob, given)
    return run(flags, "programs", isa, *map(str, paths))


@pytest.mark.slow
def test_programs_in_tiles_give_the_bits_of_their_instructions(tmp_path: Path) -> None:
    """Each instruction of some small networks, with what the ones before it made."""
    names = ("squeeze", "transformer", "causal_block", "warped", "messages", "decoder")
    assert check_programs(names, LITTLE, "base", tmp_path).calls > 60


@pytest.mark.slow
@pytest.mark.parametrize("isa", SETS)
def test_all_small_networks_in_tiles_give_the_bits_of_their_instructions(isa: str, tmp_path: Path) -> None:
    assert check_programs(NETS, ADDRESS, isa, tmp_path).calls > 150


@pytest.mark.slow
@pytest.mark.parametrize("isa", SETS)
def test_a_network_of_full_size_runs_in_the_smallest_scratchpad(isa: str, tmp_path: Path) -> None:
    """MobileNetV3-Small: no instruction needs more than half of 32 KiB, so that there are two at once."""
    make_importable()
    import torchvision.models

    image = (torch.randn(1, 3, 224, 224),)
    model = torchvision.models.mobilenet_v3_small(weights=None).eval()
    write_program(tmp_path / "net", atalla.compile(torch.export.export(model, image)).data, image)
    found = run(FAST, "programs", isa, str(tmp_path / "net"))
    assert found.calls > 20 and found.most_least <= 16 << 10
