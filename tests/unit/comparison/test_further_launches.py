"""Launches after the first: only some targets are started, and each joins, fails or waits alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cross_backend.cache import Cache
from cross_backend.comparison import opening
from cross_backend.comparison.blocks import ROUNDS
from cross_backend.comparison.contestant import Contestant
from cross_backend.comparison.launch import run_launch
from cross_backend.comparison.opening import Aside
from cross_backend.comparison.panel import conclude, enough, run_launches, run_panel
from cross_backend.comparison.settings import Settings
from cross_backend.errors import WorkerError
from cross_backend.machine import Machine
from cross_backend.measurement import Interval
from cross_backend.program.captured import Captured
from cross_backend.records import Launch, Outcome
from tests.unit.comparison.panels import outcomes, rows_of


@pytest.mark.slow
def test_only_what_is_wanted_is_started(linear: Captured) -> None:
    settings = Settings(num_runs=60, seconds=0.5, timeout_s=120.0)
    rows = rows_of(linear, "cpu", "torch", "cpu?threads=1")
    steps: list[str] = []
    first, _ = run_launch(linear, rows, settings, Cache())
    second, _ = run_launch(linear, rows, settings, Cache(), [first], lambda doing, *_: steps.append(doing), [2, 0])
    assert [one.latency is not None for one in second.results] == [True, False, True]
    assert second.twin_of == 2 and second.twin is not None and second.twin.latency is not None
    assert [one for one in steps if "open" in one] == ["open and verify 2 targets"]
    cold = [[one.metric for one in row.measurements] for row in (*first.results, *second.results)]
    assert all(cold[:3]) and not any(cold[3:]), "who shares the machine with another tells nothing of a cold start"
    panel = conclude("net", [first, second], settings, 1, Machine.here())
    assert outcomes(panel) == [Outcome.OK] * 3 and all(found.rank for found in panel.results)
    assert panel.results[1].comparison is not None and panel.results[1].comparison.verdict


def test_a_target_may_begin_in_a_later_launch(linear: Captured) -> None:
    """It is looked at then as the others were in the first one, and its row is whole."""
    settings = Settings(num_runs=30, seconds=0.3, timeout_s=120.0, launches=1)
    rows = rows_of(linear, "cpu", "torch")
    admitted, finished = list[str](), list[str]()

    def admit(contestant: Contestant) -> None:
        assert contestant.result.comparison is not None and not contestant.rounds
        admitted.append(contestant.result.target)

    def finish(contestant: Contestant) -> None:
        assert any(contestant.rounds)
        finished.append(contestant.result.target)

    launches: list[Launch] = []
    for wanted in ([0], [0, 1]):
        launch, _ = run_launch(linear, rows, settings, Cache(), launches, wanted=wanted, aside=Aside(admit, finish))
        launches.append(launch)
    assert admitted == finished == ["onnxruntime.cpu", "torch.eager"], "each once, and no twin"
    panel = conclude("net", launches, settings, 1, Machine.here())
    assert outcomes(panel) == [Outcome.OK] * 2 and all(found.rank for found in panel.results)
    assert all(found.comparison is not None for found in panel.results)
    first, second = (found.latency for found in panel.results)
    assert first is not None and second is not None and (first.count, second.count) == (60, 30)


def test_who_is_not_admitted_is_not_measured(linear: Captured) -> None:
    settings = Settings(num_runs=30, seconds=0.3, timeout_s=120.0, launches=1)
    rows = rows_of(linear, "cpu", "torch")

    def admit(contestant: Contestant) -> None:
        if contestant.result.target == "torch.eager":
            assert contestant.bench is not None
            contestant.result = replace(contestant.result, unranked="too inexact")
            contestant.bench.close()
            contestant.bench = None

    launch, _ = run_launch(linear, rows, settings, Cache(), wanted=[0, 1], aside=Aside(admit))
    panel = conclude("net", [launch], settings, 1, Machine.here())
    assert [found.latency is not None for found in panel.results] == [True, False]
    assert (panel.results[1].outcome, panel.results[1].unranked) == (Outcome.OK, "too inexact")


def test_a_target_that_fails_in_its_first_launch_names_no_launch(linear: Captured) -> None:
    settings = Settings(num_runs=30, seconds=0.3, timeout_s=120.0, launches=1)
    rows = rows_of(linear, "cpu", "torch")
    assert rows[1].artifact is not None
    rows[1] = replace(rows[1], artifact=replace(rows[1].artifact, sha256="0" * 64))
    launches: list[Launch] = []
    for wanted in ([0], [0, 1]):
        launches.append(run_launch(linear, rows, settings, Cache(), launches, wanted=wanted)[0])
    failed = conclude("net", launches, settings, 1, Machine.here()).results[1]
    assert failed.outcome is Outcome.LOAD_FAIL and not (failed.reason or "").startswith("in launch")


def test_an_interrupt_while_several_are_opened_blames_none(linear: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their workers are ended with them, which is no failure of theirs."""
    settings = Settings(num_runs=60, seconds=0.5, timeout_s=120.0)
    rows = rows_of(linear, "cpu", "torch")
    first, _ = run_launch(linear, rows, settings, Cache())

    def interrupted(contestant: Contestant, asked: Settings, cache: Cache) -> None:
        contestant.fail(WorkerError("it ended with the others"), Outcome.LOAD_FAIL)
        raise KeyboardInterrupt

    monkeypatch.setattr(opening, "prove", interrupted)
    second, stopped = run_launch(linear, rows, settings, Cache(), [first], wanted=[0, 1])
    assert stopped and [one.latency for one in second.results] == [None, None]
    panel = conclude("net", [first, second], settings, 1, Machine.here(), interrupted=True)
    assert outcomes(panel) == [Outcome.OK] * 2 and all(found.rank for found in panel.results)


def test_a_target_that_fails_among_several_fails_alone(linear: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(num_runs=60, seconds=0.5, timeout_s=120.0)
    rows = rows_of(linear, "cpu", "torch")
    first, _ = run_launch(linear, rows, settings, Cache())
    assert rows[0].artifact is not None
    broken = replace(rows[0].artifact, sha256="0" * 64)
    second, _ = run_launch(
        linear, [replace(rows[0], artifact=broken), rows[1]], settings, Cache(), [first], wanted=[0, 1]
    )
    panel = conclude("net", [first, second], settings, 1, Machine.here())
    assert outcomes(panel) == [Outcome.LOAD_FAIL, Outcome.OK]
    assert (panel.results[0].reason or "").startswith("in launch 2: ") and panel.results[1].rank == 1


def test_a_target_that_is_alone_has_all_runs(linear: Captured) -> None:
    """There is no place to decide."""
    settings = Settings(num_runs=60, seconds=1.0, timeout_s=120.0)
    panel = run_panel(linear, rows_of(linear, "cpu"), settings, Cache())
    (found,) = panel.results
    assert panel.launches == 1 and found.latency is not None and found.latency.count == 60
    assert (found.rank, found.ratio, panel.found_from) == (1, Interval(1.0, 1.0, 1.0), None)


def test_several_launches_are_kept_one_by_one_and_gone_on_with(linear: Captured) -> None:
    settings = Settings(num_runs=60, seconds=0.5, timeout_s=120.0, launches=3)
    rows, kept = rows_of(linear, "cpu"), list[tuple[int, Launch]]()
    seen: set[str] = set()
    first = run_launch(linear, rows, settings, Cache())[0]
    launches, interrupted = run_launches(
        linear, rows, settings, Cache(), [first], lambda *one: kept.append(one), lambda doing, *_: seen.add(doing)
    )
    assert not interrupted and launches[0] is first
    assert kept == list(enumerate(launches))[1:] and len(kept) == 2
    assert {"launch 2: measure, round 30 of 30", "launch 3: measure, round 1 of 30"} <= seen
    panel = conclude("net", launches, settings, 1, Machine.here())
    (found,) = panel.results
    assert found.latency is not None and found.latency.launches == (ROUNDS,) * 3 and found.latency.count == 60
    assert found.rank == 1 and panel.launches == 3 and panel.noise_floor is not None
    assert all(one.twin is not None and one.twin_of == 0 for one in launches)
    assert {m.metric: m.count for m in found.measurements}["cold_start.load"] == 3


def test_a_launch_of_many_targets_is_taken_in_parts(linear: Captured) -> None:
    settings = Settings(num_runs=60, seconds=0.5, timeout_s=120.0, launches=2, together=2)
    rows = rows_of(linear, "cpu", "torch", "cpu?threads=1", "mps")
    first, interrupted = run_launches(linear, rows, settings, Cache())
    assert not interrupted and len(first) == 4, "two launches in two parts each"
    started = [[result.latency is not None for result in launch.results] for launch in first]
    assert started[0] == [True, False, True, False] and started[1][1]
    assert all(sum(one) <= 3 for one in started), "two, and the fastest so far"
    assert not enough(first[:3], settings) and enough(first, settings)
    panel = conclude("net", first, settings, 1, Machine.here())
    assert outcomes(panel) == [Outcome.OK, Outcome.OK, Outcome.OK, Outcome.UNAVAILABLE]
    assert all(found.rank and found.comparison for found in panel.results[:3]) and panel.launches == 2
    assert first == run_launches(linear, rows, settings, Cache(), first)[0], "nothing is left to do"
