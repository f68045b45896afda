"""Pages: large files are read into memory of their own, small ones are mapped; both have the bytes of the file."""

from __future__ import annotations

import io
import mmap
import os
from pathlib import Path

import pytest

import atalla
from atalla.run import pages
from tests.atalla.test_compile import compiled, same


@pytest.fixture(params=[0, pages.MAPPED], ids=["read", "mapped"])
def most_mapped(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Let files be read, or mapped."""
    monkeypatch.setattr(pages, "MAPPED", request.param)
    return int(request.param)


@pytest.mark.usefixtures("most_mapped")
def test_a_file_is_not_written_and_has_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "some"
    path.write_bytes(bytes(range(256)) * 40)
    found = pages.file_bytes(path)
    assert isinstance(found, mmap.mmap) and bytes(found) == path.read_bytes()
    found[:4] = b"gone"
    assert path.read_bytes()[:4] == bytes(range(4))


@pytest.mark.usefixtures("most_mapped")
def test_an_empty_file_is_no_blob(tmp_path: Path) -> None:
    path = tmp_path / "empty.atalla"
    path.touch()
    with pytest.raises(atalla.AtallaError):
        atalla.load(path)


@pytest.mark.usefixtures("most_mapped")
def test_a_blob_runs_from_either(tmp_path: Path) -> None:
    made, inputs, wanted = compiled("mlp")
    path = tmp_path / "mlp.atalla"
    path.write_bytes(made.data)
    same(atalla.load(path).run(inputs), wanted, 2e-5)


def test_a_large_file_that_changes_is_what_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MAPPED", 0)
    path = tmp_path / "some"
    path.write_bytes(b"before")
    found = pages.file_bytes(path)
    with path.open("r+b") as file:
        file.write(b"after!")
    assert bytes(found) == b"before"


def test_a_file_that_becomes_shorter_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "some"
    path.write_bytes(bytes(100))

    class Shorter(io.FileIO):
        def readinto(self, room: memoryview) -> int:  # type: ignore[override]
            os.truncate(path, 60)
            return super().readinto(room[:50])

    monkeypatch.setattr(pages, "MAPPED", 0)
    monkeypatch.setattr(Path, "open", lambda self, *_, **__: Shorter(self))
    with pytest.raises(OSError, match="some became shorter while it was read"):
        pages.file_bytes(path)


@pytest.mark.parametrize("asks", [True, False])
def test_memory_is_zeros(asks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_CAN_ASK", asks and pages._CAN_ASK)
    for size in (1, 4097, pages.LARGE + 1):
        assert bytes(pages.new_pages(size)) == bytes(size)
