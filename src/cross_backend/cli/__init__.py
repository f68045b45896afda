"""The command line: one file a command, imported when it is called; nothing heavy is imported for ``--help``."""

from __future__ import annotations

import argparse
import difflib
import importlib
import json
import os
import re
import shutil
import signal
import sys
import textwrap
import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn

from cross_backend._version import __version__
from cross_backend.errors import CrossBackendError, StudyFileError, UnprovedError, UsageError, one_line, unknown_name
from cross_backend.foreign_text import plain

COMMANDS = {
    "backends": "list every backend: whether it lowers and runs here, and the remedy where not",
    "bundle": "export a model for a platform and pack what is shipped, with loaders",
    "compare": "lower a model to several backends, verify, measure and rank them",
    "doctor": "try every backend on a tiny model and check this environment",
    "export": "capture a model once and lower it to several backends",
    "explain": "list the operators that a backend does not delegate, why, and their lines of Python",
    "inspect": "print an artifact's content as read from its file, and check its digest",
    "localize": "find the operator that a backend computes wrongly",
    "matrix": "measure models on every backend at every precision; resumable",
    "models": "list the built-in models",
    "node": "print what this machine advertises to a Ray cluster, or join one",
    "run": "run an artifact: verify it on its sample, or give it your inputs",
    "serve": "open the playground and the results browser in your web browser",
    "study": "run a study from a YAML file; resume, report, compare and export studies",
    "toolchain": "add private environments for backends that need other packages",
    "tune": "find the fastest backend, precision and threads within bounds",
}
"""Command → one line of help; the module of the same name has ``configure(parser)`` and ``main(args)``."""


COMPLAINT = 2000
"""Most characters of the line that says why a command failed."""


UNPROVED = 3
"""Exit status where outputs are right and that proves nothing."""


class Help(argparse.RawDescriptionHelpFormatter):
    """Help that fits 60 columns: ``[--backends TARGET …]``."""

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        if action.nargs not in {argparse.ONE_OR_MORE, argparse.ZERO_OR_MORE}:
            return super()._format_args(action, default_metavar)
        (name,) = self._metavar_formatter(action, default_metavar)(1)
        return f"{name} …" if action.nargs == argparse.ONE_OR_MORE else f"[{name} …]"

    def _split_lines(self, text: str, width: int) -> list[str]:
        return _folded(" ".join(text.split()), 0, width).splitlines()


def _folded(text: str, below: int = 0, width: int | None = None) -> str:
    """Return a text in lines of a width, the terminal's where None, that break between words."""
    width = max(width or shutil.get_terminal_size().columns - 2, below + 10)
    return textwrap.fill(text, width, subsequent_indent=" " * below, break_long_words=False, break_on_hyphens=False)


class Parser(argparse.ArgumentParser):
    """argparse that says "did you mean" for options it does not know, and takes ``-1,2,3`` for a value."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"formatter_class": Help, **kwargs})
        if self.description is not None:
            parts = self.description.split("\n\n")
            self.description = "\n\n".join(_folded(" ".join(part.split())) for part in parts)
        self._negative_number_matcher = re.compile(r"-[\d.][\d.,eE+-]*|-(inf|nan)\b.*")

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with status 2."""
        print(f"{self.prog}: {plain(message)} See '{self.prog} --help'.", file=sys.stderr)
        raise SystemExit(2)

    def unknown(self, arguments: Sequence[str]) -> NoReturn:
        """End with the nearest options."""
        known = [text for action in self._actions for text in action.option_strings]
        words = []
        for argument in arguments:
            near = difflib.get_close_matches(argument.partition("=")[0], known, n=1)
            words.append(f"{argument}" + (f" (did you mean {near[0]}?)" if near else ""))
        self.error(f"unknown argument {', '.join(words)}.")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit status: 0 done, 1 failed, 2 wrong usage, 3 nothing proved, 130 interrupted."""
    _complete_streams()
    try:
        return _main(list(sys.argv[1:] if argv is None else argv))
    except BrokenPipeError:  # '| head' closed the pipe: be silent, as other tools are
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _complete_streams() -> None:
    """Open the null device for streams that were closed (``>&-``), before another file gets their numbers."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    sys.stdout, sys.stderr = (
        stream or os.fdopen(number, "w", closefd=False) for number, stream in ((1, sys.stdout), (2, sys.stderr))
    )


def _main(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="cross-backend",
        description="One PyTorch or ONNX model in, every inference backend out: verified, measured, ranked.",
        epilog="commands:\n"
        + "\n".join(_folded(f"  {name:<10} {text}", 13) for name, text in COMMANDS.items())
        + "\n\n'cross-backend COMMAND --help' shows a command's options.",
        add_help=True,
    )
    parser.add_argument("--version", action="version", version=f"cross-backend {__version__}")
    parser.add_argument("command", metavar="COMMAND", nargs="?", help="one of those below")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    args, unknown = parser.parse_known_args(arguments)
    if unknown:
        parser.unknown(unknown)
    if args.command is None:
        parser.print_help(sys.stderr)
        return 2
    if args.command not in COMMANDS:
        parser.error(str(unknown_name("command", args.command, COMMANDS)))
    # SIGTERM ends like Ctrl-C, so that worker processes are stopped and what was finished is kept.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.unraisablehook = _raise_interrupts_again(sys.unraisablehook)
    try:
        return _run(args.command, args.rest)
    except StudyFileError as error:
        for line in error.lines:
            print(f"cross-backend {args.command}: {line}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        raise
    except (CrossBackendError, OSError) as error:
        status = 2 if isinstance(error, UsageError) else UNPROVED if isinstance(error, UnprovedError) else 1
        return _complain(args.command, error, status)
    except KeyboardInterrupt:
        print(f"cross-backend {args.command}: interrupted.", file=sys.stderr)
        return 130


def _raise_interrupts_again(usual: Callable[[sys.UnraisableHookArgs], Any]) -> Callable[[sys.UnraisableHookArgs], Any]:
    """Return a hook that raises Ctrl-C again where Python drops it: in destructors, callbacks and around forks.

    It does so a moment later, when the main thread is elsewhere; else the command would go on.
    """

    def hook(dropped: sys.UnraisableHookArgs) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            again = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT))
            again.daemon = True
            again.start()
        else:
            usual(dropped)

    return hook


def parser_of(command: str) -> Parser:
    """Return the parser of one command's options."""
    module = importlib.import_module(f"{__name__}.{command}")
    parser = Parser(prog=f"cross-backend {command}", description=module.__doc__, allow_abbrev=False)
    module.configure(parser)
    return parser


def _run(command: str, rest: Sequence[str]) -> int:
    module, parser = importlib.import_module(f"{__name__}.{command}"), parser_of(command)
    args, unknown = parser.parse_known_args(rest)
    if unknown:
        parser.unknown(unknown)
    _Printed.document = False
    try:
        status: int = module.main(args)
    except (CrossBackendError, OSError, KeyboardInterrupt) as error:
        wanted = getattr(args, "json", False) and not isinstance(error, UsageError | BrokenPipeError)
        if wanted and not _Printed.document:
            text = "interrupted" if isinstance(error, KeyboardInterrupt) else one_line(error, COMPLAINT)
            print_json({"schema": 1, "error": text})
        raise
    sys.stdout.flush()
    return status


class _Printed:
    """What of a command is on standard output."""

    document: ClassVar[bool] = False
    """Whether its one JSON document is; where it failed before, ``error`` is all that there is."""


def _complain(command: str, error: Exception, status: int) -> int:
    print(f"cross-backend {command}: {one_line(error, limit=COMPLAINT)}", file=sys.stderr)
    return status


def print_json(document: Any) -> None:
    """Print the one JSON document of a command."""
    _Printed.document = True
    print(json.dumps(document, indent=2, allow_nan=False))


def positive_int(text: str) -> int:
    """Parse a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def positive_float(text: str) -> float:
    """Parse a number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value
