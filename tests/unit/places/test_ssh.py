"""The ssh place: files by digest, programs, reasons of failures, and a hostile far side."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cross_backend.cache import Cache
from cross_backend.errors import PlaceError
from cross_backend.places import shell, ssh
from cross_backend.places.address import parse
from cross_backend.places.python import prepare
from cross_backend.places.ssh import SshPlace
from cross_backend.worker.process import Worker
from tests.ssh_server import Server, server


@pytest.fixture(scope="module")
def far() -> Iterator[Server]:
    with server() as found:
        yield found


@pytest.fixture
def place(far: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshPlace]:
    monkeypatch.setenv(ssh.VARIABLE, far.command)
    with SshPlace(parse("ssh://there")) as found:
        yield found


NAMES = ("plain.pte", "a b.bin", "quote'd.bin", 'double".bin', "$(touch x).bin", "ü.bin", "-rf", "*.bin", "in/side/x")


@pytest.mark.slow
def test_files_go_there_once_under_any_name(place: SshPlace, tmp_path: Path) -> None:
    files = {}
    for number, name in enumerate(NAMES):
        files[name] = tmp_path / f"{number}"
        files[name].write_bytes(f"{name}{tmp_path}".encode() * 1000)
    before = place.pushed_bytes
    folder = Path(place.push(files))
    assert {one.relative_to(folder).as_posix() for one in folder.rglob("*") if one.is_file()} == set(NAMES)
    for name, path in files.items():
        assert (folder / name).read_bytes() == path.read_bytes()
    pushed = place.pushed_bytes - before
    assert pushed == sum(path.stat().st_size for path in files.values())
    assert place.push(files) == str(folder) and place.pushed_bytes - before == pushed
    with SshPlace(parse("ssh://there")) as again:
        assert again.push(files) == str(folder) and again.pushed_bytes == 0


def test_what_arrives_damaged_is_refused(place: SshPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(b"right" + str(tmp_path).encode())
    (tmp_path / "other").write_bytes(b"wrong")
    send = SshPlace.send
    monkeypatch.setattr(SshPlace, "send", lambda self, _here, there: send(self, tmp_path / "other", there))
    with pytest.raises(PlaceError, match="holds another file than was sent"):
        place.push({"x": tmp_path / "x"})
    monkeypatch.setattr(SshPlace, "send", send)
    assert Path(place.push({"x": tmp_path / "x"}), "x").read_bytes().startswith(b"right")


def test_a_full_disk_is_told_before_anything_is_sent(place: SshPlace, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x" * 1000 + str(tmp_path).encode())
    place._facts["free_kib"] = "100"
    with pytest.raises(PlaceError, match=r"has no space: .* are to go to .*Delete files there"):
        place.push({"x": tmp_path / "x"})


def test_a_file_comes_back_and_a_longer_one_does_not(place: SshPlace, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(range(256)) * 100)
    there = f"{place.push({'x': tmp_path / 'x'})}/x"
    place.pull(there, tmp_path / "back", 1 << 20)
    assert (tmp_path / "back").read_bytes() == (tmp_path / "x").read_bytes()
    with pytest.raises(PlaceError, match="more than 1,000 bytes"):
        place.pull(there, tmp_path / "back", 1000)
    with pytest.raises(PlaceError, match="No such file"):
        place.pull(f"{there}y", tmp_path / "back", 1000)


def test_programs_have_their_streams_and_variables(place: SshPlace, tmp_path: Path) -> None:
    command = ["sh", "-c", 'read -r x; echo "$x $A"; echo said >&2']
    process = place.start(tmp_path / "log", command, {"A": "b c'd"})
    out, _ = process.communicate(b"hello\n", timeout=30)
    assert out == b"hello b c'd\n" and (tmp_path / "log").read_text() == "said\n"


def test_the_scratch_folder_is_gone_at_the_end(far: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ssh.VARIABLE, far.command)
    with SshPlace(parse("ssh://there")) as place:
        assert Path(place.scratch).is_dir() and place.lost() is None
    assert not Path(place.scratch).exists()


def _refused(address: str = "ssh://there") -> str:
    with pytest.raises(PlaceError) as caught, SshPlace(parse(address)):
        pass
    text = str(caught.value)
    assert "\n" not in text and "\x1b" not in text and len(text) < 600
    return text


def test_keys_that_do_not_fit(far: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ssh.VARIABLE, f"{far.command} -o IdentityFile={tmp_path / 'none'}")
    config = (far.folder / "config").read_text()
    (tmp_path / "config").write_text(config.replace(str(far.folder / "key"), str(tmp_path / "none")))
    monkeypatch.setenv(ssh.VARIABLE, f"ssh -F {tmp_path / 'config'}")
    assert "refused your key" in _refused() and "ssh-copy-id there" in _refused()
    (tmp_path / "config").write_text(config.replace(str(far.folder / "known"), str(tmp_path / "none")))
    assert "host key is not known here" in _refused()
    other = (far.folder / "known").read_text().replace((far.folder / "host.pub").read_text().split()[1], KEY)
    (tmp_path / "changed").write_text(other)
    (tmp_path / "config").write_text(config.replace(str(far.folder / "known"), str(tmp_path / "changed")))
    assert "host key changed" in _refused()


KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
"""Of nobody."""


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 3", "cannot be reached (no answer)"),
        ("printf '\\033[2J\\033]0;x\\007 oops\\n' >&2; exit 255", "oops"),
        ("yes | head -c 3000000", "cannot be reached"),
        ("echo connected; cat > /dev/null; ", "cannot make its folder"),
    ],
)
def test_a_far_side_that_lies(script: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "ssh"
    fake.write_text(f"#!/bin/sh\ncase \"$*\" in *-M*) {script} ;; *) printf 'root=x\\033[2J\\n' ;; esac\n")
    fake.chmod(0o755)
    monkeypatch.setenv(ssh.VARIABLE, str(fake))
    assert words in _refused()


def test_an_answer_without_end_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "ssh"
    fake.write_text('#!/bin/sh\ncase "$*" in *-M*) echo connected; cat ;; *) yes root=/x ;; esac\n')
    fake.chmod(0o755)
    monkeypatch.setenv(ssh.VARIABLE, str(fake))
    began = time.monotonic()
    assert f"more than {shell.LONGEST_ANSWER:,} bytes" in _refused()
    assert time.monotonic() - began < 60


def test_a_root_that_is_hostile_is_only_ever_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The far side names a folder: the name goes back to it, and into no path of ours."""
    fake = tmp_path / "ssh"
    fake.write_text(
        '#!/bin/sh\ncase "$*" in *-M*) echo connected; cat ;; '
        f"*) cat >> {tmp_path}/heard; echo \"root=/x'; touch {tmp_path}/owned; '\" ;; esac\n"
    )
    fake.chmod(0o755)
    monkeypatch.setenv(ssh.VARIABLE, str(fake))
    (tmp_path / "x").write_bytes(b"x")
    with SshPlace(parse("ssh://there")) as place:
        place.push({"x": tmp_path / "x"})
    assert not (tmp_path / "owned").exists()
    assert "'\"'\"'" in (tmp_path / "heard").read_text()


@pytest.mark.parametrize("python", ["/bin/false", "/nowhere", "echo"])
def test_no_python_there(python: str, place: SshPlace, cache: Cache) -> None:
    with pytest.raises(PlaceError, match=r"has no usable Python .*--via runner"):
        prepare(place, python, cache)


@pytest.mark.parametrize(
    ("told", "words"),
    [("[[3, 9], []]", "has Python 3.9; 3.11 or newer is needed"), ('[[3, 12], ["psutil"]]', "pip install psutil")],
)
def test_a_python_that_does_not_do(told: str, words: str, place: SshPlace, cache: Cache, tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text(f"#!/bin/sh\necho '{told}'\n")
    python.chmod(0o755)
    with pytest.raises(PlaceError) as caught:
        prepare(place, str(python), cache)
    assert words in str(caught.value)


@pytest.mark.slow
def test_a_worker_that_hears_nothing_ends_itself(
    place: SshPlace, cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection stands, and nobody speaks: as where a machine sleeps in mid-round."""
    monkeypatch.setattr("cross_backend.places.python.LEASE_S", 2.0)
    elsewhere = prepare(place, sys.executable, cache)
    with Worker(tmp_path / "log", sys.executable, elsewhere=elsewhere) as worker:
        worker._write(b"")
        time.sleep(1)
        assert worker.alive
        end = time.monotonic() + 30
        monkeypatch.setattr(worker, "_write", lambda _line: None)
        while worker.alive and time.monotonic() < end:
            time.sleep(0.1)
        assert not worker.alive


def test_what_is_configured_for_sessions_of_ones_own_does_not_count(
    far: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = (far.folder / "config").read_text()
    more = (
        f"  RemoteCommand sleep 100\n  RequestTTY force\n  LocalForward 1 127.0.0.1:1\n  ControlPath {tmp_path}/own\n"
    )
    (tmp_path / "config").write_text(f"{config}{more}  ControlMaster auto\n  ControlPersist yes\n")
    monkeypatch.setenv(ssh.VARIABLE, f"ssh -F {tmp_path / 'config'}")
    with SshPlace(parse("ssh://there")) as place:
        assert place.run("echo whole\n") == "whole\n"
    assert not (tmp_path / "own").exists()
