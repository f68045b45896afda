"""List the built-in models. Your own: path/to/file.py:function, file.pt2 or file.onnx."""

from __future__ import annotations

import argparse

from cross_backend.cli import print_json
from cross_backend.cli._options import add_json
from cross_backend.machine import version_of
from cross_backend.workloads import WORKLOADS


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Print the table."""
    found = []
    for name, row in WORKLOADS.items():
        absent = [(distribution, extra) for distribution, extra in row.requires if version_of(distribution) is None]
        remedy = f"pip install 'cross-backend[{absent[0][1]}]'" if absent else None
        found.append(
            {"name": name, "family": row.family, "summary": row.summary, "source": row.source, "remedy": remedy}
        )
    if args.json:
        print_json({"schema": 1, "models": found})
        return 0
    from cross_backend.report.terminal import Terminal

    headers = ("model", "family", "what it is", "source", "here")
    Terminal().table(headers, [[text or "ready" for text in row.values()] for row in found])
    return 0
