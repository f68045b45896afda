"""MNN's executable stack: which files ask for one, and which C libraries refuse it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cross_backend.backends.mnn._stack import refusal, wants_stack
from cross_backend.machine import Machine
from cross_backend.registry import find_backend
from tests.compiled import compiled


@pytest.mark.parametrize(("option", "wanted"), [("execstack", True), ("noexecstack", False)])
def test_it_is_read_from_the_program_header(option: str, *, wanted: bool) -> None:
    command = ["cc", "-shared", "-fPIC", f"-Wl,-z,{option}", "one.c", "-o", "one.so"]
    folder = compiled(command, {"one.c": "int one;\n"}, {})
    assert wants_stack(folder / "one.so") is wanted


@pytest.mark.parametrize("size", [0, 63, 64])
def test_a_file_that_ends_early_asks_for_none(size: int, tmp_path: Path) -> None:
    path = tmp_path / "short.so"
    path.write_bytes((b"\x7fELF\x02\x01".ljust(32, b"\0") + (64).to_bytes(8, "little")).ljust(64, b"\xff")[:size])
    assert not wants_stack(path)


@pytest.mark.parametrize(
    ("library", "tunables", "refused"),
    [
        ("glibc 2.36", "", False),
        ("glibc 2.41", "", True),
        ("glibc 2.41", "glibc.malloc.check=1", True),
        ("glibc 2.43.9000", "glibc.rtld.execstack=1", True),
        ("glibc 2.41", "glibc.malloc.check=1:glibc.rtld.execstack=2", False),
        ("glibc 3.0", "", True),
        ("", "", False),
    ],
)
def test_newer_libraries_refuse_it_unless_they_are_told(library: str, tunables: str, *, refused: bool) -> None:
    found = refusal(library, tunables)
    assert (found is not None) is refused
    if found is not None:
        assert f"executable stack, which {library} refuses" in found.reason
        assert "GLIBC_TUNABLES=glibc.rtld.execstack=2" in found.remedy


@pytest.mark.parametrize(("library", "refused"), [("glibc 2.36", False), ("glibc 2.41", True)])
def test_the_backend_is_unavailable_then(library: str, monkeypatch: pytest.MonkeyPatch, *, refused: bool) -> None:
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    monkeypatch.setattr(os, "confstr", lambda name: {"CS_GNU_LIBC_VERSION": library}[name])
    missing = find_backend("mnn").missing(Machine.here())
    assert (missing is not None) is refused
    assert missing is None or ("executable stack" in str(missing.lower) and missing.lower == missing.run)
