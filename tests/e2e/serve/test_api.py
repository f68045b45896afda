"""The API: what it says of models, runs and studies, and what it refuses; a real server, real backends."""

import http.client
import io
import json
import logging
import os
import random
import re
import signal
import socket
import struct
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image, ImageDraw

from cross_backend.web import benches, server
from cross_backend.web.guard import MAX_BODY_BYTES, TOKEN_HEADER
from cross_backend.web.state import MOST_PLAYING
from tests.e2e.serve.conftest import TARGETS

HISTORY = "/api/studies/3/history?workload=linear_regression&batch=1&threads=1&target="


def seven(size=224):
    """Give a drawn seven as a PNG file."""
    picture = Image.new("L", (size, size), 255)
    points = [(size * 0.27, size * 0.22), (size * 0.71, size * 0.22), (size * 0.45, size * 0.85)]
    ImageDraw.Draw(picture).line(points, fill=20, width=size // 9, joint="curve")
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


def test_models_say_what_runs_here_and_why_others_do_not(served):
    found = {one["name"]: one for one in served.get("/api/models")["models"]}
    assert found.keys() == {"digits_cnn", "linear_regression"}
    assert (found["digits_cnn"]["kind"], found["linear_regression"]["kind"]) == ("digit", "numbers")
    rows = {row["target"].partition("?")[0]: row for row in found["digits_cnn"]["backends"]}
    assert {name for name, row in rows.items() if row["reason"] is None} == {*TARGETS, "executorch.xnnpack"}
    assert rows["torch.eager"]["reason"].startswith("not exported; cross-backend export digits_cnn")
    assert "torch.eager" in served.keys("linear_regression") and "null" not in rows


def test_one_input_on_two_backends_gives_the_same_answer_with_every_step_timed(served):
    keys = served.keys("linear_regression")
    status, answer = served.run([keys["onnxruntime.cpu"], keys["openvino"]], b"1,2,3,4")
    assert (status, answer["model"], answer["kind"]) == (200, "linear_regression", "numbers")
    first, second = answer["runs"]
    for run in (first, second):
        assert run["outcome"] == "OK" and run["error"] is None
        assert run["shown"]["numbers"] == pytest.approx([2.7182], abs=1e-3)
        assert all(0 < run[f"{step}_ms"] < 60_000 for step in ("prepare", "bind", "inference", "present"))
        assert run["memory_bytes"] > 10e6 and run["proof"]["verdict"] is True
    assert first["difference"] is None and second["difference"]["max_abs"] < 1e-5
    _, again = served.run([keys["openvino"]], b"1,2,3,4")
    assert again["runs"][0]["opened"] is False


def test_other_inputs_give_other_answers(served):
    key = served.keys("linear_regression")["onnxruntime.cpu"]
    values = [served.run([key], text)[1]["runs"][0]["shown"]["numbers"][0] for text in (b"0,0,0,0", b"1,0,0,0")]
    assert values == pytest.approx([0.3433, 0.5933], abs=2e-3)


def test_a_drawn_digit_is_told_by_every_backend(served):
    status, answer = served.run(served.keys("digits_cnn").values(), seven(), "seven.png")
    assert status == 200 and len(answer["runs"]) == 3
    for run in answer["runs"]:
        assert run["shown"]["top"][0]["label"] == "7" and len(run["shown"]["top"]) == 5
        assert sum(row["share"] for row in run["shown"]["top"]) <= 1.000001


def test_without_an_input_the_own_sample_runs(served):
    _, answer = served.run([served.keys("linear_regression")["onnxruntime.cpu"]])
    assert answer["runs"][0]["shown"]["numbers"] == pytest.approx([2.7182], abs=1e-3)


def test_a_killed_backend_is_told_and_the_next_run_opens_another(served):
    keys = served.keys("linear_regression")
    victim, other = keys["executorch.portable"], keys["onnxruntime.cpu"]
    served.run([victim], b"1,2,3,4")
    os.kill(served.state.benches.pid(victim), signal.SIGKILL)
    status, answer = served.run([victim, other], b"1,2,3,4")
    lost, fine = answer["runs"]
    assert status == 200 and lost["outcome"] == "CRASH" and "SIGKILL" in lost["error"]
    assert fine["outcome"] == "OK"
    _, again = served.run([victim], b"1,2,3,4")
    assert again["runs"][0]["outcome"] == "OK" and again["runs"][0]["opened"] is True
    text = served.ask("GET", "/metrics")[2].decode()
    assert re.search(r'cross_backend_runs_total\{outcome="CRASH",target="executorch.portable"\} [1-9]', text)


def test_with_room_for_one_bench_all_who_ask_at_once_are_answered(served, monkeypatch):
    monkeypatch.setattr(benches, "MOST_OPEN", 1)
    keys = served.keys("linear_regression")
    served.run([keys["executorch.portable"]], b"1,2,3,4")
    served.run([keys["executorch.xnnpack"]], b"1,2,3,4")
    asked = [keys["onnxruntime.cpu"], keys["openvino"]] * 2
    with ThreadPoolExecutor(len(asked)) as people:
        answers = list(people.map(lambda key: served.run([key], b"1,2,3,4"), asked))
    assert [(status, answer["runs"][0]["outcome"]) for status, answer in answers] == [(200, "OK")] * len(asked)
    served.run([keys["openvino"]], b"1,2,3,4")
    assert served.state.benches.open_now == [keys["openvino"]]


def test_what_was_not_exported_is_told_as_its_own_failure(served):
    _, answer = served.run(
        ["linear_regression.executorch.qnn", served.keys("linear_regression")["openvino"]], b"1,2,3,4"
    )
    assert [run["outcome"] for run in answer["runs"]] == ["FAIL", "OK"]


def bomb(side=60_000):
    """Give a PNG file of some bytes that says it has billions of pixels."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("model", "data"),
    [
        ("digits_cnn", bomb()),
        ("digits_cnn", seven()[:200]),
        ("digits_cnn", b"GIF89a"),
        ("digits_cnn", b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94."),
        ("digits_cnn", b""),
        ("linear_regression", b"1,2,3"),
        ("linear_regression", b"1,2,3,nan"),
        ("linear_regression", b"1,2,3,1e400"),
        ("linear_regression", "१,२,३,४,५".encode()),
        ("linear_regression", b"\xff\xfe"),
    ],
    ids=["bomb", "cut", "head", "pickle", "empty", "few", "nan", "huge", "many", "bytes"],
)
def test_what_is_no_such_input_is_refused_with_one_line(served, model, data):
    status, answer = served.run([served.keys(model)["openvino"]], data, "innocent.png")
    assert status == 400 and "\n" not in answer["error"] and answer["error"]


@pytest.mark.parametrize("keys", [[], ["nothing"], ["../../etc/passwd"], ["x"] * 9])
def test_no_other_artifact_is_run(served, keys):
    status, answer = served.run(keys, b"1,2,3,4")
    assert status == 400 and answer["error"]


def test_two_models_do_not_go_together(served):
    keys = [served.keys(model)["openvino"] for model in ("digits_cnn", "linear_regression")]
    assert served.run(keys, b"1,2,3,4")[0] == 400


def test_too_much_is_refused_before_it_is_sent(served):
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    connection.putrequest("POST", "/api/run")
    for name, value in ((TOKEN_HEADER, served.state.access.page_token), ("Content-Length", str(MAX_BODY_BYTES + 1))):
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_other_sites_and_names_are_refused_by_the_real_server(served):
    key = served.keys("linear_regression")["openvino"]
    assert served.run([key], b"1,2,3,4", **{TOKEN_HEADER: "guessed"})[0] == 403
    assert served.run([key], b"1,2,3,4", Origin="http://evil.example")[0] == 403
    assert served.ask("GET", "/api/token", headers={"Host": "evil.example"})[0] == 421


@pytest.mark.parametrize(
    "path",
    [
        "/static/../../../../etc/passwd",
        "/static/%2e%2e%2f%2e%2e%2fpages.py",
        "/static/..%5c..%5cpages.py",
        "/results/1/..%2f..%2f..%2fetc%2fpasswd",
        "/results/1/report.html%00.png",
        "/artifacts/..%2f..%2f",
        "//evil.example/",
    ],
)
def test_no_address_leads_out(served, path):
    status, _, body = served.ask("GET", path)
    assert status in {400, 404} and b"root:" not in body and b"def " not in body


def test_studies_are_listed_read_compared_and_followed(served):
    rows = served.get("/api/studies")["studies"]
    assert [row["id"] for row in rows] == [3, 2, 1] and all(row["finished"] for row in rows)
    document = served.get("/api/studies/3")
    assert "nightly" in json.dumps(document)
    moments = served.get(HISTORY + TARGETS[1])["moments"]
    assert [moment["changed"] for moment in moments] == [False, False, True]
    assert [round(moment["latency_ms"]["value"], 1) for moment in moments][-1] > 3
    assert not any(moment["changed"] for moment in served.get(HISTORY + TARGETS[0])["moments"])
    verdicts = {row["target"]: row["verdict"] for row in served.get("/api/diff?before=1&after=3")["rows"]}
    assert verdicts[TARGETS[1]] == "slower"


@pytest.mark.parametrize("name", ["report.html", "report.md", "report.json", "samples.csv"])
def test_all_of_a_study_can_be_downloaded(served, name):
    status, headers, body = served.ask("GET", f"/results/3/{name}")
    assert (status == 200 and len(body) > 500 and b"nightly" in body) or (name == "samples.csv" and b"," in body)
    assert headers["content-disposition"].startswith("attachment") and headers["content-security-policy"] == "sandbox"


@pytest.mark.parametrize("path", ["/results/99", "/api/studies/99", "/api/studies/x", "/results/1/secret", "/nothing"])
def test_what_is_not_there_is_said_so(served, path):
    status, _, body = served.ask("GET", path)
    assert status == 404 and json.loads(body)["error"]
    status, headers, body = served.ask("GET", path, headers={"Accept": "text/html"})
    assert status == 404
    assert path.startswith("/api/") or (headers["content-type"].startswith("text/html") and b"<h1>" in body)


def test_the_document_names_every_address_and_they_answer_as_it_says(served):
    paths = served.get("/openapi.json")["paths"]
    assert {"/api/models", "/api/run", "/api/studies/{study}", "/healthz", "/metrics"} <= paths.keys()
    for path, methods in paths.items():
        if "get" in methods and "{" not in path and path not in {"/api/events", "/api/diff"}:
            status, headers, body = served.ask("GET", path)
            (kind,) = methods["get"]["responses"]["200"]["content"]
            assert status == 200 and headers["content-type"].startswith(kind.partition(";")[0]), path
            schema = methods["get"]["responses"]["200"]["content"][kind]["schema"]
            if schema["type"] == "object":
                assert set(schema.get("required", ())) <= json.loads(body).keys()


def test_events_tell_when_a_bench_is_opened(served):
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as connection:
        connection.sendall(f"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n\r\n".encode())
        file = connection.makefile("rb")
        while b"retry" not in file.readline():
            pass
        key = served.keys("linear_regression")["executorch.portable"]
        pid = served.state.benches.pid(key)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            served.run([key], b"1,2,3,4")
        served.run([key], b"1,2,3,4")
        seen = b""
        while b"event: open\n" not in seen:
            seen += file.readline()
        assert b"event: opening\n" in seen


def test_connections_that_dawdle_or_drop_leave_nothing_behind(served, monkeypatch):
    monkeypatch.setattr(server, "HEAD_S", 0.2)
    slow = [socket.create_connection(("127.0.0.1", served.port), timeout=30) for _ in range(20)]
    for connection in slow[:10]:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow")
    for connection in slow:
        assert connection.recv(100) == b"", "it was not closed"
        connection.close()
    key = served.keys("linear_regression")["openvino"]
    for _ in range(10):
        dropped = socket.create_connection(("127.0.0.1", served.port), timeout=30)
        head = f"POST /api/run HTTP/1.1\r\nHost: 127.0.0.1\r\n{TOKEN_HEADER}: {served.state.access.page_token}\r\n"
        dropped.sendall(head.encode() + b"Content-Length: 100000\r\n\r\nhalf of it")
        dropped.close()
    assert served.run([key], b"1,2,3,4")[0] == 200


def test_a_head_without_end_is_refused(served):
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: ")
        answer = b""
        for _ in range(1000):
            try:
                connection.sendall(b"x" * 1000)
                connection.settimeout(0.02)
                answer = connection.recv(1000)
                break
            except TimeoutError:
                continue
    assert answer.startswith(b"HTTP/1.1 400"), answer


def test_two_requests_may_be_sent_at_once(served):
    asked = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 6000 + b"\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as connection:
        connection.sendall(asked * 4)  # together longer than one head may be
        seen = b""
        while seen.count(b"HTTP/1.1 200") < 4:
            seen += connection.recv(1 << 16) or b"!" * (1 << 20)
            assert len(seen) < 1 << 20, seen[:200]


def sent(served, text):
    """Give a connection on which a request was begun."""
    connection = socket.create_connection(("127.0.0.1", served.port), timeout=30)
    connection.sendall(text.replace("\n", "\r\n").encode())
    return connection


def test_who_goes_in_the_middle_leaves_no_thread_and_no_bench_behind(served, until, monkeypatch):
    key = served.keys("linear_regression")["openvino"]
    served.run([key], b"1,2,3,4")
    open_before = served.state.benches.open_now
    token = served.state.access.page_token
    head = f"POST /api/run?artifact={key} HTTP/1.1\nHost: 127.0.0.1\n{TOKEN_HEADER}: {token}\nContent-Length: 7\n\n"
    threads = threading.active_count()
    complaints = []
    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "error", lambda *said, **_: complaints.append(said))
    for _ in range(10):
        sent(served, f"{head}1,2").close()  # in the middle of an upload
        sent(served, f"{head}1,2,3,4").close()  # in the middle of a call, or before its turn
        sent(served, "GET /api/events HTTP/1.1\nHost: 127.0.0.1\n\n").close()
    until(lambda: served.state.playing.statistics().borrowed_tokens == 0 or None, "no request is worked on")
    until(lambda: not served.state.events.listeners or None, "nobody is told of events")
    assert served.run([key], b"1,2,3,4")[0] == 200
    assert served.state.benches.open_now == open_before
    assert not complaints, "nothing of ours failed"
    assert threading.active_count() <= threads + MOST_PLAYING, "threads that wait for work are as many as work at once"


def test_the_first_page_is_small_with_all_that_it_asks_for(served):
    total, left, seen = 0, ["/"], set()
    while left:
        path = left.pop()
        status, _, body = served.ask("GET", path)
        assert status == 200, path
        total += len(body)
        seen.add(path)
        text = body.decode()
        found = re.findall(r'(?:src|href)="(/static/[^"]+)"', text)
        found += re.findall(r'from "(/static/[^"]+)"', text)
        left += [one for one in found if one not in seen and one not in left]
    assert len(seen) > 3 and 10_000 < total <= 300_000


def test_no_made_up_request_breaks_the_server(served):
    """As schemathesis does: addresses and values of every kind; whatever comes back is no failure of ours."""
    rng = random.Random(0)
    values = [
        "1",
        "0",
        "-1",
        "3",
        "99999999999999999999",
        "nan",
        "",
        "é",
        "%00",
        "a" * 300,
        "1.5",
        "null",
        "[]",
        "%F0%9F%A6%80",
    ]
    paths = served.get("/openapi.json")["paths"]
    token = {TOKEN_HEADER: served.state.access.page_token}
    for _ in range(300):
        path = rng.choice([path for path in paths if path != "/api/events"])
        method = rng.choice(["GET", "GET", "GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"])
        named = ["before", "after", "workload", "batch", "threads", "target", "model", "on", "find"]
        query = "&".join(f"{rng.choice(named)}={rng.choice(values)}" for _ in range(rng.randrange(6)))
        place = re.sub(r"\{\w+\}", lambda _: rng.choice(values) or "-", path)
        place = place.encode("ascii", "ignore").decode()
        query = query.encode("ascii", "ignore").decode()
        body = None if method in {"GET", "HEAD"} else rng.randbytes(rng.randrange(200))
        kinds = ["multipart/form-data; boundary=x", "multipart/form-data", "application/json", "text/plain"]
        headers = {**token, "Content-Type": rng.choice(kinds)}
        status, _, answer = served.ask(method, f"{place}?{query}", body, headers)
        assert status < 500, (method, place, query, body, answer)


def test_outputs_that_cannot_be_compared_say_so():
    from cross_backend.web.playing import difference

    one = (np.array([1.0, -4.0], np.float32),)
    assert difference(one, (np.array([1.5, -4.0], np.float32),)) == {"max_abs": 0.5, "of_scale": 0.125}
    assert difference(one, (np.array([1.0, np.nan], np.float32),)) == {"max_abs": None, "of_scale": None}
    assert difference(one, (np.zeros(3, np.float32),)) == {"max_abs": None, "of_scale": None}
    assert difference(one, ()) == {"max_abs": None, "of_scale": None}
