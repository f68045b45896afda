"""``--batch`` and ``--onnx``: several samples a call, and one file for any number of them."""

import json
import time

import onnxruntime
import pytest

MIXING = """
import torch

class Centred(torch.nn.Module):
    def forward(self, x):
        return x - x.mean(0)

def net(): return Centred(), torch.ones(1, 4)
"""


@pytest.fixture(scope="module")
def free(cli, tmp_path_factory):
    """Linear regression as one ONNX file, in a folder that was not there."""
    path = tmp_path_factory.mktemp("free") / "new folder" / "linear.onnx"
    result = cli("export", "linear_regression", "--onnx", path, "--json")
    assert result.returncode == 0, result.stderr
    return path, json.loads(result.stdout)


def test_an_onnx_file_is_written_without_backends(free):
    path, found = free
    assert found["results"] == []
    assert found["onnx"] == {"path": str(path), "size_bytes": path.stat().st_size}
    assert [p.name for p in path.parent.iterdir()] == ["linear.onnx"]
    (given,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).get_inputs()
    assert given.shape == ["batch", 4]


def test_an_onnx_file_beside_backends(cli, document, tmp_path):
    onnx, out = tmp_path / "linear.onnx", tmp_path / "out"
    result = cli("export", "linear_regression", "--onnx", onnx, "--backends", "torch", "--output-dir", out, "--json")
    found = document(result)
    assert [row["outcome"] for row in found["results"]] == ["OK"]
    assert onnx.is_file() and (out / "linear_regression_torch.pt2").is_file()


@pytest.mark.parametrize("batch", [1, 4])
def test_batches_of_that_file_are_compared(cli, document, free, batch, own_memory):
    targets = ("--backends", "cpu", "openvino", "--seconds", "0.1", "--num-runs", "6")
    found = document(cli("compare", free[0], "--batch", batch, *targets, "--json"))
    assert [row["outcome"] for row in found["results"]] == ["OK", "OK"]
    assert all(row["error"]["verdict"] for row in found["results"])


@pytest.mark.slow
def test_batches_of_a_builtin_are_exported(cli, document, tmp_path):
    options = ("--batch", "3", "--backends", "xnnpack", "cpu", "--output-dir", tmp_path, "--json")
    found = document(cli("export", "linear_regression", *options))
    assert [row["outcome"] for row in found["results"]] == ["OK", "OK"]
    names = {path.name for path in tmp_path.iterdir()}
    assert {"linear_regression_batch3_xnnpack.pte", "linear_regression_batch3_onnxruntime.onnx"} <= names
    manifest = json.loads((tmp_path / "linear_regression_batch3_xnnpack.json").read_text())
    assert [spec["shape"] for spec in manifest["inputs"]] == [[3, 4]]


def test_a_fixed_file_names_the_remedy(cli, complaint, linear):
    line = complaint(
        cli("compare", linear / "linear_regression_onnxruntime.onnx", "--batch", "2"), 1, "fixed batch of 1"
    )
    assert "cross-backend export MODEL --onnx linear_regression_onnxruntime.onnx" in line


def test_a_model_whose_rows_depend_on_each_other_is_refused(cli, complaint, tmp_path):
    (tmp_path / "mixing.py").write_text(MIXING)
    model = f"{tmp_path / 'mixing.py'}:net"
    complaint(cli("compare", model, "--batch", "2"), 1, "cannot be run in batches of 2", "no batch axis")


@pytest.mark.parametrize("batch", [10**12, 10**10])
def test_a_batch_that_no_memory_holds_is_refused_at_once(batch, cli, complaint):
    began = time.monotonic()
    result = cli("compare", "linear_regression", "--backends", "cpu", "--batch", batch, timeout=100)
    complaint(result, 2 if batch == 10**12 else 1, str(batch), "memory")
    assert time.monotonic() - began < 60, "it took minutes before"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("export", "linear_regression", "digits_cnn", "--onnx", "x.onnx"), ("one model", "2 are named")),
        (("export", "linear_regression", "--onnx", "x.pte"), ("x.pte", "must end in .onnx")),
        (("export", "linear_regression", "--batch", "0"), ("--batch",)),
        (("compare", "linear_regression", "--batch", "many"), ("--batch", "many")),
    ],
)
def test_wrong_usage_is_told(cli, usage_error, tmp_path, args, words):
    usage_error(cli(*args, cwd=tmp_path), *words)
    assert not list(tmp_path.iterdir())
