"""Where nodes really ran, read from traces that ONNX Runtime recorded (tests/data/onnxruntime_traces.json)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from cross_backend.backends.onnxruntime._providers import PROVIDERS
from cross_backend.backends.onnxruntime._trace import NodeRun, execution_of, runs_of, timings_of
from cross_backend.records import Execution, Timing

RECORDED = json.loads((Path(__file__).parents[2] / "data" / "onnxruntime_traces.json").read_text())


def read(name: str, *, is_emulated: bool = False, tells: bool = True) -> Execution:
    recorded = RECORDED[name]
    assigned = Counter({(where, operator): count for where, operator, count in recorded["assigned"]})
    runs = list(runs_of(recorded["events"]))
    assert len(runs) == 3
    return execution_of(PROVIDERS[name], runs[1:], assigned if tells else None, "fp32", is_emulated=is_emulated)


def test_a_model_that_one_provider_took_whole() -> None:
    assert read("openvino") == Execution("OpenVINO CPU", nodes=1.0, time=1.0, precision="fp32")


def test_what_was_left_to_the_cpu_is_counted_and_timed() -> None:
    """MatMul and Add on the provider, Det between them on the CPU: 15 and 7 µs of 3,049 and 364 µs."""
    execution = read("qnn", is_emulated=True)
    assert execution.nodes == pytest.approx(2 / 3)
    assert execution.time == pytest.approx(1 - (15 + 7) / (2722 + 15 + 312 + 181 + 7 + 176))
    assert execution.elsewhere == (("Det @ CPU", 1),)
    assert execution.functional_only == "Qualcomm's HTP emulator: a functional check"
    assert execution.share == execution.time


def test_a_provider_that_answers_later_has_no_times() -> None:
    execution = read("webgpu")
    assert execution.time is None and execution.functional_only is None
    assert execution.share == execution.nodes == pytest.approx(2 / 3)


def test_without_the_assignment_executed_nodes_count_but_no_copies() -> None:
    execution = read("webgpu", tells=False)
    assert execution.nodes == pytest.approx(2 / 3)
    assert execution.elsewhere == (("Det @ CPU", 1),)


def test_nothing_on_the_provider_is_no_share() -> None:
    run = [NodeRun("Conv", "CPUExecutionProvider", 90), NodeRun("Conv", "CPUExecutionProvider", 9)]
    execution = execution_of(PROVIDERS["openvino"], [run], None, "fp32")
    assert (execution.nodes, execution.time, execution.elsewhere) == (0.0, 0.0, (("Conv @ CPU", 2),))


def test_an_empty_trace_tells_nothing() -> None:
    execution = execution_of(PROVIDERS["openvino"], [[]], None, "fp32")
    assert execution.nodes is None and execution.time is None


def test_what_a_provider_compiled_is_a_delegate_in_the_profile() -> None:
    _, run, _ = runs_of(RECORDED["qnn"]["events"])
    assert timings_of(run) == [
        Timing("QNN", "delegate", 1, 2.722),
        Timing("Det", "operator", 1, 0.015),
        Timing("QNN", "delegate", 1, 0.312),
    ]
    _, run, _ = runs_of(RECORDED["openvino"]["events"])
    assert [row.name for row in timings_of(run)] == ["OpenVINO"]
