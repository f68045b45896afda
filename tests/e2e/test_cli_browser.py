"""Models in a real browser by the command line: exported, run on given inputs, compared and ranked as any target."""

import json

import numpy as np
import pytest

from tests import needs
from tests.runtimes import bring


@pytest.fixture(autouse=True)
def runtime():
    needs.program("chromium")
    needs.program("npm")
    bring("browser")


@pytest.mark.slow
def test_compare_ranks_it_and_webgpu_in_software_is_verified_only(cli):
    names = ("browser.wasm", "browser.webgpu", "onnxruntime.cpu")
    done = cli("compare", "linear_regression", "--backends", *names, "--seconds", "1", "--json")
    assert done.returncode == 0, done.stderr
    rows = {row["target"]: row for row in json.loads(done.stdout)["results"]}
    assert [rows[name]["outcome"] for name in names] == ["OK"] * 3
    assert {rows["browser.wasm"]["rank"], rows["onnxruntime.cpu"]["rank"]} == {1, 2}
    webgpu = rows["browser.webgpu"]["execution"]
    assert webgpu["device"].startswith("WebGPU (")
    assert (rows["browser.webgpu"]["rank"] is None) == (webgpu["functional_only"] is not None)


@pytest.mark.slow
def test_an_exported_file_runs_on_given_inputs(cli, tmp_path):
    done = cli("export", "linear_regression", "--backends", "browser.wasm", "--output-dir", str(tmp_path))
    assert done.returncode == 0, done.stderr
    (payload,) = tmp_path.glob("*wasm.onnx")
    given = np.load(next(tmp_path.glob("*sample.npz")))
    np.savez(tmp_path / "x.npz", input_0=given["input_0"])
    done = cli("run", str(payload), "--input", str(tmp_path / "x.npz"), "--output", str(tmp_path / "y.npz"))
    assert done.returncode == 0, done.stderr
    assert np.allclose(np.load(tmp_path / "y.npz")["output_0"], given["expected_0"], atol=1e-4)
