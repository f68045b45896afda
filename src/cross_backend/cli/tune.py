"""Find the fastest backend, precision, threads and batch size within bounds, and the command that exports it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from cross_backend.cli import UNPROVED, positive_float, positive_int, print_json
from cross_backend.cli._options import (
    add_inputs,
    add_json,
    add_model,
    add_places,
    add_targets,
    add_task,
    add_timeout,
    chosen_targets,
    share,
    size,
    trust_files,
)
from cross_backend.cli.study import writing_store
from cross_backend.records import Outcome

if TYPE_CHECKING:
    from cross_backend.cache import Cache
    from cross_backend.comparison.site import Site
    from cross_backend.report.terminal import Terminal
    from cross_backend.store import Store
    from cross_backend.tuning.search import Asked
    from cross_backend.tuning.tuned import Tuned


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model(parser)
    add_inputs(parser)
    add_task(parser)
    parser.add_argument(
        "--max-drop",
        type=share,
        default=0.01,
        metavar="SHARE",
        help="largest loss against float32, 0.005 or 0.5%%: points of the model's task metric (relative increase of a "
        "perplexity), or else of top-1 agreement on the calibration inputs. For outputs that are no classes, the "
        "relative error (default: 1%%)",
    )
    parser.add_argument("--max-ms", type=positive_float, metavar="MS", help="longest median of a call, milliseconds")
    parser.add_argument("--max-size", type=size, metavar="SIZE", help="largest file: 20MB")
    parser.add_argument("--max-memory", type=size, metavar="SIZE", help="largest peak memory of the process: 200MB")
    add_targets(parser)
    parser.add_argument(
        "--precision",
        nargs="+",
        default=[],
        metavar="TYPE",
        help="precisions that are tried (default: all of each backend)",
    )
    parser.add_argument(
        "--threads",
        nargs="+",
        type=positive_int,
        default=[],
        metavar="N",
        help="numbers of CPU threads that are tried (default: 1, 2, 4, … and all processors)",
    )
    parser.add_argument(
        "--batch",
        nargs="+",
        type=positive_int,
        default=[],
        metavar="N",
        help="batch sizes that are tried, by latency an item (default: the model's own)",
    )
    add_places(parser)
    parser.add_argument(
        "--num-runs",
        type=positive_int,
        default=1000,
        metavar="N",
        help="maximum number of timed calls of a finalist (default: 1000)",
    )
    parser.add_argument(
        "--seconds",
        type=positive_float,
        default=5.0,
        metavar="S",
        help="most seconds of timed calls of a finalist; earlier rungs take a part of it (default: 5)",
    )
    parser.add_argument(
        "--launches", type=positive_int, default=5, metavar="N", help="how often finalists are started (default: 5)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the order of turns (default: 0)")
    parser.add_argument("--db", metavar="PLACE", help="where launches are stored: a file, or postgresql://HOST/NAME")
    parser.add_argument("--jobs", type=positive_int, metavar="N", help="most processes that lower")
    add_timeout(parser, 600.0)
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Search; 0 if there is a winner on every machine, 1 if not, 3 if nothing was proved."""
    from cross_backend.study.fields import known_precision
    from cross_backend.tuning.space import default_targets

    for precision in args.precision:
        known_precision(precision)
    texts = chosen_targets(args, default_targets())
    from cross_backend.cache import Cache
    from cross_backend.comparison.sites import site_at
    from cross_backend.places.address import parse
    from cross_backend.report.terminal import Terminal
    from cross_backend.tuning.shown import print_tuned

    trust_files(args, [args.model])
    addresses = [parse(text) for text in dict.fromkeys(args.on)]
    terminal, cache = Terminal(quiet=args.json), Cache()
    found: list[Tuned] = []
    with writing_store(args.db) as store:
        for address in addresses:
            with site_at(address, cache, args.via if address.kind != "local" else None) as site:
                found.append(_search(args, texts, store, cache, site, terminal))
            if not args.json:
                print_tuned(terminal, found[-1])
    if args.json:
        print_json({"schema": 1, "tuned": [one.to_json() for one in found]})
    return _status(found)


def _search(
    args: argparse.Namespace, texts: list[str], store: Store, cache: Cache, site: Site, terminal: Terminal
) -> Tuned:
    from cross_backend.exporting.export import lines
    from cross_backend.tuning.search import Told, tune

    asked = _asked(args, texts, site)
    try:
        with terminal.progress() as show:
            told = Told(
                lambda doing, share, left: show("tune", doing, share, left),
                lines(show),
                lambda what: None if terminal.has_bars else terminal.note(f"{what}: stored"),
            )
            return tune(asked, store, cache, site, told)
    except KeyboardInterrupt:
        terminal.note("Stopped. Finished work is stored; the same command resumes.")
        raise


def _asked(args: argparse.Namespace, texts: list[str], site: Site) -> Asked:
    """Return what is searched on a machine.

    Raises:
        UsageError: a value that is not allowed.
    """
    from cross_backend.api.tune import asked_of
    from cross_backend.tuning.bounds import Bounds

    return asked_of(
        args.model,
        texts,
        site,
        Bounds(args.max_drop, args.max_ms, args.max_size, args.max_memory),
        weights=args.weights,
        inputs=args.inputs,
        calibration=args.calibration,
        task=args.task,
        precisions=args.precision,
        threads=args.threads,
        batch_sizes=args.batch,
        seconds=args.seconds,
        num_runs=args.num_runs,
        launches=args.launches,
        seed=args.seed,
        timeout_s=args.timeout,
        jobs=args.jobs or 0,
        prefix="--",
    )


def _status(found: list[Tuned]) -> int:
    without = [one for one in found if one.winner is None]
    if without and all(any(row.outcome is Outcome.NOT_PROVED for row in one.tried) for one in without):
        return UNPROVED
    return 1 if without else 0
