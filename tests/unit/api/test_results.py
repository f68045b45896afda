"""Results: the same calls as the command line, and what they give converts to dicts, data frames and drawings."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import torch

import cross_backend as xb
from cross_backend.errors import LowerError, UnavailableError, UsageError

X = torch.ones(1, 4)
QUICK = {"num_runs": 30, "seconds": 0.5, "launches": 1}


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return xb.capture(torch.nn.Linear(4, 2), (X,))


@pytest.fixture(scope="module")
def panel(program: torch.export.ExportedProgram) -> xb.Panel:
    return xb.compare(program, ["torch", "cpu", "null"], name="net", **QUICK)  # type: ignore[arg-type]


def test_a_panel_is_one_json_document(panel: xb.Panel) -> None:
    found = json.loads(json.dumps(panel.to_dict(), allow_nan=False))
    assert [row["outcome"] for row in found["results"]] == ["OK", "OK", "MISMATCH"]
    assert found["panels"][0]["workload"] == "net" and found["schema"] == 2


def test_a_panel_is_a_row_a_target(panel: xb.Panel) -> None:
    frame = panel.to_pandas()
    assert list(frame["target"]) == [result.target for result in panel.results]
    assert {"latency_median_ms", "cold_start_load_ms", "ratio", "size_bytes", "max_rel_error", "sqnr_db"} <= set(
        frame.columns
    )
    first = frame[frame["rank"] == 1].iloc[0]
    assert first["latency_median_ms"] > 0 and first["calls"] >= 1
    wrong = frame[frame["outcome"] == "MISMATCH"].iloc[0]
    assert wrong["latency_median_ms"] != wrong["latency_median_ms"], "no time of wrong outputs"


@pytest.mark.skipif(importlib.util.find_spec("polars") is not None, reason="Polars is installed")
def test_a_package_that_is_not_there_is_named(panel: xb.Panel) -> None:
    with pytest.raises(UnavailableError, match=r"polars is not installed; pip install polars"):
        panel.to_polars()


@pytest.mark.parametrize("kind", ["latency", "ratio"])
def test_a_panel_is_drawn(kind: str, panel: xb.Panel, tmp_path: Path) -> None:
    drawn = panel.plot(kind)
    root = ET.fromstring(drawn.svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "--s0: #" in drawn.svg and ".chart .bar" in drawn.svg
    assert "PyTorch" in drawn.svg and drawn._repr_html_().startswith("<img ")
    assert drawn.save(tmp_path / "net.svg").read_text() == drawn.svg


def test_what_cannot_be_drawn_says_why(panel: xb.Panel, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown kind of plot 'latencies'\. Did you mean 'latency'"):
        panel.plot("latencies")
    with pytest.raises(UsageError, match=r"ends in \.svg"):
        panel.plot().save(tmp_path / "net.png")


def test_a_failed_target_keeps_its_row(program: torch.export.ExportedProgram, tmp_path: Path) -> None:
    good, bad = xb.export(program, ["torch", "atalla?precision=int4w"], name="net", output_dir=tmp_path / "out")
    assert good.artifact is not None and good.artifact.folder == tmp_path / "out"
    assert bad.artifact is None and bad.outcome is xb.Outcome.UNSUPPORTED and "int4w" in str(bad.reason)


def test_a_workload_is_exported(tmp_path: Path) -> None:
    workload = xb.Workload("mine", torch.nn.Linear(4, 2).eval(), (X,))
    (row,) = xb.export(workload, "torch", output_dir=tmp_path)
    assert row.artifact is not None and row.artifact.workload == "mine"


def test_a_placement_is_explained(program: torch.export.ExportedProgram) -> None:
    found = xb.explain(program, backend="cpu", name="net")
    assert found.placement.coverage == 1 and found.workload == "net"
    assert found.to_json()["placement"]["coverage"] == 1
    assert "net on onnxruntime.cpu" in str(found) and "coverage" in str(found)


def test_a_bundle_is_packed_and_opened(program: torch.export.ExportedProgram, tmp_path: Path) -> None:
    packed = xb.bundle(program, ["cpu", "torch", "atalla?precision=int4w"], name="net", output_dir=tmp_path)
    assert packed.path == tmp_path / "net"
    assert [row.text for row in packed.shipped] == ["cpu", "torch"] and len(packed.rows) == 3
    with xb.load(packed.path / f"{packed.names['cpu']}.onnx") as session:
        torch.testing.assert_close(session(X), program.module()(X))
    with pytest.raises(LowerError, match="nothing to bundle: atalla"):
        xb.bundle(program, ["atalla?precision=int4w"], output_dir=tmp_path)


def test_a_study_is_run_and_read_again(tmp_path: Path) -> None:
    quick = {"seconds": 0.2, "launches": 1, "max_launches": 1, "instruments": []}
    rows = {"name": "mine", "workloads": ["linear_regression"], "targets": ["cpu"], "settings": quick}
    study = xb.Study.load(rows, db=str(tmp_path / "s.sqlite"))
    results = study.run()
    assert [one.target for one in results.panels[0].ranked] == ["onnxruntime.cpu"]
    assert study.results().to_dict()["results"] == results.to_dict()["results"]
    assert list(results.to_pandas()["workload"]) == ["linear_regression"]
    other = xb.Study.load({**rows, "name": "other"}, db=str(tmp_path / "s.sqlite"))
    with pytest.raises(UsageError, match="nothing is stored of the study 'other'"):
        other.results()


def test_it_logs_and_prints_nothing(
    program: torch.export.ExportedProgram, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.INFO, logger="cross_backend"):
        xb.compare(program, ["torch"], name="net", **QUICK)  # type: ignore[arg-type]
    assert "net: 1 of 1 targets ranked" in caplog.messages
    assert any(text.startswith("net: lower to torch") for text in caplog.messages)
    assert tuple(capfd.readouterr()) == ("", "")


def test_comparisons_run_in_threads(program: torch.export.ExportedProgram) -> None:
    """As docs/reference/api.md says: what waits is handed to a thread."""

    async def both() -> list[xb.Panel]:
        calls = (asyncio.to_thread(xb.compare, program, ["torch"], name=name, **QUICK) for name in ("one", "two"))
        return await asyncio.gather(*calls)

    panels = asyncio.run(both())
    found = [(panel.workload, len(panel.ranked)) for panel in panels]
    assert found == [("one", 1), ("two", 1)], [panel.to_dict()["results"] for panel in panels]
    assert torch.backends.mkldnn.enabled, "a flag that a capture sets belongs to the whole process"


class Floored(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.relu() + 1) // -2 + x


@pytest.mark.slow
def test_a_fault_is_localised_scripted_and_kept_out(tmp_path: Path) -> None:
    x = torch.tensor([[1, 2, 4, -6]])
    found = xb.localize(Floored(), (x,), backend="openvino", reproducer=tmp_path, name="floored")
    assert found.is_sure and found.operators[0].operator == "aten.floor_divide.default", found.says
    assert {path.name for path in tmp_path.iterdir()} == {"floored_openvino.py", "floored_openvino.md"}
    kept = xb.keep_out(Floored(), (x,), backend="openvino", nodes=found.operators[0].node, against="torch")
    assert kept.right and kept.nodes == ("floor_divide",) and kept.count == 3
    with pytest.raises(UsageError, match="'add_7'"):
        xb.keep_out(Floored(), (x,), backend="openvino", nodes=["add_7"], against="torch")


def test_an_input_on_which_it_is_wrong_is_searched(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    with caplog.at_level(logging.INFO, "cross_backend"):
        found = xb.localize(torch.nn.ReLU(), (X,), backend="torch", adversarial=0.5, reproducer=tmp_path / "none")
    assert found.culprit == "nothing" and "torch.eager: right on" in caplog.text
    assert not (tmp_path / "none").exists(), "nothing is wrong"
