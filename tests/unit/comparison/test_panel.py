"""Panel: launches are joined, failures stay alone, ties and doubt are honest, and an interrupt keeps the rest."""

from __future__ import annotations

import contextlib
import math
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
from cross_backend.comparison import opening
from cross_backend.comparison.benches import open_bench
from cross_backend.comparison.entrant import Entrant
from cross_backend.comparison.joined import deduplicate_warnings, merge, twins
from cross_backend.comparison.launch import run_launch
from cross_backend.comparison.opening import Aside
from cross_backend.comparison.panel import compare, conclude, enough, measure_alone, run_launches, run_panel, undecided
from cross_backend.comparison.settings import Settings
from cross_backend.comparison.visits import ROUNDS
from cross_backend.errors import UsageError, WorkerError
from cross_backend.export.export import Exported, ExportSettings, export
from cross_backend.machine import Machine
from cross_backend.measure.paired import resolution
from cross_backend.measurement import Interval, Measurement
from cross_backend.program.capture import Captured
from cross_backend.program.captures import capture_workload
from cross_backend.records import Comparison, Execution, Launch, Outcome, Panel, Result
from cross_backend.registry import resolve
from cross_backend.tensors import load_tensors, save_tensors

QUICK = Settings(num_runs=90, seconds=1.0, timeout_s=120.0, launches=1)


def result(latency: Measurement | None = None, **changes: object) -> Result:
    """Give a result that is right."""
    right = Comparison(0.0, 0.0, math.inf, 1.0, 1e-4, verdict=True)
    return replace(Result("net_batch4", "cpu", "CPU", Outcome.OK, comparison=right, latency=latency), **changes)


def times(*rounds: float) -> Measurement:
    """Give a launch of one call a round."""
    return Measurement("latency", "ns", tuple((ns,) for ns in rounds), (len(rounds),))


SIX = times(*range(100, 106))
NOISY = times(90, 95, 100, 120, 90, 99)


def test_a_failure_in_any_launch_is_the_end() -> None:
    good, bad = result(SIX), result(SIX, outcome=Outcome.RUN_FAIL, reason="it died")
    assert merge([bad, good], [6, 6]) == replace(bad, latency=None)
    found = merge([good, good, bad], [6, 6, 6])
    assert (found.outcome, found.latency, found.reason) == (Outcome.RUN_FAIL, None, "in launch 3: it died")


def test_launches_are_joined() -> None:
    cold = Measurement("cold_start.load", "ns", ((5.0,),), (1,))
    first = result(SIX, measurements=(cold,), load_s=1.0, warnings=("busy",), unranked="not on GPU: 0.7 %")
    second = result(SIX, measurements=(cold,), load_s=3.0, warnings=("busy", "hot"))
    found = merge([first, second], [6, 6])
    assert found.latency == Measurement.joined([SIX, SIX]) and found.latency.launches == (6, 6)
    assert found.measurements == (Measurement("cold_start.load", "ns", ((5.0,), (5.0,)), (1, 1)),)
    assert (found.load_s, found.warnings, found.unranked) == (2.0, ("busy", "hot"), "not on GPU: 0.7 %")


def test_an_interrupt_before_the_first_visit_of_a_launch_leaves_its_rounds_empty() -> None:
    """All targets of a panel have the same rounds, or they could not be compared."""
    visited, waiting = result(SIX), result(None)
    launches = [Launch((result(SIX), result(SIX))), Launch((visited, waiting)), Launch((waiting, waiting))]
    panel = conclude("net", launches, QUICK, 1, Machine.here(), interrupted=True)
    one, two = (found.latency for found in panel.results)
    assert one is not None and two is not None
    assert one.launches == two.launches == (6, 6) and two.rounds[6:] == ((),) * 6
    assert [found.rank for found in panel.results] == [1, 1] and panel.launches == 3


def test_what_has_no_rank_keeps_its_latency_and_is_no_contest(draw: Callable[..., list[Measurement]]) -> None:
    fast, middle, slow = draw(1, 2, 4)
    rows = (result(fast, unranked="not on GPU: 0.7 %"), result(middle), result(slow))
    panel = conclude("net", [Launch(rows, result(middle), 1)], QUICK, 4, Machine.here())
    assert [found.rank for found in panel.results] == [None, 1, 2]
    assert all(found.latency_ms is not None and found.workload == "net" for found in panel.results)
    assert (panel.workload, panel.batch) == ("net", 4)
    assert panel.noise_floor == pytest.approx(resolution(1), rel=0.05)
    assert [found.ratio is not None for found in panel.results] == [False, True, True]
    assert panel.results[1].ratio == Interval(1.0, 1.0, 1.0)
    assert panel.results[2].ratio is not None and panel.results[2].ratio.low > 1 and panel.found_from is not None
    assert panel.ranked == [panel.results[1], panel.results[2]]


@pytest.mark.parametrize(
    ("launches", "settings", "answer"),
    [
        ([], QUICK, False),
        ([Launch((result(None, outcome=Outcome.LOAD_FAIL),))], Settings(launches=5), True),
        ([Launch((result(SIX, outcome=Outcome.RUN_FAIL),))], Settings(launches=5), True),
        ([Launch((result(SIX),))], Settings(launches=2), False),
        ([Launch((result(SIX),))] * 2, Settings(launches=2), True),
        ([Launch((result(SIX),))] * 2, Settings(launches=2, margin=0.01), True),
        ([Launch((result(SIX), result(NOISY)))] * 2, Settings(launches=2, margin=0.001), False),
        ([Launch((result(SIX), result(NOISY)))] * 3, Settings(launches=2, margin=0.001, max_launches=3), True),
    ],
    ids=["none", "nothing opens", "nothing runs", "too few", "as asked", "alone", "not precise", "too many"],
)
def test_launching_ends_when_it_is_enough(launches: list[Launch], settings: Settings, answer: bool) -> None:
    assert enough(launches, settings) is answer


def lasting(seconds: float, *milliseconds: float | None, twin_of: int = 0) -> Launch:
    """Give a launch that took so long; None where a target was not started."""
    rows = [result(None if ms is None else times(*[ms * 1e6] * 8)) for ms in milliseconds]
    return Launch(tuple(rows), rows[twin_of], twin_of, (), seconds)


FAR, NEAR = (1.0, 1.5, 3.0), (1.0, 1.01, 3.0)
AGAIN = (1.0, 1.01, None)


@pytest.mark.parametrize(
    ("launches", "answer", "again"),
    [
        ([lasting(9, *FAR)], True, []),
        ([lasting(9, *NEAR)], False, [0, 1]),
        ([lasting(9, *NEAR), lasting(6, *AGAIN)], False, [0, 1]),
        ([lasting(9, *NEAR)] + [lasting(6, *AGAIN)] * 3, True, []),
        ([lasting(41, *NEAR)], True, [0, 1]),
        ([lasting(39, *NEAR)], False, [0, 1]),
        ([lasting(39, *NEAR), lasting(20, *AGAIN)], True, [0, 1]),
    ],
    ids=["clear", "near", "not yet", "surely found", "long", "less long", "the box is full"],
)
def test_launching_goes_on_until_every_place_is_decided(launches: list[Launch], answer: bool, again: list[int]) -> None:
    """What is clearly apart from its neighbours is not started again, and nothing is that would end after 60 s."""
    settings = Settings()
    assert enough(launches, settings) is answer
    assert undecided(launches, settings) == again


def test_no_more_launches_than_share_the_runs() -> None:
    alike = [lasting(1, 1.0, 1.0), lasting(1, 1.0, 1.3), lasting(1, 1.0, 0.8)]
    assert not enough(alike, Settings())
    assert enough(alike, Settings(num_runs=20)), "six rounds each, at least"


def test_what_was_started_once_keeps_its_place() -> None:
    """The machine became twice as slow after the first launch, and only the first two saw it."""
    launches = [lasting(9, *NEAR), *[lasting(6, 2.0, 2.02, None)] * 3]
    panel = conclude("net", launches, Settings(), 1, Machine.here())
    assert [found.rank for found in panel.results] == [1, 1, 3] and panel.launches == 4
    first, second, third = panel.results
    assert third.latency is not None and third.latency.launches == (8,) * 4 and third.latency.count == 8
    assert first.ratio == Interval(1.0, 1.0, 1.0)
    assert second.ratio is not None and second.ratio.value == pytest.approx(1.01) and second.ratio.low < 1
    assert third.ratio is not None and third.ratio.value == pytest.approx(3.0)
    assert panel.found_from is not None and panel.found_from <= 0.08
    assert panel.settings["launches"] is None and panel.settings["found_from"] == 0.08


def test_the_twin_may_be_of_another_target_in_every_launch() -> None:
    launches = [lasting(9, 1.0, 1.5), lasting(6, 1.1, 1.4, twin_of=1), replace(lasting(6, 1.0, 1.0), twin=None)]
    pair = twins(launches)
    assert pair is not None and pair[0] == pair[1] and pair[0].launches == (8, 8)
    assert pair[0].rounds[8] == (1.4e6,) and twins(launches[2:]) is None


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

    def admit(entrant: Entrant) -> None:
        assert entrant.result.comparison is not None and not entrant.rounds
        admitted.append(entrant.result.target)

    def finish(entrant: Entrant) -> None:
        assert any(entrant.rounds)
        finished.append(entrant.result.target)

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

    def admit(entrant: Entrant) -> None:
        if entrant.result.target == "torch.eager":
            assert entrant.bench is not None
            entrant.result = replace(entrant.result, unranked="too inexact")
            entrant.bench.close()
            entrant.bench = None

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

    def interrupted(entrant: Entrant, asked: Settings) -> None:
        entrant.fail(WorkerError("it ended with the others"), Outcome.LOAD_FAIL)
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


def rows_of(linear: Captured, *targets: str) -> list[Exported]:
    """Export to backends that cost little."""
    return export(linear, targets, ExportSettings(Cache(), jobs=1))[1]


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
    return children()


def outcomes(panel: Panel) -> list[Outcome]:
    return [result.outcome for result in panel.results]


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


def test_an_interrupt_between_the_first_visits_ranks_none() -> None:
    """Once all shared the first rank, with medals, because nothing told them apart."""
    two = (result(times(100, 101)), result(times(300, 301)))
    panel = conclude("net", [Launch((*two, result(None, comparison=None)))], QUICK, 1, Machine.here(), interrupted=True)
    assert [found.rank for found in panel.results] == [None] * 3 and panel.found_from is None
    assert [found.unranked for found in panel.results[:2]] == ["interrupted"] * 2
    assert (panel.results[2].outcome, panel.results[2].reason) == (Outcome.NOT_MEASURED, "interrupted")
    assert all(found.unfinished for found in panel.results)
    late = result(Measurement("latency", "ns", (*((900,),) * 5, ()), (6,)))
    panel = conclude("net", [Launch((result(SIX), result(NOISY), late))], QUICK, 1, Machine.here(), interrupted=True)
    assert [found.rank for found in panel.results] == [1, 1, None] and panel.results[2].unranked == "interrupted"


def test_calls_that_are_too_few_rank_none() -> None:
    panel = conclude("net", [Launch((result(times(1, 1)), result(times(9, 9))))], QUICK, 1, Machine.here())
    assert panel.ranked == [] and {found.unranked for found in panel.results} == {"too few calls for a comparison"}
    assert conclude("net", [Launch((result(times(1)),))], QUICK, 1, Machine.here()).ranked, "alone there is no other"


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
        found = measure_alone(bench, row.artifact, row.resolved, QUICK, opened)
    assert (found.outcome, found.latency_ms, found.unranked) == (Outcome.OK, None, "an emulator stands in for it")


def test_more_threads_than_processors_are_not_available(linear: Captured) -> None:
    panel = run_panel(linear, rows_of(linear, "torch?threads=4096", "cpu"), QUICK, Cache())
    assert outcomes(panel) == [Outcome.UNAVAILABLE, Outcome.OK]
    assert (panel.results[0].reason or "").startswith("4096 threads are asked for; this process may use")


def test_warnings_that_differ_in_their_numbers_are_told_once() -> None:
    texts = ("steal: 3.5 % of it", "it computes bf16", "steal: 4 % of it", "it computes bf16", "steal: 1,000 % of it")
    assert deduplicate_warnings(texts) == ("steal: 3.5 % of it (the first of 3 such warnings)", "it computes bf16")


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
