"""Diff: verdicts on simulated studies whose truth is known, outcomes that changed, and what else differs."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace

import pytest

from cross_backend.machine import Machine
from cross_backend.measure.statistics import latency_ms, unpaired_ratio
from cross_backend.measurement import Measurement
from cross_backend.records import Outcome, Panel, Result, StudyResults
from cross_backend.study.diff import FAIL_ON, CellVerdict, Diff, diff

ROUNDS = 6
MACHINE = Machine.here()


def measured(median_ns: float, chance: random.Random, launches: int = 3) -> Measurement:
    """Draw samples of a target: processes differ by 3 %, rounds by 1 %, calls by 2 %."""
    rounds = []
    for _ in range(launches):
        process = math.exp(chance.gauss(0, 0.03))
        for _ in range(ROUNDS):
            centre = median_ns * process * math.exp(chance.gauss(0, 0.01))
            rounds.append(tuple(centre * (1 + abs(chance.gauss(0, 0.02))) for _ in range(3)))
    return Measurement("latency", "ns", tuple(rounds), (ROUNDS,) * launches)


def ok(target: str, latency: Measurement) -> Result:
    return Result("net", target, target.upper(), Outcome.OK, rank=1, latency=latency, latency_ms=latency_ms(latency))


def panel(results: tuple[Result, ...], floor: float | None = 0.03, batch: int = 1) -> Panel:
    return Panel("net", results, floor, {"threads": 1}, MACHINE, batch=batch)


def study(name: str, *panels: Panel) -> StudyResults:
    return StudyResults(name, panels, MACHINE, {"torch": "2.13.0"}, {"seconds": 5.0}, "2026-01-01T00:00:00+00:00")


def simulated(
    name: str, medians_ns: dict[str, float], seed: int, launches: int = 3, floor: float = 0.03
) -> StudyResults:
    chance = random.Random(seed)
    return study(name, panel(tuple(ok(t, measured(ns, chance, launches)) for t, ns in medians_ns.items()), floor))


def verdicts(found: Diff) -> dict[str, CellVerdict]:
    return {row.target: row.verdict for row in found.rows}


class TestTruth:
    """What is simulated is found, and nothing else."""

    def test_large_changes_are_found_in_both_directions(self) -> None:
        old = {"cpu": 1e6, "torch": 2e6, "iree": 3e6}
        new = {"cpu": 1.5e6, "torch": 2e6, "iree": 1.9e6}
        for seed in range(30):
            found = diff(simulated("a", old, seed, 5), simulated("b", new, seed + 1000, 5))
            told = verdicts(found)
            assert told.pop("torch") in {CellVerdict.SAME, CellVerdict.CANNOT_TELL}
            assert told == {"cpu": CellVerdict.SLOWER, "iree": CellVerdict.FASTER}
            assert found.regressed

    def test_the_ratio_is_after_over_before(self) -> None:
        row = diff(simulated("a", {"cpu": 1e6}, 1, 5), simulated("b", {"cpu": 1.3e6}, 2, 5)).rows[0]
        assert row.ratio is not None and row.before is not None and row.after is not None
        assert row.ratio.low < 1.3 < row.ratio.high
        assert row.after.value / row.before.value == pytest.approx(row.ratio.value, rel=0.02)

    def test_no_change_is_no_regression(self) -> None:
        """Even where the noise floor hides nothing, at most one diff in twenty may have any false verdict."""
        medians = {f"t{i}": 1e6 for i in range(8)}
        wrong, alone = 0, 0
        for seed in range(100):
            found = diff(*(simulated(name, medians, seed + more, floor=0.0) for name, more in (("a", 0), ("b", 9000))))
            wrong += not set(verdicts(found).values()) <= {CellVerdict.SAME, CellVerdict.CANNOT_TELL}
            alone += any("on its own" in row.note for row in found.rows)
        assert wrong <= 5
        assert alone > 5, "each cell by itself would have told too much: the rule for many comparisons is at work"

    def test_a_change_below_the_larger_noise_floor_is_none(self) -> None:
        old, new = simulated("a", {"cpu": 1e6}, 1, 10), simulated("b", {"cpu": 1.15e6}, 2, 10)
        assert diff(old, new).rows[0].verdict is CellVerdict.SLOWER
        noisy = replace(new, panels=(replace(new.panels[0], noise_floor=math.log(1.25)),))
        for first, second in ((old, noisy), (noisy, old)):
            (row,) = diff(first, second).rows
            assert (row.verdict, row.note) == (CellVerdict.CANNOT_TELL, "a change of 10 % is not ruled out")
            assert row.floor == math.log(1.25)
            assert diff(first, second, 0.3).rows[0].verdict is CellVerdict.SAME

    @pytest.mark.parametrize(
        ("launches", "margin", "verdict"),
        [
            (1, 0.10, CellVerdict.CANNOT_TELL),  # two single launches may differ by 29 %
            (1, 0.30, CellVerdict.SAME),
            (2, 0.10, CellVerdict.SAME),
            (2, 0.03, CellVerdict.CANNOT_TELL),
            (20, 0.03, CellVerdict.SAME),
        ],
    )
    def test_nothing_is_the_same_that_was_hardly_measured(
        self, launches: int, margin: float, verdict: CellVerdict
    ) -> None:
        """ "Same" of 1.000 [0.775, 1.290] would be said of a target that became slower by a quarter."""
        alike = Measurement("latency", "ns", ((1e6,),) * (ROUNDS * launches), (ROUNDS,) * launches)
        (row,) = diff(study("a", panel((ok("cpu", alike),))), study("b", panel((ok("cpu", alike),))), margin).rows
        assert row.ratio is not None and row.ratio.value == 1
        assert (row.verdict, bool(row.note)) == (verdict, verdict is CellVerdict.CANNOT_TELL)

    def test_among_many_comparisons_a_verdict_needs_more(self) -> None:
        """The cell that is just beyond the floor on its own is not, when forty others are looked at."""
        just = _just_beyond_the_floor()
        alone = diff(*just)
        assert verdicts(alone) == {"cpu": CellVerdict.SLOWER}
        others = {f"t{i}": 1e6 for i in range(40)}
        crowd = [simulated("x", others, seed).panels[0] for seed in (5, 6)]
        old, new = (replace(s, panels=(*s.panels, replace(c, batch=8))) for s, c in zip(just, crowd, strict=True))
        found = diff(old, new)
        assert set(verdicts(found).values()) <= {CellVerdict.SAME, CellVerdict.CANNOT_TELL}
        told = "slower on its own; among 41 comparisons chance explains it"
        assert (found.rows[0].verdict, found.rows[0].note) == (
            CellVerdict.CANNOT_TELL, f"{told}; a change of 10 % is not ruled out",
        )  # fmt: skip
        assert not found.regressed
        wide = diff(old, new, 0.8).rows[0]
        assert (wide.verdict, wide.note) == (CellVerdict.SAME, told)

    def test_what_is_certain_makes_room_for_the_rest(self) -> None:
        """Holm's rule, not Bonferroni's: with the clear ones told, the last one stands for itself."""
        old, new = _just_beyond_the_floor()
        clear = {f"t{i}": 1e6 for i in range(40)}
        before = replace(simulated("a", clear, 5, 10).panels[0], batch=8)
        after = replace(simulated("b", {t: ns * 3 for t, ns in clear.items()}, 6, 10).panels[0], batch=8)
        found = diff(replace(old, panels=(*old.panels, before)), replace(new, panels=(*new.panels, after)))
        assert set(verdicts(found).values()) == {CellVerdict.SLOWER}

    def test_wild_numbers_end_in_a_verdict(self) -> None:
        """Two launches far apart, a millionfold change, and so many cells that the interval covers every number."""
        wild = Measurement("latency", "ns", ((1.0,) * 3, (1e12,) * 3), (1, 1))
        rows = tuple(ok(f"t{i}", wild) for i in range(60))
        tiny, huge = ok("cpu", measured(1.0, random.Random(1), 2)), ok("cpu", measured(1e13, random.Random(2), 2))
        found = verdicts(diff(study("a", panel((*rows, tiny))), study("b", panel((*rows, huge)))))
        assert found.pop("cpu") is CellVerdict.SLOWER
        assert set(found.values()) == {CellVerdict.CANNOT_TELL}

    def test_without_a_noise_floor_nothing_is_told(self) -> None:
        old, new = simulated("a", {"cpu": 1e6}, 1, 5), simulated("b", {"cpu": 2e6}, 2, 5)
        (row,) = diff(old, replace(new, panels=(replace(new.panels[0], noise_floor=None),))).rows
        assert (row.verdict, row.note) == (CellVerdict.CANNOT_TELL, "no noise floor was measured")
        assert row.ratio is not None

    def test_too_few_samples_tell_nothing(self) -> None:
        short = ok("cpu", Measurement("latency", "ns", ((1e6,),) * 3))
        (row,) = diff(study("a", panel((short,))), simulated("b", {"cpu": 3e6}, 2, 1)).rows
        assert (row.verdict, row.note) == (CellVerdict.CANNOT_TELL, "too little was measured for an interval")


def _just_beyond_the_floor() -> tuple[StudyResults, StudyResults]:
    """Give two studies whose ratio's 95 % interval begins just beyond their noise floor."""
    old, new = simulated("a", {"cpu": 1e6}, 1, 4), simulated("b", {"cpu": 1.4e6}, 2, 4)
    first, second = old.panels[0].results[0].latency, new.panels[0].results[0].latency
    assert first is not None and second is not None
    ratio = unpaired_ratio(second, first)
    assert ratio is not None
    floor = math.log(ratio.low) - 1e-3
    assert floor > 0
    moved = [replace(one, panels=(replace(one.panels[0], noise_floor=floor),)) for one in (old, new)]
    return moved[0], moved[1]


LATENCY = measured(1e6, random.Random(5))
FINE = ok("cpu", LATENCY)
FAILED = Result("net", "cpu", "CPU", Outcome.RUN_FAIL, "died of signal 11")
ABSENT = Result("net", "cpu", "CPU", Outcome.UNAVAILABLE, "no driver")
WRONG = Result("net", "cpu", "CPU", Outcome.MISMATCH, "wrong outputs")
ELSEWHERE = replace(FINE, rank=None, unranked="not on CUDA: 0.7 %")


@pytest.mark.parametrize(
    ("old", "new", "verdict", "note", "regressed"),
    [
        (FINE, FINE, CellVerdict.SAME, "", False),
        (FINE, FAILED, CellVerdict.NOW_FAILS, "RUN_FAIL: died of signal 11", True),
        (FINE, ABSENT, CellVerdict.NOW_FAILS, "UNAVAILABLE: no driver", True),
        (FINE, WRONG, CellVerdict.WRONG_NOW, "MISMATCH: wrong outputs", True),
        (ABSENT, WRONG, CellVerdict.WRONG_NOW, "MISMATCH: wrong outputs", True),
        (FAILED, FINE, CellVerdict.NOW_WORKS, "RUN_FAIL: died of signal 11", False),
        (WRONG, FINE, CellVerdict.NOW_WORKS, "MISMATCH: wrong outputs", False),
        (WRONG, FAILED, CellVerdict.STILL_FAILS, "RUN_FAIL: died of signal 11", False),
        (WRONG, WRONG, CellVerdict.STILL_FAILS, "MISMATCH: wrong outputs", False),
        (FINE, ELSEWHERE, CellVerdict.NOW_FAILS, "not on CUDA: 0.7 %", True),
        (ELSEWHERE, FINE, CellVerdict.NOW_WORKS, "not on CUDA: 0.7 %", False),
        (ELSEWHERE, ELSEWHERE, CellVerdict.CANNOT_TELL, "not on CUDA: 0.7 %", False),
        (FINE, replace(FINE, latency=None), CellVerdict.CANNOT_TELL, "not measured in both", False),
        (None, FINE, CellVerdict.NEW, "", False),
        (None, FAILED, CellVerdict.NEW, "RUN_FAIL: died of signal 11", False),
        (FINE, None, CellVerdict.GONE, "", False),
    ],
)
def test_outcomes(old: Result | None, new: Result | None, verdict: CellVerdict, note: str, regressed: bool) -> None:
    found = diff(study("a", panel((old,) if old else ())), study("b", panel((new,) if new else ())))
    assert [(row.verdict, row.note) for row in found.rows] == [(verdict, note)]
    assert found.regressed is regressed


@pytest.mark.parametrize(
    ("new", "failing"),
    [
        (FINE, set()),
        (WRONG, {"wrong", "slower", "cannot-tell"}),
        (FAILED, {"wrong", "slower", "cannot-tell"}),
        (ok("cpu", measured(2e6, random.Random(1), 9)), {"slower", "cannot-tell"}),
        (ok("cpu", measured(1e6, random.Random(1), 1)), {"cannot-tell"}),
        (None, {"cannot-tell"}),
    ],
    ids=["same", "wrong", "failed", "slower", "hardly measured", "gone"],
)
def test_what_fails_is_chosen(new: Result | None, failing: set[str]) -> None:
    found = diff(study("a", panel((FINE,))), study("b", panel((new,) if new else ())))
    assert {on for on in FAIL_ON if found.fails(on)} == failing
    assert list(FAIL_ON) == ["never", "wrong", "slower", "cannot-tell"], "what --fail-on takes"


def test_cells_meet_by_workload_batch_threads_and_target() -> None:
    one, eight = panel((FINE,)), panel((FINE,), batch=8)
    two = replace(one, settings={"threads": 2})
    found = diff(study("a", one, eight), study("b", eight, two))
    assert [(row.batch, row.threads, row.verdict) for row in found.rows] == [
        (1, 1, CellVerdict.GONE), (8, 1, CellVerdict.SAME), (1, 2, CellVerdict.NEW),
    ]  # fmt: skip


class TestCaveats:
    """What differs beside the code."""

    def test_nothing_differs(self) -> None:
        assert diff(study("a", panel((FINE,))), study("b", panel((FINE,)))).caveats == ()

    def test_machine_versions_and_settings(self) -> None:
        old = study("a", panel((FINE,)))
        new = replace(
            old,
            machine=replace(MACHINE, cpu="Another CPU"),
            versions={"torch": "2.14.0", "openvino": "2026.4"},
            settings={"seconds": 1.0},
        )
        assert diff(old, new).caveats == (
            f"measured on different machines: cpu {MACHINE.cpu} → Another CPU",
            "different versions: torch 2.13.0 → 2.14.0, openvino none → 2026.4",
            "different settings: seconds 5.0 → 1.0",
        )

    def test_what_was_not_finished(self) -> None:
        old = replace(study("a", panel((FINE,))), finished=False)
        new = study("b", replace(panel((FINE,)), interrupted=True))
        assert diff(old, new).caveats == (
            "a is not finished: unmeasured cells are missing or gone",
            "b was interrupted: some panels have fewer samples",
        )


def test_the_table_shows_every_cell_with_its_doubt() -> None:
    found = diff(
        study("a", panel((ok("cpu", LATENCY), replace(FAILED, target="torch")))),
        study("b", panel((ok("cpu", LATENCY), replace(FINE, target="torch")))),
    )
    table = found.table()
    assert table.title == "a → b: 1 same, 1 now works."
    assert [row[3] for row in table.rows] == ["cpu", "torch"]
    assert table.rows[0][6].startswith("1.000 [0.")
    assert table.rows[1][4:9] == ("–", table.rows[0][5], "–", "now works", "RUN_FAIL: died of signal 11")
    assert {len(row) for row in table.rows} == {len(table.headers)}
    assert diff(study("a"), study("b")).table().title == "a → b: nothing to compare."


def test_json_holds_all_of_it() -> None:
    found = diff(study("a", panel((FINE,))), study("b", panel((WRONG,))))
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert (document["regressed"], document["before"], document["after"]) == (True, "a", "b")
    assert document["margin"] == 0.1
    assert document["rows"][0]["verdict"] == "wrong now"
    assert set(document["rows"][0]["before"]) == {"value", "low", "high"}
