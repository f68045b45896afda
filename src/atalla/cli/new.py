"""Write the package of a chip of your own: compiler, blob, driver, simulator, ExecuTorch delegate and tests.

It works as it is, and its own tests say so: cd NAME && make test.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from atalla.cli import UsageError, print_json, say


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("name", metavar="NAME", help="of the chip, its package and its backend: my_chip2")
    parser.add_argument(
        "--dir", type=Path, default=Path(), metavar="DIR", help="folder to write the folder NAME to (default: this one)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def main(args: argparse.Namespace) -> int:
    """Write it, and say how to go on."""
    from atalla.scaffold.names import why_not
    from atalla.scaffold.write import write_package

    if (why := why_not(args.name)) is not None:
        raise UsageError(f"{args.name!r} cannot be the name of a chip: {why}")
    files = write_package(args.name, args.dir)
    place = args.dir / args.name
    if args.json:
        names = [path.relative_to(place).as_posix() for path in files]
        print_json({"schema": 1, "folder": str(place), "files": names})
        return 0
    say(f"{place}: {len(files)} files; README.md says what is where, and CHIP marks where yours differs")
    say(f"next: cd {shlex.quote(str(place))} && make test")
    return 0
