"""``run`` and ``inspect``: an artifact on its sample, on the user's own inputs, and the best of a folder."""

import json
import shutil
import zipfile

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("own_memory")
QUICK = ("--num-runs", "60", "--seconds", "1")
MANIFESTS = ("xnnpack", "portable", "onnxruntime", "openvino", "torch")


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifest_is_verified_and_timed(name, linear, cli, document):
    result = cli("run", linear / f"linear_regression_{name}.json", *QUICK, "--json")
    found = document(result)
    assert result.stderr == ""
    (row,) = found["results"]
    assert row["outcome"] == "OK" and row["workload"] == "linear_regression"
    assert row["error"]["verdict"] is True and row["error"]["max_rel"] < 1e-4
    assert 0 < row["latency_ms"]["low"] <= row["latency_ms"]["median"] <= row["latency_ms"]["high"]
    assert row["latency_ms"]["n"] == 60


@pytest.mark.parametrize("payload", ["linear_regression_xnnpack.pte", "linear_regression_openvino"])
def test_payload_stands_for_its_manifest(payload, linear, cli, plain):
    result = cli("run", linear / payload, *QUICK)
    assert result.returncode == 0, result.stderr
    assert "outputs are right" in result.stdout and "2.718" in result.stdout and "ms median" in result.stdout
    plain(result.stdout + result.stderr)


@pytest.mark.parametrize(("platform", "first"), [("linux", "executorch.xnnpack"), ("web", "executorch.xnnpack")])
def test_folder_is_tried_in_the_order_of_the_platform(platform, first, linear, cli, document):
    result = cli("run", linear, "--platform", platform, *QUICK, "--json")
    assert document(result)["results"][0]["target"] == first


def test_folder_passes_over_what_does_not_work(damaged, cli, document):
    (damaged / "linear_regression_xnnpack.pte").write_bytes(b"")
    result = cli("run", damaged, "--platform", "linux", *QUICK)
    assert result.returncode == 0
    assert "executorch.xnnpack passed over" in result.stderr and "on openvino" in result.stdout
    assert document(cli("run", damaged, "--platform", "linux", *QUICK, "--json"))["results"][0]["target"] == "openvino"


def test_folder_where_nothing_works_gives_every_reason(damaged, cli, complaint):
    for name in MANIFESTS:
        manifest = damaged / f"linear_regression_{name}.json"
        row = json.loads(manifest.read_text())
        manifest.write_text(json.dumps({**row, "payload": {**row["payload"], "sha256": "0" * 64}}))
    line = complaint(cli("run", damaged, "--json"), 1)
    for target in ("executorch.xnnpack", "executorch.portable", "onnxruntime.cpu", "openvino", "torch.eager"):
        assert target in line


def test_wrong_outputs_in_a_folder_do_not_break_the_one_document(damaged, cli, tmp_path, document):
    """The first candidate holds other weights, so it is a MISMATCH; the next one is right."""
    (tmp_path / "other.py").write_text(
        "import torch\ndef model():\n    torch.manual_seed(1)\n    return torch.nn.Linear(4, 1), torch.ones(1, 4)\n"
    )
    made = tmp_path / "other"
    exported = cli("export", f"{tmp_path / 'other.py'}:model", "--backends", "openvino", "--output-dir", made)
    assert exported.returncode == 0
    manifest = damaged / "linear_regression_openvino.json"
    row = json.loads(manifest.read_text())
    row["payload"] = {**json.loads((made / "other_model_openvino.json").read_text())["payload"]}
    row["payload"]["path"] = "linear_regression_openvino"
    manifest.write_text(json.dumps(row))
    shutil.rmtree(damaged / "linear_regression_openvino")
    shutil.copytree(made / "other_model_openvino", damaged / "linear_regression_openvino")
    for name in ("xnnpack", "portable"):
        (damaged / f"linear_regression_{name}.json").unlink()
    found = document(cli("run", damaged, "--platform", "linux", *QUICK, "--json"))
    assert found["results"][0]["outcome"] == "OK" and found["results"][0]["target"] != "openvino"


def test_folder_with_two_models_asks_which(linear, damaged, cli, usage_error, document):
    for name in ("linear_regression_torch.json", "linear_regression_xnnpack.json"):
        row = json.loads((damaged / name).read_text())
        (damaged / name).write_text(json.dumps({**row, "workload": "another"}))
    usage_error(cli("run", damaged), "'another'", "'linear_regression'")
    result = cli("run", damaged, "--model", "another", *QUICK, "--json")
    assert document(result)["results"][0]["workload"] == "another"


def test_numbers_give_the_documented_output(linear, cli, document):
    result = cli("run", linear / "linear_regression_xnnpack.pte", "--input", "1,2,3,4", "--json")
    found = document(result)
    assert found["output"] == [pytest.approx(2.7182, abs=1e-3)]
    shown = cli("run", linear / "linear_regression_xnnpack.pte", "--input", "1,2,3,4")
    assert shown.returncode == 0 and f"{found['output'][0]:.6f}" in shown.stdout


@pytest.mark.parametrize("numbers", ["-1,2,3,4", "-1e0,-2,-3,-4"])
def test_the_first_number_may_be_negative(numbers, linear, cli, document):
    result = cli("run", linear / "linear_regression_onnxruntime.onnx", "--input", numbers, "--json")
    assert len(document(result)["output"]) == 1


def test_numbers_that_are_not_finite(linear, cli, complaint):
    """JSON has no NaN: null, or one line that says no."""
    result = cli("run", linear / "linear_regression_onnxruntime.onnx", "--input", "nan,2,3,4", "--json")
    if result.returncode == 0:
        assert json.loads(result.stdout)["output"] == [None]
    else:
        complaint(result, result.returncode)


def test_input_and_output_files(linear, cli, tmp_path):
    np.savez(tmp_path / "in.npz", input_0=np.array([[1, 2, 3, 4]], np.float32))
    result = cli(
        "run", linear / "linear_regression_portable.pte", "--input", tmp_path / "in.npz",
        "--output", tmp_path / "out.npz",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    with np.load(tmp_path / "out.npz") as written:
        (name,) = written.files
        assert written[name].shape == (1, 1) and written[name].dtype == np.float32
        assert written[name][0, 0] == pytest.approx(2.7182, abs=1e-3)


def test_output_without_input_is_that_of_the_sample(linear, cli, tmp_path):
    result = cli("run", linear / "linear_regression_torch.pt2", *QUICK, "--output", tmp_path / "out.npz")
    assert result.returncode == 0, result.stderr
    assert zipfile.is_zipfile(tmp_path / "out.npz")


@pytest.mark.parametrize("numbers", ["1,2,3", "1,2,3,4,5", "1"])
def test_wrong_count_of_numbers(numbers, linear, cli, usage_error):
    count = len(numbers.split(","))
    usage_error(
        cli("run", linear / "linear_regression_xnnpack.pte", "--input", numbers), "4 numbers", f"not {count}", "[1, 4]"
    )


def test_wrong_count_of_numbers_for_a_folder_is_the_users_fault(linear, cli, usage_error):
    usage_error(cli("run", linear, "--input", "1,2,3", "--json"), "4 numbers", "not 3")


@pytest.mark.parametrize("text", ["one,2,3,4", "", "1,2,,4", "1;2;3;4"])
def test_what_is_no_number(text, linear, cli, usage_error):
    usage_error(cli("run", linear / "linear_regression_xnnpack.pte", "--input", text), "--input")


@pytest.mark.parametrize(
    ("name", "given", "named"),
    [
        ("xnnpack.pte", np.zeros((1, 5), np.float32), "float32[1, 5]"),
        ("xnnpack.pte", np.zeros((1, 4), np.float64), "float64[1, 4]"),
        ("xnnpack.pte", np.zeros(4, np.float32), "float32[4]"),
        ("onnxruntime.onnx", np.zeros((1, 4), np.int32), "int32[1, 4]"),
        ("openvino", np.zeros((2, 4), np.float32), "float32[2, 4]"),
        ("torch.pt2", np.zeros((4, 1), np.float32), "float32[4, 1]"),
    ],
)
def test_wrong_shape_or_dtype_names_both(name, given, named, linear, cli, tmp_path, complaint):
    np.savez(tmp_path / "in.npz", input_0=given)
    result = cli("run", linear / f"linear_regression_{name}", "--input", tmp_path / "in.npz")
    complaint(result, 1, named, "float32[1, 4]")


def test_wrong_number_of_inputs(linear, cli, tmp_path, complaint):
    one = np.zeros((1, 4), np.float32)
    np.savez(tmp_path / "in.npz", input_0=one, input_1=one)
    complaint(cli("run", linear / "linear_regression_xnnpack.pte", "--input", tmp_path / "in.npz"), 1, "2", "1")


@pytest.mark.parametrize("member", ["data", "data_0", "output_0"])
def test_input_file_with_other_names_says_which_it_wants(member, linear, cli, tmp_path, complaint):
    np.savez(tmp_path / "in.npz", **{member: np.zeros((1, 4), np.float32)})
    complaint(cli("run", linear / "linear_regression_xnnpack.pte", "--input", tmp_path / "in.npz"), 1, "input_0")


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04broken"])
def test_damaged_input_file(content, linear, cli, tmp_path, complaint):
    (tmp_path / "in.npz").write_bytes(content)
    complaint(cli("run", linear / "linear_regression_onnxruntime.onnx", "--input", tmp_path / "in.npz"), 1, "in.npz")


def test_inspect_prints_the_certificate(linear, cli, plain):
    result = cli("inspect", linear / "linear_regression_xnnpack.pte")
    assert result.returncode == 0 and result.stderr == ""
    for word in ("executorch.xnnpack", "XnnpackBackend × 1", "coverage", "FullyConnected", "float32[1, 4]", "checked"):
        assert word in result.stdout
    plain(result.stdout)


def test_inspect_as_json_is_the_manifest(linear, cli, document):
    manifest = linear / "linear_regression_openvino.json"
    assert document(cli("inspect", linear / "linear_regression_openvino", "--json")) == json.loads(manifest.read_text())
