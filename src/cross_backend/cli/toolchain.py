"""Add, list or remove private environments for backends whose packages cannot live in the main one, and runtimes."""

from __future__ import annotations

import argparse
import sys

from cross_backend.cli import print_json
from cross_backend.cli._options import add_json
from cross_backend.errors import unknown_name
from cross_backend.toolchains import EVERY, add, remove


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "action",
        choices=("list", "add", "remove"),
        help="adding takes some minutes and about 2 GB each; browser: 41 MB",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one or more of {', '.join(EVERY)}")
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Do it; adding what is there and removing what is not are no errors."""
    for name in args.names:
        if name not in EVERY:
            raise unknown_name("toolchain", name, EVERY)
    chosen = [EVERY[name] for name in args.names or (EVERY if args.action == "list" else ())]
    if not chosen:
        print(f"cross-backend toolchain {args.action}: name one of {', '.join(EVERY)}.", file=sys.stderr)
        return 2
    for toolchain in chosen:
        if args.action == "add":
            add(toolchain, lambda line: print(line, file=sys.stderr, flush=True))
        elif args.action == "remove":
            remove(toolchain)
    if args.json:
        found = [
            {"name": t.name, "added": t.added, "pins": dict(t.pins), "why": t.why, "folder": str(t.folder)}
            for t in chosen
        ]
        print_json({"schema": 1, "toolchains": found})
        return 0
    from cross_backend.report.terminal import Terminal

    rows = []
    for t in chosen:
        pins = ", ".join(f"{name} {version}" for name, version in t.pins)
        rows.append((t.name, "added" if t.added else "not added", pins, t.why, str(t.folder)))
    Terminal().table(("toolchain", "here", "versions", "why it is apart", "folder"), rows)
    return 0
