"""By machine: a name is read for all classes of its newest study, each with the kinds of machines that measured it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cross_backend.machine import Machine
from cross_backend.measurement import Measurement
from cross_backend.records import Launch, Outcome, Result
from cross_backend.report import machines, markdown
from cross_backend.report.document import document
from cross_backend.report.html import study_parts
from cross_backend.store import Store
from cross_backend.study.books import Book
from cross_backend.study.by_machine import read_by_machine
from cross_backend.study.kinds import MachineKind
from cross_backend.study.machines import MachineClass
from cross_backend.study.spec import PanelSpec, StudySettings, StudySpec, WorkloadSpec

ASKED = StudySpec(
    "fleet",
    (WorkloadSpec("linear_regression", "x"),),
    ("cpu",),
    (1, 2),
    settings=StudySettings(launches=1, max_launches=1, instruments=()),
    machines=(MachineClass("a"), MachineClass("b")),
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(str(tmp_path / "s.sqlite")) as made:
        yield made


def launch(ns: float) -> Launch:
    latency = Measurement("latency", "ns", ((ns, ns + 1, ns - 1),) * 6, (6,))
    return Launch((Result("x", "cpu", "CPU", Outcome.OK, latency=latency),))


def keep(book: Book, kind: MachineKind, spec: PanelSpec, ns: float) -> None:
    book.begin(kind)
    with book.together():
        book.keep_launch(kind, spec.key, 0, launch(ns))
        book.finish_panel(kind, spec.key)


def medians(store: Store, asked: str) -> list[tuple[str, int, float]]:
    found = read_by_machine(store, asked)
    return [
        (panel.place, panel.batch, result.latency.median)
        for panel in found.panels
        for result in panel.results
        if result.latency is not None
    ]


@pytest.fixture
def kinds(machine: Machine) -> list[MachineKind]:
    """Give two kinds of machines that may be of one class."""
    return [MachineKind(machine, {"torch": "2.0"}), MachineKind(replace(machine, cpu="other"), {"torch": "2.1"})]


def measure(store: Store, asked: StudySpec, kind: MachineKind, ns: float) -> list[Book]:
    books = [Book(store, asked.of(one)) for one in asked.machines]
    for at, book in enumerate(books):
        for spec in asked.panels():
            keep(book, kind, spec, ns + 10 * at + spec.batch)
    return books


def finish(store: Store, books: list[Book]) -> None:
    store.finish(*(number for book in books for number in book.numbers))


def test_a_name_is_read_for_every_class_and_a_number_for_one(store: Store, kinds: list[MachineKind]) -> None:
    finish(store, measure(store, ASKED, kinds[0], 100))
    assert medians(store, "fleet") == [("a", 1, 101), ("a", 2, 102), ("b", 1, 111), ("b", 2, 112)]
    assert medians(store, "2") == [("b", 1, 111), ("b", 2, 112)]
    found = read_by_machine(store, "fleet")
    assert found.finished and [(part.place, part.panels, part.asked) for part in found.parts] == [
        ("a", 2, 2),
        ("b", 2, 2),
    ]


def test_kinds_of_one_class_and_run_are_one_and_older_runs_are_none_of_it(
    store: Store, kinds: list[MachineKind], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(f"2026-01-01T00:00:{second:02d}+00:00" for second in range(60))
    monkeypatch.setattr("cross_backend.store.queries.now", lambda: next(clock))
    finish(store, measure(store, ASKED, kinds[1], 500))
    book = Book(store, ASKED.of(ASKED.machines[0]))
    first, second = ASKED.panels()
    keep(book, kinds[0], first, 100)
    keep(book, kinds[1], second, 200)
    assert medians(store, "fleet") == [("a", 1, 100), ("a", 2, 200), ("b", 1, 511), ("b", 2, 512)]
    found = read_by_machine(store, "fleet")
    assert not found.finished and [part.study for part in found.parts] == [3, 4, 2]


def test_another_content_of_the_same_name_is_left_out(store: Store, kinds: list[MachineKind]) -> None:
    finish(store, measure(store, ASKED, kinds[0], 100))
    other = replace(ASKED, batch_sizes=(4,), machines=ASKED.machines[:1])
    finish(store, measure(store, other, kinds[0], 300))
    assert medians(store, "fleet") == [("a", 4, 304)]


def test_reports_name_the_machine_of_every_panel(store: Store, kinds: list[MachineKind]) -> None:
    books = [Book(store, ASKED.of(one)) for one in ASKED.machines]
    for book, kind in zip(books, kinds, strict=True):
        for spec in ASKED.panels():
            keep(book, kind, spec, 100)
    results = read_by_machine(store, "fleet")
    told = document(results)["machines"]
    assert [(one["place"], one["study"], one["versions"]["torch"]) for one in told] == [
        ("a", 1, "2.0"),
        ("b", 2, "2.1"),
    ]
    table = machines.by_machine(results.panels)
    assert table.headers == ("panel", "a", "b") and [row[0] for row in table.rows] == ["x, batch 1", "x, batch 2"]
    printed, text, parts = str(results), markdown.text(results), study_parts(results)
    for medium in (printed, text):
        assert "Fastest on each machine" in medium and "Measured on" in medium
    assert parts["overview"].headers[0] == "machine"
    (section,) = [one for one in parts["sections"] if one.key == "by-machine"]
    assert section.blocks[0].tables[0].title == table.title
    (versions,) = [t for one in parts["sections"] for b in one.blocks for t in b.tables if t.title == "Versions"]
    assert ("torch", "2.0 on a; 2.1 on b") in versions.rows
