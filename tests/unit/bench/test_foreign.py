"""Foreign files: who reads them is what a backend declares, whoever wrote the backend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from cross_backend.bench.foreign import bundled_format, bundled_formats, describe, reader_of
from cross_backend.errors import UnsupportedError
from cross_backend.registry import backends

PLUGIN = """
from cross_backend.backend import BundledPrograms, ForeignFiles
from cross_backend.backends.null import Null
def nothing(*args):
    raise NotImplementedError
class Mine(Null.__base__):
    name, title, suffix, distributions = "mine.fast", "Mine", ".mine", ()
    missing, lower, load = Null.missing, Null.lower, Null.load
    foreign = ForeignFiles(".mine", nothing)
    bundled = BundledPrograms(".mines", lambda head: head.startswith(b"MINE"), nothing, nothing)
"""
ASK = """
import sys
from pathlib import Path
from cross_backend.bench.foreign import bundled_format, reader_of
print(reader_of(Path("x.mine")).name, bundled_format(Path(sys.argv[1])).suffix)
"""


def test_one_backend_reads_an_ending() -> None:
    endings = Counter(one.foreign.suffix for one in backends() if one.foreign)
    assert set(endings) == {".onnx", ".pte", ".tflite"} and set(endings.values()) == {1}
    for ending in endings:
        reader = reader_of(Path(f"x{ending}"))
        assert reader is not None and reader.suffix == ending


def test_what_nobody_reads_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"x\.null cannot be read without its manifest"):
        describe(tmp_path / "x.null")


@pytest.mark.parametrize("content", [b"", b"BP", b"\0\0\0\0BPxx", b"\0\0\0\0ET12 and more"])
def test_what_begins_otherwise_is_no_bundled_program(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.bpte").write_bytes(content)
    assert bundled_format(tmp_path / "x.bpte") is None
    assert bundled_format(tmp_path) is None and bundled_format(tmp_path / "absent") is None


def test_a_bundled_program_is_known_by_its_first_bytes_whatever_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "x.pte").write_bytes(b"\0\0\0\0BP99")
    (kind,) = bundled_formats()
    assert bundled_format(tmp_path / "x.pte") is kind
    assert (kind.suffix, bundled_formats()[kind]) == (".bpte", ".pte")


def test_another_package_brings_files_of_its_own(tmp_path: Path, run_python: Callable[..., str]) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN)
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[cross_backend.backends]\nmine.fast = mine:Mine\n")
    (tmp_path / "file").write_bytes(b"MINE, all mine")
    assert run_python(ASK, str(tmp_path / "file"), path=tmp_path).split() == ["mine.fast", ".mines"]
