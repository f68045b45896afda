"""Lower each model to several backends, verify every output against eager float32, measure interleaved, and rank."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from cross_backend.cli import positive_float, positive_int, print_json
from cross_backend.cli._options import (
    add_batch,
    add_model,
    add_work,
    check_threads,
    chosen_targets,
    export_progress,
    margin,
    writable_folder,
)
from cross_backend.machine import Machine
from cross_backend.records import Outcome, Panel, document

DEFAULT = ("torch", "portable", "xnnpack", "onnxruntime", "openvino")
MOST_LAUNCHES = 15
"""Where ``--margin`` is not reached."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model(parser, nargs="+")
    add_batch(parser)
    parser.add_argument(
        "--num-runs", type=positive_int, default=1000, metavar="N", help="most timed calls a target (default: 1000)"
    )
    parser.add_argument(
        "--seconds",
        type=positive_float,
        default=5.0,
        metavar="S",
        help="most seconds of timed calls a target; six calls at least (default: 5)",
    )
    parser.add_argument(
        "--threads", type=positive_int, default=1, metavar="N", help="CPU threads of each target (default: 1)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of the order in which targets take turns (default: 0)"
    )
    parser.add_argument(
        "--launches",
        type=positive_int,
        metavar="N",
        help="how often every target is started anew; runs and seconds are spread over them (default: until every "
        "place is decided: far apart, or a difference of 8 %% would surely be found; no launch begins after 60 s)",
    )
    parser.add_argument(
        "--margin",
        type=margin,
        metavar="1%",
        help=f"launch again until every ratio to the fastest is this precise, {MOST_LAUNCHES} times at most",
    )
    parser.add_argument("--output-dir", type=Path, metavar="DIR", help="also keep the artifacts and results.json here")
    add_work(parser)


def main(args: argparse.Namespace) -> int:
    """Compare; 0 if every model has a ranked target, and with --strict only if every target was ranked."""
    targets = chosen_targets(args, DEFAULT)
    check_threads(args.threads)
    from cross_backend.cache import Cache
    from cross_backend.export import Settings as ExportSettings
    from cross_backend.panel import compare
    from cross_backend.report.terminal import Terminal, print_panel
    from cross_backend.trial import Settings
    from cross_backend.workloads import find_workload

    sources = [find_workload(model, args.weights, args.batch) for model in args.models]
    folder = writable_folder(args.output_dir) if args.output_dir else None
    terminal = Terminal(quiet=args.json)
    settings = Settings(
        args.num_runs, args.seconds, args.threads, args.timeout, args.seed, args.launches, MOST_LAUNCHES, args.margin
    )
    exporting = ExportSettings(Cache(), args.jobs or 0, args.timeout, folder)
    panels: list[Panel] = []
    try:
        for source in sources:
            with export_progress(terminal) as observe, terminal.progress() as show:

                def progress(doing: str, done: int, total: int, name: str = source.name) -> None:
                    show("measure", f"{name}: {doing}", done / total)

                panels.append(compare(source, targets, settings, exporting, observe, progress))
            if not args.json:
                print_panel(terminal, panels[-1])
            if panels[-1].interrupted:
                break
    finally:
        if folder is not None and panels:
            (folder / "results.json").write_text(
                json.dumps(document(panels, Machine.here()), indent=2, allow_nan=False) + "\n"
            )
        if args.json and panels:
            print_json(document(panels, Machine.here()))
    if any(panel.interrupted for panel in panels):
        return 130
    empty = any(not panel.ranked for panel in panels)
    failed = any(r.outcome is not Outcome.OK for panel in panels for r in panel.results)
    return 1 if empty or (failed and args.strict) else 0
