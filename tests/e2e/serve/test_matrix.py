"""The page of the matrix: each outcome leads to its reason, or to all measurements; without one it says what to run."""

import re
from dataclasses import replace

from cross_backend.machine import Machine
from cross_backend.records import Launch, Outcome
from cross_backend.store import Store
from cross_backend.study.matrix import layout
from tests.e2e.serve.conftest import serving
from tests.unit.report import studies

REASON = "it needs <script>alert(1)</script> a phone"


def test_the_page_shows_the_latest_matrix(models, tmp_path):
    db = tmp_path / "m.sqlite"
    study = layout(["linear_regression"], ["cpu", "openvino?precision=fp32"])
    right = replace(studies.measured("linear_regression", "Right", 1.5, None, 1), target="onnxruntime.cpu")
    right = replace(right, latency=replace(right.latency, launches=()), latency_ms=None, mean_ms=None)
    absent = replace(right, title="Absent", outcome=Outcome.UNAVAILABLE, reason=REASON, latency=None, measurements=())
    with Store.open(str(db)) as store:
        begun = store.begin(study.name, study.to_json(), "d" * 64, Machine.here(), {})
        store.keep_launch(begun.id, study.panels()[0].key, 0, Launch((right, absent)))
    with serving(models, db) as served:
        status, _, body = served.ask("GET", "/matrix")
    page = body.decode()
    assert status == 200 and "not finished" in page
    assert "<script>alert" not in page and "&lt;script&gt;" in page
    links = dict(re.findall(r'<a href="(#reason-1|/results/1)">(OK|UNAVAILABLE)</a>', page))
    assert links == {"/results/1": "OK", "#reason-1": "UNAVAILABLE"}
    assert page.count('id="reason-') == 1 and '<a href="/matrix" aria-current="page">Matrix</a>' in page


def test_without_a_matrix_the_page_says_what_to_run(served):
    status, _, body = served.ask("GET", "/matrix")
    assert status == 200 and b"cross-backend matrix linear_regression" in body
