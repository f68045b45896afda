"""Colours and emoji: on a real terminal they are there; with NO_COLOR, a dumb terminal or a pipe they are not."""

import errno
import functools
import os
import pty
import re
import select
import struct
import subprocess
import sys
import time

import pytest

SECONDS = 120
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
ESCAPE = re.compile(r"\x1b")
COMPARE = ("compare", "linear_regression", "--backends", "cpu", "torch", "--num-runs", "12")
LOUD = {"TERM": "xterm-256color", "PYTHONUTF8": "1", "COLUMNS": "160", "LINES": "50"}


@pytest.fixture
def on_terminal(popen):
    """Run the command with these streams on one pseudo terminal; give what the terminal received and the status."""
    return functools.partial(_on_terminal, popen)


def _on_terminal(popen, args, streams=("stdout", "stderr"), **extra):
    import fcntl
    import termios

    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
    kept = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "FORCE_COLOR"}}
    process = popen(
        [sys.executable, "-m", "cross_backend", *args],
        stdin=slave,
        stdout=slave if "stdout" in streams else subprocess.DEVNULL,
        stderr=slave if "stderr" in streams else subprocess.DEVNULL,
        env={**kept, **LOUD, **extra},
    )
    os.close(slave)
    received, end = b"", time.monotonic() + SECONDS
    try:
        while time.monotonic() < end:
            if not select.select([master], [], [], 1.0)[0]:
                continue
            try:
                block = os.read(master, 65536)
            except OSError as error:
                assert error.errno == errno.EIO  # noqa: PT017  how Linux tells that the other end is closed
                break
            if not block:
                break
            received += block
    finally:
        os.close(master)
        process.kill() if time.monotonic() >= end else None
    return received.decode(), process.wait(SECONDS)


def has_emoji(text):
    return re.search("[\U0001f000-\U0001faff\u2600-\u27bf]", text) is not None


def test_comparison_on_a_terminal_is_colourful(linear, on_terminal):
    shown, status = on_terminal(COMPARE)
    assert status == 0
    assert COLOUR.search(shown)
    for emoji in ("✅", "🏆", "🥇", "🚀", "🏃"):
        assert emoji in shown


def test_comparison_on_a_terminal_with_no_color(linear, on_terminal):
    shown, status = on_terminal(COMPARE, ("stdout",), NO_COLOR="1")
    assert status == 0
    assert not ESCAPE.search(shown), ESCAPE.search(shown)
    assert not has_emoji(shown)
    assert "Performance Ranking:" in shown and "[ok]" in shown


def test_progress_on_a_terminal_with_no_color_has_no_colours(linear, on_terminal):
    shown, status = on_terminal(COMPARE, NO_COLOR="1")
    assert status == 0
    assert not COLOUR.search(shown), COLOUR.findall(shown)
    assert not has_emoji(shown)


@pytest.mark.parametrize("command", ["models", "backends"])
@pytest.mark.parametrize(
    ("variables", "colourful"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
    ids=["plain terminal", "NO_COLOR=1", "NO_COLOR is empty", "dumb terminal"],
)
def test_tables_on_a_terminal(command, variables, colourful, on_terminal):
    """https://no-color.org: the variable counts when it is set and not empty."""
    shown, status = on_terminal((command,), **variables)
    assert status == 0
    assert bool(ESCAPE.search(shown)) is colourful
    assert not (has_emoji(shown) and not colourful)


def test_complaint_on_a_terminal_is_one_plain_line(on_terminal):
    shown, status = on_terminal(("export", "linear_regresion", "--backends", "cpu"))
    assert status == 2
    assert shown.count("\n") == 1 and not ESCAPE.search(shown)


def test_json_on_a_terminal_is_json(linear, on_terminal):
    import json

    shown, status = on_terminal((*COMPARE, "--json"))
    assert status == 0
    assert not ESCAPE.search(shown) and json.loads(shown)["schema"] == 2


@pytest.mark.parametrize("variables", [{}, {"NO_COLOR": "1"}], ids=["pipe", "pipe and NO_COLOR"])
def test_pipes_are_plain(variables, linear, cli, plain):
    result = cli(*COMPARE, TERM="xterm-256color", **variables)
    assert result.returncode == 0
    plain(result.stdout + result.stderr)


@pytest.mark.slow
def test_encoding_without_emoji(linear, cli):
    """A terminal or pipe that cannot hold emoji or dashes gets a table all the same."""
    result = cli(*COMPARE, PYTHONUTF8="0", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert result.returncode == 0, result.stderr
    assert "Performance Ranking:" in result.stdout
