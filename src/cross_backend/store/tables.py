"""Tables: a study as one Parquet or CSV file with a row for each sample, written piece by piece."""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import IO, Any

from cross_backend.errors import StoreError, UnavailableError, UsageError, one_line
from cross_backend.measurement import Measurement
from cross_backend.records import Further, Launch, Result
from cross_backend.store.rows import StudyRow
from cross_backend.store.store import Store

COLUMNS = (
    "study",
    "workload",
    "batch",
    "threads",
    "target",
    "twin",
    "launch",
    "round",
    "index",
    "metric",
    "unit",
    "value",
)
"""Twin: whether the target was measured a second time, for the noise floor. Launch: empty for instruments, which follow
the last one. Round and index, of the sample in its round, count from 0."""
ROWS_AT_ONCE = 1 << 18
"""Of Parquet's row groups."""

Series = tuple[tuple[Any, ...], Measurement]
"""A measurement, after the cells that are the same for all of its samples: the first columns, up to ``launch``."""


def write_table(store: Store, study: StudyRow, path: Path) -> int:
    """Write all samples of a study; the file is whole or not there.

    Args:
        store: where it is kept.
        study: as :meth:`Store.find` returns it.
        path: ends in ``.parquet`` or ``.csv``.

    Returns:
        The number of rows.

    Raises:
        UsageError: another ending.
        UnavailableError: Parquet's library is not installed.
        StoreError: the study cannot be read, or the file cannot be written.
    """
    write = {".parquet": _write_parquet, ".csv": _write_csv}.get(path.suffix.lower())
    if write is None:
        raise UsageError(f"{path.name} ends neither in .parquet nor in .csv.")
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        rows = write(series_of(store, study), part)
        part.replace(path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {one_line(error)}; name a file where there is room.") from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    return rows


def series_of(store: Store, study: StudyRow) -> Iterator[Series]:
    """Return all measurements of a study, panel by panel, in the order they were taken."""
    for panel in store.panels(study.id):
        where = (study.name, *astuple(panel.key))
        results: Sequence[Result] = ()
        for number, launch in store.records(study.id, panel.key, Launch):
            results = launch.results
            for result in (*results, launch.twin) if launch.twin else results:
                for measurement in filter(None, (result.latency, *result.measurements)):
                    yield (*where, result.target, result is launch.twin, number), measurement
        for index, further in store.records(study.id, panel.key, Further):
            target = results[index].target if index < len(results) else f"#{index}"
            for measurement in further.measurements:
                yield (*where, target, False, None), measurement


def _write_csv(found: Iterator[Series], path: Path) -> int:
    count = 0
    with path.open("w", newline="", encoding="utf-8") as file:
        file.write(_line(COLUMNS))
        for head, measurement in found:
            file.writelines(_lines(head, measurement))
            count += measurement.count
    return count


def _lines(cells: Sequence[Any], measurement: Measurement) -> Iterator[str]:
    """Return the lines of each round; only the cells that differ are written again, in a third of the time."""
    *head, twin, launch = cells
    same = _line((*head, "true" if twin else "false", launch))[:-1]
    kind = _line((measurement.metric, measurement.unit))[:-1]
    for number, values in enumerate(measurement.rounds):
        yield "".join([f"{same},{number},{index},{kind},{value}\n" for index, value in enumerate(values)])


def _line(cells: Sequence[object]) -> str:
    """Return a line of CSV, quoted where it must be."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()


def _write_parquet(found: Iterator[Series], path: Path) -> int:
    if importlib.util.find_spec("pyarrow") is None:
        raise UnavailableError("Parquet files need pyarrow", "run: pip install 'cross-backend[parquet]'")
    import pyarrow as pa
    from pyarrow import parquet

    word = pa.dictionary(pa.int32(), pa.string())
    kinds = (word, word, pa.int32(), pa.int32(), word, pa.bool_(), pa.int32(), pa.int32(), pa.int64(), word, word)
    schema = pa.schema(list(zip(COLUMNS, (*kinds, pa.float64()), strict=True)))
    count, waiting, batches = 0, 0, []
    with path.open("wb") as file, _closing(parquet.ParquetWriter(file, schema, compression="zstd"), file) as writer:
        for head, measurement in found:
            for batch in _batches(head, measurement, schema):
                batches.append(batch)
                waiting += batch.num_rows
                if waiting >= ROWS_AT_ONCE:
                    writer.write_table(_joined(batches, schema))
                    count, waiting, batches = count + waiting, 0, []
        if batches:
            writer.write_table(_joined(batches, schema))
    return count + waiting


@contextlib.contextmanager
def _closing(writer: Any, file: IO[bytes]) -> Iterator[Any]:
    """Close a writer in whatever way the block ends: it would otherwise try to at its own end, on a closed file."""
    try:
        yield writer
    except BaseException:
        with contextlib.suppress(OSError):  # the first error is told
            writer.close()
        raise
    writer.close()
    file.flush()


def _joined(batches: Sequence[Any], schema: Any) -> Any:
    import pyarrow as pa

    return pa.Table.from_batches(batches, schema).unify_dictionaries().combine_chunks()


def _batches(head: Sequence[Any], measurement: Measurement, schema: Any) -> Iterator[Any]:
    """Return a measurement as record batches of a bounded number of rows."""
    import numpy as np
    import pyarrow as pa

    lengths = np.array([len(values) for values in measurement.rounds], np.int64)
    rounds = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    index = np.arange(len(rounds)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    parts = [np.asarray(values, np.float64) for values in measurement.rounds]
    values = np.concatenate(parts) if parts else np.empty(0)
    kind = (measurement.metric, measurement.unit)
    for start in range(0, len(values), ROWS_AT_ONCE):
        cut = slice(start, min(start + ROWS_AT_ONCE, len(values)))
        size = cut.stop - cut.start
        columns = [
            *(pa.repeat(pa.scalar(cell, field.type), size) for field, cell in zip(schema, head, strict=False)),
            pa.array(rounds[cut]),
            pa.array(index[cut]),
            *(pa.repeat(pa.scalar(text, schema.field("unit").type), size) for text in kind),
            pa.array(values[cut]),
        ]
        yield pa.record_batch(columns, schema=schema)
