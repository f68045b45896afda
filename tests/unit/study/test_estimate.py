"""Cells and estimates: what a study will do here, why not, and a range of time with what it rests on."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest

from cross_backend.backends._packages import spaces_in_path
from cross_backend.cache import Cache
from cross_backend.lowering.lower import lower
from cross_backend.machine import Machine
from cross_backend.program.captured import Captured
from cross_backend.records import Outcome
from cross_backend.registry import resolve
from cross_backend.study.cells import Cell, cells, table
from cross_backend.study.estimate import EARLIER, Estimate, Seconds, estimate
from cross_backend.study.spec import PanelSpec, StudySettings, StudySpec, WorkloadSpec

LINEAR = WorkloadSpec("linear_regression", "linear_regression")
MACHINE = Machine.here()


def study(*targets: str, **given: object) -> StudySpec:
    return StudySpec(**{"name": "s", "workloads": (LINEAR,), "targets": targets, **given})  # type: ignore[arg-type]


def not_captured(panel: PanelSpec) -> None:
    return None


def unknown_flops(panel: PanelSpec) -> None:
    return None


@pytest.fixture
def planned(cache: Cache, linear: Captured):
    """Give a function that plans a study of the captured linear regression."""

    def plan(one: StudySpec, *, captured: bool = True) -> tuple[Cell, ...]:
        return cells(one, lambda panel: linear if captured else None, cache, MACHINE)

    return plan


class TestCells:
    """One row per panel and target."""

    def test_what_is_cached_is_only_measured(self, planned, cache: Cache, linear: Captured) -> None:
        lower(linear, resolve("null"), cache)
        found = {cell.target: cell for cell in planned(study("null", "torch"))}
        assert (found["null"].doing, found["null"].cached) == ("measure", True)
        assert (found["torch.eager"].doing, found["torch.eager"].cached) == ("lower, measure", False)

    def test_what_was_never_captured_is_captured_first(self, planned) -> None:
        assert [cell.doing for cell in planned(study("torch"), captured=False)] == ["capture, lower, measure"]

    def test_they_come_in_the_order_of_the_study(self, planned) -> None:
        found = planned(study("torch", "null", batch_sizes=(1, 8)))
        assert [(cell.panel.batch, cell.target) for cell in found] == [
            (1, "torch.eager"), (1, "null"), (8, "torch.eager"), (8, "null"),
        ]  # fmt: skip

    def test_what_cannot_run_here_says_why(self, planned) -> None:
        """Core ML's files are made anywhere and run on Apple's systems; no backend lowers what it does not have."""
        texts = ("coreml", "torch?precision=int8", "vanished", f"torch?threads={MACHINE.usable_cpus + 1}")
        coreml, int8, vanished, threads = planned(study(*texts))
        if MACHINE.system != "macos":
            assert coreml.outcome is Outcome.UNAVAILABLE
            assert coreml.reason is not None and coreml.reason.startswith("executorch.coreml ")
        assert (int8.outcome, int8.doing) == (Outcome.UNSUPPORTED, "UNSUPPORTED")
        assert int8.reason is not None and "torch.eager has no int8" in int8.reason
        assert vanished.outcome is Outcome.UNSUPPORTED
        assert threads.outcome is Outcome.UNAVAILABLE
        assert threads.reason == (
            f"{MACHINE.usable_cpus + 1} threads are asked for; this process may use {MACHINE.usable_cpus} processor(s)"
        )

    def test_a_program_that_a_backend_never_takes(self, planned, linear: Captured, cache: Cache) -> None:
        onnx = replace(linear, program_name="program.onnx")
        (cell,) = cells(study("xnnpack"), lambda panel: onnx, cache, MACHINE)
        assert cell.outcome is Outcome.UNSUPPORTED
        assert cell.reason is not None and "cannot take linear_regression" in cell.reason

    def test_table_and_json_show_all_of_it(self, planned) -> None:
        found = planned(study("torch", "torch?precision=int8"))
        shown = table(found)
        assert shown.rows[0] == ("linear_regression", "1", "1", "torch.eager", "lower, measure")
        assert shown.rows[1][4] == "UNSUPPORTED" and found[1].reason, "the reason is told below the table, once"
        assert json.loads(json.dumps([cell.to_json() for cell in found]))[1]["outcome"] == "UNSUPPORTED"


class TestEstimate:
    """Ranges, never points."""

    def test_it_grows_with_the_work(self, planned) -> None:
        def total(**given: object) -> Seconds:
            one = study("torch", "cpu", **given)
            return estimate(one, planned(one, captured=False), lambda panel: 1e9 * panel.batch).total

        plain = total()
        assert 0 < plain.low < plain.high
        for more in (
            {"batch_sizes": (1, 8)},
            {"settings": StudySettings(seconds=60)},
            {"settings": StudySettings(launches=9)},
            {"settings": StudySettings(instruments=("throughput", "open_loop", "memory", "energy", "accuracy"))},
        ):
            grown = total(**more)
            assert grown.low > plain.low and grown.high > plain.high, more

    def test_heavy_models_take_their_calls_whatever_the_time_box(self, planned) -> None:
        one = study("torch", settings=StudySettings(seconds=1, launches=3, instruments=()))
        light = estimate(one, planned(one), lambda panel: 1e6).total
        heavy = estimate(one, planned(one), lambda panel: 1e12).total
        assert heavy.low > light.low + 3 * 16 * 1e12 / 150e9 * 0.9

    def test_a_margin_may_end_it_early_or_late(self, planned) -> None:
        def total(settings: StudySettings) -> Seconds:
            one = study("torch", settings=settings)
            return estimate(one, planned(one), unknown_flops).total

        fixed, until = total(StudySettings(seconds=60)), total(StudySettings(seconds=60, margin=0.01))
        assert until.low < fixed.low and until.high > fixed.high

    def test_what_does_not_run_takes_no_time(self, planned) -> None:
        one = study("vanished")
        assert estimate(one, planned(one), unknown_flops).total == Seconds(0, 0)

    def test_what_is_cached_is_not_lowered_again(self, planned, cache: Cache, linear: Captured) -> None:
        one = study("null")
        before = estimate(one, planned(one), unknown_flops).total
        lower(linear, resolve("null"), cache)
        after = estimate(one, planned(one), unknown_flops).total
        assert after.low < before.low and after.high < before.high

    def test_other_numbers_of_threads_share_artifacts(self, planned) -> None:
        one = study("null", threads=(1, MACHINE.usable_cpus + 1))
        two = replace(one, threads=(1,))
        assert estimate(one, planned(one), unknown_flops).total == estimate(two, planned(two), unknown_flops).total

    def test_what_is_left_learns_from_what_is_done(self) -> None:
        plan = Estimate((Seconds(10, 40), Seconds(10, 40), Seconds(10, 40)), "")
        assert plan.total == Seconds(30, 120)
        assert plan.left([]) == plan.total
        left = plan.left([40.0])
        assert left.low == pytest.approx(80 / EARLIER) and left.high == pytest.approx(80 * EARLIER)
        assert plan.left([40.0, 40.0, 40.0]) == Seconds(0, 0)
        assert plan.left([40.0, 40.0], 0.75).high == pytest.approx(10 * EARLIER)
        assert plan.left([], 0.5) == Seconds(25, 100)

    def test_it_narrows_while_the_first_panel_runs(self) -> None:
        plan = Estimate((Seconds(85, 660), Seconds(85, 660)), "")
        spreads = []
        for share in (0.1, 0.2, 0.5, 0.9):
            left = plan.left([], share, 200 * share)
            spreads.append(left.high / left.low)
            assert left.low <= 200 * (2 - share) <= left.high
        assert (
            all(next_one <= one + 1e-9 for one, next_one in itertools.pairwise(spreads))
            and spreads[0] == pytest.approx(660 / 85)
            and spreads[-1] < 2.2
        )
        done = plan.left([200.0], 0.1)
        assert done.high / done.low < 1.7

    @pytest.mark.parametrize(
        ("seconds", "text"),
        [
            (Seconds(0, 0), "1 s"),
            (Seconds(7.2, 33), "7 to 35 s"),
            (Seconds(60, 600), "1 to 10 min"),
            (Seconds(85, 660), "1.5 to 11 min"),
            (Seconds(12, 660), "10 s to 11 min"),
            (Seconds(600, 605), "10 min"),
            (Seconds(4000, 36_000), "67 min to 10.0 h"),
        ],
    )
    def test_it_is_spoken_as_roughly_as_it_is_known(self, seconds: Seconds, text: str) -> None:
        assert str(seconds) == text


@pytest.mark.parametrize("name", ["quick_test", "full_comparison"])
def test_the_examples_plan_here(name: str, tmp_path: Path) -> None:
    from cross_backend.study.yaml_file import read_study

    one = read_study(Path(__file__).parents[3] / "examples" / "studies" / f"{name}.yaml")
    planned = cells(one, not_captured, Cache(tmp_path), MACHINE)
    runs = {cell.target for cell in planned if cell.runs}
    iree = {"iree.llvm_cpu"} if spaces_in_path() is None else set()
    assert {"torch.eager", "executorch.xnnpack", "onnxruntime.cpu", "openvino", *iree} <= {
        str(resolve(text).target.name) for text in runs
    }
    assert all(cell.runs or cell.reason for cell in planned)
    total = estimate(one, planned, unknown_flops).total
    assert total.low > 60


def test_the_demos_study_is_of_what_one_draws_for_and_of_four_backends_that_are_here(tmp_path: Path) -> None:
    from cross_backend.study.yaml_file import read_study

    one = read_study(Path(__file__).parents[3] / "examples" / "studies" / "demo.yaml")
    planned = cells(one, not_captured, Cache(tmp_path), MACHINE)
    assert [row.name for row in one.workloads] == ["digits_cnn"] and sum(bool(cell.runs) for cell in planned) == 4


def test_the_quick_study_is_what_it_promises() -> None:
    from cross_backend.study.yaml_file import read_study

    one = read_study(Path(__file__).parents[3] / "examples" / "studies" / "quick_test.yaml")
    both = {
        name
        for name in (w.name for w in one.workloads)
        if {p.batch for p in one.panels() if p.workload.name == name} == {1, 8}
    }
    assert len(both) >= 4
    assert len(one.targets) >= 5
