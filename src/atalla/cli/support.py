"""Print what becomes of each ATen operator: its instructions, or why it runs on the host."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from atalla.cli import UsageError, print_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("operator", nargs="?", metavar="OPERATOR", help="one alone: aten.add.Tensor, or add.Tensor")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def main(args: argparse.Namespace) -> int:
    """Print the table, or what is known of one operator."""
    from atalla import support

    if args.operator is None:
        if args.json:
            print_json({"schema": 1, "operators": [asdict(row) for row in support.rows()]})
        else:
            print(support.table())
        return 0
    try:
        row = support.find(args.operator)
    except KeyError as error:
        raise UsageError(f"PyTorch has no operator {args.operator}") from error
    if args.json:
        print_json({"schema": 1, "operators": [asdict(row)]})
    else:
        print(f"{row.name}: {row.kind}", *row.makes)
        for need in row.needs:
            print(f"  {need}")
    return 0
