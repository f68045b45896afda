"""Cycles: the scoreboard's promises over all events, the two fidelities, and what a larger scratchpad does."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
import torch

import atalla
from atalla.device import Event, Hardware, Simulation, estimate
from atalla.rtl import cycles as rtl
from atalla.run.device import DryProgram, simulate
from tests.atalla import bf16_programs, f32_programs, int8_programs
from tests.atalla.nets import NETS
from tests.atalla.one_instruction import Given

SIZES = [size << 10 for size in (32, 40, 48, 64, 96, 128, 200, 256, 512, 1024, 2048, 4096)]
MAKERS = (*f32_programs.MAKERS, bf16_programs.convolution, int8_programs.product, int8_programs.convolution)


def compiled(name: str) -> bytes:
    torch.manual_seed(0)
    net, inputs = NETS[name]()
    with torch.no_grad():
        return atalla.compile(torch.export.export(net, inputs)).data


def any_hardware(seed: int) -> Hardware:
    """Return hardware of any kind."""
    one = random.Random(seed).choice
    return Hardware(
        array=one((8, 16, 32, 64)), accumulator_rows=one((72, 73, 512, 1024)), lanes=one((1, 7, 32, 256)),
        scratchpad_bytes=one((32, 48, 64, 96, 256, 1024)) << 10, align=one((16, 64, 1024, 4096)),
        dma_bytes_per_cycle=one((1, 5, 32, 512)), dma_latency_cycles=one((0, 3, 64, 1000)), queue=one((1, 2, 5, 16)),
        issue_cycles=one((0, 1, 4, 100)), matrix_f32_factor=one((1, 4)), vector_exp_cycles=one((1, 16, 99)),
        vector_requantise_cycles=one((1, 2, 50)), vector_int8_factor=one((1, 2, 4)),
    )  # fmt: skip


def check_events(simulation: Simulation) -> int:
    """See what must hold of all events; return how many there are."""
    events = simulation.events
    for engine in ("load", "store", "matrix", "vector"):
        mine = [event for event in events if event.engine == engine]
        assert all(one.end <= other.begin for one, other in pairwise(mine)), f"{engine} does two at once"
    regions = {place: event for place, event in enumerate(events) if event.engine == "scratchpad"}
    written: dict[int, int] = {}
    read: dict[int, int] = {}
    for event in events:
        for place in event.reads:
            assert place in written, f"{event} reads what nothing wrote"
            assert written[place] <= event.begin, f"{event} reads before it is written"
        for place in event.writes:
            assert read.get(place, 0) <= event.begin, f"{event} writes what is still read"
        for place in {*event.reads, *event.writes}:
            assert regions[place].begin <= event.begin and event.end <= regions[place].end, (
                f"{event} is out of its region"
            )
        for place in event.writes:
            written[place] = max(written.get(place, 0), event.end)
        for place in event.reads:
            read[place] = max(read.get(place, 0), event.end)
    check_regions([*regions.values()], simulation.hardware)
    return len(events)


def check_regions(regions: Sequence[Event], hardware: Hardware) -> None:
    """No byte of a scratchpad belongs to two regions at once, and none lies outside."""
    for region in regions:
        assert region.offset % hardware.align == 0 and region.offset + region.bytes <= hardware.scratchpad_bytes
    for scratchpad in (0, 1):
        alive: list[Event] = []
        for region in (one for one in regions if one.scratchpad == scratchpad):
            alive = [one for one in alive if one.end > region.begin]
            for other in alive:
                apart = other.offset + other.bytes <= region.offset or region.offset + region.bytes <= other.offset
                assert apart or not region.bytes or not other.bytes, f"{region} and {other} share memory"
            alive.append(region)


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: f"{make.__module__.rpartition('.')[2]}.{make.__name__}")
def test_nothing_is_done_twice_at_once_or_too_early(make: Callable[[int], Given]) -> None:
    seen = 0
    for seed in range(12):
        simulation = simulate(make(seed)[0], any_hardware(seed), events=True)
        seen += check_events(simulation)
        assert sum(event.end - event.begin for event in simulation.events if event.engine == "matrix") == sum(
            one.busy.matrix for one in simulation.instructions
        )
    assert seen > 100


@pytest.mark.parametrize("name", ["transformer", "squeeze", "detector", "pools", "assigned"])
def test_networks_keep_the_order_of_their_data(name: str) -> None:
    blob = compiled(name)
    for seed in range(4):
        simulation = simulate(blob, any_hardware(seed), events=True)
        assert check_events(simulation) > 20
        ends = [one.begin + one.cycles for one in simulation.instructions]
        assert [one.begin for one in simulation.instructions] == [0, *ends[:-1]]
        assert all(one.peak_bytes[i] <= one.room_bytes for one in simulation.instructions for i in (0, 1))


def test_a_larger_scratchpad_never_takes_longer() -> None:
    for blob in (compiled("transformer"), compiled("squeeze"), *(make(5)[0] for make in MAKERS)):
        dry = DryProgram(blob)
        cycles = [dry.simulate(Hardware(scratchpad_bytes=size)).cycles for size in SIZES]
        assert cycles == sorted(cycles, reverse=True)


def test_a_single_tile_takes_what_the_matrix_unit_takes() -> None:
    """The chain of tiles along the depth is that of the RTL, edge by edge."""
    for seed in range(20):
        blob, inputs, _ = int8_programs.product(seed)
        hardware = Hardware(matrix_f32_factor=1)
        simulation = simulate(blob, hardware, events=True)
        chains = [event.end - event.begin for event in simulation.events if event.kind == "MXU.MM"]
        shape, depth = simulation.instructions[0].shape, inputs[0].shape[-1]
        rows = inputs[0].numel() // depth
        if len(chains) == -(-shape[-1] // 32):  # rows and depth are whole
            assert set(chains) == {rtl.chain(rows, depth, 32)}
            break
    else:
        raise AssertionError("no program of one tile")


def test_both_fidelities_agree() -> None:
    for name in ("squeeze", "transformer", "residual"):
        simulation = simulate(compiled(name))
        for one in estimate(simulation):
            assert abs(one.cycles - one.simulated) <= max(0.05 * one.simulated, 8), (name, one)


@pytest.mark.parametrize(
    ("inside", "outside", "kernel", "stride", "pixels", "kib", "most"),
    [
        pytest.param(24, 88, 1, 1, 28, 32, 0.01, id="weights stay, sums begin with the bias before there are rows"),
        pytest.param(512, 1024, 1, 2, 28, 64, 0.01, id="results wait for room, products do not"),
        pytest.param(128, 128, 3, 1, 28, 512, 0.01, id="Winograd's tiles wait for the products of those before"),
        pytest.param(256, 256, 3, 2, 28, 512, 0.03, id="a piece of Winograd's depth is not of the tile before it"),
    ],
)
def test_both_fidelities_agree_where_there_is_little_room(
    inside: int, outside: int, kernel: int, stride: int, pixels: int, kib: int, most: float
) -> None:
    torch.manual_seed(0)
    net = torch.nn.Conv2d(inside, outside, kernel, stride, kernel // 2)
    blob = atalla.compile(torch.export.export(net, (torch.zeros(1, inside, pixels, pixels),))).data
    for one in estimate(simulate(blob, Hardware(scratchpad_bytes=kib << 10))):
        assert abs(one.error) <= most, one


def test_time_does_not_depend_on_data() -> None:
    blob, inputs, _ = f32_programs.convolution(4)
    loaded = atalla.load(blob, executor="device")
    loaded.run(inputs)
    assert loaded.simulation == simulate(blob)


@pytest.mark.slow
def test_no_hardware_makes_firmware_wait_for_ever() -> None:
    """Random hardware and random programs: all end, or say what is too small."""
    blobs = [DryProgram(make(seed)[0]) for make in MAKERS for seed in range(8)]
    for seed in range(3000):
        assert random.Random(seed).choice(blobs).simulate(any_hardware(seed)).cycles > 0
