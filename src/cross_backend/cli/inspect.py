"""Show what an artifact or a bundle really holds: certificates, specifications, versions; digests are checked."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from cross_backend.cli import print_json
from cross_backend.cli._options import add_json

if TYPE_CHECKING:
    from cross_backend.artifact import Artifact
    from cross_backend.bundling import Bundle, Evidence
    from cross_backend.report.terminal import Terminal


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "artifact", type=Path, metavar="ARTIFACT", help="payload, manifest, or a bundle (folder or zip file)"
    )
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Print the manifest; the payload must be the one that it describes."""
    from cross_backend.bundling import find_artifact, is_bundle, open_bundle
    from cross_backend.cache import Cache

    if is_bundle(args.artifact):
        return _inspect_bundle(open_bundle(args.artifact, Cache()), as_json=args.json)
    artifact = find_artifact(args.artifact)
    artifact.check()
    if args.json:
        print_json(artifact.to_json())
    else:
        _print(artifact)
    return 0


def _inspect_bundle(bundle: Bundle, *, as_json: bool) -> int:
    """Print every artifact of a bundle; 1 if one of them is not what the manifest says."""
    from cross_backend.errors import ArtifactError
    from cross_backend.report import tables
    from cross_backend.report.terminal import Terminal

    damage: dict[str, str] = {}
    for artifact in bundle.artifacts:
        try:
            artifact.check()
        except ArtifactError as error:
            damage[artifact.name] = str(error)
    if as_json:
        rows = [{**artifact.to_json(), "damage": damage.get(artifact.name)} for artifact in bundle.artifacts]
        evidence = [asdict(one) for one in bundle.evidence]
        orders = dict(bundle.orders)
        print_json({"schema": 1, "model": bundle.model, "orders": orders, "evidence": evidence, "artifacts": rows})
        return int(bool(damage))
    terminal = Terminal()
    terminal.text(
        f"📦 {bundle.folder}: {bundle.model}, {len(bundle.artifacts)} artifacts in fallback order", style="bold"
    )
    rows_of_cells = [
        (
            artifact.name,
            artifact.target,
            ", ".join(f"{name} × {count}" for name, count in artifact.placement.delegates.items()) or "–",
            tables.percent(artifact.placement.coverage),
            tables.size(artifact.size_bytes),
            damage.get(artifact.name, "digest is right"),
        )
        for artifact in bundle.artifacts
    ]
    terminal.table(("artifact", "target", "delegates", "coverage", "size", "file"), rows_of_cells, right=[3, 4])
    for platform, order in bundle.orders.items():
        terminal.text(f"{platform}: {' › '.join(order)}")
    for one in bundle.evidence:
        _print_evidence(terminal, one)
    return int(bool(damage))


def _print_evidence(terminal: Terminal, one: Evidence) -> None:
    from cross_backend.report import tables

    threads = f"{one.threads} thread{'s' if one.threads > 1 else ''}"
    terminal.text(f"{one.platform}, measured on {one}, {threads}, place {one.place}: {' › '.join(one.order)}")
    cells = [
        (
            row.name,
            f"{row.rank} of {one.targets}",
            "–" if row.ratio is None else f"{row.ratio:.2f} ({row.low:.2f} to {row.high:.2f})",
            f"{tables.milliseconds(row.median_ms)} ms",
        )
        for row in one.rows
    ]
    terminal.table(("artifact", "rank", "ratio (95 %)", "median"), cells, right=[2, 3])


def _print(artifact: Artifact) -> None:
    from cross_backend.report import tables
    from cross_backend.report.placement import facts, print_operators
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
