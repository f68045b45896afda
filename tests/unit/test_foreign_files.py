"""Foreign files: pipes, devices and sockets are refused wherever a file is read, and nothing waits for them."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cross_backend.artifact import Artifact, digest_path
from cross_backend.bundling import Bundle, find_artifact, open_bundle
from cross_backend.bundling.write import write_bundle
from cross_backend.cache import Cache
from cross_backend.errors import ArtifactError, CaptureError, UsageError
from cross_backend.foreign_files import open_regular, read_regular
from cross_backend.loading.order import in_order
from cross_backend.program.captured import Captured
from cross_backend.store import Store
from cross_backend.tensors import load_tensors

MakeArtifact = Callable[..., Artifact]
DIGESTS = {"sha256": "net_null.null", "sample_sha256": "net_null.npz"}
NOTHING = hashlib.sha256().hexdigest()
"""What a pipe would have for a digest if it were read as an empty file."""


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        before = Path.cwd()
        os.chdir(path.parent)  # names of sockets are short
        try:
            one.bind(path.name)
        finally:
            os.chdir(before)


KINDS = {"a pipe": pipe, "a device": device, "a socket": listening, "a folder": Path.mkdir}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def refused(read: Callable[[], object], kind: str) -> str:
    """Give what is said; the read ends at once."""
    said: list[str] = []

    def call() -> None:
        try:
            read()
        except (ArtifactError, UsageError, CaptureError) as error:
            said.append(str(error))

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive(), "it waits"
    assert len(said) == 1 and kind in said[0] and said[0].isprintable(), said
    return said[0]


def test_a_file_is_opened_and_its_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100)
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link") == b"x" * 100
    assert read_regular(tmp_path / "file", 100) == b"x" * 100
    with pytest.raises(ArtifactError, match="is longer than 0 MiB"):
        read_regular(tmp_path / "file", 99)
    for absent in ("absent", "file/absent", "lin\0k"):
        with pytest.raises(ArtifactError, match=r"does not exist\.|cannot be read: .*embedded null (byte|character)"):
            open_regular(tmp_path / absent)


def test_what_is_no_file_is_said_to_be_none(kind: str, tmp_path: Path) -> None:
    KINDS[kind](tmp_path / "x.npz")
    assert refused(lambda: open_regular(tmp_path / "x.npz"), kind) == f"{tmp_path / 'x.npz'} is {kind}, not a file."
    if kind != "a folder":  # whose files are read
        refused(lambda: load_tensors(tmp_path / "x.npz"), kind)
        refused(lambda: digest_path(tmp_path / "x.npz"), kind)
        refused(lambda: digest_path(tmp_path), kind)
        refused(lambda: Store.open(str(tmp_path / "x.npz")), "is a pipe, a device or a socket")


def test_what_is_swapped_while_it_is_opened_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    before = (tmp_path / "file").stat()
    monkeypatch.setattr(Path, "stat", lambda _: before)
    refused(lambda: open_regular(tmp_path / "pipe"), "a pipe")


@pytest.fixture
def bundle(linear: Captured, make_artifact: MakeArtifact, tmp_path: Path) -> Path:
    """A sound bundle with labels."""
    place = write_bundle(linear, [(make_artifact(), "one", "One", {"tolerance": 1e-4})], {}, {}, tmp_path)
    (place / "labels.txt").write_text("a\n")
    row = json.loads((place / "manifest.json").read_text())
    row["labels"] = {"path": "labels.txt", "sha256": digest_path(place / "labels.txt")}
    (place / "manifest.json").write_text(json.dumps(row))
    Bundle.read(place).artifacts[0].check()
    return place


@pytest.mark.parametrize("what", ["labels", "payload", "sample", "manifest"])
def test_in_a_bundle(what: str, kind: str, bundle: Path) -> None:
    """The stranger's manifest names the digest of nothing, which is what such a file would have."""
    row = json.loads((bundle / "manifest.json").read_text())
    path = {
        "labels": bundle / "labels.txt",
        "payload": bundle / row["artifacts"][0]["path"],
        "sample": bundle / row["sample"]["inputs"][0]["path"],
        "manifest": bundle / "manifest.json",
    }[what]
    row["labels"]["sha256"] = NOTHING if what == "labels" else row["labels"]["sha256"]
    if what == "payload":
        row["artifacts"][0]["sha256"] = NOTHING
    (bundle / "manifest.json").write_text(json.dumps(row))
    path.unlink()
    KINDS[kind](path)

    def read() -> None:
        for artifact in Bundle.read(bundle).artifacts:
            artifact.check()
            load_tensors(bundle / "sample")

    is_other = kind == "a folder" and what in {"payload", "sample"}  # a payload may be one; what it holds is judged
    if not is_other:
        refused(read, kind)


@pytest.mark.parametrize("name", ["net_null.json", "net_null.null", "net_null.npz"])
def test_beside_an_artifact(name: str, kind: str, tmp_path: Path, make_artifact: MakeArtifact) -> None:
    make_artifact(**{key: NOTHING for key, of in DIGESTS.items() if of == name})
    (tmp_path / name).unlink()
    KINDS[kind](tmp_path / name)
    if kind == "a folder" and name != "net_null.json":
        return  # a payload may be one, and the digest is right
    refused(lambda: find_artifact(tmp_path / "net_null.json").check(), kind)
    if name == "net_null.json":
        rejected = in_order(tmp_path, None, None, Cache(tmp_path / "cache")).rejected
        assert [kind in row.reason for row in rejected] == [True]


def test_as_a_bundle(kind: str, tmp_path: Path) -> None:
    KINDS[kind](tmp_path / "b.zip")
    if kind != "a folder":
        refused(lambda: open_bundle(tmp_path / "b.zip", Cache(tmp_path / "cache")), kind)


def test_a_manifest_of_gigabytes_is_not_parsed(tmp_path: Path, make_artifact: MakeArtifact) -> None:
    make_artifact()
    with (tmp_path / "net_null.json").open("ab") as file:
        file.truncate(64 << 30)  # sparse: it takes no room
    with pytest.raises(ArtifactError, match=r"net_null\.json is longer than 16 MiB"):
        Artifact.read(tmp_path / "net_null.json")
    with pytest.raises(ArtifactError, match="holds no artifacts"):
        in_order(tmp_path, None, None, Cache(tmp_path / "cache"))
