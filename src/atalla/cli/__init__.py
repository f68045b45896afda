"""The command line: one file a command; nothing heavy is imported before it is needed."""

from __future__ import annotations

import argparse
import importlib
import io
import json
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from atalla.errors import AtallaError, ReferenceWarning
from atalla.plain import plain

COMMANDS = {
    "compile": "compile a model to a blob",
    "debug": "run a blob on the simulated device step by step; find the first instruction that is wrong",
    "disasm": "list a blob: instructions, tensors with their places, and your lines of Python",
    "fuzz": "run random programs everywhere; a difference, crash or hang becomes a script",
    "info": "print a blob's operations, memory and segments",
    "new": "write the package of a chip of your own: compiler, driver, simulator, delegate, tests",
    "run": "run a blob, time it, and profile it by instruction",
    "simulate": "simulate a model on a device: cycles of each layer, and what bounds it",
    "support": "print what compiles each operator of PyTorch, or why the host computes it",
}
"""Command → one line of help; the module of the same name has ``configure(parser)`` and ``main(args)``."""


class UsageError(AtallaError):
    """The command was called wrongly."""


class Parser(argparse.ArgumentParser):
    """argparse whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with status 2."""
        print(f"{self.prog}: {plain(message)}. See '{self.prog} --help'.", file=sys.stderr)
        raise SystemExit(2)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    args = parser().parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    with warnings.catch_warnings():
        _show_warnings_plainly(args.command)
        return _run(args)


def parser() -> Parser:
    """Return the parser of all commands."""
    whole = Parser(prog="atalla", description="An exported PyTorch program in, a blob out that C kernels run.")
    commands = whole.add_subparsers(metavar="COMMAND", dest="command", required=True)
    for name, text in COMMANDS.items():
        module = importlib.import_module(f"{__name__}.{name}")
        command = commands.add_parser(name, help=text, description=module.__doc__, allow_abbrev=False)
        module.configure(command)
        command.set_defaults(main=module.main)
    return whole


def _run(args: argparse.Namespace) -> int:
    try:
        status: int = args.main(args)
        sys.stdout.flush()
    except BrokenPipeError:  # '| head' closed the pipe: be silent, as other tools are
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except UsageError as error:
        return _complain(args.command, str(error), 2)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        return _complain(args.command, "this needs PyTorch: pip install 'cross-backend[torch]'", 1)
    except AtallaError as error:
        return _complain(args.command, one_line(error), 1)
    except OSError as error:
        return _complain(args.command, f"{error.filename}: {error.strerror}" if error.filename else str(error), 1)
    except KeyboardInterrupt:
        return _complain(args.command, "interrupted", 130)
    return status


def _complain(command: str, message: str, status: int) -> int:
    print(plain(f"atalla {command}: {message}"), file=sys.stderr)
    return status


def _show_warnings_plainly(command: str) -> None:
    """Print a warning as one line; what torch's own code will change one day is nothing to a user of this command."""
    warnings.simplefilter("ignore", FutureWarning)
    warnings.simplefilter("ignore", DeprecationWarning)
    warnings.simplefilter("always", ReferenceWarning)
    warnings.showwarning = lambda message, *_, **__: print(plain(f"atalla {command}: {message}"), file=sys.stderr)


def one_line(error: BaseException) -> str:
    """Return what an error says in one line; what steers a terminal, from a file perhaps, is shown and not obeyed."""
    text = plain(" ".join(str(error).split())) or type(error).__name__
    return text if len(text) <= 1000 else f"{text[:1000]}…"


def print_json(document: Any) -> None:
    """Print the one JSON document of a command."""
    print(json.dumps(document, indent=2, allow_nan=False))


def say(line: str = "", end: str = "\n") -> None:
    """Print one line, whatever a blob's names hold."""
    print(plain(line), end=end)


def check_file(path: Path) -> None:
    """Refuse what would block whoever opens it, as a pipe does, or never end, as a device may.

    Raises:
        UsageError: it is one of these.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise UsageError(f"{path} is not a file")


def read_file(path: Path) -> bytes:
    """Read a file.

    Raises:
        UsageError: it is none.
    """
    check_file(path)
    return path.read_bytes()


def print_table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
    """Print aligned columns; those in ``right`` are numbers."""
    rows = [[plain(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join(cells).rstrip())


def positive_int(text: str) -> int:
    """Parse a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def size(count: int) -> str:
    """Return a number of bytes as a person reads it: ``10.3 MB``."""
    for unit, scale in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1000)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}" if count < 1000 * scale else f"{count / scale:,.0f} {unit}"
    return f"{count} B"
