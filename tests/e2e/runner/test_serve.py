"""``cross_backend_runner --serve``: a bench that is asked over pipes, and what it makes of anything else."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from cross_backend.bench.open_artifact import open_session, resolve_with_threads
from cross_backend.bundling import find_artifact
from cross_backend.measure.latency import Samples
from cross_backend.records import Timing
from cross_backend.serialization import from_json
from cross_backend.tensors import to_numpy
from tests.e2e.runner.bundles import ATALLA, DELEGATE, XNNPACK
from tests.e2e.runner.conftest import once
from tests.e2e.runner.serving import MODULE, Serving, raw, read, subject

X = np.array([[1, 2, 3, 4]], np.float32)
MIXED = """
import torch


class Mixed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 5, 3, padding=1)
        self.linear = torch.nn.Linear(7, 4)

    def forward(self, x):
        y = self.linear(torch.relu(self.convolution(x)))
        return y.to(memory_format=torch.channels_last), y.sum(dim=(2, 3)), y.argmax(dim=1), y > 0


def make():
    torch.manual_seed(0)
    return Mixed().eval(), (torch.randn(2, 3, 6, 7),)
"""


@pytest.fixture
def serving(built: Path) -> Iterator[Serving]:
    with Serving(built / "cross_backend_runner") as process:
        yield process


@pytest.fixture(scope="session")
def mixed(cli: Callable[..., Any], shared_folder: Path) -> Path:
    """A bundle of a small network with outputs of several types and orders."""

    def make(folder: Path) -> None:
        folder.mkdir()
        (folder / "mixed.py").write_text(MIXED)
        targets = ("--backends", "xnnpack", "atalla", "--strict", "--output-dir", folder / "out")
        done = cli("bundle", f"{folder / 'mixed.py'}:make", *targets)
        assert done.returncode == 0, done.stdout + done.stderr

    made: Path = once(shared_folder, "runner_mixed", make)  # type: ignore[no-untyped-call]
    (bundle,) = (made / "out").iterdir()
    return bundle


@pytest.fixture
def opened(serving: Serving, accelerated: Path, tmp_path: Path) -> Serving:
    serving.ask("Open", **subject(accelerated, XNNPACK, [X], tmp_path))
    return serving


@pytest.mark.parametrize("kind", ["xnnpack", "atalla"])
def test_outputs_are_those_of_the_python_package(kind: str, mixed: Path, serving: Serving, tmp_path: Path) -> None:
    names = [row["name"] for row in json.loads((mixed / "manifest.json").read_text())["artifacts"]]
    name = next(one for one in names if one.endswith(kind))
    inputs = [np.random.default_rng(seed).normal(size=(2, 3, 6, 7)).astype(np.float32) for seed in (3, 4)]
    asked = subject(mixed, name, inputs[:1], tmp_path)
    found = serving.ask("Open", **asked)
    assert found["cold"] is True and found["load_ns"] > 0 and found["bind_ns"] >= 0
    artifact = find_artifact(Path(asked["payload"]))
    resolved, options = resolve_with_threads(artifact.target, 1)
    (tmp_path / "out").mkdir()
    with open_session(artifact, resolved, options) as session:
        for turn, x in enumerate(inputs):
            assert serving.ask("Bind", inputs=raw([x], tmp_path, f"bound{turn}")) is None
            ran = serving.ask("Run", outputs=str(tmp_path / "out"))
            assert (ran["first_ns"] is None) is (turn > 0), "only the first call since opening is told"
            wanted = [to_numpy(y) for y in session.bind([x])()]
            given = read(ran["outputs"])
            assert [(y.dtype, y.shape) for y in given] == [(y.dtype, y.shape) for y in wanted]
            for a, b in zip(given, wanted, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(ran["head"], wanted[0].reshape(-1)[:8], rtol=1e-6, atol=1e-6)
    assert serving.ask("Run", outputs=None)["outputs"] == []
    assert serving.ask("Open", **asked)["cold"] is False
    assert serving.ask("Run", outputs=None)["first_ns"] > 0


@pytest.mark.parametrize("name", [XNNPACK, ATALLA, DELEGATE])
def test_answers_are_read_as_the_python_package_reads_its_own(
    name: str, accelerated: Path, serving: Serving, tmp_path: Path
) -> None:
    serving.ask("Open", **subject(accelerated, name, [X], tmp_path))
    samples = from_json(Samples, serving.ask("Sample", calls=7, warm_up=2, seconds=5.0))
    assert len(samples.ns) == 7 and min(samples.ns) > 0 and samples.involuntary_switches >= 0
    rows = from_json(tuple[Timing, ...], serving.ask("Profile", runs=3))
    kinds = {ATALLA: {"instruction"}}.get(name, {"delegate", "delegated"})
    assert {row.kind for row in rows} == kinds and all(row.calls == 1 and row.ms >= 0 for row in rows)
    assert serving.ask("Run", outputs=None)["head"] == [pytest.approx(2.7182, abs=1e-3)]


def test_one_call_is_timed_however_short_the_time_is(opened: Serving) -> None:
    assert len(opened.ask("Sample", calls=1000, warm_up=0, seconds=0)["ns"]) == 1
    began = time.monotonic()
    assert len(opened.ask("Sample", calls=10_000_000, warm_up=3, seconds=0.2)["ns"]) < 10_000_000
    assert time.monotonic() - began < 30


def test_inputs_may_lie_inside_of_a_file(opened: Serving, accelerated: Path) -> None:
    row = json.loads((accelerated / "manifest.json").read_text())["sample"]["inputs"][0]
    lies = {key: row[key] for key in ("dtype", "shape", "offset", "sha256")}
    opened.ask("Bind", inputs=[{**lies, "path": str(accelerated / row["path"])}])
    assert opened.ask("Run", outputs=None)["head"] == [pytest.approx(2.7182, abs=1e-3)]


def test_without_inputs_they_are_drawn(serving: Serving, accelerated: Path, tmp_path: Path) -> None:
    """The same ones each time, on every runtime."""
    heads = []
    for name in (XNNPACK, ATALLA):
        serving.ask("Open", **{**subject(accelerated, name, [X], tmp_path), "inputs": None})
        heads.append(serving.ask("Run", outputs=None)["head"])
    assert heads[0] == pytest.approx(heads[1], rel=1e-5)


def test_verify_compares_where_the_outputs_are(opened: Serving, tmp_path: Path) -> None:
    wanted = np.array([[opened.ask("Run", outputs=None)["head"][0]]], np.float32)
    given = {"inputs": raw([X], tmp_path), "expected": raw([wanted], tmp_path, "expected"), "tolerance": 1e-4}
    right = opened.ask("Verify", **given)
    assert (right["right"], right["max_rel"], right["unproved"]) == (True, 0, "")
    wrong = opened.ask("Verify", **{**given, "expected": raw([wanted + 1], tmp_path, "wrong")})
    assert wrong["right"] is False and "deviates by" in wrong["reason"]
    scales = raw([np.ones((1, 9), np.float32)], tmp_path, "scale")
    assert opened.ask("Verify", **given, scale=scales)["right"], "a scale of another shape is none"
    wrong = opened.ask("Verify", **{**given, "expected": raw([wanted + 1], tmp_path, "wrong")}, scale=scales)
    assert wrong["right"] is False
    twice = {**given, "inputs2": given["inputs"], "expected2": given["expected"]}
    assert "the same for two different inputs" in opened.ask("Verify", **twice)["unproved"]
    assert opened.refused("Verify", **twice, rounding=raw([np.ones(0)], tmp_path, "rounding"))["type"] == "RunError"
    none = opened.ask("Verify", **{**given, "expected": []})
    assert none["right"] is False and "instead of 0" in none["reason"]


def test_memory_machine_and_beat(serving: Serving) -> None:
    assert serving.ask("Beat") is None
    used = serving.ask("Memory")
    assert 0 < used["rss_bytes"] <= used["peak_bytes"]
    assert used["rss_bytes"] == pytest.approx(psutil.Process(serving.process.pid).memory_info().rss, rel=0.3)
    machine = serving.ask("Machine")
    assert machine["system"] == "linux" and machine["cores"] == len(os.sched_getaffinity(0))
    assert machine["memory_bytes"] == pytest.approx(psutil.virtual_memory().total, rel=0.01)
    assert "XnnpackBackend" in machine["runtimes"]["executorch"] and machine["runtimes"]["atalla"] == []
    assert abs(machine["clock_ns"] - time.perf_counter_ns()) < 60e9
    assert machine["load_1m"] >= 0 and machine["runner"] and machine["hostname"] == os.uname().nodename


def test_nothing_is_open(serving: Serving) -> None:
    asked: dict[str, dict[str, Any]] = {
        "Run": {"outputs": None},
        "Bind": {"inputs": []},
        "Sample": {"calls": 1, "warm_up": 0, "seconds": 1},
        "Profile": {"runs": 1},
    }
    for question, arguments in asked.items():
        assert serving.refused(question, **arguments) == {"type": "RunError", "text": "no artifact is open."}


def test_what_cannot_be_opened(serving: Serving, accelerated: Path, sound: Path, tmp_path: Path) -> None:
    asked = subject(accelerated, XNNPACK, [X], tmp_path)
    changed = serving.refused("Open", **{**asked, "sha256": "0" * 64})
    assert changed["type"] == "ArtifactError" and "sha256" in changed["text"]
    assert serving.refused("Open", **{**asked, "payload": "/nowhere/x.pte"})["type"] == "ArtifactError"
    assert serving.refused("Open", **{**asked, "payload": "/dev/zero"})["type"] == "ArtifactError"
    assert serving.refused("Open", **{**asked, "target": "tflite"})["type"] == "UnavailableError"
    away = serving.refused("Open", **subject(sound, "linear_regression_vulkan", [X], tmp_path))
    assert away["type"] == "UnavailableError"
    assert "VulkanBackend" in away["reason"] and "EXECUTORCH_BUILD_VULKAN" in away["remedy"]
    two = serving.refused("Open", **{**asked, "inputs": asked["inputs"] * 2})
    assert two["type"] == "RunError" and "1 input(s)" in two["text"]
    garbage = tmp_path / "x.pte"
    garbage.write_bytes(bytes(64))
    damaged = subject(accelerated, XNNPACK, [X], tmp_path)
    damaged.update(payload=str(garbage), sha256=hashlib.sha256(bytes(64)).hexdigest())
    assert serving.refused("Open", **damaged)["type"] == "LoadError"
    assert serving.ask("Open", **asked)["load_ns"] > 0, "it goes on"


def test_inputs_that_do_not_fit(opened: Serving, tmp_path: Path) -> None:
    (row,) = raw([X], tmp_path, "other")
    refused = [
        ({**row, "shape": [1, 5]}, "ArtifactError", "not as long"),
        ({**row, "path": "/nowhere"}, "ArtifactError", "missing"),
        ({**row, "dtype": "float31"}, "RunError", "no known type"),
        ({**row, "shape": [-1]}, "RunError", "shape[0]"),
        ({**row, "shape": [2**31 - 1] * 8}, "RunError", "does not fit"),
        ({**row, "shape": [2**30, 4]}, "RunError", "2 GiB"),
        ({**row, "path": ""}, "RunError", "is not a path"),
        ({**row, "path": "a\0b"}, "RunError", "is not a path"),
        ({**row, "offset": 2**64 - 1, "is_part": True}, "ArtifactError", "not as long"),
        ({"dtype": "float32", "shape": [1]}, "RunError", "has no 'path'"),
    ]
    for given, kind, word in refused:
        error = opened.refused("Bind", inputs=[given])
        assert error["type"] == kind and word in error["text"], (given, error)
    assert "written" in opened.refused("Run", outputs=str(tmp_path / "nowhere"))["text"]
    opened.ask("Bind", inputs=[row])
    assert opened.ask("Run", outputs=None)["head"] == [pytest.approx(2.7182, abs=1e-3)]


HOSTILE = (
    *(b" ", b"{", b"[]", b"7", b"null", b'"x"', b"\0\1\xff\xfe", b"{}", b"[" * 100_000, b'{"a":' * 50_000),
    *(b"9" * 1_000_000, b'{"question": 7, "arguments": {}}', b'{"question": "x:Open"}'),
    *(b'{"question": "x:Open", "arguments": %s}' % arguments for arguments in (b"null", b"[]", b"7", b'"a"', b"{}")),
    b'{"question": "' + b"x" * 100_000 + b'", "arguments": {}}',
    b'{"question": "os:system", "arguments": {"command": "true"}}',
    *(
        b'{"question": "x:Sample", "arguments": {"calls": %s, "warm_up": 0, "seconds": 1}}' % calls
        for calls in (b"0", b"-1", b"1e3", b"null", b"true", b'"1"', b"10000001", b"18446744073709551616", b"[1]")
    ),
    *(
        b'{"question": "x:Sample", "arguments": {"calls": 1, "warm_up": 0, "seconds": %s}}' % seconds
        for seconds in (b"-1", b"null", b"1e999", b'"1"')
    ),
    b'{"question": "x:Profile", "arguments": {"runs": 1000000000}}',
    b'{"question": "x:Run", "arguments": {"outputs": 7}}',
    b'{"question": "x:Run", "arguments": {"outputs": "' + b"a" * 5000 + b'"}}',
    b'{"question": "x:Bind", "arguments": {"inputs": %s}}' % json.dumps([{}] * 1025).encode(),
    b'{"question": "x:\\u001b[2J\\ud800", "arguments": {}}',
)


def test_hostile_lines_are_answered(serving: Serving) -> None:
    for line in HOSTILE:
        answer = serving.line(line)
        assert answer["error"]["type"] == "RunError", (line[:80], answer)
        assert len(answer["error"]["text"]) < 700 and "\x1b" not in answer["error"]["text"]
    serving.questions.write(b"\n\n\n")  # signs of life, which get no answer
    assert serving.ask("Beat") is None


def test_a_line_is_only_so_long(serving: Serving) -> None:
    assert "16 MiB" in serving.line(b" " * (40 << 20))["error"]["text"]
    assert serving.ask("Memory")["peak_bytes"] < 400e6
    assert serving.line(b" " * (15 << 20) + b'{"question": ":Beat", "arguments": {}}') == {"value": None}


def test_several_questions_at_once_are_answered_in_order(serving: Serving) -> None:
    names = ["Beat", "Memory", "Nothing", "Machine"] * 50
    lines = [json.dumps({"question": f"{MODULE}:{name}", "arguments": {}}).encode() + b"\n" for name in names]
    serving.questions.write(b"".join(lines))
    serving.questions.flush()
    for name in names:
        answer = json.loads(serving.said())
        known = {"Beat": answer == {"value": None}, "Memory": "rss_bytes" in str(answer), "Nothing": "error" in answer}
        assert known.get(name, "hostname" in str(answer))


def test_the_end_of_its_input_ends_it_in_the_middle_of_work(opened: Serving) -> None:
    request = {"question": ":Sample", "arguments": {"calls": 10_000_000, "warm_up": 1_000_000, "seconds": 600}}
    opened.questions.write(json.dumps(request).encode() + b"\n")
    opened.questions.flush()
    time.sleep(0.3)
    opened.questions.close()
    began = time.monotonic()
    assert opened.ends() == b""
    assert time.monotonic() - began < 5
    assert opened.said() == b""


def test_the_end_of_its_input_ends_it_while_it_waits(serving: Serving) -> None:
    serving.ask("Beat")
    serving.questions.close()
    assert serving.ends() == b""


@pytest.mark.slow
def test_a_lease_that_is_over_ends_it(built: Path) -> None:
    with Serving(built / "cross_backend_runner", "--lease", "1") as serving:
        for _ in range(4):
            time.sleep(0.5)
            assert serving.ask("Beat") is None
        began = time.monotonic()
        assert serving.ends() == b""
        assert 0.5 < time.monotonic() - began < 10


def test_work_is_no_silence(built: Path, accelerated: Path, tmp_path: Path) -> None:
    with Serving(built / "cross_backend_runner", "--lease", "0.5") as serving:
        serving.ask("Open", **subject(accelerated, XNNPACK, [X], tmp_path))
        assert serving.ask("Sample", calls=10_000_000, warm_up=0, seconds=1.5)["ns"]


@pytest.mark.parametrize("printed", ["stdout", "stderr"])
def test_what_libraries_print_is_no_answer(
    printed: str, harmful: Callable[[str], dict[str, str]], bundle: Path, built: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    for key, value in harmful(f'fputs("{{}}\\n", {printed}); fflush({printed});').items():
        monkeypatch.setenv(key, value)
    with Serving(built / "cross_backend_runner") as serving:
        asked = subject(bundle, "linear_regression_portable", [X], tmp_path)
        serving.full("Open", **asked, delegates=["OpenvinoBackend"])
        assert serving.ask("Beat") is None
        serving.questions.close()
        assert b"{}" in serving.ends()


def test_what_it_started_ends_with_it(
    harmful: Callable[[str], dict[str, str]], bundle: Path, built: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, until: Callable[..., Any],
) -> None:  # fmt: skip
    for key, value in harmful('if (fork() == 0) { execlp("sleep", "sleep", "600", (char*)0); }').items():
        monkeypatch.setenv(key, value)
    with Serving(built / "cross_backend_runner") as serving:
        asked = subject(bundle, "linear_regression_portable", [X], tmp_path)
        serving.full("Open", **asked, delegates=["OpenvinoBackend"])
        process = psutil.Process(serving.process.pid)
        children = until(process.children, "a child")
        serving.questions.close()
        serving.process.wait(20)
        assert psutil.wait_procs(children, timeout=10)[1] == []


def test_a_crash_is_seen_by_whoever_asked(
    harmful: Callable[[str], dict[str, str]], bundle: Path, built: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    for key, value in harmful('fputs("my last words\\n", stderr); abort();').items():
        monkeypatch.setenv(key, value)
    with Serving(built / "cross_backend_runner") as serving:
        asked = subject(bundle, "linear_regression_portable", [X], tmp_path)
        question = {"question": ":Open", "arguments": {**asked, "delegates": ["OpenvinoBackend"]}}
        serving.questions.write(json.dumps(question).encode() + b"\n")
        serving.questions.flush()
        assert serving.said() == b""
        assert serving.ends() == b"my last words\n" and serving.process.returncode == -6


def test_its_options(runner: Callable[..., Any]) -> None:
    for arguments, message in {
        ("--serve", "folder"): "--serve takes no folder.",
        ("--serve", "--lease", "0"): "--lease must be a positive number, not '0'.",
        ("--serve", "--lease"): "--lease lacks its value, a positive number.",
    }.items():
        done = runner(*arguments)
        assert (done.returncode, done.stderr) == (2, f"cross_backend_runner: {message}\n")
