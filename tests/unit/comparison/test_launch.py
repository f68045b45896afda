"""Launch: blocks are planned fairly, what failed is not tried again, and the twin is of what gets a rank."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cross_backend.artifact import Artifact
from cross_backend.cache import Cache
from cross_backend.comparison import launch
from cross_backend.comparison.blocks import ROUNDS
from cross_backend.comparison.contestant import Contestant, described, unranked
from cross_backend.comparison.launch import plan_blocks, run_launch
from cross_backend.comparison.settings import Settings
from cross_backend.errors import LoadError, UnavailableError, WorkerTimeoutError
from cross_backend.exporting.export import Exported
from cross_backend.measure.paired import MIN_ROUNDS
from cross_backend.program.captured import Captured
from cross_backend.records import Execution, Launch, Outcome, Result
from cross_backend.registry import resolve
from cross_backend.tensors import TensorSpec

QUICK = Settings(num_runs=30, seconds=1.0, timeout_s=60.0, launches=2)


@given(st.floats(0, 1e6), st.integers(1, 5000), st.floats(0.01, 100), st.integers(1, 20))
def test_blocks_keep_the_number_of_runs_and_spread_them(
    estimate_ms: float, num_runs: int, seconds: float, launches: int
) -> None:
    settings = Settings(num_runs=num_runs, seconds=seconds, launches=launches)
    blocks = plan_blocks(estimate_ms, settings)
    assert len(blocks) == ROUNDS
    assert max(blocks) - min(blocks) <= 1
    runs = sum(blocks)
    assert min(settings.launch_runs, MIN_ROUNDS) <= runs <= settings.launch_runs
    assert runs == settings.launch_runs or runs * estimate_ms <= max(settings.launch_s * 1000, MIN_ROUNDS * estimate_ms)


def test_every_round_visits_each_target_once_in_an_order_of_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """What disturbs the machine for some rounds disturbs all alike, and none always follows the same other one."""
    names = ["a", "b", "c"]
    rows = [Exported(name, Outcome.OK) for name in names]

    def visited(index: int) -> list[str]:
        seen: list[str] = []
        monkeypatch.setattr(launch, "_block", lambda contestant, *_: seen.append(contestant.exported.text) or (1,))
        launch._measure([Contestant(row, described("net", row)) for row in rows], QUICK, index, lambda _turn: None)
        return seen

    first = visited(0)
    rounds = [tuple(first[at : at + len(names)]) for at in range(0, len(first), len(names))]
    assert len(rounds) == ROUNDS and all(sorted(one) == names for one in rounds)
    assert set(rounds) == set(itertools.permutations(names)), "each of the six orders"
    assert first == visited(0), "the seed decides"
    assert first != visited(1), "of each launch anew"


def test_two_targets_share_all_rounds_of_the_one_that_has_fewer() -> None:
    """Else two slow ones may share too few to be told apart, whatever they differ by."""
    settings = Settings(num_runs=1000, seconds=5, launches=1)
    sets = [
        {i for i, n in enumerate(plan_blocks(5000 / (runs + 0.5), settings)) if n}
        for runs in range(MIN_ROUNDS, ROUNDS + 1)
    ]
    assert [len(one) for one in sets] == list(range(MIN_ROUNDS, ROUNDS + 1))
    assert all(fewer < more for fewer, more in itertools.pairwise(sets))
    gaps = [b - a for a, b in itertools.pairwise([-1, *sorted(sets[0]), ROUNDS])]
    assert max(gaps) <= 2 * ROUNDS / MIN_ROUNDS, "spread over the whole launch"


@pytest.mark.parametrize(
    ("estimate_ms", "settings", "runs"),
    [
        (0.01, Settings(num_runs=1000, seconds=5, launches=1), 1000),
        (0.01, Settings(num_runs=1000, seconds=5), 100),
        (10.0, Settings(num_runs=1000, seconds=5, launches=1), 500),
        (10.0, Settings(num_runs=1000, seconds=5), 50),
        (10.0, Settings(num_runs=1000, seconds=5, launches=5), 100),
        (10_000.0, Settings(num_runs=1000, seconds=5), MIN_ROUNDS),
        (10_000.0, Settings(num_runs=3, seconds=5), 3),
        (0.0, Settings(num_runs=7, seconds=5), 7),
    ],
)
def test_the_time_box_and_the_count_both_bound_the_runs(estimate_ms: float, settings: Settings, runs: int) -> None:
    assert sum(plan_blocks(estimate_ms, settings)) == runs


@pytest.mark.parametrize(
    ("where", "why"),
    [
        (None, None),
        (Execution("GPU"), None),
        (Execution("GPU", nodes=0.9), None),
        (Execution("GPU", nodes=0.8999), "not on GPU: 89.9 %"),
        (Execution("CUDA", nodes=0.95, time=0.0074), "not on CUDA: 0.7 %"),
        (Execution("CUDA", nodes=0.1, time=0.95), None),
        (Execution("NPU", nodes=1.0, functional_only="an emulator"), "an emulator"),
    ],
)
def test_what_is_not_ranked_says_why(where: Execution | None, why: str | None) -> None:
    assert unranked(where, 0.9) == why


def test_targets_are_named_and_repeated_ones_numbered() -> None:
    rows = [
        Exported("cpu", Outcome.OK, None, resolve("cpu")),
        Exported("onnxruntime.cpu", Outcome.OK, None, resolve("onnxruntime.cpu")),
        Exported("cpu?threads=2", Outcome.OK, None, resolve("cpu?threads=2")),
        Exported("nonsense", Outcome.UNSUPPORTED, "no such thing"),
    ]
    found = [described("net", row, rows[:index]) for index, row in enumerate(rows)]
    assert [result.title for result in found] == [
        "ONNX Runtime (CPU)", "ONNX Runtime (CPU) #2", "ONNX Runtime (CPU) threads=2", "nonsense",
    ]  # fmt: skip
    assert [result.target for result in found[:2]] == ["onnxruntime.cpu"] * 2
    assert (found[3].workload, found[3].outcome, found[3].reason) == ("net", Outcome.UNSUPPORTED, "no such thing")


def test_an_error_becomes_an_outcome() -> None:
    contestant = Contestant(Exported("cpu", Outcome.OK), Result("net", "cpu", "CPU", Outcome.OK))
    for error, outcome in (
        (LoadError("refused"), Outcome.LOAD_FAIL),
        (WorkerTimeoutError("silent"), Outcome.TIMEOUT),
        (UnavailableError("no driver", "install it"), Outcome.UNAVAILABLE),
    ):
        contestant.fail(error, Outcome.LOAD_FAIL)
        assert (contestant.result.outcome, contestant.result.reason) == (outcome, str(error))
    assert not contestant.running and contestant.measured(6).latency is None


def test_rounds_that_an_interrupt_cut_off_are_empty() -> None:
    contestant = Contestant(Exported("cpu", Outcome.OK), Result("net", "cpu", "CPU", Outcome.OK), switches=1000)
    contestant.rounds = [(1000, 2000), ()]
    latency = contestant.measured(4).latency
    assert latency is not None and latency.rounds == ((1000, 2000), (), (), ()) and latency.launches == (4,)
    assert contestant.measured(4).warnings == ("1000 involuntary context switches in 0.0 s: other work disturbed it",)


@pytest.fixture
def captured(tmp_path: Path) -> Captured:
    """Give what a launch asks of a captured workload: its name, and that it has no task."""
    return Captured(tmp_path, "net", "program.pt2", "d" * 64, (), (), None, None, 0.0, 1, {})


@pytest.mark.parametrize(
    ("extents", "batch", "told"),
    [
        ((8, 8), 1, True),
        ((8,), 4, False),  # asked for: it is in the row
        ((1, 1), 1, False),
        ((8, 3), 1, False),  # no one batch
        (("s0",), 1, False),
        ((), 1, False),
    ],
)
def test_a_batch_that_the_model_itself_has_is_told(
    captured: Captured, cache: Cache, extents: tuple[int | str, ...], batch: int, told: bool
) -> None:
    """A model that takes eight images at once is not to be read as eight times as slow."""
    inputs = tuple(TensorSpec(f"x{i}", "float32", (extent, 3)) for i, extent in enumerate(extents))
    absent = Exported("mps", Outcome.UNAVAILABLE, "not here", resolve("mps"))
    launch, _ = run_launch(replace(captured, inputs=inputs, batch=batch), [absent], QUICK, cache)
    assert any("fixed leading extent of 8" in text for text in launch.warnings) is told


def test_what_failed_before_is_not_tried_again(
    make_artifact: Callable[..., Artifact], captured: Captured, cache: Cache
) -> None:
    """Null gives zeros where ones are right: it is opened once, found wrong, and a second launch starts nothing."""
    row = Exported("null", Outcome.OK, None, resolve("null"), make_artifact())
    absent = Exported("mps", Outcome.UNAVAILABLE, "not here", resolve("mps"))
    steps: list[str] = []
    first, interrupted = run_launch(captured, [row, absent], QUICK, cache)
    assert not interrupted and first.seconds > 0 and first.twin is None and first.twin_of is None
    wrong, other = first.results
    assert (wrong.outcome, wrong.latency) == (Outcome.MISMATCH, None) and wrong.measurements
    assert (other.outcome, other.reason) == (Outcome.UNAVAILABLE, "not here")
    children = psutil.Process().children()  # what tests share may have been started meanwhile
    second, _ = run_launch(captured, [row, absent], QUICK, cache, [first], lambda doing, *_: steps.append(doing))
    assert second.results[0] == replace(wrong, measurements=())
    assert second.seconds < first.seconds and psutil.Process().children() == children
    assert steps[-1] == "measure, round 30 of 30"


def test_a_launch_that_was_interrupted_says_so(
    make_artifact: Callable[..., Artifact], captured: Captured, cache: Cache
) -> None:
    def interrupt(doing: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    row = Exported("null", Outcome.OK, None, resolve("null"), make_artifact())
    launch, interrupted = run_launch(captured, [row], QUICK, cache, progress=interrupt)
    assert interrupted and launch == replace(launch, results=(described("net", row),)) and isinstance(launch, Launch)
