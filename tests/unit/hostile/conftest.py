"""The referee of hostile files: no crash, no wait, nothing written elsewhere, no memory kept, and one clear line."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from atalla.errors import AtallaError
from cross_backend.errors import CrossBackendError, StudyFileError
from tests.e2e.bundle_fuzz.conftest import Watch
from tests.unit.hostile import makers
from tests.unit.test_foreign_text import is_clean

LIMIT_S = 20.0
"""Of one file, on a busy machine; typical ones take milliseconds."""
GROWTH_BYTES = 256 << 20
"""What reading may leave in memory after thousands of files: caches of libraries, and pieces that malloc keeps."""
SLOW = 4000
"""Most files of a kind of which each takes ten milliseconds."""
WARM = 50
"""Files after which everything is imported."""
LONGEST = 3000
"""Characters of a line."""
Read = Callable[[Path], object]
Survive = Callable[[makers.Maker, Read, int], int]


@pytest.fixture(
    params=[
        100,
        pytest.param(1000, marks=pytest.mark.slow),
        pytest.param(10_000, marks=pytest.mark.nightly),
    ]
)
def count(request: pytest.FixtureRequest) -> int:
    """How many files of a kind."""
    return int(request.param)


@pytest.fixture(scope="session")
def watch() -> Watch:
    return Watch()


@pytest.fixture
def survive(
    tmp_path: Path, watch: Watch, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Survive:
    """Give a function that makes hostile files, reads each, and gives how many were refused."""
    folder, process = tmp_path / "hostile", psutil.Process()

    def run(make: makers.Maker, read_one: Read, count: int) -> int:
        refused, before = 0, 0
        for seed in range(count):
            path = make(random.Random(seed), _emptied(folder))
            started = time.monotonic()
            with watch.over(folder):
                try:
                    read_one(path)
                except (CrossBackendError, AtallaError) as error:
                    refused += 1
                    said = error.lines if isinstance(error, StudyFileError) else [str(error)]
                    assert all(line.isprintable() and line.strip() for line in said), (seed, said)
                    assert all(len(line) < LONGEST for line in said), (seed, said)
                except Exception as error:
                    pytest.fail(f"seed {seed}: {type(error).__name__}: {error!r:.500}")
            assert time.monotonic() - started < LIMIT_S, seed
            shown = capsys.readouterr()
            assert is_clean(shown.out) and is_clean(shown.err), seed
            before = process.memory_info().rss if seed == WARM else before
        assert process.memory_info().rss - before < GROWTH_BYTES or count <= WARM
        return refused

    monkeypatch.setattr("cross_backend.tensors.MAX_DRAWN", 1 << 16)
    return run


def _emptied(folder: Path) -> Path:
    """Return an empty folder; making and deleting one for each file takes longer than most files."""
    folder.mkdir(exist_ok=True)
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    return folder
