"""A study that is begun from the page: its progress by events, its end a link; what is asked wrongly is told."""

import json
import re
import subprocess
import sys

import pytest

from cross_backend.store import Store
from cross_backend.study.spec import StudySpec
from cross_backend.web.guard import TOKEN_HEADER
from cross_backend.web.studying import asked_study


def begin(served, text):
    headers = {TOKEN_HEADER: served.state.access.page_token, "Content-Type": "application/x-www-form-urlencoded"}
    status, _, body = served.ask("POST", "/api/studies", text, headers)
    return status, json.loads(body)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("target=openvino", "1 to 8 models"),
        ("model=/etc/passwd&target=openvino", "no built-in model '/etc/passwd'"),
        ("model=linear_regression&target=nothing", "targets: .*nothing"),
        ("model=linear_regression&target=openvino&seconds=1e9", "0.1 to 60 seconds"),
        ("model=linear_regression&target=openvino&seconds=nan", "0.1 to 60 seconds"),
        ("model=linear_regression&target=openvino&launches=x", "must be numbers"),
    ],
)
def test_what_is_asked_wrongly_begins_nothing(served, text, told):
    status, answer = begin(served, text)
    assert status == 400 and re.search(told, answer["error"]), answer
    assert served.get("/api/running")["state"] == "none"


@pytest.mark.slow
def test_who_asked_is_gone_and_the_study_ends(tmp_path):
    study = asked_study(["linear_regression"], ["onnxruntime.cpu"], 60, 3)
    assert StudySpec.from_json(study.to_json()) == study
    line = json.dumps({"study": study.to_json(), "db": str(tmp_path / "s.sqlite")}) + "\n"
    command = [sys.executable, "-m", "cross_backend.study.telling"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdin.write(line)
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["study"] == 1
        process.stdin.close()
        told = [json.loads(row) for row in process.stdout]
        assert "stopped" in told[-1]["error"] and process.wait(30) == 1
    with Store.open(str(tmp_path / "s.sqlite"), create=False) as store:
        assert [row.finished for row in store.studies()] == [None]


@pytest.mark.slow
def test_a_study_is_begun_followed_and_read(visit, served):
    page = visit("/results")
    for box in page.locator("#begin [name=target]").all():
        box.set_checked(box.get_attribute("value") in ("onnxruntime", "onnxruntime.cpu", "openvino"))
    page.fill("[name=seconds]", "0.2")
    page.fill("[name=launches]", "1")
    page.get_by_role("button", name="Begin").click()
    page.locator("#progress-said", has_text=re.compile(r"^\d+ %: linear_regression")).wait_for(timeout=60_000)
    assert begin(served, "model=linear_regression&target=openvino")[0] == 400
    other = visit("/results")
    assert other.locator("#progress").is_visible()
    page.get_by_role("link", name="Read study").click(timeout=120_000)
    page.wait_for_url("**/results/*")
    assert page.locator(".ranking tbody tr.ranked").count() == 2, page.inner_text(".ranking")
