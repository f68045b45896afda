"""Targets that crash, hang, leak or lie inside a study: each cell says so, and the study goes on to its end."""

import json

import pytest

from cross_backend.store import Store

pytestmark = pytest.mark.slow

RIGHT = ("onnxruntime.cpu", "faulty.right", "faulty.close_segfault")
FAULTS = {
    "faulty.lower_raises": ("LOWER_FAIL", "the vendor's compiler is unhappy"),
    "faulty.load_segfault": ("LOAD_FAIL", "SIGSEGV"),
    "faulty.loads_once": ("LOAD_FAIL", "in launch 2: faulty.loads_once cannot load"),
    "faulty.call_hangs": ("TIMEOUT", "no answer to 'verify' within 4 s"),
    "faulty.call_segfault": ("RUN_FAIL", "SIGSEGV"),
    "faulty.measure_raises": ("RUN_FAIL", "the device was unplugged"),
    "faulty.writes_garbage": ("RUN_FAIL", "something that is no answer"),
    "faulty.leaks": ("RUN_FAIL", "more than its limit of 0.8 GB"),
    "faulty.gives_nan": ("MISMATCH", "NaN"),
    "directml": ("UNAVAILABLE", "Windows"),
}
"""Target → its outcome, and what the reason must say."""
UNRANKED = {
    "faulty.elsewhere": "not on GPU: 0.7 %",
    "faulty.emulated": "an emulator; its durations say nothing about an NPU",
}
NOT_TO_BE_CAPTURED = """
def model():
    raise RuntimeError("the checkpoint is missing")
"""


@pytest.fixture(scope="module")
def faults(cli, faulty, write_study, tmp_path_factory):
    """A study of all of them on a model that works and one that does not: (how it ended, its folder)."""
    folder = tmp_path_factory.mktemp("faults")
    (folder / "broken.py").write_text(NOT_TO_BE_CAPTURED)
    targets = [RIGHT[0], *FAULTS, *UNRANKED, *RIGHT[1:]]
    models = [f"{folder / 'broken.py'}:model", "linear_regression"]
    limits = {"timeout_s": 4, "memory_limit": "800 MB", "instruments": ["memory", "energy"]}
    file = write_study(folder / "faults.yaml", models, targets, output={"reports": ["faults.json"]}, **limits)
    # Capturing and lowering have no time box like that of what hangs.
    assert cli("export", "linear_regression", "--backends", RIGHT[0], "--output-dir", folder / "out").returncode == 0
    args = ("study", "run", file, "--db", folder / "faults.sqlite")
    return cli(*args, cwd=folder, FAULTY_MARKS=str(folder), **faulty), folder


@pytest.fixture(scope="module")
def rows(faults):
    """The cells of the model that works, by target."""
    found = json.loads((faults[1] / "faults.json").read_text())
    return {row["target"]: row for row in found["results"] if row["workload"] == "linear_regression"}


def test_the_study_ends_with_status_1(faults):
    result, folder = faults
    assert result.returncode == 1 and "Traceback" not in result.stderr
    found = json.loads((folder / "faults.json").read_text())
    assert found["finished"] is True and len(found["results"]) == 2 * (len(RIGHT) + len(FAULTS) + len(UNRANKED))


@pytest.mark.parametrize("target", FAULTS)
def test_a_fault_has_its_outcome_and_no_figure(target, faults, rows):
    outcome, words = FAULTS[target]
    row = next(row for name, row in rows.items() if name.endswith(target))
    assert row["outcome"] == outcome and words in row["reason"], row["reason"]
    assert "\n" not in row["reason"] and "Traceback" not in row["reason"]
    assert row["rank"] is None and row["latency_ms"] is None, "no number without proof"
    assert words.removeprefix("in launch 2: ")[:30] in faults[0].stdout, "the terminal tells it, too"


def test_the_others_are_ranked(rows):
    for target in RIGHT:
        assert rows[target]["outcome"] == "OK" and rows[target]["rank"] in {1, 2, 3}, rows[target]
        assert rows[target]["latency_ms"]["n"] > 12 and rows[target]["error"]["verdict"] is True


def test_a_crash_in_an_instrument_costs_that_instrument(faults, rows):
    """What was measured before stands, what follows goes on in another process, and the crash is told."""
    row = rows["faulty.close_segfault"]
    assert list(row["failures"]) == ["memory"] and "SIGSEGV" in row["failures"]["memory"]
    assert "SIGSEGV" in row["not_measured"]["memory"]
    energy = {metric["metric"] for metric in row["measurements"]} | row["not_measured"].keys()
    assert "energy.per_inference" in energy and "energy" not in row["failures"]
    assert "memory: its process failed" in faults[0].stdout
    assert rows["faulty.right"]["failures"] == {}
    assert "memory.peak_rss" in {metric["metric"] for metric in rows["faulty.right"]["measurements"]}


def test_what_hardly_ran_on_the_device_has_no_rank(faults, rows):
    row = rows["faulty.elsewhere"]
    assert (row["outcome"], row["rank"], row["unranked"]) == ("OK", None, UNRANKED["faulty.elsewhere"])
    assert row["latency_ms"]["median"] > 0 and row["execution"]["share"] == 0.0074
    assert UNRANKED["faulty.elsewhere"] in faults[0].stdout


def test_an_emulator_is_a_functional_check(faults, rows):
    row = rows["faulty.emulated"]
    assert (row["outcome"], row["rank"], row["unranked"]) == ("OK", None, UNRANKED["faulty.emulated"])
    assert row["latency_ms"] is None and row["error"]["verdict"] is True
    assert row["execution"]["functional_only"] and "functional check only" in faults[0].stdout


def test_a_model_that_cannot_be_captured_says_so_in_every_cell(faults):
    found = json.loads((faults[1] / "faults.json").read_text())
    cells = [row for row in found["results"] if row["workload"] == "broken_model"]
    assert [row["target"] for row in cells] == [row["target"] for row in found["results"][len(cells) :]]
    for row in cells:
        assert row["outcome"] == "LOWER_FAIL" and "RuntimeError: the checkpoint is missing" in row["reason"]


@pytest.mark.slow
def test_a_comparison_says_it_like_a_study(cli, faulty):
    targets = ("--backends", "faulty.right", *UNRANKED, "--num-runs", "60", "--launches", "2")
    result = cli("compare", "linear_regression", *targets, **faulty)
    assert result.returncode == 0, result.stderr
    assert "Elsewhere" in result.stdout and f"no rank: {UNRANKED['faulty.elsewhere']}" in result.stdout
    assert f"[warn] Emulated: verified, functional check only: {UNRANKED['faulty.emulated']}" in result.stdout
    ranking = result.stdout[result.stdout.index("Performance Ranking:") :]
    assert "Right" in ranking and "Elsewhere" not in ranking and "Emulated" not in ranking
    assert "2 launches" in result.stdout


@pytest.mark.slow
def test_a_full_disk_loses_nothing(cli, faulty, write_study, complaint, tmp_path):
    """What cannot be written waits in a file; with room again the study ends, and measures only what is missing."""
    launches = 8
    file = write_study(
        tmp_path / "full.yaml", ["linear_regression"], ["faulty.right"], launches=launches, max_launches=launches
    )
    args = ("study", "run", file, "--db", tmp_path / "full.sqlite")
    result = cli(*args, cwd=tmp_path, max_file_bytes=200_000, **faulty)
    line = complaint(result, 1, "free some space", "is kept in")
    told = result.stderr.count(": stored\n")
    (spooled,) = tmp_path.glob("full.sqlite.spooled/*")
    assert str(spooled) in line and 0 < told < launches - 1
    again = cli(*args, cwd=tmp_path, **faulty)
    assert again.returncode == 0, again.stderr
    assert f"taken in what could not be written earlier: launch {told}" in again.stderr
    assert again.stderr.count(": stored\n") == launches - told - 1, "the one that waited is not measured again"
    with Store.open(str(tmp_path / "full.sqlite")) as store:
        (row,) = store.studies()
        assert row.finished and row.launches == launches and store.told == []
    assert not spooled.exists()
