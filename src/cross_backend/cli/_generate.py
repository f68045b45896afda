"""``compare --generate``: generate text on several targets instead of single calls."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from cross_backend.cli import print_json
from cross_backend.errors import UsageError
from cross_backend.machine import Machine
from cross_backend.places.address import parse
from cross_backend.records import document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cross_backend.comparison.settings import Settings
    from cross_backend.exporting.export import ExportSettings

UNUSED = {
    "batch": "--batch",
    "inputs": "--inputs",
    "task": "--task",
    "decision": "--decision",
    "launches": "--launches",
    "margin": "--margin",
    "output_dir": "--output-dir",
}
"""Options of ``compare`` that say nothing of generating."""


def generate(args: argparse.Namespace, targets: Sequence[str], settings: Settings, exporting: ExportSettings) -> int:
    """Generate with each model; 0 if every one has a target that was ranked for decode."""
    from cross_backend.exporting.export import export, lines
    from cross_backend.generation.encoding import Encoder
    from cross_backend.generation.rows import Length
    from cross_backend.generation.run import run_generation
    from cross_backend.report.generation import print_generation
    from cross_backend.report.terminal import Terminal
    from cross_backend.workloads import decoder_of, encoder_of, find_workload

    used = [flag for key, flag in UNUSED.items() if getattr(args, key)]
    if used or any(str(parse(text)) != "local" for text in args.on):
        raise UsageError(f"--generate does not go with {used[0] if used else '--on'}. Leave one of them out.")
    lengths = [Length.parse(text) for text in dict.fromkeys(args.generate)]
    terminal = Terminal(quiet=args.json)
    panels = []
    for model in args.models:
        source = find_workload(decoder_of(model), args.weights, calibration=args.calibration)
        feeds = encoder_of(source.text)
        with terminal.progress() as show:
            encoder = None
            if feeds is not None:
                encoder = Encoder(*export(find_workload(feeds, args.weights), targets, exporting, lines(show)))
            captured, rows = export(source, targets, exporting, lines(show))

            def told(doing: str, done: int, total: int, show: object = show, name: str = source.name) -> None:
                show(name, doing, done / total, "")  # type: ignore[operator]

            found = run_generation(
                captured, rows, lengths, settings, exporting.cache, source.context, told=told, encoder=encoder
            )
        panels += found
        if not args.json:
            for panel in found:
                print_generation(terminal, panel)
    if args.json:
        print_json({**document([], Machine.here()), "generation": [panel.to_json() for panel in panels]})
    return 0 if all(any(row.decode is not None for row in panel.rows) for panel in panels) else 1
