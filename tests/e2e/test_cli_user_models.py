"""The user's own models: a function in a Python file, a ``.pt2`` file, an ``.onnx`` file."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper

SOURCE = '''"""A user's file: it need not know of cross_backend."""

from pathlib import Path

import torch


def doubler():
    with Path(__file__).with_suffix(".log").open("a") as log:
        log.write("built\\n")
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()), (torch.ones(1, 3),)


def single_input():
    torch.manual_seed(0)
    return torch.nn.Linear(3, 2), torch.ones(1, 3)


def raises():
    raise ValueError("weights are in another castle\\nsecond line")


def gives_nothing():
    return None


def leaves():
    raise SystemExit("bye")


def of_torchvision():
    import torchvision.models
    from torchvision.transforms import v2

    torch.manual_seed(0)
    size = v2.Resize(8).size[0]
    norm = torchvision.models.convnext.LayerNorm2d(3)
    return norm, (torch.rand(1, 3, size, size),)


def does_not_fit():
    return torch.nn.Linear(3, 2), (torch.ones(1, 5),)


class Wrong(torch.nn.Module):
    def forward(self, x):
        return x @ torch.ones(4, 4)


def does_not_fit_inside():
    return Wrong(), (torch.ones(1, 5),)


class Structured(torch.nn.Module):
    def forward(self, pair, *, scale):
        return {"y": (pair["a"] + pair["b"]) * scale, "more": None}


def structured():
    return Structured(), ({"a": torch.ones(1, 3), "b": torch.ones(1, 3)},), {"scale": 2}
'''


def line_of(text):
    """Give the line of the file that holds a text."""
    return next(number for number, line in enumerate(SOURCE.splitlines(), 1) if text in line)


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "my models" / "net.py"
    path.parent.mkdir()
    path.write_text(SOURCE)
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """``net.pt2`` and ``net.onnx``: y = relu(2x) of 3 numbers."""
    folder = tmp_path_factory.mktemp("files")

    class Net(torch.nn.Module):
        def forward(self, x):
            return torch.relu(2 * x)

    torch.export.save(torch.export.export(Net(), (torch.tensor([[1.0, -2.0, 3.0]]),)), folder / "net.pt2")
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["d"]), helper.make_node("Relu", ["d"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, folder / "net.onnx")
    return folder


@pytest.mark.slow
def test_function_is_built_and_captured_once_for_all_targets(own, cli, tmp_path, document):
    out = tmp_path / "out"
    result = cli("export", f"{own}:doubler", "--backends", "cpu", "torch", "openvino", "--output-dir", out, "--json")
    assert [row["outcome"] for row in document(result)["results"]] == ["OK"] * 3
    assert own.with_suffix(".log").read_text() == "built\n"
    assert (out / "net_doubler_onnxruntime.onnx").is_file()
    again = cli("export", f"{own}:doubler", "--backends", "cpu", "--output-dir", out, "--json")
    assert document(again)["results"][0]["cached"] is True


@pytest.mark.slow
def test_function_may_give_one_tensor(own, cli, document):
    result = cli("compare", "net.py:single_input", "--backends", "cpu", "--num-runs", "12", "--json", cwd=own.parent)
    assert document(result)["results"][0]["outcome"] == "OK"


def test_function_that_is_missing(own, cli, complaint):
    result = cli("export", f"{own}:doubel", "--output-dir", own.parent / "out")
    complaint(result, 2, "doubel", "Did you mean 'doubler'?")


def test_file_without_a_function_says_how_to_write_it(own, cli, usage_error):
    result = cli("export", own, "--output-dir", own.parent / "out")
    usage_error(result, "name one of its functions", f"{own}:doubler", f"{own}:of_torchvision")
    assert "Wrong" not in result.stderr and not own.with_suffix(".log").exists(), "it was not run"


def test_a_module_in_training_mode_is_said_to_be_switched(own, cli):
    result = cli("export", f"{own}:single_input", "--backends", "torch", "--output-dir", own.parent / "out")
    assert result.returncode == 0
    assert "the module was in training mode and was switched to evaluation mode" in result.stderr


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("raises", ("net.py:raises", f"net.py:{line_of('raise Val')}: ValueError", "weights are in another castle")),
        ("gives_nothing", ("net.py:gives_nothing", "must return (module, inputs)", "NoneType")),
        ("leaves", ("net.py:leaves", "SystemExit")),
        ("does_not_fit", ()),
        ("does_not_fit_inside", (f"net.py:{line_of('x @ torch')}: RuntimeError",)),
    ],
)
def test_function_that_fails_is_one_line(function, words, own, cli, complaint):
    result = cli("export", f"{own}:{function}", "--backends", "cpu", "--output-dir", own.parent / "out")
    complaint(result, 1, *words)
    assert result.stdout == ""


def test_file_that_is_no_python(own, cli, complaint):
    own.write_text("def model(:\n")
    complaint(cli("export", f"{own}:model", "--output-dir", own.parent / "out"), 1, "net.py:1: SyntaxError")


def test_function_may_use_torchvision_beside_any_torch(own, cli, document):
    """The package index's torchvision does not import beside a torch for CPUs, where nobody mends it."""
    result = cli("export", f"{own}:of_torchvision", "--backends", "torch", "--output-dir", own.parent / "out", "--json")
    assert document(result)["results"][0]["outcome"] == "OK"


@pytest.mark.slow
def test_function_may_give_structures_and_keyword_inputs(own, cli, document):
    targets = ("cpu", "torch")
    result = cli("compare", f"{own}:structured", "--backends", *targets, "--num-runs", "12", "--json")
    rows = document(result)["results"]
    assert [(row["outcome"], row["error"]["verdict"]) for row in rows] == [("OK", True)] * 2


@pytest.mark.parametrize("name", ["absent.py:model", "absent.pt2", "absent.onnx", "absent.pte"])
def test_file_that_does_not_exist(name, cli, tmp_path, usage_error):
    usage_error(cli("export", name, "--output-dir", tmp_path / "out", cwd=tmp_path), "absent")


@pytest.mark.slow
def test_pt2_goes_everywhere(files, cli, tmp_path, document):
    result = cli(
        "export", files / "net.pt2", "--backends", "portable", "cpu", "torch", "--output-dir", tmp_path, "--json"
    )
    assert [row["outcome"] for row in document(result)["results"]] == ["OK"] * 3
    ran = cli("run", tmp_path / "net_portable.pte", "--input", "1,-2,3", "--output", tmp_path / "y.npz")
    assert ran.returncode == 0, ran.stderr
    with np.load(tmp_path / "y.npz") as outputs:
        assert outputs[outputs.files[0]].tolist() == [[2.0, 0.0, 6.0]]


def test_onnx_goes_where_onnx_is_understood(files, cli, document):
    args = ("compare", files / "net.onnx", "--backends", "cpu", "openvino", "xnnpack", "torch", "--num-runs", "12")
    rows = {row["target"]: row for row in document(cli(*args, "--json"))["results"]}
    for target in ("onnxruntime.cpu", "openvino"):
        assert rows[target]["outcome"] == "OK" and rows[target]["error"]["verdict"] is True
    for target in ("executorch.xnnpack", "torch.eager"):
        assert rows[target]["outcome"] == "UNSUPPORTED" and "ONNX" in rows[target]["reason"].upper()
        assert rows[target]["rank"] is None


def test_onnx_artifact_is_what_the_runtime_itself_runs(files, cli, tmp_path):
    assert cli("export", files / "net.onnx", "--backends", "cpu", "--output-dir", tmp_path).returncode == 0
    session = onnxruntime.InferenceSession(tmp_path / "net_onnxruntime.onnx", providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": np.array([[1, -2, 3]], np.float32)})[0].tolist() == [[2.0, 0.0, 6.0]]


@pytest.mark.parametrize("suffix", ["pt2", "onnx"])
@pytest.mark.parametrize("damage", ["empty", "truncated", "garbage"])
def test_damaged_model_file(suffix, damage, files, cli, tmp_path, complaint):
    whole = (files / f"net.{suffix}").read_bytes()
    path = tmp_path / f"broken.{suffix}"
    path.write_bytes({"empty": b"", "truncated": whole[: len(whole) // 2], "garbage": b"\x00\xff" * 500}[damage])
    result = cli("export", path, "--backends", "cpu", "--output-dir", tmp_path / "out")
    complaint(result, 1, f"broken.{suffix}")
    assert result.stdout == ""


def test_own_weights_of_a_built_in_model(cli, tmp_path, document):
    torch.save({"weight": torch.zeros(1, 4), "bias": torch.tensor([7.0])}, tmp_path / "seven.pt")
    args = ("export", "linear_regression", "--weights", tmp_path / "seven.pt", "--backends", "cpu", "--json")
    assert document(cli(*args, "--output-dir", tmp_path))["results"][0]["outcome"] == "OK"
    ran = cli("run", tmp_path / "linear_regression_onnxruntime.onnx", "--input", "1,2,3,4", "--json")
    assert document(ran)["output"] == [7.0]


@pytest.mark.slow
def test_files_in_the_current_folder_shadow_nothing(cli, tmp_path):
    """The installed command is started beside files that are called like modules of the standard library."""
    for name in ("queue", "statistics", "hashlib", "torch"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('this file is not for you')\n")
    installed = Path(sys.executable).with_name("cross-backend")
    arguments = [installed, "export", "linear_regression", "--backends", "torch"]
    variables = {**os.environ, "CROSS_BACKEND_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=tmp_path, env=variables, check=False)
    assert done.returncode == 0, done.stderr
