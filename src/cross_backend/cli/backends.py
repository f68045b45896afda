"""List every backend: whether it can lower and run on this machine; with names or --why the reason and the remedy."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from cross_backend.cli import print_json
from cross_backend.cli._options import add_json, add_place
from cross_backend.places.address import parse
from cross_backend.registry import full_name, rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cross_backend.report.terminal import Terminal


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these, each with its options, reason and remedy")
    parser.add_argument("--why", action="store_true", help="also print why a backend is unavailable, and the remedy")
    add_place(parser)
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Print the table, or the named backends one by one."""
    chosen = list(dict.fromkeys(map(full_name, args.names))) or list(rows())
    address = parse(args.on)
    from cross_backend.cache import Cache
    from cross_backend.comparison.sites import site_at

    with site_at(address, Cache(), args.via) as site:
        found, machine = site.backends(chosen), site.machine
    if args.json:
        print_json({"schema": 1, "machine": machine.to_json(), "place": str(address), "backends": found})
        return 0
    from cross_backend.report.terminal import Terminal

    terminal = Terminal()
    if args.names:
        for entry in found:
            _print_one(terminal, entry)
        return 0
    _print_all(terminal, found, why=args.why)
    return 0


def _print_all(terminal: Terminal, found: Sequence[dict[str, Any]], *, why: bool) -> None:
    """Print a line per backend, and below them the reasons or how to get them."""
    headers = ("backend", "short", "lowers", "runs here", "life-cycle", "options")
    cells = [
        (
            entry["name"],
            ", ".join(entry["aliases"]),
            "no" if entry["lower"] else "yes",
            "no" if entry["run"] else "yes",
            entry["lifecycle"].partition(" ")[0],
            ", ".join(entry["options"]) or "–",
        )
        for entry in found
    ]
    terminal.table(headers, cells, whole=range(len(headers)))
    missing = [entry for entry in found if entry["lower"] or entry["run"]]
    if not missing:
        return
    terminal.text()
    if not why:
        terminal.text(f"{len(missing)} unavailable backends. Reasons: cross-backend backends --why")
    for entry in missing if why else ():
        terminal.text(f"⚠️ {entry['name']}: {_reason(entry)}")


def _print_one(terminal: Terminal, entry: dict[str, Any]) -> None:
    short = f" ({', '.join(entry['aliases'])})" if entry["aliases"] else ""
    terminal.text(f"📦 {entry['name']}{short}: {entry['title']}", style="bold")
    terminal.text(f"   life-cycle: {entry['lifecycle']}")
    for key, values in entry["options"].items():
        terminal.text(f"   option {key}: {values if isinstance(values, str) else ', '.join(map(str, values))}")
    for key, doing in (("lower", "lowers"), ("run", "runs")):
        unavailable = entry[key]
        terminal.text(f"   ✅ {doing} here." if not unavailable else f"   ⚠️ {_reason({key: unavailable})}")


def _reason(entry: dict[str, Any]) -> str:
    """Return the reasons and remedies as sentences, each once."""
    found = [entry[key] for key in ("lower", "run") if entry.get(key)]
    texts = [text for one in found for text in (one["reason"], _step(one["remedy"])) if text]
    return " ".join(f"{text[0].upper()}{text[1:].rstrip('.')}." for text in dict.fromkeys(texts))


def _step(remedy: str) -> str:
    """Return a remedy as a sentence: a command has a verb before it."""
    return f"Run: {remedy}" if remedy.startswith(("cross-backend ", "pip ")) else remedy
