"""Run random programs by eager PyTorch and by every executor of blobs; a difference, crash or hang becomes a script."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atalla.cli import UsageError, positive_int, print_json, print_table, say

if TYPE_CHECKING:
    from atalla.fuzz.campaign import Found, Report

PRECISIONS = ("float32", "int8", "bf16")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--cases", type=positive_int, default=200, metavar="N", help="programs (default: 200)")
    parser.add_argument("--seed", type=_seed, default=0, metavar="S", help="of the first program (default: 0)")
    parser.add_argument("--seconds", type=positive_int, metavar="T", help="begin no program after so long")
    parser.add_argument("--precision", choices=PRECISIONS, default="float32", help="of products (default: float32)")
    parser.add_argument(
        "--executor",
        action="append",
        default=[],
        metavar="MODULE:FUNCTION",
        help="also test your own: function(blob, inputs) returns the outputs",
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="write the script of each finding there")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def main(args: argparse.Namespace) -> int:
    """Try, print, and return 1 where there is a finding."""
    from atalla.fuzz.campaign import Plan, fuzz

    if args.out is not None and args.out.exists() and not args.out.is_dir():
        raise UsageError(f"{args.out} is not a folder")
    for text in args.executor:
        if not all(text.partition(":")[::2]):
            raise UsageError(f"{text} is not module:function")
    if args.executor:
        sys.path.insert(0, "")  # modules of the folder that one is in, as with python -m
    plan = Plan(args.cases, args.seed, args.seconds, args.precision, tuple(args.executor))
    with _progress(args.cases) as show:
        report = fuzz(plan, show)
    files = _written(report, args.out) if args.out is not None else {}
    if args.json:
        print_json(_document(report, files))
    else:
        _print(report, files)
    return 1 if report.found else 0


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)


@contextmanager
def _progress(cases: int) -> Iterator[Callable[[Report, str], None]]:
    """Give what shows how far it is, where standard error is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _report, _doing: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(bar_width=24),
        TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=cases)

        def show(report: Report, doing: str) -> None:
            findings = f", {len(report.found)} findings" if report.found else ""
            bar.update(task, completed=report.cases, description=f"{doing}{findings}")

        yield show


def _written(report: Report, folder: Path) -> dict[int, Path]:
    """Write the scripts, and return where they are, by seed."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for one in report.found:
        files[one.seed] = folder / f"{report.plan.precision}_{one.seed}.py"
        files[one.seed].write_text(one.script)
    return files


def _document(report: Report, files: dict[int, Path]) -> dict[str, Any]:
    from atalla.fuzz.campaign import unreached

    plan = report.plan
    known = {"schema": 1, "precision": plan.precision, "seed": plan.seed, "cases": report.cases}
    known |= {"outcomes": dict(report.outcomes), "details": dict(report.details), "fallbacks": report.fallbacks}
    known |= {"operators": sorted(report.operators), "native_operators_not_reached": unreached([report])}
    return {**known, "findings": [_row(one, files.get(one.seed)) for one in report.found]}


def _row(one: Found, file: Path | None) -> dict[str, Any]:
    named = {"seed": one.seed, "kind": one.finding.kind, "executor": one.finding.executor}
    named |= {"detail": one.finding.detail, "confirmed": one.is_confirmed}
    return {**named, "file": str(file) if file else None, "script": one.script}


def _print(report: Report, files: dict[int, Path]) -> None:
    from atalla.fuzz.campaign import unreached
    from atalla.passes.rules import all_rules

    native = len(all_rules())
    outcomes = report.outcomes
    last = report.plan.seed + report.cases - 1
    rows = [
        ("cases", f"{report.cases:,}, {report.plan.precision}, seeds {report.plan.seed} to {last}"),
        ("same everywhere", f"{outcomes['same']:,}"),
        ("refused clearly", f"{outcomes['refused']:,}"),
        ("torch cannot", f"{outcomes['skipped']:,}"),
        ("operators", f"{native - len(unreached([report]))} of {native} native ones"),
        ("findings", f"{len(report.found):,}"),
    ]
    print_table(rows)
    for one in report.found:
        say()
        say(f"seed {one.seed}: {one.finding.kind}, {one.finding.executor}: {one.finding.detail}")
        if not one.is_confirmed:
            say("(its script was not run, or did not fail by itself)")
        if one.seed in files:
            say(f"    {files[one.seed]}")
        else:
            for line in one.script.splitlines():
                say(f"    {line}")
