"""History: a target from study to study: a change is told where neither chance nor the machine explains it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cross_backend.measure.statistics import latency_ms
from cross_backend.measurement import Measurement
from cross_backend.records import Outcome, PanelKey, Result, StudyResults
from cross_backend.study.history import history
from tests.unit.report import studies

KEY = PanelKey("net", 1, 1)
TARGET = "xnnpack"


def at(median_ms: float, seed: int, **changes: object) -> StudyResults:
    """Give a study in which the target took that long."""
    panel = studies.panel("net", targets=3, seed=seed)
    samples: Measurement = studies.latency(median_ms, seed)
    results = tuple(
        replace(r, latency=samples, latency_ms=latency_ms(samples), **changes) if r.target == TARGET else r
        for r in panel.results
    )
    return replace(studies.study(replace(panel, results=results)), started=f"2026-11-{seed:02}T10:00:00+01:00")


def numbered(*found: StudyResults) -> list[tuple[int, StudyResults]]:
    return list(enumerate(found, 1))


def test_a_step_is_one_change_point_and_the_rest_is_none() -> None:
    moments = history(numbered(at(2.0, 1), at(2.01, 2), at(3.0, 3), at(2.99, 4)), KEY, TARGET)
    assert [moment.changed for moment in moments] == [False, False, True, False]
    assert [moment.study for moment in moments] == [1, 2, 3, 4]
    change = moments[2].change
    assert change is not None and change.low < 1.5 < change.high and moments[0].change is None


def test_a_difference_below_the_noise_floor_is_none() -> None:
    assert not any(moment.changed for moment in history(numbered(at(2.0, 1), at(2.06, 2)), KEY, TARGET))


def test_what_was_not_right_is_no_moment_to_compare_with() -> None:
    wrong = at(9.0, 2, outcome=Outcome.MISMATCH)
    moments = history(numbered(at(2.0, 1), wrong, at(2.0, 3)), KEY, TARGET)
    assert moments[1].latency_ms is None and moments[1].outcome is Outcome.MISMATCH
    assert moments[2].change is not None and not any(moment.changed for moment in moments)


def test_other_machines_cells_and_targets_are_left_out() -> None:
    other = at(1.0, 1)
    other = replace(other, machine=replace(other.machine, cpu="another"))
    assert [moment.study for moment in history(numbered(other, at(2.0, 2)), KEY, TARGET)] == [2]
    assert history(numbered(at(2.0, 1)), PanelKey("net", 8, 1), TARGET) == []
    assert history(numbered(at(2.0, 1)), KEY, "cuda") == []
    assert history([], KEY, TARGET) == []


def test_with_more_comparisons_each_must_be_surer(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []

    def ratio(_new: Measurement, _old: Measurement, confidence: float) -> None:
        seen.append(confidence)

    monkeypatch.setattr("cross_backend.study.history.unpaired_ratio", ratio)
    history(numbered(*(at(2.0, seed) for seed in range(1, 7))), KEY, TARGET)
    assert seen == pytest.approx([0.99] * 5)


def test_the_maker_of_these_studies_finds_the_target() -> None:
    found: list[Result] = [r for panel in at(2.0, 1).panels for r in panel.results if r.target == TARGET]
    assert len(found) == 1
