"""``run`` on files that bring no sample: they run once, are said to be unverified, and are neither timed nor ranked."""

import json
import shutil

import pytest


@pytest.fixture
def foreign(linear, tmp_path):
    """Give a function that copies an artifact's payload alone, as somebody else's tool writes it."""

    def copy(name):
        return shutil.copyfile(linear / name, tmp_path / f"theirs{(linear / name).suffix}")

    return copy


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("linear_regression_xnnpack.pte", "executorch.xnnpack"),
        ("linear_regression_portable.pte", "executorch.portable"),
        ("linear_regression_onnxruntime.onnx", "onnxruntime.cpu"),
    ],
)
def test_a_program_without_a_manifest_is_unverified(name, target, foreign, cli, document, plain):
    path = foreign(name)
    shown = cli("run", path)
    assert shown.returncode == 0, shown.stderr
    assert f"theirs on {target}: " in shown.stdout and "unverified" in shown.stdout
    assert " ms" not in shown.stdout and "right" not in shown.stdout
    plain(shown.stdout)
    found = document(cli("run", path, "--input", "1,2,3,4", "--json"))
    assert (found["workload"], found["target"], found["verified"]) == ("theirs", target, False)
    assert found["output"] == [pytest.approx(2.7182, abs=1e-3)] and "no sample" in found["reason"]
    assert "results" not in found and "latency_ms" not in json.dumps(found)


def test_outputs_of_such_a_program_can_be_kept(foreign, cli, tmp_path):
    assert cli("run", foreign("linear_regression_portable.pte"), "--output", tmp_path / "out.npz").returncode == 0
    assert (tmp_path / "out.npz").is_file()


@pytest.mark.parametrize("ending", [".pte", ".onnx"])
def test_garbage_without_a_manifest_is_refused(ending, cli, complaint, tmp_path):
    path = tmp_path / f"theirs{ending}"
    path.write_bytes(b"garbage " * 100)
    complaint(cli("run", path), 1, path.name)


@pytest.mark.parametrize(
    ("args", "word"), [(("--profile",), "--profile needs a sample"), (("--input", "1,2"), "4 numbers, not 2")]
)
def test_what_such_a_program_cannot_be_asked(args, word, foreign, cli, usage_error):
    usage_error(cli("run", foreign("linear_regression_portable.pte"), *args), word)


def test_a_bundle_without_a_sample_is_unverified(cli, document, tmp_path):
    exported = cli("bundle", "linear_regression", "--backends", "portable", "--output-dir", tmp_path)
    assert exported.returncode == 0, exported.stderr
    bundle = tmp_path / "linear_regression"
    manifest = json.loads((bundle / "manifest.json").read_text())
    (bundle / "manifest.json").write_text(json.dumps({**manifest, "sample": None}))
    shutil.rmtree(bundle / "sample")
    found = document(cli("run", bundle, "--json"))
    assert (found["target"], found["verified"]) == ("executorch.portable", False)
