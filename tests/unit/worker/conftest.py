"""What the workers' tests share: a worker, and models that hang, print, crash or read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cross_backend.program.captures import Capture
from cross_backend.worker.process import Worker

MODEL = """
import os, subprocess, sys, tempfile, time
import torch
net = torch.nn.Linear(4, 2), (torch.ones(1, 4),)
def hang():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open(os.path.join(os.path.dirname(__file__), "temporary"), "w") as file:
        file.write(tempfile.mkdtemp())
    with open(os.path.join(os.path.dirname(__file__), "pids"), "w") as file:
        file.write(f"{os.getpid()} {child.pid}")
    time.sleep(600)
def chatty():
    print("printed", flush=True)
    os.write(1, b"written to the descriptor\\n")
    os.system("echo from a child")
    print("to stderr", file=sys.stderr)
    return net
def abort():
    print("the last words\\nframe #29: a_symbol + 0x1b (in lib.so)", file=sys.stderr, flush=True)
    os.abort()
def leave():
    os._exit(7)
def greedy():
    return sys.stdin.read(), net
"""


@pytest.fixture
def model(tmp_path: Path) -> Callable[[str], Capture]:
    """Give a function that asks to capture one of the models above."""
    (tmp_path / "model.py").write_text(MODEL)
    return lambda name: Capture(f"{tmp_path}/model.py:{name}", None, None, tmp_path / "cache")


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    with Worker(tmp_path / "logs" / "worker.log") as found:
        yield found
