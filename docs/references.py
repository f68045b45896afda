"""Reference pages: the command line from argparse, and the Python API from ``cross_backend.__all__``."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator

import cross_backend
from cross_backend import cli

PRELUDE = (
    "import torch",
    "import cross_backend as xb",
    "",
    "model, example = torch.nn.Linear(4, 2).eval(), torch.ones(1, 4)",
    "program = xb.capture(model, (example,))",
    'artifact = xb.lower(program, "torch")',
)
"""What the examples of the docstrings have before them."""
NOTES = (
    "**Errors.** Everything raises a subclass of `xb.CrossBackendError` whose text is one line. A wrong argument is a",
    "`UsageError` that names the argument, what fits and what came.",
    "",
    "**Results.** `panel.to_dict()` is the JSON document of the command line, `panel.to_pandas()` and",
    "`panel.to_polars()` have a row a target, and `panel.plot()` is a drawing that notebooks show and `save` writes.",
    "Results of a study convert likewise.",
    "",
    "**Logging.** The functions print nothing. What they do goes to the logger `cross_backend`: steps with level",
    "`INFO`, progress with `DEBUG`.",
    "",
    "**Waiting.** Every function may run in a thread: `panel = await asyncio.to_thread(xb.compare, model, targets)`.",
)
"""What all names share."""
STATUS = "Exit status: 0 done, 1 failed, 2 wrong usage, 3 nothing proved, 130 interrupted."


def command_line() -> str:
    """Return the page of all commands and their options."""
    lines = ["# Command line", "", f"Look up a command, its arguments and its options. {STATUS}", ""]
    lines += ["Written by `make docs` from argparse; `cross-backend COMMAND --help` prints the same.", ""]
    lines += ["| command | purpose |", "| --- | --- |"]
    lines += [f"| [`{name}`](#cross-backend-{name}) | {_cell(text)} |" for name, text in cli.COMMANDS.items()]
    for name in cli.COMMANDS:
        lines += _command(cli.parser_of(name), 2)
    return "\n".join(lines) + "\n"


def _command(parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    yield from ("", f"{'#' * level} {parser.prog}", "")
    yield " ".join((parser.description or "").split())
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]  # noqa: SLF001
    rows = [action for action in parser._actions if action not in below and action.dest != "help"]  # noqa: SLF001
    if rows := [action for action in rows if action.help not in {argparse.SUPPRESS, None}]:
        yield from ("", "| argument | meaning |", "| --- | --- |")
        yield from (f"| {_argument(parser, action)} | {_cell(_help(parser, action))} |" for action in rows)
    for action in below:
        for child in action.choices.values():
            yield from _command(child, level + 1)


def _argument(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    formatter = parser._get_formatter()  # noqa: SLF001  argparse has no other door
    wanted = formatter._format_args(action, action.dest.upper()) if action.nargs != 0 else ""  # noqa: SLF001
    wanted = wanted.replace("|", "\\|")
    if not action.option_strings:
        return f"`{wanted}`"
    return ", ".join(f"`{one} {wanted}`" if wanted else f"`{one}`" for one in action.option_strings)


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    return parser._get_formatter()._expand_help(action)  # noqa: SLF001  with the default


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def python_api() -> str:
    """Return the page of the public names; the site puts their docstrings where the comments are."""
    lines = ["# Python API", "", "Look up a public name, its arguments, and an example that runs.", ""]
    lines += [
        "Written by `make docs` from `cross_backend.__all__`. An editor shows the same docstrings as the site.",
        "",
    ]
    lines += ["The examples begin with:", "", "```python", *PRELUDE, "```", ""]
    lines += ["| name | purpose |", "| --- | --- |"]
    names = [name for name in cross_backend.__all__ if not name.startswith("__")]
    for name in names:
        summary = (inspect.getdoc(getattr(cross_backend, name)) or "").partition("\n")[0]
        lines.append(f"| `xb.{name}` | {_cell(summary)} |")
    lines += ["", *NOTES, ""]
    for name in names:
        found = getattr(cross_backend, name)
        lines += [f"<!-- ::: {found.__module__}.{name} -->", ""]
    return "\n".join(lines)
