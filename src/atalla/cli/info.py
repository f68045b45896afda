"""Return what a blob holds: its operations, the memory it needs, and what the accelerator and the host run."""

from __future__ import annotations

import argparse
from pathlib import Path

from atalla.cli import print_json, read_file


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("file", type=Path, metavar="FILE", help="a blob")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def main(args: argparse.Namespace) -> int:
    """Print the summary."""
    from atalla.blob.verify import verify
    from atalla.cli._summary import document, print_summary

    data = read_file(args.file)
    listing = verify(data, trust=True)  # nothing is run
    if args.json:
        print_json({"schema": 1, "file": str(args.file), **document(listing, len(data))})
    else:
        print_summary(args.file, listing, len(data))
    return 0
