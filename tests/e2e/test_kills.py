"""Processes that are killed and commands that are interrupted: what was finished is kept, and nobody stays behind."""

import json
import signal

import psutil
import pytest

pytestmark = pytest.mark.slow
MEASURE = ("compare", "linear_regression", "--seconds", "4", "--launches", "1", "--json")


@pytest.fixture
def marks(tmp_path, until):
    """Give the process id that a faulty backend left under a name."""
    (tmp_path / "marks").mkdir()

    def wait(name, process):
        path = tmp_path / "marks" / f"{name}.pid"
        until(path.is_file, f"{name} has begun", of=process)
        return int(path.read_text())

    wait.folder = str(tmp_path / "marks")
    return wait


def outcomes(found):
    return {row["target"]: row["outcome"] for row in found["results"]}


def test_worker_killed_while_lowering(linear, faulty, start, marks, workers, streams):
    """The backend that was being lowered fails; the one beside it and those after it do not."""
    targets = ("cpu", "faulty.lower_hangs", "torch")
    process = start(*MEASURE, "--backends", *targets, FAULTY_MARKS=marks.folder, **faulty)
    pid = marks("lower_hangs", process)
    assert pid in {child.pid for child in workers(process)}
    psutil.Process(pid).kill()
    assert process.wait(120) == 0
    found = json.loads(streams()[0])
    assert outcomes(found) == {"onnxruntime.cpu": "OK", "faulty.lower_hangs": "LOWER_FAIL", "torch.eager": "OK"}
    assert "SIGKILL" in found["results"][1]["reason"]
    assert found["results"][0]["rank"] and found["results"][2]["rank"]


def test_worker_killed_while_measuring(linear, faulty, start, marks, streams):
    process = start(*MEASURE, "--backends", "cpu", "faulty.slow", "torch", FAULTY_MARKS=marks.folder, **faulty)
    psutil.Process(marks("slow", process)).kill()
    assert process.wait(120) == 0
    found = json.loads(streams()[0])
    assert outcomes(found) == {"onnxruntime.cpu": "OK", "faulty.slow": "RUN_FAIL", "torch.eager": "OK"}
    assert "SIGKILL" in found["results"][1]["reason"]
    for row in (found["results"][0], found["results"][2]):
        assert row["rank"] in {1, 2} and row["latency_ms"]["n"] == 1000


@pytest.mark.slow
def test_real_worker_killed_while_measuring(linear, start, until, workers, streams):
    process = start(*MEASURE, "--num-runs", "1000000", "--backends", "cpu", "torch")
    first = until(lambda: len(workers(process)) >= 2 and workers(process)[0], "the second target is opened", of=process)
    first.kill()
    assert process.wait(120) == 0
    found = json.loads(streams()[0])
    assert outcomes(found) == {"onnxruntime.cpu": "RUN_FAIL", "torch.eager": "OK"}
    assert found["results"][1]["rank"] == 1


@pytest.mark.slow
def test_real_worker_killed_while_lowering(start, until, workers, streams, tmp_path):
    """Into an empty cache; a worker that lowers has a scratch folder, and torch alone takes it a second."""
    process = start(*MEASURE, "--backends", "cpu", "openvino", "--jobs", "2", cache=tmp_path / "cache")

    def lowering():
        second = workers(process)[1:]
        return second and list((tmp_path / "cache" / "tmp").glob(f"{second[0].pid}-*")) and second[0]

    until(lowering, "the second worker lowers", of=process).kill()
    assert process.wait(180) == 0
    found = json.loads(streams()[0])
    assert sorted(outcomes(found).values()) == ["LOWER_FAIL", "OK"]
    assert [row["rank"] for row in found["results"] if row["outcome"] == "OK"] == [1]


def test_worker_killed_while_capturing(start, until, workers, streams, tmp_path):
    """Every target waits for the capture, so it is tried again."""
    process = start("export", "linear_regression", "--backends", "torch", "--json", cwd=tmp_path, cache=tmp_path / "c")
    until(lambda: workers(process), "the capture begins", of=process)[0].kill()
    assert process.wait(120) == 0
    assert outcomes(json.loads(streams()[0])) == {"torch.eager": "OK"}


@pytest.mark.parametrize("signum", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_interrupted_export_keeps_what_was_finished(
    signum, linear, faulty, start, marks, all_gone, until, streams, tmp_path
):
    out = tmp_path / "out"
    process = start(
        "export", "linear_regression", "--backends", "cpu", "faulty.right", "faulty.lower_hangs", "--output-dir", out,
        "--jobs", "2", FAULTY_MARKS=marks.folder, **faulty,
    )  # fmt: skip
    marks("lower_hangs", process)
    done = [out / f"linear_regression_{name}.json" for name in ("onnxruntime", "faulty_right")]
    until(lambda: all(path.is_file() for path in done), "the others are written", of=process)
    family = process.children(recursive=True)
    assert family
    process.send_signal(signum)
    assert process.wait(30) == 130
    assert until(lambda: all_gone(family), "all children are gone", 10)
    names = {path.name for path in out.iterdir()}
    assert {"linear_regression_onnxruntime.onnx", "linear_regression_faulty_right.faulty"} <= names
    assert not [name for name in names if "tmp" in name or "lower_hangs" in name]
    stdout, stderr = streams()
    assert "Traceback" not in stdout + stderr
    assert stderr.splitlines()[-1].startswith("cross-backend export: interrupted")


def test_interrupted_export_begins_nothing_new(linear, faulty, start, marks, all_gone, until, tmp_path):
    """More targets than workers: those that wait must not begin when the ones before them are stopped."""
    targets = [f"faulty.lower_hangs?seat={seat}" for seat in range(1, 13)]
    process = start(
        "export", "linear_regression", "--backends", *targets, "--jobs", "2", "--output-dir", tmp_path / "out",
        FAULTY_MARKS=marks.folder, **faulty,
    )  # fmt: skip
    marks("lower_hangs", process)
    family = process.children(recursive=True)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert until(lambda: all_gone(family), "all children are gone", 10)


def test_interrupted_comparison_keeps_what_was_lowered(faulty, start, marks, cli, document, until, all_gone, tmp_path):
    cache = tmp_path / "cache"
    process = start(
        *MEASURE, "--backends", "torch", "faulty.lower_hangs", "--jobs", "2", cache=cache,
        FAULTY_MARKS=marks.folder, **faulty,
    )  # fmt: skip
    marks("lower_hangs", process)
    until(lambda: list(cache.glob("artifacts/*/artifact.json")), "the other one is lowered", of=process)
    family = process.children(recursive=True)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert until(lambda: all_gone(family), "all children are gone", 10)
    again = cli("export", "linear_regression", "--backends", "torch", "--json", cache=cache, cwd=tmp_path)
    assert document(again)["results"][0]["cached"] is True
    assert not list((cache / "tmp").glob("*")), "the killed worker's scratch is removed"


def test_interrupted_measurement_tells_what_was_finished(
    linear, faulty, start, marks, until, all_gone, streams, tmp_path
):
    out = tmp_path / "out"
    process = start(
        *MEASURE, "--backends", "cpu", "faulty.slow", "--output-dir", out, FAULTY_MARKS=marks.folder, **faulty
    )
    marks("slow", process)
    family = process.children(recursive=True)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert until(lambda: all_gone(family), "all children are gone", 10)
    stdout, stderr = streams()
    found = json.loads(stdout)
    assert found["interrupted"] is True
    assert json.loads((out / "results.json").read_text()) == found
    assert outcomes(found) == {"onnxruntime.cpu": "OK", "faulty.slow": "OK"}
    assert all(row["error"]["verdict"] is True for row in found["results"])
    assert "Traceback" not in stderr


def test_comparison_that_is_interrupted_at_its_second_model_keeps_the_first(linear, start, until, streams, tmp_path):
    (tmp_path / "net.py").write_text(
        "import time\nfrom pathlib import Path\ndef hangs():\n"
        "    Path(__file__).with_name('begun').touch()\n    time.sleep(3600)\n"
    )
    models = ("linear_regression", f"{tmp_path / 'net.py'}:hangs")
    process = start("compare", *models, "--backends", "cpu", "--num-runs", "6", "--json", "--output-dir", tmp_path)
    until((tmp_path / "begun").is_file, "the second model is built", of=process)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    stdout, stderr = streams()
    found = json.loads(stdout)
    assert found["interrupted"] is True and outcomes(found) == {"onnxruntime.cpu": "OK"}
    assert found["results"][0]["rank"] == 1 and json.loads((tmp_path / "results.json").read_text()) == found
    assert stderr.splitlines()[-1] == "cross-backend compare: interrupted."


@pytest.mark.parametrize("stage", ["lower_hangs", "slow"])
def test_killed_command_leaves_no_children(stage, linear, faulty, start, marks, until, all_gone, tmp_path):
    process = start(*MEASURE, "--backends", "cpu", f"faulty.{stage}", FAULTY_MARKS=marks.folder, **faulty)
    marks(stage, process)
    family = process.children(recursive=True)
    assert family
    process.kill()
    process.wait()
    assert until(lambda: all_gone(family), "all children are gone", 15)
