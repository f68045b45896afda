"""Study tables: nothing disappears, and no figure stands where nothing was proved."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cross_backend.instruments.cold_start import TABLE as COLD_START
from cross_backend.instruments.energy import ENERGY
from cross_backend.instruments.instrument import Metrics
from cross_backend.instruments.memory import MEMORY
from cross_backend.measure.percentiles import percentiles
from cross_backend.records import Comparison, Execution, Outcome, Result, StudyResults
from cross_backend.report import circumstances, study_tables, tables
from cross_backend.report.study_tables import NONE
from cross_backend.report.tables import Table
from cross_backend.report.views import View, views
from tests.unit.report import studies

TIMES = ("ratio", "median", "95 % interval", "P90", "P99", "P99.9", "runs")
FAILURES = len(studies.FAILURES)
"""Targets of a made panel that have no rank: one of each other end."""
WRONG = Comparison(1.0, 1.0, 0.0, 0.0, 1e-4, verdict=False, reason="far off")


@pytest.fixture(scope="module")
def shown() -> tuple[View, ...]:
    return views(studies.study())


def one(result: Result) -> dict[str, str]:
    """Give the ranking's cells of a panel that holds nothing else."""
    (view,) = views(studies.study(replace(studies.panel(targets=0), results=(result,))))
    table = study_tables.ranking(view)
    (row,) = table.rows
    return dict(zip(table.headers, row, strict=True))


def test_every_result_has_a_row_or_its_reason(shown: tuple[View, ...]) -> None:
    stopped = study_tables.stopped(shown)
    told = {title for row in stopped.rows for title in row[0].split(", ")}
    for view, panel in zip(shown, studies.study().panels, strict=True):
        table = study_tables.ranking(view)
        assert {len(row) for row in table.rows} == {len(table.headers)}
        assert {row[1] for row in table.rows} | told == {result.title for result in panel.results}


def test_ranked_rows_come_first_and_the_fastest_on_top(shown: tuple[View, ...]) -> None:
    ranks = [row.result.rank for row in shown[0].rows]
    assert ranks[:7] == [1, 2, 2, 4, 5, 6, 7] and ranks[7:] == [None] * FAILURES
    assert [row.result.title for row in shown[0].rows[1:3]] == ["onnxruntime", "OpenVINO"]


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.OK])
def test_what_failed_keeps_its_reason_and_has_no_times(outcome: Outcome) -> None:
    result = replace(
        studies.measured("net", "eager", 1.0, None, 0), outcome=outcome, reason="because", comparison=WRONG
    )
    cells = one(result)
    assert cells["note"] == f"{outcome}: because"
    assert {cells[name] for name in TIMES} == {NONE} and cells["rank"] == NONE


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"comparison": None}, "not verified, so no figure is shown"),
        ({"comparison": WRONG}, "verified, not measured"),
        ({"execution": Execution("HTP", functional_only="an emulator")}, "functional check only: an emulator"),
    ],
)
def test_no_speed_without_proof(change: dict[str, object], note: str) -> None:
    result = replace(studies.measured("net", "eager", 1.0, None, 0), **change)
    cells = one(result)
    assert {cells[name] for name in TIMES} == {NONE}
    assert cells["note"] == note
    (view,) = views(studies.study(replace(studies.panel(targets=0), results=(result,))))
    assert view.timed == [] and view.rows[0].measurement("memory.pss") is None


def test_an_unranked_target_shows_its_time_and_why_it_has_no_rank() -> None:
    result = replace(studies.measured("net", "CUDA", 1.0, None, 0), unranked="not on CUDA: 0.7 %")
    cells = one(result)
    assert cells["rank"] == NONE and cells["note"] == "not on CUDA: 0.7 %"
    assert cells["median"].endswith(" ms") and float(cells["median"][:-3]) == pytest.approx(1.0, rel=0.1)


def test_percentiles_are_those_of_the_statistics_or_what_they_need() -> None:
    result = studies.measured("net", "eager", 1.0, 1, 0, runs=40)
    cells = one(result)
    assert result.latency is not None
    for row in percentiles(result.latency, (90.0, 99.0, 99.9)):
        text = cells[f"P{row.percent:g}"]
        if row.value is None:
            assert text == f"needs n ≥ {row.needs:,}"
        else:
            assert float(text.split(" ms [")[0]) == pytest.approx(row.value / 1e6, rel=0.05)
    assert cells["P99.9"].startswith("needs n ≥ ")
    assert cells["P90"].endswith("]")


def test_precision_is_what_the_runtime_says_else_what_was_asked() -> None:
    result = studies.measured("net", "XNNPACK int8", 1.0, 1, 0)
    assert one(replace(result, execution=Execution("CPU", precision="bf16")))["precision"] == "bf16"
    assert one(replace(result, execution=None))["precision"] == "int8"
    assert one(replace(result, execution=None, target="eager"))["precision"] == NONE
    assert one(replace(result, execution=None, target="coreml", asked="fp16"))["precision"] == "fp16", "by default"


def test_the_overview_joins_ties_and_counts() -> None:
    panel = studies.panel(targets=2)
    assert [r.rank for r in panel.results[:2]] == [1, 1]
    table = study_tables.overview(views(studies.study(panel)))
    cells = dict(zip(table.headers, table.rows[0], strict=True))
    assert cells["fastest"] == "onnxruntime = OpenVINO"
    assert cells["ranked"] == f"2 of {2 + FAILURES}" and cells["speedup"] == cells["ratio of the next"] == NONE
    assert cells["smallest detectable difference"] == "8.3 %"


def test_what_has_no_rank_is_told_once_with_all_its_places(shown: tuple[View, ...]) -> None:
    rows = study_tables.stopped(shown).rows
    assert len(rows) == FAILURES and {row[2] for row in rows} == {"all panels"}
    assert rows[0][1] == "UNAVAILABLE" and rows[0][3] == "reason of UNAVAILABLE"


def test_targets_that_one_reason_stops_share_its_row() -> None:
    panel = studies.panel(targets=1)
    absent = tuple(
        Result("net", name, name, Outcome.UNAVAILABLE, "there is no NVIDIA driver") for name in ("CUDA", "TensorRT")
    )
    other = replace(panel, batch=8, results=absent[:1])
    shown = views(studies.study(replace(panel, results=absent), replace(panel, batch=2, results=absent), other))
    assert study_tables.stopped(shown).rows == (
        ("CUDA", "UNAVAILABLE", "all panels", "there is no NVIDIA driver"),
        ("TensorRT", "UNAVAILABLE", "mobilenet_v3_small ×1, mobilenet_v3_small ×2", "there is no NVIDIA driver"),
    )
    assert study_tables.stopped(shown[:2]).rows == (
        ("CUDA, TensorRT", "UNAVAILABLE", "all panels", "there is no NVIDIA driver"),
    )


def column(table: Table | None, header: str) -> list[str]:
    assert table is not None
    return [row[table.headers.index(header)] for row in table.rows]


def test_instruments_show_medians_and_reasons(shown: tuple[View, ...]) -> None:
    memory = study_tables.instrument(shown[:1], *MEMORY.tables)
    assert set(column(memory, "retained after close")) == {"90.0 MB"}
    assert set(column(memory, "why not")) == {"there is no accelerator"}
    cold = study_tables.instrument(shown[:1], COLD_START)
    assert column(cold, "process start")[0] == "30.0 ms"  # the median of three launches
    energy = study_tables.instrument(shown[:1], ENERGY.tables[0])
    assert column(energy, "why not") == ["no counter is readable here (no RAPL, no NVML)"]
    assert column(energy, "backend") == [", ".join(row.label for row in shown[0].timed)]
    assert study_tables.instrument(shown, Metrics("nothing", "Nothing")) is None


def test_a_reason_stands_beside_what_its_figures_cover_and_says_who_has_no_rank() -> None:
    """An energy without what it is of is no figure; a row without a rank is not to be read as a contestant's."""
    result = replace(
        studies.measured("net", "GPU", 1.0, None, 0),
        unranked="not on GPU: 0.7 %",
        absent={"memory.device": "no accelerator"},
        notes={"memory.pss": "of the worker and its threads", "energy.call": "of the package"},
    )
    shown = views(studies.study(replace(studies.panel(targets=0), results=(result,))))
    memory = study_tables.instrument(shown, *MEMORY.tables)
    assert column(memory, "why not") == ["no accelerator; of the worker and its threads"]
    assert column(memory, "backend") == ["GPU (not ranked)"]


def test_parts_are_in_the_order_of_their_numbers() -> None:
    assert max(["streams_10", "streams_2", "streams_1"], key=study_tables.natural) == "streams_10"


def test_warnings_are_grouped_by_cause() -> None:
    rows = circumstances.warnings(views(studies.study())).rows
    assert len(rows) == 1 and "stolen" in rows[0][0]
    assert rows[0][1].count("batch 8") == 2


def test_placement_tells_what_was_left_and_why(shown: tuple[View, ...]) -> None:
    table = study_tables.placement(shown[0])
    row = dict(zip(table.headers, table.rows[0], strict=True))
    assert (row["covered"], row["not covered"], row["on device"]) == ("50", "2", "99.5 %")
    assert row["why not"] == "2 × sort (no kernel for it); 2 × Cast ran elsewhere"


def test_settings_are_flat_texts() -> None:
    results = replace(studies.study(), settings={"a": [1, 2], "b": {"c": None}})
    assert circumstances.settings(results).rows == (("a", "1, 2"), ("b", "c: –"))


def test_an_empty_study_has_tables_without_rows() -> None:
    empty = StudyResults("empty", (), studies.MACHINE, {}, {}, "2026-11-21T00:00:00Z", finished=False)
    shown = views(empty)
    assert (study_tables.stopped(shown).rows, study_tables.overview(shown).rows) == ((), ())


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.5e6, "ns", "1.50 ms"),
        (1.5e3, "ns", "1.50 µs"),
        (2.5e6, "B", "2.5 MB"),
        (0.0021, "J", "2.1 mJ"),
        (4e-7, "J", "0.4 µJ"),
        (12.0, "W", "12 W"),
        (1234.5, "1/s", "1,234 /s"),
        (None, "W", NONE),
        (float("nan"), "W", NONE),
    ],
)
def test_quantities_have_their_units(value: float | None, unit: str, text: str) -> None:
    assert tables.quantity(value, unit) == text
