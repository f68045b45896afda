"""A panel at work: targets are verified, measured and ranked; failures stay alone, and an interrupt keeps the rest."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import psutil
import pytest

from cross_backend.artifact import Artifact, digest_path
from cross_backend.bench.worker_bench import WorkerBench
from cross_backend.cache import Cache
from cross_backend.comparison.benches import open_bench
from cross_backend.comparison.blocks import ROUNDS
from cross_backend.comparison.panel import compare, measure_alone, run_panel
from cross_backend.errors import UsageError
from cross_backend.exporting.export import Exported, ExportSettings
from cross_backend.program.captured import Captured
from cross_backend.program.captures import capture_workload
from cross_backend.records import Execution, Outcome
from cross_backend.registry import resolve
from cross_backend.tensors import load_tensors, save_tensors
from tests.unit.comparison.panels import QUICK, outcomes, rows_of
from tests.zygote import Forked


def children() -> list[psutil.Process]:
    """Give this process' living children, oldest first."""
    found = []
    for one in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):  # it may end between two looks
            if one.status() != psutil.STATUS_ZOMBIE:
                found.append((one.create_time(), one))
    return [one for _, one in sorted(found, key=lambda row: row[0])]


@pytest.fixture
def own_children() -> list[psutil.Process]:
    """Give the children that this process has before a test; what forks workers is one of them, and stays."""
    if Forked.zygote:
        Forked.zygote()
    return children()


def test_a_comparison_verifies_measures_and_ranks(linear: Captured, own_children: list[psutil.Process]) -> None:
    steps: list[tuple[str, int, int]] = []
    targets = ["torch", "cpu?threads=1", "null"]
    panel = compare(linear, targets, QUICK, ExportSettings(Cache()), progress=lambda *step: steps.append(step))
    assert [result.target for result in panel.results] == ["torch.eager", "onnxruntime.cpu?threads=1", "null"]
    assert outcomes(panel) == [Outcome.OK, Outcome.OK, Outcome.MISMATCH]
    assert panel.workload == "linear_regression" and panel.settings["num_runs"] == 90
    assert not panel.interrupted and panel.noise_floor is not None and panel.noise_floor >= 0.02
    for result in panel.results[:2]:
        assert result.comparison is not None and result.comparison.verdict
        assert result.latency is not None and len(result.latency.rounds) == ROUNDS
        assert ROUNDS <= len(result.latency.values) <= QUICK.num_runs
        assert (
            result.latency_ms is not None and result.latency_ms.low <= result.latency_ms.value <= result.latency_ms.high
        )
        assert result.mean_ms == pytest.approx(np.mean(result.latency.values) / 1e6)
        assert f"{result.sample_output[0]:.3f}" == "2.718"
        assert result.load_s is not None and result.load_s > 0
    wrong = panel.results[2]
    assert (wrong.rank, wrong.latency) == (None, None), "no speed without proof"
    assert wrong.reason is not None and wrong.reason.startswith("wrong outputs")
    assert [result.rank for result in panel.ranked] in ([1, 2], [1, 1])
    assert "threads=1" in panel.results[1].title
    assert steps[-1] == ("measure, round 30 of 30", 4 + ROUNDS, 4 + ROUNDS), (
        "three targets and a twin were opened before"
    )
    assert [done for _, done, _ in steps] == sorted(done for _, done, _ in steps)
    assert children() == own_children, "no worker stays"


def test_the_same_target_twice_has_two_rows(linear: Captured) -> None:
    panel = compare(linear, ["cpu", "onnxruntime"], QUICK, ExportSettings(Cache()))
    assert [result.title for result in panel.results] == ["ONNX Runtime (CPU)", "ONNX Runtime (CPU) #2"]
    assert sorted(result.rank or 0 for result in panel.results) in ([1, 1], [1, 2])


def test_an_unknown_target_is_refused_before_any_work(linear: Captured, cache: Cache) -> None:
    with pytest.raises(UsageError, match="nonsense"):
        compare(linear, ["torch", "nonsense"], QUICK, ExportSettings(cache))
    assert not cache.root.exists()


def test_each_failure_stays_alone(linear: Captured, make_artifact: Callable[..., Artifact], cache: Cache) -> None:
    good, other = rows_of(linear, "torch", "cpu")
    assert good.artifact is not None and other.artifact is not None
    damaged = other.artifact.copy_to(cache.root / "damaged", "net", other.artifact.target, "s.npz")
    damaged.payload_path.write_bytes(b"changed")
    refused = make_artifact("refused", payload=b"not an ONNX file", target="onnxruntime.cpu")
    tampered = good.artifact.copy_to(cache.root / "tampered", "net", good.artifact.target, "s.npz")
    assert tampered.sample_path is not None
    sample = load_tensors(tampered.sample_path)
    save_tensors(tampered.sample_path, {"input": sample["input"], "expected": [sample["expected"][0] * 2]})
    tampered = replace(tampered, sample_sha256=digest_path(tampered.sample_path))
    tampered.write_manifest()
    elsewhere = make_artifact("elsewhere", target="executorch.vulkan")
    unfit = replace(good.artifact.copy_to(cache.root / "unfit", "net", good.artifact.target, "s.npz"), inputs=())
    unfit.write_manifest()
    rows = [
        good,
        Exported("cpu", Outcome.OK, None, resolve("cpu"), damaged),
        Exported("cpu", Outcome.OK, None, resolve("cpu"), refused),
        Exported("torch", Outcome.OK, None, resolve("torch"), tampered),
        Exported("vulkan", Outcome.OK, None, resolve("vulkan"), elsewhere),
        Exported("torch", Outcome.OK, None, resolve("torch"), unfit),
        Exported("xnnpack", Outcome.LOWER_FAIL, "took none", resolve("xnnpack")),
    ]
    panel = run_panel(linear, rows, QUICK, cache)
    found = outcomes(panel)
    assert found.pop(5) in {Outcome.LOAD_FAIL, Outcome.RUN_FAIL}, "its inputs do not fit"
    assert found == [
        Outcome.OK, Outcome.LOAD_FAIL, Outcome.LOAD_FAIL, Outcome.MISMATCH, Outcome.UNAVAILABLE, Outcome.LOWER_FAIL,
    ]  # fmt: skip
    assert [result.target for result in panel.ranked] == ["torch.eager"]
    reasons = [result.reason or "" for result in panel.results]
    for reason, words in zip(
        reasons[1:], ["sha256", "ONNX Runtime cannot load", "wrong outputs", "Vulkan", "takes 0 input", "took none"],
        strict=True,
    ):  # fmt: skip
        assert words in reason and "\n" not in reason


@pytest.mark.parametrize("when", ["open and verify", "measure"])
def test_a_killed_worker_takes_down_its_own_row_only(
    when: str, linear: Captured, own_children: list[psutil.Process]
) -> None:
    rows = rows_of(linear, "torch", "cpu")
    killed: list[int] = []

    def progress(doing: str, done: int, total: int) -> None:
        step = {"open and verify": 1, "measure": 3}[when]
        if doing.startswith(when) and done == step:
            first = next(process for process in children() if process not in own_children)
            first.kill()
            killed.append(first.pid)

    panel = run_panel(linear, rows, QUICK, Cache(), progress)
    assert len(killed) == 1
    assert outcomes(panel) == [Outcome.RUN_FAIL, Outcome.OK]
    assert "was killed by SIGKILL" in (panel.results[0].reason or "")
    assert panel.results[0].rank is None
    assert panel.results[1].rank == 1
    assert panel.results[1].latency is not None and all(panel.results[1].latency.rounds)


def test_an_interrupt_keeps_what_was_finished(linear: Captured, own_children: list[psutil.Process]) -> None:
    rows = rows_of(linear, "torch", "cpu")

    def progress(doing: str, done: int, total: int) -> None:
        if doing.startswith("measure") and done == total - ROUNDS + 10:
            raise KeyboardInterrupt

    panel = run_panel(linear, rows, QUICK, Cache(), progress)
    assert panel.interrupted
    assert outcomes(panel) == [Outcome.OK, Outcome.OK]
    for result in panel.results:
        assert result.rank in {1, 2} and result.latency is not None
        assert [len(row) > 0 for row in result.latency.rounds] == [True] * 10 + [False] * 20
    deadline = time.monotonic() + 30
    while children() != own_children and time.monotonic() < deadline:
        time.sleep(0.05)
    assert children() == own_children


def test_an_interrupt_before_anything_was_measured_gives_no_rank(linear: Captured) -> None:
    rows = rows_of(linear, "torch")

    def progress(doing: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    panel = run_panel(linear, rows, QUICK, Cache(), progress)
    assert panel.interrupted and panel.ranked == [] and panel.noise_floor is None


def test_a_task_is_scored() -> None:
    captured = capture_workload("digits_cnn", None, Cache())
    assert captured.metric == "top-1 accuracy"
    panel = run_panel(captured, rows_of(captured, "torch"), QUICK, Cache())
    assert outcomes(panel) == [Outcome.OK]
    assert panel.results[0].task["top-1 accuracy"] > 0.97
    assert panel.results[0].sample_output == (), "ten values are too many for a table"


def test_a_score_that_cannot_be_taken_costs_nothing_else(linear: Captured) -> None:
    """It has no samples of a task."""
    panel = run_panel(replace(linear, metric="accuracy"), rows_of(linear, "torch", "cpu"), QUICK, Cache())
    for result in panel.results:
        assert (result.outcome, result.task) == (Outcome.OK, {}) and result.rank is not None
        assert "task.npz does not exist" in result.absent["accuracy"] and result.failures == {}
        assert any("task.npz does not exist" in warning for warning in result.warnings)


def test_an_emulator_alone_is_verified_and_not_timed(linear: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Execution("NPU", nodes=1.0, functional_only="an emulator stands in for it")
    monkeypatch.setattr(WorkerBench, "execution", lambda *_: told)
    (row,) = rows_of(linear, "cpu")
    assert row.artifact is not None and row.resolved is not None
    cache = Cache()
    with ExitStack() as stack:
        bench, opened = open_bench(row.artifact.payload_path, "cpu", QUICK, cache, stack)
        found = measure_alone(bench, row.artifact, row.resolved, QUICK, opened, cache)
    assert (found.outcome, found.latency_ms, found.unranked) == (Outcome.OK, None, "an emulator stands in for it")


def test_more_threads_than_processors_are_not_available(linear: Captured) -> None:
    panel = run_panel(linear, rows_of(linear, "torch?threads=4096", "cpu"), QUICK, Cache())
    assert outcomes(panel) == [Outcome.UNAVAILABLE, Outcome.OK]
    assert (panel.results[0].reason or "").startswith("4096 threads are asked for; this process may use")
