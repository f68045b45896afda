"""List the built-in models. Your own: path/to/file.py:function, file.pt2 or file.onnx."""

from __future__ import annotations

import argparse

from cross_backend.cli import print_json
from cross_backend.cli._options import add_json
from cross_backend.machine import version_of
from cross_backend.workloads import WORKLOADS, BuiltIn


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Print the table."""
    remedies = {name: _remedy(row) for name, row in WORKLOADS.items()}
    if args.json:
        told = ("family", "summary", "parameters", "flops", "source", "licence")
        found = [
            {
                "name": name,
                **{key: getattr(row, key) for key in told},
                "ready": remedies[name] is None,
                "remedy": remedies[name],
            }
            for name, row in WORKLOADS.items()
        ]
        print_json({"schema": 1, "models": found})
        return 0
    from cross_backend.report.terminal import Terminal

    headers = ("model", "family", "what it is", "parameters", "FLOPs", "source", "licence", "here")
    rows = []
    for name, row in WORKLOADS.items():
        figures = map(_scaled, (row.parameters, row.flops))
        rows.append((name, row.family, row.summary, *figures, row.source, row.licence, remedies[name] or "ready"))
    terminal = Terminal()
    terminal.table(headers, rows, right=(3, 4))
    terminal.text("FLOPs: floating point operations of one inference of batch 1, a multiply-add being two.")
    return 0


def _remedy(row: BuiltIn) -> str | None:
    """Return the command that installs what a model lacks here."""
    extras = [extra for distribution, extra in row.requires if version_of(distribution) is None]
    return f"pip install 'cross-backend[{extras[0]}]'" if extras else None


def _scaled(count: int) -> str:
    """Return a count as people write it: ``9,978``, ``109.5 M``."""
    for unit, scale in (("G", 1e9), ("M", 1e6)):
        if count >= scale:
            return f"{count / scale:,.1f} {unit}"
    return f"{count:,}"
