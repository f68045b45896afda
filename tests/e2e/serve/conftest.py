"""What the tests of the server share: models and studies to show, a server in a thread of this process, a browser."""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import http.client
import json
import threading
from dataclasses import replace
from urllib.parse import urlencode

import pytest

from cross_backend.cache import Cache
from cross_backend.machine import Machine
from cross_backend.records import Launch
from cross_backend.store import Store
from cross_backend.study.spec import StudySettings, StudySpec, WorkloadSpec
from cross_backend.web.app import build
from cross_backend.web.guard import TOKEN_HEADER, Access
from cross_backend.web.server import bound, server
from tests.browser import chromium
from tests.e2e.serve.visits import visiting
from tests.unit.report import studies

TARGETS = ("onnxruntime.cpu", "openvino")
NIGHTS_MS = (2.0, 2.0, 3.2)
"""Median of the second target in each stored study."""


@pytest.fixture(scope="session")
def models(cli, linear, shared_folder, tmp_path_factory):
    """``linear_regression`` for five targets and ``digits_cnn`` for three, as the command exports them."""
    folder = shared_folder / "served"
    with (shared_folder / "served.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            partial = tmp_path_factory.mktemp("partial")
            result = cli("export", "digits_cnn", "--backends", *TARGETS, "xnnpack", "--strict", "--output-dir", partial)
            assert result.returncode == 0, result.stderr + result.stdout
            partial.rename(folder)
    return [linear, folder]


def _launch(second_ms: float, seed: int) -> Launch:
    def one(title: str, target: str, median_ms: float, seed: int):
        found = studies.measured("linear_regression", title, median_ms, None, seed)
        latency = replace(found.latency, launches=())
        return replace(found, target=target, latency=latency, latency_ms=None, mean_ms=None, measurements=(), absent={})

    results = (one("ONNX Runtime (CPU)", TARGETS[0], 1.5, seed), one("OpenVINO", TARGETS[1], second_ms, seed + 1))
    return Launch(results, one("ONNX Runtime (CPU)", TARGETS[0], 1.5, seed + 2), 0, seconds=4.0)


@pytest.fixture(scope="session")
def db(tmp_path_factory):
    """Three studies of one name; in the last one a target became slower."""
    path = tmp_path_factory.mktemp("db") / "studies.sqlite"
    settings = StudySettings(seconds=0.1, launches=3, max_launches=3, instruments=(), timeout_s=60)
    study = StudySpec("nightly", (WorkloadSpec.find("linear_regression"),), TARGETS, (1,), settings=settings)
    key = study.panels()[0].key
    with Store.open(str(path)) as store:
        for night, second_ms in enumerate(NIGHTS_MS):
            begun = store.begin(study.name, study.to_json(), "d" * 64, Machine.here(), {"cross-backend": "0"})
            for number in range(3):
                store.keep_launch(begun.id, key, number, _launch(second_ms, 100 * night + 10 * number))
            store.finish_panel(begun.id, key)
            store.finish(begun.id)
    return path


class Served:
    """A server that runs, and how it is asked."""

    def __init__(self, app, listening):
        self.state = app.state.shared
        self.port = listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def ask(self, method, path, body=None, headers=None):
        """Give (status, headers, body) of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def get(self, path):
        """Give the JSON at an address."""
        status, _, body = self.ask("GET", path)
        assert status == 200, (path, status, body[:500])
        return json.loads(body)

    def keys(self, model):
        """Give target → key of what can be run."""
        found = {one["name"]: one["backends"] for one in self.get("/api/models")["models"]}
        return {row["target"].partition("?")[0]: row["artifact"] for row in found[model] if row["reason"] is None}

    def run(self, keys, data=None, filename=None, **headers):
        """Give (status, answer) of a run."""
        asked = [("artifact", key) for key in keys]
        asked += [("sample", "true")] if data is None else []
        asked += [("name", filename)] if filename else []
        headers = {TOKEN_HEADER: self.state.access.page_token, **headers}
        status, _, body = self.ask("POST", f"/api/run?{urlencode(asked)}", data, headers)
        return status, json.loads(body)


@contextlib.contextmanager
def serving(models, db):
    """Give a server with models and studies, in a thread of this process."""
    app = build(models, str(db), Access(), Cache())
    listening, ready = bound("127.0.0.1", 0), threading.Event()
    running = server(app, ready.set)
    thread = threading.Thread(target=running.run, args=([listening],))
    thread.start()
    assert ready.wait(60)
    try:
        yield Served(app, listening)
    finally:
        running.should_exit = True
        thread.join(60)
    if thread.is_alive():
        faulthandler.dump_traceback()
    assert not thread.is_alive(), "what it waits for stands in the captured standard error"


@pytest.fixture(scope="session")
def served(models, db):
    """The server with those models and studies."""
    with serving(models, db) as found:
        yield found


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture
def visit(browser, served):
    with visiting(browser, served) as go:
        yield go
