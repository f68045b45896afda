"""Lower each model to several backends, verify every output against eager float32, measure interleaved, and rank."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.cli import COMPLAINT, UNPROVED, positive_float, positive_int, print_json
from cross_backend.cli._options import (
    add_batch,
    add_inputs,
    add_measuring,
    add_model,
    add_places,
    add_targets,
    add_task,
    add_work,
    check_threads,
    chosen_targets,
    margin,
    trust_files,
)
from cross_backend.errors import CrossBackendError, PlaceError, PlaceLostError, UsageError, one_line
from cross_backend.machine import Machine
from cross_backend.names.platforms import COMPARED, find_platform
from cross_backend.places.address import Address, parse
from cross_backend.records import TOO_FEW, Outcome, Panel, document
from cross_backend.report.files import writable_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cross_backend.cache import Cache
    from cross_backend.comparison.settings import Settings
    from cross_backend.comparison.site import Site
    from cross_backend.exporting.export import Exported, ExportSettings
    from cross_backend.program.captured import Captured
    from cross_backend.report.terminal import Terminal
    from cross_backend.workloads import Source

SEVERAL_S, LEAST_S = 50.0, 10.0
"""Seconds of launches that several models share, where nobody says how many there are, and the least of each."""
MOST_LAUNCHES = 15
"""Where ``--margin`` is not reached."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model(parser, nargs="+")
    add_inputs(parser)
    add_task(parser)
    add_targets(parser)
    add_places(parser)
    parser.add_argument(
        "--decision", type=Path, metavar="FILE.md", help="also write the page for a design document: what to ship where"
    )
    add_batch(parser)
    add_measuring(parser)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the visiting order (default: 0)")
    parser.add_argument(
        "--launches",
        type=positive_int,
        metavar="N",
        help="process launches of each target; runs and seconds are spread over them (default: until every place is "
        "decided: far apart, or a difference of 8 %% is detected with 95 %% power). By default no launch begins "
        "after 60 s; for several models, after 50 s together",
    )
    parser.add_argument(
        "--margin",
        type=margin,
        metavar="1%",
        help=f"launch again until every ratio to the fastest is this precise, {MOST_LAUNCHES} times at most",
    )
    parser.add_argument(
        "--skip-throttled",
        action="store_true",
        help="leave out rounds in which a phone (adb:) slowed its processor down",
    )
    parser.add_argument(
        "--adversarial",
        type=positive_float,
        metavar="SECONDS",
        help="search so long for inputs on which a target is wrong; they become probes of this and later comparisons",
    )
    parser.add_argument(
        "--generate",
        nargs="+",
        metavar="PROMPT:NEW",
        help="generate text greedily instead: time to the first token, latency per token, tokens per second",
    )
    parser.add_argument("--output-dir", type=Path, metavar="DIR", help="also keep the artifacts and results.json here")
    add_work(parser)


def main(args: argparse.Namespace) -> int:
    """Compare; 0 if every model has a ranked target, and with --strict only if every target was ranked.

    Of several models one that cannot be compared is told, and the others go on.
    """
    targets = chosen_targets(args, COMPARED)
    addresses = [parse(text) for text in dict.fromkeys(args.on)]
    if addresses == [Address("local")]:
        check_threads(args.threads)
    if args.decision is not None and not args.decision.absolute().parent.is_dir():
        raise UsageError(f"{args.decision}: its folder does not exist.")
    from cross_backend.cache import Cache
    from cross_backend.comparison.settings import Settings
    from cross_backend.exporting.export import ExportSettings
    from cross_backend.report.printed import print_devices
    from cross_backend.report.terminal import Terminal
    from cross_backend.workloads import find_workload

    trust_files(args, args.models)
    if args.generate:
        from cross_backend.cli._generate import generate

        settings = Settings(threads=args.threads, timeout_s=args.timeout, seed=args.seed)
        return generate(args, targets, settings, ExportSettings(Cache(), args.jobs or 0, args.timeout))
    sources = [
        find_workload(model, args.weights, args.batch, args.inputs, args.calibration, args.task)
        for model in args.models
    ]
    folder = writable_folder(args.output_dir) if args.output_dir else None
    settings = Settings(
        args.num_runs, args.seconds, args.threads, args.timeout, args.seed, args.launches, MOST_LAUNCHES, args.margin
    )
    settings = replace(settings, skip_throttled=args.skip_throttled)
    if args.platform:
        settings = replace(settings, platform=find_platform(args.platform).name)
    if len(sources) > 1:
        settings = replace(settings, box_s=max(SEVERAL_S / len(sources), LEAST_S))
    exporting = ExportSettings(Cache(), args.jobs or 0, args.timeout, folder)
    found = _Found()
    terminal = Terminal(quiet=args.json)
    try:
        with ExitStack() as stack:
            sites = _connect(args, addresses, exporting.cache, stack, found, terminal)
            _compare_all(sources, targets, settings, exporting, terminal, found, sites, args.adversarial)
    except KeyboardInterrupt:
        found.interrupted = True
    finally:
        _write(found, folder, args.decision, as_json=args.json)
    if len(found.panels) > 1 and len(addresses) > 1 and not terminal.quiet:
        print_devices(terminal, found.panels)
    return _status(found, len(sources) * len(addresses), strict=args.strict)


def _connect(
    args: argparse.Namespace,
    addresses: Sequence[Address],
    cache: Cache,
    stack: ExitStack,
    found: _Found,
    terminal: Terminal,
) -> list[Site]:
    """Connect to all machines; one that cannot be reached is told, and the others go on."""
    from cross_backend.comparison.sites import site_at

    sites = []
    for address in addresses:
        try:
            with terminal.progress() as show:
                show("connect", f"connect to {address}", 0.0, "")
                sites.append(stack.enter_context(site_at(address, cache, args.via)))
        except PlaceError as error:
            found.failed.append((str(address), error))
            if len(addresses) > 1 and not terminal.quiet:
                terminal.text(f"❌ {one_line(error, COMPLAINT)}")
    return sites


@dataclass
class _Found:
    """What became of the models until now."""

    panels: list[Panel] = field(default_factory=list)
    failed: list[tuple[str, Exception]] = field(default_factory=list)
    """Models of which there is no panel, and why."""
    hunted: list[dict[str, Any]] | None = None
    """What searches for inputs found, where they were asked for."""
    interrupted: bool = False
    model: str | None = None
    """What the user wrote for the model that is compared now."""


def _compare_all(
    sources: Sequence[Source],
    targets: Sequence[str],
    settings: Settings,
    exporting: ExportSettings,
    terminal: Terminal,
    found: _Found,
    sites: Sequence[Site],
    adversarial: float | None = None,
) -> None:
    """Compare model after model, each lowered once, machine after machine, and print each, until one is interrupted."""
    from cross_backend.exporting.export import export, lines

    for source in sources if sites else ():
        found.model = source.text
        try:
            with terminal.progress() as show:
                captured, rows = export(source, targets, exporting, lines(show))
            if adversarial is not None:
                from cross_backend.cli._adversarial import show_hunt

                hunted = show_hunt(captured, rows, adversarial, settings, exporting.cache, terminal)
                found.hunted = (found.hunted or []) + [
                    {"workload": captured.workload, **one.to_json()} for one in hunted
                ]
        except (CrossBackendError, OSError) as error:
            found.failed.append((source.name, error))
            if len(sources) > 1 and not terminal.quiet:
                terminal.text(f"📦 {source.name}", style="bold")
                terminal.text(f"❌ {one_line(error, COMPLAINT)}")
                terminal.text()
            continue
        for site in sites:
            _measure(captured, rows, settings, exporting.cache, terminal, found, site)


def _measure(
    captured: Captured,
    rows: Sequence[Exported],
    settings: Settings,
    cache: Cache,
    terminal: Terminal,
    found: _Found,
    site: Site,
) -> None:
    """Compare one model on one machine, and print what was found."""
    from cross_backend.cli._compare_progress import Watched
    from cross_backend.comparison.panel import run_panel
    from cross_backend.report.printed import print_panel

    name = captured.workload if site.name == "local" else f"{captured.workload} on {site.name}"
    try:
        with terminal.progress() as show:
            watched = Watched(show, name, settings)
            panel = run_panel(captured, rows, settings, cache, watched.progress, watched.look, site)
    except (CrossBackendError, OSError, PlaceLostError) as error:
        found.failed.append((name, error))
        return
    found.panels.append(panel)
    if not terminal.quiet:
        print_panel(terminal, panel, found.model)
    if panel.lost is not None:
        found.failed.append((name, PlaceError(f"{panel.lost}. Measurements until then are kept.")))
    elif panel.interrupted:
        raise KeyboardInterrupt


def _write(found: _Found, folder: Path | None, decision: Path | None, *, as_json: bool) -> None:
    """Write the document beside the artifacts, where there are some, and print it where it was asked for."""
    failed = [{"workload": name, "reason": one_line(error, COMPLAINT)} for name, error in found.failed]
    whole = {**document(found.panels, Machine.here()), "interrupted": found.interrupted, "failed": failed}
    if found.hunted is not None:
        whole["adversarial"] = found.hunted
    try:
        if decision is not None and found.panels:
            from cross_backend.report import devices

            decision.write_text(devices.decision(found.panels, shlex.join(["cross-backend", *sys.argv[1:]])))
        if folder is not None and found.panels:
            (folder / "results.json").write_text(json.dumps(whole, indent=2, allow_nan=False) + "\n")
    finally:
        if as_json:
            print_json(whole)


def _status(found: _Found, models: int, *, strict: bool) -> int:
    """Return the exit status.

    Raises:
        KeyboardInterrupt: it was interrupted.
        CrossBackendError, OSError: the only model could not be compared.
    """
    if found.interrupted:
        raise KeyboardInterrupt
    if found.failed and models == 1:
        raise found.failed[0][1]
    without = [
        {result.outcome for result in panel.results}
        for panel in found.panels
        if not panel.ranked
        and not any(result.unranked == TOO_FEW for result in panel.results)
        and not _shows_no_speed(panel)
    ]
    if not found.failed and without and all(Outcome.NOT_PROVED in outcomes for outcomes in without):
        return UNPROVED
    wrong = any(r.outcome is not Outcome.OK for panel in found.panels for r in panel.results)
    return 1 if found.failed or without or (wrong and strict) else 0


def _shows_no_speed(panel: Panel) -> bool:
    """Whether it was measured elsewhere on a machine that shows right or wrong only, and something is right."""
    right = [result.execution for result in panel.results if result.outcome is Outcome.OK]
    return panel.place != "local" and any(where is not None and where.functional_only for where in right)
