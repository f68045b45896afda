"""Measure models on every backend at every precision: outcome, coverage, error, size, export, latency, memory."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from cross_backend.cli import positive_float, positive_int, print_json
from cross_backend.cli._options import add_json, add_places, add_targets, add_trust, chosen_targets, trust_files
from cross_backend.cli.study import judged, writing_store
from cross_backend.errors import UsageError

if TYPE_CHECKING:
    from cross_backend.report.terminal import Terminal
    from cross_backend.study.matrix import Matrix

ENDINGS = (".json", ".md")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "models",
        nargs="*",
        metavar="MODEL",
        help="built-in models, file.py:function, file.pt2 or file.onnx (default: all built-in models; of YOLO the "
        "smallest ones, where the extra 'yolo' is installed)",
    )
    add_trust(parser)
    add_targets(parser)
    add_places(parser)
    parser.add_argument(
        "--seconds", type=positive_float, default=2.0, metavar="S", help="seconds of timed calls of a cell (default: 2)"
    )
    parser.add_argument(
        "--launches", type=positive_int, default=1, metavar="N", help="how often a cell is started (default: 1)"
    )
    parser.add_argument(
        "--timeout", type=positive_float, default=600.0, metavar="SECONDS", help="longest lowering (default: 600)"
    )
    parser.add_argument("--jobs", type=positive_int, metavar="N", help="most processes that lower")
    parser.add_argument("--db", metavar="PLACE", help="where launches are stored: a file, or postgresql://HOST/NAME")
    parser.add_argument("--output", type=Path, nargs="+", default=[], metavar="FILE", help="write it: .json, .md")
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Measure, or go on where it was cut off; 0 if every model has a right target and nothing was wrong or broke."""
    from cross_backend.report.files import writable_folder

    for path in args.output:
        if path.suffix not in ENDINGS:
            raise UsageError(f"--output {path}: the file's name must end in {' or '.join(ENDINGS)}.")
        writable_folder(path.absolute().parent)
    targets = chosen_targets(args, ()) if args.backends or args.platform else []
    from cross_backend.cache import Cache
    from cross_backend.report.terminal import Terminal
    from cross_backend.study.driver import joined
    from cross_backend.study.matrix import default_models, layout, matrix_of, quick_settings
    from cross_backend.study.watching import run_at

    trust_files(args, args.models)
    try:
        settings = quick_settings(args.seconds, args.launches, args.timeout, args.jobs or 0)
    except UsageError as error:
        raise UsageError(f"--{error}") from error
    study = layout(args.models or default_models(), targets, settings, tuple(dict.fromkeys(args.on)))
    terminal, cache = Terminal(quiet=args.json), Cache()
    with writing_store(args.db) as store:
        results = joined([run_at(study.at(place), store, cache, terminal, args.via) for place in study.places])
    found = matrix_of(results)
    for path in args.output:
        _write(found, path)
        terminal.note(f"📊 {path}")
    if args.json:
        print_json(found.to_json())
    else:
        _print(terminal, found)
    return 0 if judged(results) else 1


def _write(found: Matrix, path: Path) -> None:
    from cross_backend.report.files import replace_file
    from cross_backend.study.matrix import markdown

    text = markdown(found) if path.suffix == ".md" else json.dumps(found.to_json(), indent=1, allow_nan=False) + "\n"
    replace_file(path, (text,))


def _print(terminal: Terminal, found: Matrix) -> None:
    from cross_backend.report.outcomes import MARKS, sentence

    for table in (found.summary(), *map(found.table, found.models)):
        terminal.text(f"📊 {table.title}", style="bold")
        terminal.table(table.headers, table.rows, right=table.numeric)
        terminal.text()
    for outcome, why in found.reasons:
        titles = dict.fromkeys(
            cell.title for cell in found.cells if (cell.outcome, cell.reason or "") == (outcome, why)
        )
        terminal.text(f"{MARKS.get(outcome, '⚠️')} {', '.join(titles)}: {outcome}: {sentence(why)}")
