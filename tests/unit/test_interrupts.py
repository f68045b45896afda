"""Interrupts: Ctrl-C is heard, wherever Python would drop it."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import os, signal, sys, time
from cross_backend import cli

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.2)

class Ends:
    def __del__(self):
        interrupt()

def work(command, rest):
    if command == "doctor":
        os.register_at_fork(after_in_parent=interrupt)
        if os.fork() == 0:
            os._exit(0)
    else:
        Ends()
    print("went on")
    time.sleep(20)

cli._run = work
sys.exit(cli.main([sys.argv[1]]))
"""


@pytest.mark.parametrize("command", ["doctor", "models"], ids=["while it forks", "in a destructor"])
def test_ctrl_c_ends_a_command(command: str) -> None:
    command_line = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT, command]
    done = subprocess.run(command_line, capture_output=True, text=True, timeout=15, check=False)
    assert (done.returncode, done.stdout) == (130, "went on\n")
    assert done.stderr == f"cross-backend {command}: interrupted.\n"
