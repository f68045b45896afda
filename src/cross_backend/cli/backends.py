"""List every backend: whether it can lower and run on this machine, the reason if not, and what mends it."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from cross_backend.cli import print_json
from cross_backend.cli._options import add_json
from cross_backend.errors import CrossBackendError, one_line
from cross_backend.machine import Machine
from cross_backend.registry import find_backend, lifecycle_here, missing_here, rows


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Print the table."""
    machine, found = Machine.here(), []
    for name, row in rows().items():
        entry: dict[str, object] = {"name": name, "aliases": list(row.aliases)}
        try:
            backend = find_backend(name)
        except CrossBackendError as error:
            gap = {"reason": one_line(error), "remedy": ""}
            found.append({**entry, "title": name, "lifecycle": "broken", "options": {}, "lower": gap, "run": gap})
            continue
        found.append(
            {
                **entry,
                "title": backend.title,
                "lifecycle": lifecycle_here(backend),
                "options": {key: list(option.choices) or "number" for key, option in backend.options.items()},
                **asdict(missing_here(backend)),
            }
        )
    if args.json:
        print_json({"schema": 1, "machine": machine.to_json(), "backends": found})
        return 0
    _print(found)
    return 0


def _print(found: list[dict[str, object]]) -> None:
    from cross_backend.report.terminal import Terminal

    terminal = Terminal()
    table = []
    for entry in found:
        gaps = {key: gap for key in ("lower", "run") if isinstance(gap := entry[key], dict)}
        why = "; ".join(dict.fromkeys(f"{gap['reason']}; {gap['remedy']}".rstrip("; ") for gap in gaps.values()))
        aliases, options = entry["aliases"], entry["options"]
        assert isinstance(aliases, list) and isinstance(options, dict)
        table.append(
            (
                str(entry["name"]),
                ", ".join(aliases),
                "no" if "lower" in gaps else "yes",
                "no" if "run" in gaps else "yes",
                str(entry["lifecycle"]),
                ", ".join(options) or "–",
                why or "ready",
            )
        )
    terminal.table(("backend", "short", "lowers", "runs", "life-cycle", "options", "here"), table)
