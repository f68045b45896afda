"""Runtime: what happens where the C kernels were not built, are broken, or belong to another version."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import atalla
from atalla import build, library
from atalla.run import runtime
from tests import needs
from tests.atalla.test_compile import compiled, same


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Forget the library that was opened, before and after."""
    library.library.cache_clear()
    runtime._warn_once.cache_clear()
    monkeypatch.delenv("ATALLA_LIBRARY", raising=False)
    yield monkeypatch
    library.library.cache_clear()
    runtime._warn_once.cache_clear()


def test_without_kernels_the_reference_runs_and_says_so_once(elsewhere: pytest.MonkeyPatch) -> None:
    elsewhere.setattr(library, "LIBRARY", "never_built.so")
    made, inputs, wanted = compiled("mlp")
    with pytest.warns(atalla.ReferenceWarning, match=r"never_built\.so.*python -m atalla\.build") as told:
        loaded = atalla.load(made.data)
    assert len(told) == 1 and Path(told[0].filename) == Path(__file__)
    assert loaded.isa == "reference"
    same(loaded.run(inputs), wanted, 2e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert atalla.load(made.data).isa == "reference"
        assert atalla.load(made.data, isa="reference").isa == "reference"
    with pytest.raises(atalla.KernelError, match=r"not there .*python -m atalla\.build"):
        atalla.load(made.data, isa="base")


def test_a_library_that_was_named_has_to_be_there(elsewhere: pytest.MonkeyPatch, tmp_path: Path) -> None:
    elsewhere.setenv("ATALLA_LIBRARY", str(tmp_path / "gone.so"))
    with pytest.raises(atalla.KernelError, match=r"gone\.so"):
        atalla.load(compiled("mlp")[0].data)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (None, "the C kernels are broken"),
        ("int other(void) { return 0; }", "the C kernels are broken.*atalla_version"),
        (
            "unsigned atalla_version(void) { return 99; } void atalla_isa(void) {} void atalla_times(void) {}",
            "version 99 of the ABI; this package needs 3",
        ),
    ],
    ids=["no library", "another library", "another version"],
)
def test_a_broken_library_is_an_error_not_a_slow_run(
    elsewhere: pytest.MonkeyPatch, tmp_path: Path, source: str | None, told: str
) -> None:
    path = tmp_path / "kernels.so"
    if source is None:
        path.write_bytes(b"\x7fELF and nothing else")
    else:
        (tmp_path / "kernels.c").write_text(source)
        compiler = needs.program("cc")
        subprocess.run([compiler, "-shared", "-fPIC", str(tmp_path / "kernels.c"), "-o", str(path)], check=True)
    elsewhere.setenv("ATALLA_LIBRARY", str(path))
    with pytest.raises(atalla.KernelError, match=told):
        atalla.load(compiled("mlp")[0].data)


def test_the_reference_runs_sound_blobs_only() -> None:
    data = bytearray(compiled("mlp")[0].data)
    data[len(data) // 8] ^= 1  # not of the weights, whose checksum is looked at on request only
    with pytest.raises(atalla.BlobError):
        atalla.load(bytes(data), isa="reference")


@pytest.mark.parametrize(("said", "found", "first"), [("clang -m64", None, "clang"), ("", "/usr/bin/cc", "cc")])
def test_the_compiler_is_what_is_said_or_the_systems(
    monkeypatch: pytest.MonkeyPatch, said: str, found: str | None, first: str
) -> None:
    monkeypatch.setenv("CC", said)
    monkeypatch.setattr(build.shutil, "which", lambda name: found)
    assert build._compiler()[0] == first


def test_without_a_compiler_the_one_of_pip_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda name: name == "ziglang")
    assert build._compiler() == [sys.executable, "-m", "ziglang", "cc"]
