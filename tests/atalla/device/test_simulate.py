"""atalla simulate: the table, the JSON document, and the trace, as a user asks for them."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch

import atalla
from atalla.cli import main
from atalla.device import Hardware, estimate
from atalla.run.device import simulate
from tests.atalla.nets import NETS


@pytest.fixture(scope="module")
def blob(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    net, inputs = NETS[next(iter(NETS))]()
    with torch.no_grad():
        data = atalla.compile(torch.export.export(net, inputs)).data
    path = tmp_path_factory.mktemp("simulate") / "net.atalla"
    path.write_bytes(data)
    return path


def test_the_table_has_every_instruction_and_is_marked_simulated(
    blob: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", str(blob)]) == 0
    out = capsys.readouterr().out
    wanted = simulate(blob.read_bytes())
    assert f"simulated: {wanted.cycles:,} cycles" in out
    rows = out.split("Layers, simulated:\n")[1].splitlines()[1:]
    assert [int(row.split()[0]) for row in rows] == [one.number for one in wanted.instructions]
    for row, one in zip(rows, wanted.instructions, strict=True):
        assert ("host" if one.is_host else f"{one.cycles:,}") in row.split()


def test_json_has_both_fidelities_on_the_hardware_of_the_file(
    blob: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chip = tmp_path / "chip.toml"
    chip.write_text("array = 8\nscratchpad_bytes = 65536\n")
    assert main(["simulate", str(blob), "--hardware", str(chip), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    wanted = simulate(blob.read_bytes(), Hardware(name="chip", array=8, scratchpad_bytes=65536))
    assert found["simulated"] is True and found["cycles"] == wanted.cycles
    rows = [row for row in found["instructions"] if not row["is_host"]]
    assert [(row["analytic_cycles"], row["bound"]) for row in rows] == [
        (one.cycles, one.bound) for one in estimate(wanted)
    ]
    assert found["analytic_cycles"] == sum(one.cycles for one in estimate(wanted))
    assert sum(row["share"] for row in rows) == pytest.approx(1)


@pytest.mark.parametrize(("option", "value"), [("--precision", "bf16"), ("--seed", "0")])
def test_a_blob_is_compiled_already(option: str, value: str, blob: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(blob), option, value]) == 2
    assert f"{option} does not go with" in capsys.readouterr().err


def test_a_model_is_compiled_in_the_precision_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model.py"
    model.write_text("import torch\ndef make():\n    return torch.nn.Linear(8, 4), (torch.randn(2, 8),)\n")
    for precision, operation in (("fp32", "GEMM"), ("bf16", "BGEMM")):
        assert main(["simulate", f"{model}:make", "--precision", precision, "--json"]) == 0
        assert operation in [row["operation"] for row in json.loads(capsys.readouterr().out)["instructions"]]


def test_a_trace_holds_all_events_and_no_engine_does_two_at_once(blob: Path, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    assert main(["simulate", str(blob), "--trace", str(path)]) == 0
    document = json.loads(path.read_text())
    wanted = simulate(blob.read_bytes(), events=True)
    slices = [one for one in document["traceEvents"] if one["ph"] == "X"]
    engines = [one for one in slices if one["tid"] < 4]
    assert len(engines) == sum(event.engine != "scratchpad" for event in wanted.events) > 0
    for thread in {one["tid"] for one in slices}:
        mine = sorted((one["ts"], one["ts"] + one["dur"]) for one in slices if one["tid"] == thread)
        assert all(one[1] <= other[0] for one, other in pairwise(mine)), thread
    assert max(one["ts"] + one["dur"] for one in slices) == wanted.cycles


def test_a_model_that_is_not_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(tmp_path / "none.pt2")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
