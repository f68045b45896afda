"""Queries: what is read and written inside one transaction; imports SQLAlchemy, so is imported late."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Table, bindparam, case, func, select, text

from cross_backend.machine import Machine
from cross_backend.records import PanelKey
from cross_backend.store.rows import Packet, PanelRow, StoredStudy, StudyRow, typed
from cross_backend.store.samples import Packed
from cross_backend.store.schema import PANELS, RECORDS, SAMPLES, STUDIES, schema_of
from cross_backend.store.spool import Entry

LAUNCH = "launch"
INSTRUMENTS = "instruments"

# Built once: building a statement takes longer than running it, and these run for every record.
_OF_PANEL = [
    PANELS.c[name] == bindparam(f"of_{name}") for name in ("study_id", *(one.name for one in fields(PanelKey)))
]
_PANEL = select(PANELS.c.id).where(*_OF_PANEL)
_RECORD = select(RECORDS.c.id).where(*(RECORDS.c[name] == bindparam(name) for name in ("panel_id", "kind", "number")))
_FINISH = PANELS.update().where(*_OF_PANEL)
_INSERT = {table: table.insert() for table in (STUDIES, PANELS, RECORDS, SAMPLES)}


def now() -> str:
    """Return date and time, ISO 8601 with the offset of this place."""
    return dt.datetime.now().astimezone().isoformat(timespec="seconds")


def begin(
    connection: Connection,
    name: str,
    spec: Mapping[str, Any],
    digest: str,
    machine: Machine,
    versions: Mapping[str, str],
) -> StoredStudy:
    """Return the unfinished study that asks for the same in the same surroundings, else a new one."""
    schema = schema_of(connection)
    if schema is not None:  # SQLite's writing transactions are one after the other anyway
        connection.execute(text(f"LOCK TABLE {schema}.{STUDIES.name} IN SHARE ROW EXCLUSIVE MODE"))
    same = {
        "name": name,
        "digest": digest,
        "machine_digest": machine.digest,
        "versions": dict(sorted(versions.items())),
    }
    unfinished = select(STUDIES.c.id).filter_by(**same).where(STUDIES.c.finished.is_(None))
    number = connection.execute(unfinished.order_by(STUDIES.c.id.desc()).limit(1)).scalar()
    if number is None:
        row = {**same, "uid": uuid.uuid4().hex, "machine": machine, "spec": dict(spec), "started": now()}
        number = _insert(connection, STUDIES, row)
    return study(connection, number)


def study(connection: Connection, study_id: int) -> StoredStudy:
    """Return a study that exists."""
    row = select(*_columns(STUDIES, StoredStudy)).where(STUDIES.c.id == study_id)
    return typed(StoredStudy, *connection.execute(row).one())


def named(connection: Connection, name: str) -> list[StoredStudy]:
    """Return the studies of a name, oldest first."""
    rows = select(*_columns(STUDIES, StoredStudy)).filter_by(name=name).order_by(STUDIES.c.id)
    return [typed(StoredStudy, *row) for row in connection.execute(rows)]


def unfinished(connection: Connection, name: str, digest: str) -> list[StoredStudy]:
    """Return the unfinished studies that ask for the same on any machine, oldest first."""
    rows = select(*_columns(STUDIES, StoredStudy)).filter_by(name=name, digest=digest)
    rows = rows.where(STUDIES.c.finished.is_(None)).order_by(STUDIES.c.id)
    return [typed(StoredStudy, *row) for row in connection.execute(rows)]


def study_of_uid(connection: Connection, uid: str) -> int | None:
    """Return the number of a study."""
    return connection.execute(select(STUDIES.c.id).where(STUDIES.c.uid == uid)).scalar()


def take_over(connection: Connection, study_id: int, driver: str) -> bool:
    """Write down who runs a study; say whether there is still something to run."""
    return (
        connection.execute(
            STUDIES.update().where(STUDIES.c.id == study_id, STUDIES.c.finished.is_(None)).values(driver=driver)
        ).rowcount
        > 0
    )


def finish_studies(connection: Connection, studies: Sequence[int]) -> None:
    """Write down that all of these is there."""
    connection.execute(STUDIES.update().where(STUDIES.c.id.in_(studies)).values(finished=now()))


def studies(connection: Connection) -> list[StudyRow]:
    """Return all studies, oldest first."""
    panels = _panels().subquery()
    rows = connection.execute(
        select(
            STUDIES.c.id,
            STUDIES.c.name,
            STUDIES.c.started,
            STUDIES.c.finished,
            func.count(panels.c.finished),
            *(_total(panels.c[key]) for key in ("launches", "trials", "samples")),
        )
        .outerjoin(panels, panels.c.study_id == STUDIES.c.id)
        .group_by(STUDIES.c.id)
        .order_by(STUDIES.c.id)
    )
    return [typed(StudyRow, *row[:4], *map(int, row[4:])) for row in rows]


def panels(connection: Connection, study_id: int) -> list[PanelRow]:
    """Return the panels that were begun, in that order."""
    rows = connection.execute(_panels().where(PANELS.c.study_id == study_id).order_by(PANELS.c.id))
    return [
        typed(
            PanelRow,
            typed(PanelKey, row.workload, row.batch, row.threads),
            row.finished,
            row.note or {},
            int(row.launches),
            int(row.trials),
            int(row.samples),
        )
        for row in rows
    ]


def finish_panel(connection: Connection, study_id: int, panel: PanelKey, note: Mapping[str, Any]) -> None:
    """Write down that a panel needs nothing more."""
    values = {"finished": now(), "note": dict(note)}
    if connection.execute(_FINISH, _of(study_id, panel) | values).rowcount == 0:
        _insert(connection, PANELS, {"study_id": study_id, **vars(panel)} | values)


def keep(connection: Connection, study_id: int, entry: Entry) -> bool:
    """Write a record, or find that it is there already; False where another one stands in its place."""
    place = {"panel_id": _panel_id(connection, study_id, entry.panel), "kind": entry.kind, "number": entry.number}
    before = connection.execute(_RECORD, place).scalar()
    if before is not None:
        kept = next(packets(connection, RECORDS.c.id == before))[1]
        return kept == entry.packet
    row = {**place, "content": entry.packet.content, "trials": entry.trials, "samples": entry.packet.count}
    record_id = _insert(connection, RECORDS, row)
    series = [
        {"record_id": record_id, "position": position, **vars(packed)}
        for position, packed in enumerate(entry.packet.series)
    ]
    if series:
        connection.execute(_INSERT[SAMPLES], series)
    return True


def records(connection: Connection, study_id: int, panel: PanelKey, kind: str) -> Iterator[tuple[int, Packet]]:
    """Return number and content of a panel's records of a kind, in the order of their numbers, one at a time."""
    query = select(RECORDS.c.id).where(RECORDS.c.kind == kind).join(PANELS).filter_by(study_id=study_id, **vars(panel))
    for record_id in connection.execute(query.order_by(RECORDS.c.number)).scalars().all():
        yield from packets(connection, RECORDS.c.id == record_id)


def packets(connection: Connection, which: ColumnElement[bool]) -> Iterator[tuple[int, Packet]]:
    """Return number and content of records, in no order."""
    for record in connection.execute(select(RECORDS).where(which)).all():
        series = select(*_columns(SAMPLES, Packed)).where(SAMPLES.c.record_id == record.id).order_by(SAMPLES.c.position)
        yield record.number, Packet(record.content, tuple(typed(Packed, *row) for row in connection.execute(series)))


def _panel_id(connection: Connection, study_id: int, panel: PanelKey) -> int:
    """Return the number of a panel, which is begun where it was not."""
    found = connection.execute(_PANEL, _of(study_id, panel)).scalar()
    return _insert(connection, PANELS, {"study_id": study_id, **vars(panel)}) if found is None else int(found)


def _of(study_id: int, panel: PanelKey) -> dict[str, Any]:
    return {"of_study_id": study_id, **{f"of_{name}": value for name, value in vars(panel).items()}}


def _insert(connection: Connection, table: Table, row: Mapping[str, Any]) -> int:
    """Insert a row; return its number."""
    key = connection.execute(_INSERT[table], row).inserted_primary_key
    assert key is not None
    return int(key[0])


def _columns(table: Table, row: type[Any]) -> list[Column[Any]]:
    """Return the columns that a dataclass has as fields, in their order."""
    return [table.c[one.name] for one in fields(row)]


def _panels() -> Any:
    """Select panels with what they hold; samples themselves are not read."""
    launch = RECORDS.c.kind == LAUNCH
    return (
        select(
            PANELS,
            func.count(case((launch, 1))).label("launches"),
            func.coalesce(func.max(case((launch, RECORDS.c.trials))), 0).label("trials"),
            _total(RECORDS.c.samples).label("samples"),
        )
        .outerjoin(RECORDS, RECORDS.c.panel_id == PANELS.c.id)
        .group_by(PANELS.c.id)
    )


def _total(column: ColumnElement[int]) -> ColumnElement[int]:
    return func.coalesce(func.sum(column), 0)
