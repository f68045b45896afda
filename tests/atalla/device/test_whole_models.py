"""MobileNetV3-Small and ResNet-50 at full size on the device: bits of the kernels, and in int8 of the definition."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import atalla
from atalla.device import Hardware, estimate
from atalla.run.device import DryProgram
from cross_backend.cache import Cache
from cross_backend.exporting.export import ExportSettings, export
from cross_backend.tensors import load_tensors
from cross_backend.workloads import find_workload
from tests.atalla.device.runs import agree, bits

SIZES = [size << 10 for size in (32, 64, 128, 256, 512, 1024, 2048, 4096)]


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize(
    "model",
    [pytest.param("mobilenet_v3_small", marks=pytest.mark.slow), pytest.param("resnet50", marks=pytest.mark.nightly)],
)
def test_a_whole_model(model: str, precision: str, tmp_path: Path) -> None:
    target = f"atalla?precision={precision}"
    captured, (row,) = export(find_workload(model), [target], ExportSettings(Cache(tmp_path)))
    assert row.artifact is not None, row.reason
    blob = row.artifact.payload_path.read_bytes()
    inputs = [torch.from_numpy(one) for one in load_tensors(captured.sample_path)["input"]]
    agree(blob, inputs, model, kinds=[Hardware(), Hardware(scratchpad_bytes=32 << 10, array=16)])
    if precision == "int8":
        found = atalla.load(blob, executor="device", trust=True).run(inputs)
        wanted = atalla.load(blob, isa="reference", trust=True).run(inputs)
        assert all(torch.equal(bits(one), bits(two)) for one, two in zip(found, wanted, strict=True))
    dry = DryProgram(blob)
    simulations = [dry.simulate(Hardware(scratchpad_bytes=size)) for size in SIZES]
    cycles = [one.cycles for one in simulations]
    assert cycles == sorted(cycles, reverse=True)
    for size, simulation in zip(SIZES, simulations, strict=True):
        for one in estimate(simulation):
            assert abs(one.error) <= 0.05, (size, one)
