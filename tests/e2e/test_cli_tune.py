"""``tune``: a winner within bounds and a command that exports it; resumed, refused, and told what is nearest."""

import json
import shlex
import signal

import pytest

from cross_backend.store import Store
from cross_backend.study.spec import StudySpec

QUICK = ("--seconds", "0.3", "--num-runs", "60", "--launches", "2", "--threads", "1")
DIGITS = ("tune", "digits_cnn", "--max-drop", "0.5%", "--backends", "xnnpack", "cpu", *QUICK)


@pytest.fixture(scope="module")
def tuned(cli, tmp_path_factory):
    """Search once: (how it ended, the folder)."""
    folder = tmp_path_factory.mktemp("tune")
    return cli(*DIGITS, "--db", "t.sqlite", "--json", cwd=folder), folder


@pytest.mark.slow
def test_the_winner_is_within_the_bounds_and_its_command_runs(tuned, document, cli):
    result, folder = tuned
    (found,) = document(result)["tuned"]
    winner, candidates = found["winner"], found["candidates"]
    assert winner["drop"] <= 0.005 and winner["latency_ms"]["median"] > 0
    assert winner["unbeaten"] and winner["launches"] >= 1 and not winner["misses"]
    assert found["accuracy"]["name"] == "top-1 accuracy" and 0.9 < found["accuracy"]["reference"] < 1
    assert {one["target"].partition("?")[0] for one in candidates} == {"executorch.xnnpack", "onnxruntime.cpu"}
    assert all(one["accuracy"] and one["memory_bytes"] > 1e7 for one in candidates if one["launches"])
    words = shlex.split(found["command"])
    assert words[:3] == ["cross-backend", "export", "digits_cnn"]
    exported = cli(*words[1:], "--json", cwd=folder)
    (row,) = document(exported)["results"]
    assert row["outcome"] == "OK" and row["target"] == winner["target"] and row["size_bytes"] == winner["size_bytes"]


@pytest.mark.slow
def test_what_it_measured_is_a_stored_study(tuned, cli, document):
    _, folder = tuned
    shown = document(cli("study", "report", "tune digits_cnn", "--db", "t.sqlite", "--json", cwd=folder))
    assert shown["finished"] and shown["study"] == "tune digits_cnn"
    assert all("top-1 accuracy" in row["task"] for row in shown["results"] if row["outcome"] == "OK")
    status = document(cli("study", "status", "--db", "t.sqlite", "--json", cwd=folder))
    assert [row["finished"] is not None for row in status["studies"]] == [True]


def test_it_prints_the_unbeaten_and_the_command(cli, plain, tmp_path):
    result = cli(
        "tune",
        "linear_regression",
        "--backends",
        "cpu",
        "--precision",
        "fp32",
        *QUICK,
        "--db",
        "t.sqlite",
        cwd=tmp_path,
    )
    assert result.returncode == 0, result.stderr
    plain(result.stdout + result.stderr)
    assert "Unbeaten candidates within the bounds (1)" in result.stdout and "relative error" in result.stdout
    assert (
        "Export it: cross-backend export linear_regression --backends 'onnxruntime?precision=fp32&threads=1'"
        in result.stdout
    )
    assert "linear_regression, batch 1: launch 1, 1 candidate: stored" in result.stderr


def launches(place):
    """Give the launches that are stored of the only study, and whether it is finished."""
    if not place.exists():
        return [], False
    with Store.open(str(place)) as store:
        rows = store.studies()
        if not rows:
            return [], False
        panels = StudySpec.from_json(store.study(rows[0].id).spec).panels()
        return [one for panel in panels for one in store.launches(rows[0].id, panel.key)], rows[0].finished is not None


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_what_was_measured_is_not_measured_again(how, start, until, cli, document, tmp_path):
    place = tmp_path / "t.sqlite"
    slowly = ("--threads", "1", "--launches", "2", "--seconds", "8", "--num-runs", "5000000")
    several = ("--backends", "cpu", "--batch", "1", "2", "3")  # more candidates than are open at once
    command = ("tune", "linear_regression", *several, *slowly, "--db", "t.sqlite")
    process = start(*command, cwd=tmp_path)
    before = until(lambda: launches(place)[0], "a launch is stored", of=process)
    process.send_signal(how)
    process.wait(60)
    kept, finished = launches(place)
    assert len(kept) >= len(before) and not finished
    result = cli(*command, "--json", cwd=tmp_path)
    (found,) = document(result)["tuned"]
    after, finished = launches(place)
    assert finished and all(one in after for one in kept) and found["study"] == 1 and len(after) > len(kept)


def test_nothing_meets_the_bounds_and_the_nearest_is_named(cli, document, tmp_path):
    command = (
        "tune",
        "linear_regression",
        "--backends",
        "cpu",
        "torch",
        "--precision",
        "fp32",
        "--max-size",
        "1kB",
        "--db",
        "t.sqlite",
    )
    result = cli(*command, cwd=tmp_path)
    assert result.returncode == 1
    assert "No candidate meets the bounds. Nearest: " in result.stdout and "(--max-size 1.0 kB)" in result.stdout
    assert "0 timed calls" in result.stdout, "what is too large is never measured"
    (found,) = document(cli(*command, "--json", cwd=tmp_path), status=1)["tuned"]
    assert found["winner"] is None and found["command"] is None
    assert found["nearest"]["misses"][0]["bound"] == "--max-size" and found["nearest"]["outcome"] == "NOT_MEASURED"


def test_slow_ones_and_large_processes_are_turned_away(cli, document, tmp_path):
    command = (
        "tune",
        "linear_regression",
        "--backends",
        "cpu",
        "--precision",
        "fp32",
        *QUICK,
        "--db",
        "t.sqlite",
        "--json",
    )
    (found,) = document(cli(*command, "--max-ms", "0.00001", "--max-memory", "1kB", cwd=tmp_path), status=1)["tuned"]
    assert {miss["bound"] for miss in found["nearest"]["misses"]} == {"--max-ms", "--max-memory"}
    assert found["launches"] == 1, "nobody can win, so nobody is started again"


def test_batch_sizes_are_compared_by_item(cli, document, tmp_path):
    command = (
        "tune",
        "linear_regression",
        "--backends",
        "cpu",
        "--precision",
        "fp32",
        *QUICK,
        "--batch",
        "1",
        "16",
        "--db",
        "t.sqlite",
    )
    (found,) = document(cli(*command, "--json", cwd=tmp_path))["tuned"]
    assert [one["batch"] for one in found["candidates"]] == [1, 16]
    assert found["winner"]["batch"] == 16
    assert found["command"].startswith("cross-backend export linear_regression --batch 16 ")
    assert found["winner"]["per_item_ms"] == pytest.approx(found["winner"]["latency_ms"]["median"] / 16)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--max-size", "much"), "'much' is not a size such as 20MB"),
        (("--max-drop", "200%"), "is not a share from 0 to 1"),
        (("--max-ms", "0"), "is not a number above 0"),
        (("--precision", "int3"), "unknown precision 'int3'"),
        (("--backends", "xnpack"), "unknown backend 'xnpack'"),
        (("--seconds", "0.01"), "--seconds: a number from 0.1"),
        (("--seed", "-1"), "--seed: a whole number"),
    ],
)
def test_wrong_usage_is_one_line(given, said, cli, tmp_path):
    result = cli("tune", "linear_regression", *given, "--db", "t.sqlite", cwd=tmp_path)
    assert result.returncode == 2 and said in result.stderr and "Traceback" not in result.stderr
    assert json.dumps(result.stdout) == '""'


@pytest.mark.slow
def test_a_backend_that_lacks_a_precision_keeps_its_row(cli, document, tmp_path):
    command = ("tune", "linear_regression", "--backends", "cpu", "wasm", "--precision", "fp32", "fp16", *QUICK)
    result = cli(*command, "--db", "t.sqlite", "--json", cwd=tmp_path)
    (found,) = document(result)["tuned"]
    ended = {one["target"]: one["outcome"] for one in found["candidates"]}
    assert "UNSUPPORTED" in ended.values() and found["winner"] is not None
