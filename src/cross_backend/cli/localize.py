"""Find the operator that a backend computes wrongly: the smallest part of the program where it is not the reference.

Exit status: 0 localised, 1 failed, 3 the two agree.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.cli import UNPROVED, positive_float, positive_int, print_json
from cross_backend.cli._options import (
    add_batch,
    add_inputs,
    add_json,
    add_model,
    add_timeout,
    check_threads,
    export_progress,
    share,
    trust_files,
)
from cross_backend.errors import UsageError
from cross_backend.report.files import writable_folder

if TYPE_CHECKING:
    from cross_backend.localization.found import KeptOut, Localized
    from cross_backend.report.terminal import Terminal


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model(parser)
    parser.add_argument("--backend", required=True, metavar="TARGET", help="the backend that is wrong")
    parser.add_argument(
        "--against", metavar="TARGET", help="a second backend, with which it is compared in place of the reference"
    )
    add_inputs(parser)
    parser.add_argument(
        "--keep-out",
        nargs="+",
        default=[],
        metavar="NODE",
        help="compute these operators elsewhere, on --against or where the backend leaves operators, verify the whole "
        "and measure what that costs",
    )
    parser.add_argument(
        "--max-drop",
        type=share,
        metavar="SHARE",
        help="for a quantised target, 0.01 or 1%%: keep the fewest operators in float so that at most this share of "
        "calibration inputs changes its likeliest class (without classes: the relative error)",
    )
    parser.add_argument(
        "--adversarial",
        type=positive_float,
        metavar="SECONDS",
        help="first search so long for inputs on which the backend is wrong; those found become probes",
    )
    parser.add_argument(
        "--reproducer",
        type=Path,
        metavar="DIR",
        help="write a script that shows the fault with the vendor's package alone, and a text for its tracker",
    )
    parser.add_argument("--threads", type=positive_int, default=1, metavar="N", help="CPU threads (default: 1)")
    add_batch(parser)
    add_timeout(parser)
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Search, and print what was found."""
    from cross_backend.cache import Cache
    from cross_backend.comparison.settings import Settings
    from cross_backend.exporting.export import ExportSettings, export
    from cross_backend.registry import check_targets
    from cross_backend.report.terminal import Terminal
    from cross_backend.workloads import find_workload

    targets = [args.backend, *([args.against] if args.against else [])]
    check_targets(targets)
    check_threads(args.threads)
    keeps = [
        text for text, asked in (("--keep-out", args.keep_out), ("--max-drop", args.max_drop is not None)) if asked
    ]
    if len(keeps) == 2:
        raise UsageError("give --keep-out or --max-drop, not both.")
    if keeps and args.reproducer is not None:
        raise UsageError(f"--reproducer shows the operator that is wrong; leave out {keeps[0]}.")
    terminal, cache = Terminal(quiet=args.json), Cache()
    trust_files(args, [args.model])
    source = find_workload(args.model, args.weights, args.batch, tuple(args.inputs), args.calibration)
    settings = Settings(threads=args.threads)
    with export_progress(terminal) as observe:
        exporting = ExportSettings(cache, timeout_s=args.timeout)
        wanted = targets if args.adversarial is not None else []
        captured, rows = export(source, wanted, exporting, observe)
    more: dict[str, Any] = {}
    if args.adversarial is not None:
        from cross_backend.cli._adversarial import show_hunt

        against = rows[1] if args.against else None
        hunted = show_hunt(captured, rows[:1], args.adversarial, settings, cache, terminal, against)
        more = {"adversarial": [one.to_json() for one in hunted]}
    from cross_backend.localization.keep_out import keep_out, mix
    from cross_backend.localization.localize import localize

    with terminal.progress() as show:

        def step(doing: str, done: float | None) -> None:
            show("localize", f"{source.name} on {args.backend}: {doing}", done or 0.0)

        common: dict[str, Any] = {"cache": cache, "settings": settings, "timeout_s": args.timeout, "observe": step}
        if args.keep_out:
            kept = keep_out(captured, args.backend, args.keep_out, args.against, **common)
        elif args.max_drop is not None:
            kept = mix(captured, args.backend, args.max_drop, args.against, **common)
        else:
            found = localize(captured, args.backend, args.against, **common)
    if keeps:
        return _show_kept(args, source.name, kept, more, terminal)
    if args.json:
        print_json({**found.to_json(), **more})
    else:
        from cross_backend.report.localized import print_localized

        print_localized(terminal, found)
    if args.reproducer is not None and _status(found) != UNPROVED:
        from cross_backend.cli._adversarial import write_script

        write_script(captured, found, writable_folder(args.reproducer), cache, terminal)
    return _status(found)


def _show_kept(args: argparse.Namespace, name: str, kept: KeptOut, more: dict[str, Any], terminal: Terminal) -> int:
    """Print what the program does with some operators elsewhere; return the exit status."""
    from cross_backend.report.localized import print_kept_out

    if args.json:
        print_json({"schema": 1, "workload": name, "target": args.backend, **kept.to_json(), **more})
    else:
        print_kept_out(terminal, name, args.backend, kept)
    return 0 if kept.right else 1


def _status(found: Localized) -> int:
    from cross_backend.localization.found import Culprit

    return UNPROVED if found.culprit is Culprit.NOTHING else 0
