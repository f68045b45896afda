"""Tables: every sample is a row, in both formats alike, in bounded memory."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from cross_backend.errors import StoreError, UnavailableError, UsageError
from cross_backend.measurement import Measurement
from cross_backend.records import PanelKey
from cross_backend.store import Store, StoredStudy
from cross_backend.store.tables import COLUMNS, ROWS_AT_ONCE, write_table
from tests.unit.conftest import room
from tests.unit.store.conftest import PANEL, further, launch

Begin = Callable[..., StoredStudy]
BATCH_8 = PanelKey("net", 8, 2)


@pytest.fixture
def filled(store: Store, begin: Begin) -> Store:
    """Store two panels of a study whose name needs quoting, and another study."""
    study = begin(store, 'say "hi", twice')
    store.keep_launch(study.id, PANEL, 0, launch(0))
    store.keep_launch(study.id, PANEL, 1, launch(1))
    store.keep_instruments(study.id, PANEL, 1, further())
    store.keep_launch(study.id, BATCH_8, 0, launch(2))
    other = begin(store, "other")
    store.keep_launch(other.id, PANEL, 0, launch(3))
    return store


def expected() -> list[dict[str, Any]]:
    """Give all rows, by the plainest loop."""
    rows = []

    def add(panel: PanelKey, target: str, number: int | None, measurement: Measurement, *, twin: bool = False) -> None:
        for round_, values in enumerate(measurement.rounds):
            for index, value in enumerate(values):
                cells = ('say "hi", twice', panel.workload, panel.batch, panel.threads, target, twin, number)
                row = (*cells, round_, index, measurement.metric, measurement.unit, value)
                rows.append(dict(zip(COLUMNS, row, strict=True)))

    for panel, number, seed in ((PANEL, 0, 0), (PANEL, 1, 1), (BATCH_8, 0, 2)):
        one = launch(seed)
        for result, twin in (*((result, False) for result in one.results), (one.twin, True)):
            for measurement in (result.latency, *result.measurements):
                if measurement is not None:
                    add(panel, result.target, number, measurement, twin=twin)
        if number == 1:
            for measurement in further().measurements:
                add(panel, "openvino", None, measurement)
    return rows


def test_parquet_has_a_row_for_each_sample(filled: Store, tmp_path: Path) -> None:
    path = tmp_path / "study.parquet"
    study = filled.find('say "hi", twice')
    assert write_table(filled, study, path) == study.samples == len(expected())
    table = parquet.read_table(path)
    assert table.to_pylist() == expected()
    words = ("study", "workload", "target", "metric", "unit")
    assert all(pa.types.is_dictionary(table.schema.field(name).type) for name in words)


def test_csv_has_a_row_for_each_sample(filled: Store, tmp_path: Path) -> None:
    path = tmp_path / "study.csv"
    assert write_table(filled, filled.find('say "hi", twice'), path) == len(expected())
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    texts = [
        {
            name: "" if cell is None else str(cell).lower() if isinstance(cell, bool) else str(cell)
            for name, cell in row.items()
        }
        for row in expected()
    ]
    assert rows == texts


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_study_without_samples_gives_a_table_without_rows(
    store: Store, begin: Begin, tmp_path: Path, ending: str
) -> None:
    begin(store)
    path = tmp_path / f"study.{ending}"
    assert write_table(store, store.find("quick"), path) == 0
    if ending == "csv":
        assert path.read_text() == ",".join(COLUMNS) + "\n"
    else:
        assert parquet.read_table(path).num_rows == 0


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_table_that_cannot_be_written_leaves_nothing(filled: Store, tmp_path: Path, ending: str) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    target = folder / f"study.{ending}"
    with room(2000), pytest.raises(StoreError, match=r"cannot write .*; name a file where there is room"):
        write_table(filled, filled.find('say "hi", twice'), target)
    assert list(folder.iterdir()) == []
    with pytest.raises(StoreError, match="cannot write"):
        write_table(filled, filled.find("other"), tmp_path / "no" / "such" / f"study.{ending}")


def test_other_endings_are_refused(filled: Store, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"study\.xlsx ends neither in \.parquet nor in \.csv"):
        write_table(filled, filled.find("other"), tmp_path / "study.xlsx")


def test_a_missing_library_names_what_installs_it(
    filled: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UnavailableError, match=r"pip install 'cross-backend\[parquet\]'"):
        write_table(filled, filled.find("other"), tmp_path / "study.parquet")


def test_parquet_is_written_in_pieces(store: Store, begin: Begin, tmp_path: Path) -> None:
    study = begin(store)
    many = Measurement("latency", "ns", (range(ROWS_AT_ONCE + 7), (1, 2)))
    result = replace(launch().results[0], latency=many, measurements=())
    store.keep_launch(study.id, PANEL, 0, replace(launch(), results=(result,), twin=None))
    path = tmp_path / "study.parquet"
    assert write_table(store, store.find("quick"), path) == many.count
    file = parquet.ParquetFile(path)
    assert file.num_row_groups == 2
    table = file.read(["round", "index", "value"])
    assert table["value"].to_pylist() == list(many.values)
    assert table["index"].to_pylist() == [*range(ROWS_AT_ONCE + 7), 0, 1]
    assert table["round"].to_pylist() == [0] * (ROWS_AT_ONCE + 7) + [1, 1]
