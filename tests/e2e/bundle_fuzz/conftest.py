"""The referee of the fuzz tests: what a reader may do with a bundle that was damaged, or made to harm."""

import json
import os
import shutil
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from cross_backend.bundling import find_artifact, open_bundle
from cross_backend.cache import Cache
from cross_backend.errors import ArtifactError, UsageError
from tests.e2e.bundle_fuzz.cases import CASES, LABELS, LIMIT_S, OPENVINO, PORTABLE, XNNPACK, content, manifest, sha256


@pytest.fixture(scope="session")
def sound(linear, cli, tmp_path_factory):
    """A bundle with files, a folder and labels, without loaders, which are not read; not to be changed."""
    folder = tmp_path_factory.mktemp("sound")
    targets = ("xnnpack", "openvino", "portable")
    done = cli("bundle", "linear_regression", "--backends", *targets, "--strict", "--output-dir", folder)
    assert done.returncode == 0, done.stderr
    bundle = folder / "linear_regression"
    shutil.rmtree(bundle / "loaders")
    (bundle / "labels.txt").write_text("".join(f"{label}\n" for label in LABELS))
    row = manifest(bundle)
    row["labels"] = {"path": "labels.txt", "sha256": sha256(bundle / "labels.txt")}
    row["orders"] = {"linux": [XNNPACK, OPENVINO, PORTABLE], "web": [XNNPACK, PORTABLE]}
    row["evidence"] = [
        {
            "platform": "web",
            "machine": {"cpu": "A processor", "arch": "arm64", "system": "web", "digest": "0123456789abcdef"},
            "place": "ssh://pi",
            "date": "2026-11-27T10:00:00Z",
            "threads": 1,
            "targets": 3,
            "order": [PORTABLE, XNNPACK],
            "rows": [{"name": PORTABLE, "rank": 1, "ratio": 1.0, "low": 1.0, "high": 1.0, "median_ms": 0.5}],
        }
    ]
    (bundle / "manifest.json").write_text(json.dumps(row, indent=2))
    return bundle


@pytest.fixture
def bundle(sound, tmp_path):
    """A copy of it that a test may damage."""
    return Path(shutil.copytree(sound, tmp_path / "bundle"))


@pytest.fixture(params=[0.1, pytest.param(1.0, marks=pytest.mark.slow)], ids=["a tenth", "all"])
def count(request):
    """Give how many cases a loop has."""
    return lambda name: round(CASES[name] * request.param)


class Watch:
    """Notes, by Python's audit events, what is written outside the folder that a reader may write to."""

    CHANGES = frozenset({"open", "os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink",
                         "os.truncate", "os.utime", "shutil.rmtree"})  # fmt: skip
    WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

    def __init__(self):
        self.allowed, self.outside, self.others = None, [], set()
        sys.addaudithook(self.hear)

    def hear(self, event, given):
        if self.allowed is None or event not in self.CHANGES or threading.get_ident() in self.others:
            return
        if event == "open" and (not isinstance(given[2], int) or not given[2] & self.WRITING):
            return
        for path in given[: 2 if event in {"os.rename", "os.link", "os.symlink"} else 1]:
            if not isinstance(path, str | os.PathLike) or "__pycache__" in os.fspath(path):
                continue  # a descriptor was opened before, and imports compile
            if event in {"os.remove", "os.rmdir"} and given[1] != -1:
                continue  # in a folder whose own removal was heard of
            if not self._place(event, Path(path)).is_relative_to(self.allowed):
                self.outside.append((event, path))

    @staticmethod
    def _place(event, path):
        """What is changed: a link itself, where it is deleted, and what it leads to, where it is opened."""
        return path.parent.resolve() / path.name if event == "os.remove" else path.resolve()

    @contextmanager
    def over(self, allowed):
        """Check that nothing is written outside a folder in the block."""
        # Threads that run already are not the reader's: those of a server of other tests, say.
        self.others = {one.ident for one in threading.enumerate()} - {threading.get_ident()}
        self.allowed, self.outside = allowed.resolve(), []
        try:
            yield
        finally:
            self.allowed = None
        assert self.outside == []


@pytest.fixture(scope="session")
def watch():
    return Watch()


@pytest.fixture
def examine(sound, watch, tmp_path, monkeypatch):
    """Read a bundle as far as any reader may before a runtime sees a byte; give the complaint, None if it is sound."""
    cache = Cache(tmp_path / "cache")
    payloads = {row["sha256"] for row in manifest(sound)["artifacts"]}
    (tmp_path / "standing").mkdir()
    monkeypatch.chdir(tmp_path / "standing")

    def read(path):
        started = time.monotonic()
        with watch.over(cache.root):
            try:
                found = open_bundle(path, cache)
                for artifact in found.artifacts:
                    find_artifact(artifact.payload_path).check()
                complaint = None
            except (ArtifactError, UsageError) as error:
                complaint = str(error)
        assert time.monotonic() - started < LIMIT_S
        if complaint is None:
            for artifact in found.artifacts:
                assert artifact.payload_path.resolve().parent == found.folder.resolve()
                assert sha256(artifact.payload_path) in payloads, "what passes is what was made"
            assert content(found.folder / "sample") == content(sound / "sample") and found.labels in {LABELS, ()}
            return None
        assert complaint.isprintable() and 20 < len(complaint) < 1000, "one clear line"
        return complaint

    yield read
    assert list((tmp_path / "standing").iterdir()) == []
    assert not cache.root.exists() or list((cache.root / "tmp").iterdir()) == [], "no scratch is left"
