"""Studies that are interrupted or killed: what was told to be stored is there, and the same command goes on from it.

``CROSS_BACKEND_KILLS=100 pytest tests/e2e/test_study_kills.py -k random`` kills the driver so many times.
"""

import os
import random
import signal
import sqlite3
import time

import psutil
import pytest

from cross_backend.records import Further, Launch
from cross_backend.store import Store
from cross_backend.store.rows import to_packet
from cross_backend.study.driver import read
from cross_backend.study.spec import StudySpec

KILLS = int(os.environ.get("CROSS_BACKEND_KILLS", "10"))
LAUNCHES = 2
TITLES = {"faulty.right": "Right", "onnxruntime.cpu": "ONNX Runtime (CPU)"}


def panel(batch):
    """Give a panel as progress calls it."""
    return f"linear_regression, batch {batch}, 1 thread"


def records(targets, batch_sizes):
    """Give all that such a study stores, as progress calls it."""
    names = [f"launch {number + 1}" for number in range(LAUNCHES)]
    names += [f"further measurements of {TITLES[target]}" for target in targets]
    return {(panel(batch), name) for batch in batch_sizes for name in names}


@pytest.fixture
def study(faulty, start, write_study, tmp_path):
    """Give a function that starts a study, or goes on with it."""

    def run(targets, batch_sizes):
        file = write_study(
            tmp_path / "killed.yaml", ["linear_regression"], targets, batch_sizes, instruments=["memory"]
        )
        return start("study", "run", file, "--db", tmp_path / "s.sqlite", cwd=tmp_path, **faulty)

    return run


@pytest.fixture
def told(streams):
    """Give what the running command said is stored."""

    def find():
        rows = [line.removesuffix(": stored") for line in streams()[1].splitlines() if line.endswith(": stored")]
        return [tuple(row.rsplit(": ", 1)) for row in rows]

    return find


def kept(path):
    """Give what a sound database holds: (study, panel, record) → its content, and which studies are finished."""
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    found, finished = {}, {}
    with Store.open(str(path)) as store:
        assert store.told == []
        for row in store.studies():
            finished[row.id] = row.finished is not None
            for spec in StudySpec.from_json(store.study(row.id).spec).panels():
                for number, launch in store.records(row.id, spec.key, Launch):
                    titles = [result.title for result in launch.results]
                    found[row.id, str(spec.key), f"launch {number + 1}"] = to_packet(launch)
                for index, further in store.records(row.id, spec.key, Further):
                    name = f"further measurements of {titles[index]}"
                    found[row.id, str(spec.key), name] = to_packet(further)
    return found, finished


def shape(path, number):
    """Give what of a study's results does not depend on chance."""
    with Store.open(str(path)) as store:
        results = read(store, number)
    assert results.finished
    found = []
    for panel in results.panels:
        for result in panel.results:
            metrics = [(metric.metric, metric.count) for metric in result.measurements]
            cell = (panel.workload, panel.batch, result.target, result.outcome)
            found.append((*cell, panel.launches, len(result.latency.by_launch), metrics))
    return found


def stop(process, signum):
    """Stop a command and everything that it started from starting more, look at them, and send the signal."""
    process.send_signal(signal.SIGSTOP)
    family = process.children(recursive=True)
    process.send_signal(signum)
    process.send_signal(signal.SIGCONT)
    return family


SIGNALS = [*(pytest.param(one, marks=pytest.mark.slow) for one in (signal.SIGINT, signal.SIGTERM)), signal.SIGKILL]


@pytest.mark.slow
@pytest.mark.parametrize("signum", SIGNALS)
def test_a_stopped_study_goes_on_where_it_was(signum, study, told, streams, until, all_gone, workers, tmp_path):
    path, asked = tmp_path / "s.sqlite", (tuple(TITLES), (1,))
    process, all_of_it = study(*asked), records(*asked)
    # In the middle of the second launch: the first is stored, and the next workers are there.
    until(lambda: len(told()) == 1 and workers(process), "the second launch has begun", of=process)
    family = stop(process, signum)
    status = process.wait(30)
    assert until(lambda: all_gone(family), "all children are gone", 15)
    first = told()
    assert first == [(panel(1), "launch 1")]
    if signum != signal.SIGKILL:
        assert status == 130 and "Traceback" not in streams()[1]
        assert "the same command resumes" in streams()[1]
        assert streams()[1].splitlines()[-1] == "cross-backend study: interrupted."
    before, finished = kept(path)
    assert set(before) == {(1, *record) for record in first} and finished == {1: False}
    process = study(*asked)
    assert process.wait(300) == 0, streams()[1]
    assert set(told()) == all_of_it - set(first) and len(told()) == len(all_of_it) - 1, "nothing is measured again"
    after, finished = kept(path)
    assert finished == {1: True} and set(after) == {(1, *record) for record in all_of_it}
    assert {key: after[key] for key in before} == before, "what was stored is as it was"


@pytest.mark.timeout(3600)
@pytest.mark.slow
def test_killed_at_random_moments_nothing_is_lost(study, told, until, all_gone, tmp_path):
    """Each start goes on with what the killed ones left; a finished study is followed by the next."""
    moments, path, asked = random.Random(KILLS), tmp_path / "s.sqlite", (("faulty.right",), (1, 2))
    process = study(*asked)
    began = time.monotonic()
    assert process.wait(300) == 0
    seconds = time.monotonic() - began
    before, finished = kept(path)
    assert set(told()) == records(*asked) and finished == {1: True}
    whole = shape(path, 1)
    for _ in range(KILLS):
        process = study(*asked)
        time.sleep(moments.uniform(0, seconds / 2))
        family = stop(process, signal.SIGKILL) if process.poll() is None else []
        process.wait(30)
        number = max(finished) + 1 if all(finished.values()) else max(finished)
        after, finished = kept(path)
        assert {key: after[key] for key in before} == before, "what was stored is as it was"
        new = [key[1:] for key in after if key not in before]
        assert all(key[0] == number for key in after if key not in before)
        # One more than was told may be there: the kill came between the commit and the line.
        assert set(told()) <= set(new) and len(new) <= len(told()) + 1, "what was told is there, and nothing twice"
        assert until(lambda family=family: all_gone(family), "all children are gone", 15)
        before = after
    number = max(finished) + 1 if all(finished.values()) else max(finished)
    assert study(*asked).wait(300) == 0
    after, finished = kept(path)
    assert all(finished.values()) and {key: after[key] for key in before} == before
    assert {key[1:] for key in after if key[0] == number} == records(*asked)
    assert all(shape(path, one) == whole for one in finished), "as if it had never been killed"


def test_a_study_is_run_by_one_command_at_a_time(study, until, told, cli, faulty, complaint, tmp_path):
    process = study(["faulty.right"], [1])
    until(told, "the first launch is stored", of=process)
    process.suspend()  # it would be done before the others are
    args = ("study", "run", tmp_path / "killed.yaml", "--db", tmp_path / "s.sqlite")
    complaint(cli(*args, cwd=tmp_path, **faulty), 1, f"is being run by process {process.pid} on ")
    shown = cli("study", "report", "killed", "--db", tmp_path / "s.sqlite", cwd=tmp_path)
    assert shown.returncode == 0 and "Not finished: this is what was measured until now." in shown.stdout
    process.resume()
    assert process.is_running() and process.status() != psutil.STATUS_ZOMBIE
