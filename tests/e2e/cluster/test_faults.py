"""Faults of a cluster that a user cannot see coming: noisy machines, databases and heads that go away."""

import socket
import threading
from collections import Counter
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from cross_backend.errors import StoreError
from cross_backend.records import Launch
from cross_backend.store import Store
from cross_backend.study.books import Book
from cross_backend.study.launchers.cluster import answers, connected
from cross_backend.study.launchers.launcher import PanelJob
from cross_backend.study.machines import MachineClass
from cross_backend.study.spec import StudySettings, StudySpec, WorkloadSpec
from cross_backend.study.watch import Watch
from tests.e2e.cluster.ray_cluster import Simulated, advertised, started
from tests.postgres import server

pytestmark = [pytest.mark.xdist_group("cluster"), pytest.mark.fresh_workers]
SETTINGS = StudySettings(launches=1, max_launches=1, instruments=())
ASKED = StudySpec(
    "faults",
    (WorkloadSpec("linear_regression", "x"),),
    ("cpu",),
    tuple(range(1, 15)),
    settings=SETTINGS,
    machines=(MachineClass("a"),),
)


def run(launcher, store, watch, asked=ASKED):
    """Run what is missing of a study of one class; give why panels are missing, and who measured which panel."""
    (study,) = launcher.studies(asked)
    book = Book(store, study)
    launcher.claim(book)
    jobs = [PanelJob(book, spec) for spec in study.panels() if spec.key not in book.finished]
    missing = launcher.launch(jobs, watch)
    return missing, measured(store, study)


def measured(store, study):
    """Give (panel, node) of every stored launch."""
    return [
        (spec.key.batch, launch.results[0].reason)
        for row in store.studies()
        for spec in study.panels()
        for _, launch in store.records(row.id, spec.key, Launch)
    ]


@pytest.mark.slow
def test_a_noisy_machine_is_set_aside_and_others_of_its_class_take_its_panels(ray_cluster, tmp_path):
    notes = []
    with Store.open(str(tmp_path / "s.sqlite")) as store, connected(ray_cluster.address) as cluster:
        cluster.look()
        noisy, calm = [node.number for node in cluster.of(MachineClass("a"))]
        missing, found = run(Simulated(cluster, noisy=noisy), store, Watch(note=notes.append))
    assert not missing and sorted(batch for batch, _ in found) == list(ASKED.batch_sizes)
    (note,) = notes
    assert f"(127.0.0.1, {noisy[:6]})" in note or noisy[:6] in note
    assert "is set aside: its noise floor is" in note and "the median of 3 panels; 20% is allowed" in note
    by = Counter(node for _, node in found)
    assert 3 <= by[noisy] <= 5 and by[calm] == len(found) - by[noisy], "its next panels go to the other one"


@pytest.mark.slow
def test_a_database_that_goes_away_keeps_what_was_measured(ray_cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    asked, seen = replace(ASKED, batch_sizes=(1, 2, 3, 4, 5)), []
    with server() as database:

        def finished(_panel):
            seen.append(1)
            if len(seen) == 2:
                database.stop()

        with (
            Store.open(database.url) as store,
            connected(ray_cluster.address) as cluster,
            pytest.raises(StoreError, match=r"is the server running.* is kept in ") as told,
        ):
            run(Simulated(cluster), store, Watch(panel=finished), asked)
        assert "\n" not in str(told.value) and told.value.spooled.exists()
        database.start()
        with Store.open(database.url) as store, connected(ray_cluster.address) as cluster:
            missing, found = run(Simulated(cluster), store, Watch(), asked)
            assert not missing and sorted(batch for batch, _ in found) == [1, 2, 3, 4, 5], "nothing lost, nothing twice"
            assert not told.value.spooled.exists()


def test_what_takes_connections_and_is_no_head_does_not_answer(monkeypatch):
    """Ray itself would wait for it for minutes."""
    monkeypatch.setattr("cross_backend.study.launchers.cluster.CONNECT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert not answers(f"127.0.0.1:{silent.getsockname()[1]}")
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as other:
        threading.Thread(target=other.handle_request, daemon=True).start()
        assert not answers(f"127.0.0.1:{other.server_port}")
    assert not answers("no port")


@pytest.mark.slow
def test_a_head_that_dies_ends_the_command_with_one_line(start, streams, asked, until, tmp_path):
    with started() as made:
        made.add_node(num_cpus=1, resources=advertised("a"))
        process = start(*asked(["a"], [1, 2, 3, 4]), "--address", made.address)
        until(lambda: "on a: stored" in streams()[1], "a launch is stored", of=process)
        made.remove_node(made.head_node, allow_graceful=False)
        assert process.wait(60) == 1
    lines = streams()[1].splitlines()
    assert "the head of the cluster" in lines[-1] and "the same command resumes" in lines[-1]
    assert not [line for line in lines if "Traceback" in line or "logging.cc" in line]
