"""Pages: large files are read into memory of their own, small ones are mapped; both have the bytes of the file."""

from __future__ import annotations

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
    monkeypatch.setattr(pages, "has_large_pages", lambda: True)
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
    monkeypatch.setattr(pages, "has_large_pages", lambda: True)
    path = tmp_path / "some"
    path.write_bytes(b"before")
    found = pages.file_bytes(path)
    with path.open("r+b") as file:
        file.write(b"after!")
    assert bytes(found) == b"before"


def test_a_file_that_becomes_shorter_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, fstat = tmp_path / "some", os.fstat
    path.write_bytes(bytes(1 << 20))

    def cut(number: int) -> os.stat_result:
        """Let somebody cut the file behind the look at its size."""
        found = fstat(number)
        os.truncate(path, 60)
        return found

    monkeypatch.setattr(pages, "MAPPED", 0)
    monkeypatch.setattr(pages, "has_large_pages", lambda: True)
    monkeypatch.setattr(os, "fstat", cut)
    with pytest.raises(OSError, match="some became shorter while it was read"):
        pages.file_bytes(path)


@pytest.mark.parametrize("setting", ["always madvise [never]", None])
def test_without_large_pages_files_are_mapped_and_memory_is_zeros(
    setting: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = tmp_path / "enabled"
    if setting is not None:
        said.write_text(setting)
    monkeypatch.setattr(pages, "_SETTING", said)
    monkeypatch.setattr(pages, "MAPPED", 0)
    pages.has_large_pages.cache_clear()
    try:
        assert not pages.has_large_pages()
        monkeypatch.setattr(pages, "new_pages", None)  # what is mapped needs none
        assert bytes(pages.file_bytes(said if setting else Path(__file__)))
    finally:
        pages.has_large_pages.cache_clear()


def test_memory_is_zeros() -> None:
    for size in (1, 4097, pages.LARGE + 1):
        assert bytes(pages.new_pages(size)) == bytes(size)
