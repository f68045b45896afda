"""Run a study of models × targets × batch sizes from a YAML file; resume, report, compare and export studies."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.cli import print_json
from cross_backend.cli._options import (
    add_json,
    add_launcher,
    add_places,
    add_trust,
    check_launcher,
    margin,
    trust_files,
)
from cross_backend.errors import UsageError
from cross_backend.foreign_text import plain

if TYPE_CHECKING:
    from cross_backend.cache import Cache
    from cross_backend.records import StudyResults
    from cross_backend.report.terminal import Terminal
    from cross_backend.store import Store
    from cross_backend.study.cells import Cell
    from cross_backend.study.spec import StudySpec


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    run = _action(actions, "run", "run a study file, or go on where its last run was cut off")
    run.add_argument("file", type=Path, metavar="FILE", help="a study in YAML; see examples/studies")
    run.add_argument("--dry-run", action="store_true", help="print the cells and the estimated time; measure nothing")
    add_trust(run)
    add_places(run, default=None)
    add_launcher(run)
    run.add_argument("--name", metavar="NAME", help="name of the study (default: the study file's name)")
    run.add_argument(
        "--pause",
        action="store_true",
        help="measure one launch of each panel and stop; the same command goes on (two studies in turn)",
    )
    run.add_argument("--margin", metavar="1%", help="stop a panel when its ratios are this precise")
    run.add_argument(
        "--output-dir", type=Path, metavar="DIR", help="folder of what the study file names (default: the file's own)"
    )
    run.add_argument("--output", type=Path, nargs="+", metavar="FILE", help="write reports: .html, .md, .json")
    status = _action(actions, "status", "show the studies that are stored, and how far they are")
    status.add_argument("study", nargs="?", metavar="STUDY", help="name or number; all where not given")
    report = _action(actions, "report", "print a stored study, or write its report")
    report.add_argument("study", metavar="STUDY", help="name, for all its machines; or the number of one of them")
    report.add_argument("-o", "--output", type=Path, nargs="+", metavar="FILE", help=".html, .md or .json")
    diff = _action(actions, "diff", "compare two stored studies; exit status 1 if something became slower or wrong")
    diff.add_argument("before", metavar="A", help="name or number")
    diff.add_argument("after", metavar="B", help="name or number")
    diff.add_argument(
        "--margin",
        type=margin,
        default=0.1,
        metavar="10%",
        help="difference that must be ruled out to say that a target is the same (default: 10%%)",
    )
    diff.add_argument(
        "--fail-on",
        choices=("never", "wrong", "slower", "cannot-tell"),
        default="slower",
        metavar="WHEN",
        help="when to exit with status 1: never; wrong: something is wrong or fails now; slower: also slower; "
        "cannot-tell: also undecided or gone (default: slower)",
    )
    diff.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    export = _action(actions, "export", "write every sample of a stored study as a table")
    export.add_argument("study", metavar="STUDY", help="name or number")
    export.add_argument("table", type=Path, metavar="FILE", help=".parquet or .csv")


def _action(actions: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=text, description=text)
    parser.add_argument("--db", metavar="PLACE", help="where results are stored: a file, or postgresql://HOST/NAME")
    add_json(parser)
    return parser


def main(args: argparse.Namespace) -> int:
    """Do it; 0 if every cell could be judged."""
    return {"run": _run, "status": _status, "report": _report, "diff": _diff, "export": _export}[args.action](args)


def _run(args: argparse.Namespace) -> int:
    from cross_backend.cache import Cache
    from cross_backend.report.terminal import Terminal
    from cross_backend.study.reports import check_places, confined, named_places, write_report
    from cross_backend.study.watching import run_by_machines, run_everywhere
    from cross_backend.study.yaml_file import read_study

    study = _adjusted(read_study(args.file), args)
    trust_files(args, [workload.model for workload in study.workloads])
    terminal, cache = Terminal(quiet=args.json), Cache()
    if args.dry_run:
        return _dry_run(study, args, terminal, cache)
    folder = args.output_dir or args.file.parent
    db = args.db or study.output.db
    if args.db is None and db is not None and "://" not in db:
        db = str(confined(db, folder, "--db"))
    places = args.output or named_places(study.output.reports, folder)
    check_places(places)
    with writing_store(db) as store:
        if args.launcher == "ray":
            given = (args.address, args.shared_cache, args.max_noise)
            results, missing = run_by_machines(study, store, cache, terminal, *given)
        else:
            results, missing = run_everywhere(study, store, cache, terminal, args.via, pauses=args.pause), ()
    _print(results, args, terminal)
    for place in places:
        terminal.note(f"📊 {write_report(results, place)}")
    for line in missing:
        terminal.note(f"❌ {line}")
    if missing:
        terminal.note("The same command measures the missing panels when there are machines for them.")
    return 0 if judged(results) and not missing else 1


def _tell(store: Store) -> None:
    """Print what a database has to say: samples that were taken in, or still wait in a file."""
    for text in store.told:
        print(f"note: {plain(text)}", file=sys.stderr)


@contextmanager
def writing_store(place: str | None) -> Iterator[Store]:
    """Open a database, or make it, for new samples; what it has to say is printed at the end."""
    from cross_backend.store import Store

    with Store.open(place) as store:
        try:
            yield store
        finally:
            _tell(store)


@contextmanager
def _stored(args: argparse.Namespace) -> Iterator[Store]:
    """Open a database that is there already."""
    from cross_backend.store import Store

    with Store.open(args.db, create=False) as store:
        _tell(store)
        yield store


def _adjusted(study: StudySpec, args: argparse.Namespace) -> StudySpec:
    """Return the study with what the command line asks for instead."""
    from dataclasses import replace

    if args.on is not None:
        study = replace(study, places=tuple(dict.fromkeys(args.on)), machines=())
    check_launcher(args, study)
    if args.name is not None:
        study = replace(study, name=args.name)
    if args.margin is None:
        return study
    try:
        return replace(study, settings=replace(study.settings, margin=args.margin))
    except UsageError as error:
        raise UsageError(f"--{error}") from error


def _dry_run(study: StudySpec, args: argparse.Namespace, terminal: Terminal, cache: Cache) -> int:
    from cross_backend.study.cells import table
    from cross_backend.study.estimate import plan

    planned, estimate = plan(study, cache)
    if args.json:
        print_json(
            {
                "schema": 1,
                "study": study.name,
                "panels": len(study.panels()),
                "cells": [cell.to_json() for cell in planned],
                "estimated_s": [estimate.total.low, estimate.total.high],
                "basis": estimate.basis,
            }
        )
        return 0
    from cross_backend.report.outcomes import sentence

    shown = table(planned)
    terminal.table(shown.headers, shown.rows, right=shown.numeric)
    for reason, titles in _reasons(planned).items():
        terminal.text(f"⚠️ {', '.join(titles)}: {sentence(reason)}")
    running = sum(cell.runs for cell in planned)
    panels = f"{len(study.panels())} panel{'s' if len(study.panels()) != 1 else ''}"
    terminal.text(f"🚀 {study.name}: {panels}; {running} of {len(planned)} cells can run here; about {estimate.total}")
    terminal.text(f"   {estimate.basis}")
    return 0


def _reasons(planned: Sequence[Cell]) -> dict[str, list[str]]:
    """Return why cells cannot run here → their targets, each reason once."""
    found: dict[str, list[str]] = {}
    for cell in planned:
        if cell.reason and cell.target not in found.setdefault(cell.reason, []):
            found[cell.reason].append(cell.target)
    return found


def judged(results: StudyResults) -> bool:
    """Whether every panel has something that was verified, and nothing was wrong or broke, at any time."""
    from cross_backend.records import Outcome

    fine = {Outcome.OK, Outcome.UNAVAILABLE, Outcome.UNSUPPORTED}
    return all(
        any(r.outcome is Outcome.OK for r in panel.results)
        and all(r.outcome in fine and not r.failures for r in panel.results)
        for panel in results.panels
    )


def _print(results: StudyResults, args: argparse.Namespace, terminal: Terminal) -> None:
    if args.json:
        from cross_backend.report.document import document

        print_json(document(results))
        return
    from cross_backend.report.printed import print_study

    print_study(terminal, results)


def _status(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from cross_backend.report.terminal import Terminal
    from cross_backend.study.spec import StudySpec

    with _stored(args) as store:
        rows = [store.find(args.study)] if args.study else store.studies()
        begun = [store.study(row.id) for row in rows]
    asked = [len(StudySpec.from_json(one.spec).panels()) for one in begun]
    if args.json:
        found = [{**asdict(row), "panels_asked": count} for row, count in zip(rows, asked, strict=True)]
        print_json({"schema": 1, "studies": found})
        return 0
    headers = ("number", "study", "started", "machine", "panels", "launches", "samples", "state")
    cells = [
        (
            str(row.id),
            row.name,
            row.started[:19].replace("T", " "),
            one.machine.cpu,
            f"{row.panels} of {count}",
            str(row.launches),
            f"{row.samples:,}",
            "finished" if row.finished else "not finished",
        )
        for row, one, count in zip(rows, begun, asked, strict=True)
    ]
    terminal = Terminal()
    if cells:
        terminal.table(headers, cells, right=(0, 4, 5, 6))
    else:
        terminal.text("No study is stored yet; start one with 'cross-backend study run FILE'.")
    return 0


def _report(args: argparse.Namespace) -> int:
    from cross_backend.report.terminal import Terminal
    from cross_backend.study.by_machine import read_by_machine
    from cross_backend.study.reports import check_places, write_report

    places = args.output or []
    check_places(places)
    terminal = Terminal(quiet=args.json)
    with _stored(args) as store:
        results = read_by_machine(store, args.study)
    for place in places:
        terminal.note(f"📊 {write_report(results, place)}")
    if args.json or not places:
        _print(results, args, terminal)
    return 0


def _diff(args: argparse.Namespace) -> int:
    from cross_backend.report.terminal import Terminal
    from cross_backend.study.diff import diff
    from cross_backend.study.driver import read

    with _stored(args) as store:
        before, after = (read(store, store.find(text).id) for text in (args.before, args.after))
    found = diff(before, after, args.margin)
    failed = found.fails(args.fail_on)
    if args.json:
        print_json(found.to_json())
        return 1 if failed else 0
    terminal, shown = Terminal(), found.table()
    if args.markdown:
        from cross_backend.report.markdown import section

        print("\n".join([*section(shown), f"{'❌' if failed else '✅'} {found.summary}"]))
        return 1 if failed else 0
    terminal.table(shown.headers, shown.rows, right=shown.numeric)
    terminal.text(f"{'❌' if failed else '✅'} {found.summary}")
    for caveat in found.caveats:
        terminal.text(f"   ⚠️ {caveat}")
    return 1 if failed else 0


def _export(args: argparse.Namespace) -> int:
    from cross_backend.report.terminal import Terminal
    from cross_backend.store.tables import write_table

    with _stored(args) as store:
        rows = write_table(store, store.find(args.study), args.table)
    if args.json:
        print_json({"schema": 1, "path": str(args.table), "rows": rows})
    else:
        Terminal().text(f"✅ {args.table}: {rows:,} samples")
    return 0
