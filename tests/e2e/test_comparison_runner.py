"""``ComparisonRunner``: the three lines of the README on a file that the project wrote, torch modules, threads."""

import json
import subprocess
import sys

import pytest

from cross_backend import ComparisonRunner
from cross_backend.errors import UsageError
from cross_backend.store import Store
from tests.e2e.conftest import variables

SNIPPET = """
from cross_backend import ComparisonRunner

runner = ComparisonRunner(
    model="models/resnet50.onnx",
    backends=["cpu", "cuda", "rocm", "directml"],
    batch_sizes=[1, 4, 16, 32]
)

results = runner.run()
results.generate_report("comparison_report.html")
"""
QUICK = {"seconds": 0.2, "launches": 1, "max_launches": 1, "instruments": [], "quiet": True}


@pytest.fixture(scope="module")
def file(cli, tmp_path_factory):
    """A small model under the snippet's name, written by ``export --onnx``: (its folder, its path there)."""
    folder = tmp_path_factory.mktemp("onnx")
    result = cli("export", "linear_regression", "--onnx", "models/resnet50.onnx", cwd=folder)
    assert result.returncode == 0, result.stderr
    return folder, folder / "models" / "resnet50.onnx"


@pytest.mark.slow
def test_the_snippet_runs_as_it_is_written(popen, file, tmp_path):
    folder, _ = file
    database = tmp_path / "studies.sqlite"
    process = popen(
        [sys.executable, "-c", SNIPPET],
        cwd=folder,
        env=variables(CROSS_BACKEND_DB=str(database)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    stdout, stderr = process.communicate(timeout=500)
    assert process.returncode == 0, stderr
    assert stdout == "" and "Traceback" not in stderr
    page = (folder / "comparison_report.html").read_text()
    for title in ("resnet50", "ONNX Runtime (CPU)", "CUDA", "DirectML"):
        assert title in page
    with Store.open(str(database)) as store:
        (row,) = store.studies()
        assert (row.name, row.panels) == ("resnet50", 4) and row.finished
        panels = store.panels(row.id)
        assert [panel.key.batch for panel in panels] == [1, 4, 16, 32]
        for panel in panels:
            assert panel.key.workload == "resnet50" and panel.launches == 3
            cpu, *others = store.launches(row.id, panel.key)[0].results
            assert cpu.outcome == "OK" and cpu.comparison.verdict and cpu.latency.count > 0
            assert [other.target for other in others] == [f"onnxruntime.{one}" for one in ("cuda", "rocm", "directml")]
            for other in others:
                assert other.outcome in {"UNAVAILABLE", "OK"}
                assert other.outcome == "OK" or other.reason, "what is missing and what mends it"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a comparison in this process; give its results."""
    monkeypatch.chdir(tmp_path)
    return lambda model, backends, **more: ComparisonRunner(
        model, backends, db=str(tmp_path / "s.sqlite"), **{**QUICK, **more}
    ).run()


@pytest.mark.slow
def test_a_torch_module_in_two_precisions_and_batches(run, tmp_path):
    import torch

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh())
    inputs = torch.rand(1, 4)  # a bare tensor is one input
    results = run(module, ["cpu"], inputs=inputs, batch_sizes=[1, 3], precisions=["fp32", "bf16"], name="net")
    assert [(panel.workload, panel.batch) for panel in results.panels] == [("Sequential", 1), ("Sequential", 3)]
    for panel in results.panels:
        right, refused = panel.results
        assert (right.target, right.outcome, right.rank) == ("onnxruntime.cpu?precision=fp32", "OK", 1)
        assert (refused.outcome, refused.workload) == ("UNSUPPORTED", "Sequential") and "bf16" in refused.target
        assert panel.ranked == [right]
    assert results.to_json()["study"] == "net"
    assert results.generate_report("net.json") == results.generate_report(tmp_path / "net.json").relative_to(tmp_path)
    assert (tmp_path / "net.json").read_text() == json.dumps(results.to_json(), indent=2) + "\n"
    with pytest.raises(UsageError, match=r"'\.txt'"):
        results.generate_report("net.txt")


@pytest.mark.slow
def test_a_pt2_file_keeps_its_batch_and_says_so_of_others(run, tmp_path):
    import torch

    program = torch.export.export(torch.nn.Linear(4, 2).eval(), (torch.rand(1, 4),))
    torch.export.save(program, tmp_path / "plain.pt2")
    one, two = run("plain.pt2", ["cpu"], batch_sizes=[1, 2]).panels
    assert (one.workload, one.results[0].outcome) == ("plain", "OK")
    assert (two.workload, two.batch, two.results[0].outcome) == ("plain", 2, "LOWER_FAIL")
    assert "plain.pt2 has a fixed batch of 1" in two.results[0].reason


@pytest.mark.slow
def test_threads_are_panels_of_their_own(run, file):
    results = run(file[1], ["cpu", "cpu?threads=1"], threads=[1, 2])
    assert [panel.settings["threads"] for panel in results.panels] == [1, 2]
    assert [result.target for result in results.panels[1].results] == ["onnxruntime.cpu", "onnxruntime.cpu?threads=1"]
