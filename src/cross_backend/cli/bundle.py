"""Export a model for one or several platforms and pack what is shipped: artifacts, sample, labels, loaders."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from cross_backend.cli import print_json
from cross_backend.cli._options import add_inputs, add_model, add_quality, add_work, export_progress, trust_files
from cross_backend.errors import UsageError
from cross_backend.report.files import writable_folder

if TYPE_CHECKING:
    from cross_backend.api.bundle import Bundled
    from cross_backend.report.terminal import Terminal


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model(parser)
    parser.add_argument(
        "--platform",
        nargs="+",
        metavar="NAME",
        help="platforms that the bundle is for: android, ios, desktop, …; each has its own fallback order",
    )
    parser.add_argument(
        "--backends", nargs="+", metavar="TARGET", help="backends in fallback order, instead of a platform's"
    )
    add_quality(parser)
    parser.add_argument(
        "--measure", action="store_true", help="measure here what runs here, so that the manifest has the ranks"
    )
    parser.add_argument(
        "--measured",
        action="store_true",
        help="order each platform's artifacts by what comparisons measured on its machines, here or with --on; "
        "the manifest holds the evidence",
    )
    add_inputs(parser)
    parser.add_argument(
        "--ship-inputs", action="store_true", help="write the --inputs into the bundle, to be verified there, too"
    )
    parser.add_argument(
        "--tokenizer",
        type=Path,
        metavar="FILE.json",
        help="ship the tokenizer.json of the model's weights, so that the bundle takes texts",
    )
    parser.add_argument("--zip", action="store_true", help="write one zip file instead of a folder")
    parser.add_argument(
        "--output-dir",
        type=Path,
        default=Path("bundles"),
        metavar="DIR",
        help="the bundle is DIR/<model> (default: bundles)",
    )
    add_work(parser)


def main(args: argparse.Namespace) -> int:
    """Bundle; 0 if it holds at least one artifact, and with --strict only if nothing failed."""
    from cross_backend.api.bundle import merged_order, pack, platform_orders
    from cross_backend.cache import Cache
    from cross_backend.exporting.export import ExportSettings
    from cross_backend.names.platforms import PLATFORMS
    from cross_backend.registry import check_targets, with_precision
    from cross_backend.report.terminal import Terminal
    from cross_backend.workloads import find_workload

    check_targets(args.backends or ())
    if bool(args.backends) == bool(args.platform):
        raise UsageError(f"say what for: --platform {'|'.join(PLATFORMS)} (one or several), or --backends TARGET….")
    orders = platform_orders(args.platform or ())
    asked = merged_order(list(orders.values())) or args.backends
    targets = [with_precision(text, args.precision) for text in asked]
    if args.measured and not args.platform:
        raise UsageError("--measured orders platforms. Name them: --platform NAME….")
    trust_files(args, [args.model])
    if args.ship_inputs and not args.inputs:
        raise UsageError("--ship-inputs needs --inputs PATH.")
    source = find_workload(args.model, args.weights, own=args.inputs, calibration=args.calibration)
    parent = writable_folder(args.output_dir)
    terminal = Terminal(quiet=args.json)
    settings = ExportSettings(Cache(), args.jobs or 0, args.timeout, min_coverage=args.min_coverage)
    with export_progress(terminal) as observe:
        packed = pack(
            source,
            targets,
            orders,
            settings,
            parent,
            observe,
            measure=args.measure,
            measured=args.measured,
            ship_inputs=args.ship_inputs,
            tokenizer=args.tokenizer,
            zipped=args.zip,
        )
    if args.json:
        print_json(packed.to_json())
    else:
        _print(terminal, packed)
    return 1 if args.strict and len(packed.shipped) < len(packed.rows) else 0


def _print(terminal: Terminal, packed: Bundled) -> None:
    from cross_backend.report import tables

    terminal.text(f"📦 {packed.path}", style="bold")
    terminal.text(f"✅ {len(packed.shipped)}/{len(packed.rows)} backends, in fallback order:")
    table = []
    for place_number, row in enumerate(packed.shipped, start=1):
        assert row.artifact is not None and row.resolved is not None
        name = packed.names[row.text]
        result = packed.measured.get(name)
        here = f"rank {result.rank}, {tables.milliseconds(result.median_ms)} ms median" if result else "not measured"
        coverage = tables.percent(row.artifact.placement.coverage)
        size = tables.size(row.artifact.size_bytes)
        table.append((str(place_number), row.resolved.backend.title, name, coverage, size, here))
    terminal.table(("", "Backend", "artifact", "coverage", "size", "on this machine"), table, right=[0, 3, 4])
    failed = [row for row in packed.rows if row.artifact is None]
    if failed:
        terminal.text(f"⚠️ Failed {len(failed)} backend(s):")
        for row in failed:
            terminal.text(f"   • {row.text}: {row.reason}")
    if packed.is_measured:
        for platform, why in packed.why.items():
            terminal.text(f"{platform}: {why}: {' › '.join(packed.orders[platform])}")
