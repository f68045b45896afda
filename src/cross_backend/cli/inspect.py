"""Show what an artifact really holds: its certificate, specifications and versions; its digest is checked."""

from __future__ import annotations

import argparse
from pathlib import Path

from cross_backend.cli import print_json
from cross_backend.cli._options import add_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("artifact", type=Path, metavar="ARTIFACT", help="payload or manifest")
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Print the manifest; the payload must be the one that it describes."""
    from cross_backend.artifact import Artifact
    from cross_backend.report import tables
    from cross_backend.report.placement import facts, print_operators

    artifact = Artifact.read(args.artifact)
    artifact.check()
    if args.json:
        print_json(artifact.to_json())
        return 0
    from cross_backend.report.terminal import Terminal

    terminal = Terminal()
    placement = artifact.placement
    terminal.text(f"📦 {artifact.payload_path}", style="bold")
    terminal.table(
        ("", ""),
        [
            ("target", artifact.target),
            ("workload", f"{artifact.workload} (program {artifact.program[:12]}…)"),
            ("payload", f"{tables.size(artifact.size_bytes)}, sha256 {artifact.sha256[:12]}… (checked)"),
            ("inputs", "; ".join(f"{spec.name}: {spec}" for spec in artifact.inputs)),
            ("outputs", "; ".join(f"{spec.name}: {spec}" for spec in artifact.outputs)),
            ("lowered in", f"{artifact.export_s:.1f} s"),
            ("made by", ", ".join(f"{name} {version}" for name, version in artifact.versions.items())),
            *facts(placement),
            *(
                ("estimate", f"{name} {value:,.6g} (the compiler's, not measured)")
                for name, value in artifact.estimate.items()
            ),
        ],
    )
    print_operators(terminal, placement)
    return 0
