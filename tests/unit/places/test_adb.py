"""The adb place: what the real adb says up to the cable, and beyond it a device that speaks adb's protocol."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cross_backend.errors import PlaceError
from cross_backend.places import adb, shell
from cross_backend.places.adb import AdbPlace
from cross_backend.places.address import parse
from tests.adb_device import Device, adb_server
from tests.needs import program


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    program("adb")
    with adb_server(tmp_path_factory.mktemp("adb")) as variables:
        yield variables


@pytest.fixture(autouse=True)
def surroundings(server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in server.items():
        monkeypatch.setenv(name, value)
    yield
    told("disconnect")


@pytest.fixture
def device() -> Iterator[Device]:
    with contextlib.closing(Device()) as found:
        found.is_android()
        yield found


@pytest.fixture
def place(device: Device) -> Iterator[AdbPlace]:
    with AdbPlace(parse(f"adb:{device.serial}")) as found:
        yield found


def told(*words: str) -> str:
    """Run adb itself."""
    return subprocess.run([program("adb"), *words], capture_output=True, text=True, check=False, timeout=60).stdout


def until(holds: Callable[[], bool]) -> bool:
    """Wait until something holds, a minute at most."""
    end = time.monotonic() + 60
    while not holds() and time.monotonic() < end:
        time.sleep(0.05)
    return holds()


def refused(address: str) -> str:
    with pytest.raises(PlaceError) as caught, AdbPlace(parse(address)):
        pass
    text = str(caught.value)
    assert "\n" not in text and "\x1b" not in text and len(text) < 600
    return text


def test_no_adb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(adb.VARIABLE, "/nowhere/adb")
    assert "sudo apt-get install adb" in refused("adb:")


def test_no_device() -> None:
    assert "no device is connected. Connect a phone by USB" in refused("adb:")
    assert "no device is connected" in refused("adb:R58M123")


def test_an_address_where_nothing_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert "does not answer" in (text := refused(f"adb:127.0.0.1:{port}"))
    assert "Connection refused" in text and "Turn on wireless debugging" in text


def test_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANDROID_ADB_SERVER_PORT")
    monkeypatch.setenv("ADB_SERVER_SOCKET", "tcp:127.0.0.1:1")
    assert "Run: adb kill-server, then adb start-server" in refused("adb:")


def test_an_unknown_serial_and_several_devices(device: Device) -> None:
    with contextlib.closing(Device()) as other:
        told("connect", device.serial)
        assert refused("adb:R58M123").endswith(f"is not connected. Connected: {device.serial}.")
        told("connect", other.serial)
        assert "2 devices are connected: " in (text := refused("adb:"))
        assert device.serial in text and other.serial in text and "Name one: adb:SERIAL" in text


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("unauthorized", "accept 'Allow USB debugging'"),
        pytest.param("offline", "adb reconnect offline", marks=pytest.mark.slow),  # adb waits for 10 s
    ],
)
def test_a_device_that_does_not_talk(state: str, words: str) -> None:
    with contextlib.closing(Device(state)) as found:
        assert words in refused(f"adb:{found.serial}")


def test_a_device_that_is_too_old() -> None:
    with contextlib.closing(Device(features="cmd")) as found:
        assert "older than Android 7" in refused(f"adb:{found.serial}")


def test_the_only_device_needs_no_name(device: Device) -> None:
    told("connect", device.serial)
    with AdbPlace(parse("adb:")) as place:
        assert place.serial == device.serial and place.name == "adb:"
    assert device.serial in told("devices"), "who connected it keeps it"


def test_the_phone_says_what_it_is(place: AdbPlace) -> None:
    wanted = {
        "system": "Android",
        "release": "14",
        "cpu": "Google Tensor G3 (Google Pixel 8)",
    }
    assert {key: place.facts[key] for key in wanted} == wanted
    assert place.facts["architecture"] == os.uname().machine and place.facts["free_kib"].isdecimal()


def test_what_is_no_android_says_what_uname_says(device: Device) -> None:
    device.has("getprop", "exit 127")
    with AdbPlace(parse(f"adb:{device.serial}")) as place:
        assert place.facts["system"] == os.uname().sysname and place.facts["architecture"] == os.uname().machine


NAMES = ("plain.pte", "a b.bin", "quote'd.bin", 'double".bin', "$(touch x).bin", "ü.bin", "-rf", "*.bin", "in/side/x")


def test_files_go_there_under_any_name_and_are_gone_at_the_end(device: Device, tmp_path: Path) -> None:
    files = {}
    for number, name in enumerate(NAMES):
        files[name] = tmp_path / f"{number}"
        files[name].write_bytes(f"{name}{tmp_path}".encode() * 1000)
    with AdbPlace(parse(f"adb:{device.serial}")) as place:
        folder = Path(place.push(files))
        assert {one.relative_to(folder).as_posix() for one in folder.rglob("*") if one.is_file()} == set(NAMES)
        assert all((folder / name).read_bytes() == path.read_bytes() for name, path in files.items())
        pushed = place.pushed_bytes
        assert place.push(files) == str(folder) and place.pushed_bytes == pushed
        (Path(place.scratch) / "left").write_text("by a program")
    assert device.files == []
    assert device.serial not in told("devices"), "this connection was ours"


def test_two_at_once_leave_each_others_files(place: AdbPlace, device: Device, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x")
    folder = Path(place.push({"x": tmp_path / "x"}))
    with AdbPlace(parse(f"adb:{device.serial}")) as other:
        other.push({"x": tmp_path / "x"})
    assert (folder / "x").read_bytes() == b"x" and place.run("echo here\n") == "here\n"


def test_what_a_switched_off_phone_kept_is_deleted(device: Device) -> None:
    kept = device.folder / "tmp" / "cross-backend" / "0123"
    kept.mkdir(parents=True)
    (kept / "holder").write_text("999999999\n")
    with AdbPlace(parse(f"adb:{device.serial}")):
        assert not kept.exists()


def test_a_file_comes_back_and_a_longer_one_does_not(place: AdbPlace, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(range(256)) * 1000)
    there = f"{place.push({'x': tmp_path / 'x'})}/x"
    place.pull(there, tmp_path / "back", 1 << 20)
    assert (tmp_path / "back").read_bytes() == (tmp_path / "x").read_bytes()
    with pytest.raises(PlaceError, match="more than 1,000 bytes"):
        place.pull(there, tmp_path / "back", 1000)
    with pytest.raises(PlaceError, match="No such file"):
        place.pull(f"{there}y", tmp_path / "back", 1000)


def test_what_cannot_be_written_is_one_line(place: AdbPlace, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x")
    with pytest.raises(PlaceError, match="No such file"):
        place.send(tmp_path / "x", f"{place.root}/no/folder/x")


def test_programs_have_their_streams_variables_and_status(place: AdbPlace, tmp_path: Path) -> None:
    command = ["sh", "-c", 'read -r x; echo "$x $A"; cat; echo said >&2; exit 3']
    process = place.start(tmp_path / "log", command, {"A": "b c'd"})
    given = b"~.\n\x03\x04\r\n" + bytes(range(256)) * 1000
    out, _ = process.communicate(b"hello\n" + given, timeout=60)
    assert out == b"hello b c'd\n" + given, "no terminal changes a byte"
    assert process.returncode == 3 and (tmp_path / "log").read_text() == "said\n"


def test_a_script_that_fails_or_never_ends_its_words(place: AdbPlace) -> None:
    assert place.run("printf 'a\\nb'\n") == "a\nb"
    with pytest.raises(PlaceError, match=r"failed \(.*oops \\x1b\[2J"):
        place.run("printf 'oops \\033[2J\\n' >&2; exit 7\n")
    with pytest.raises(PlaceError, match=f"more than {shell.LONGEST_ANSWER:,} bytes"):
        place.run("yes\n")


@pytest.mark.parametrize("after", ["cable", "server"])
def test_a_connection_that_breaks_ends_all_and_leaves_nothing(after: str, device: Device, tmp_path: Path) -> None:
    with AdbPlace(parse(f"adb:{device.serial}")) as place:
        process = place.start(tmp_path / "log", ["cat"])
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"x\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"x\n" and place.lost() is None
        if after == "cable":
            device.unplug()
        else:
            told("kill-server")
        assert process.wait(60) is not None and until(lambda: place.lost() is not None)
        assert "broke" in str(place.lost())
        assert until(lambda: not device.files), "the phone deletes what is ours by itself"
        with pytest.raises(PlaceError):
            place.run("true\n")
        process.stdin.close()
        process.stdout.close()


def test_what_a_broken_connection_cut_off_is_no_answer(place: AdbPlace, device: Device) -> None:
    """The program adb itself ends with status 0 then."""
    threading.Timer(1, device.unplug).start()
    with pytest.raises(PlaceError, match="broke"):
        place.run("echo half; sleep 60; echo whole\n")


def test_a_far_side_that_lies(device: Device) -> None:
    device.is_android({"ro.build.version.release": "14\x1b[2J" * 100, "ro.product.model": "\u202ex"})
    with AdbPlace(parse(f"adb:{device.serial}")) as place:
        assert place.facts["release"].isprintable() and len(place.facts["release"]) <= 80
        assert place.facts["cpu"].isprintable()
    device.has("find", "yes root=/x")
    assert f"more than {shell.LONGEST_ANSWER:,} bytes" in refused(f"adb:{device.serial}")
    device.has("mkdir", "echo no >&2; exit 1")
    assert "cannot be reached (no)" in refused(f"adb:{device.serial}")


DUMPSYS = {
    "thermalservice": "IsStatusOverride: false\nThermal Status: 2\nCached temperatures:",
    "battery": "Current Battery Service state:\n  AC powered: false\n  USB powered: true\n  level: 80\n  scale: 100\n"
    "  temperature: 281",
    "display": "  mScreenState=OFF",
    "power": "  mWakefulness=Asleep",
}


def test_its_condition(place: AdbPlace, device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = "".join(f"{name}) printf '{text}\\n' ;;\n" for name, text in DUMPSYS.items())
    device.has("dumpsys", f'case "$1" in\n{cases}esac')
    found = place.condition()
    assert found is not None
    assert (found.thermal_status, found.battery_c, found.battery_percent) == (2, 28.1, 80)
    assert found.plugged is True and found.screen_on is False
    device.has("dumpsys", "echo Segmentation fault; exit 139")
    found = place.condition()
    assert found is not None and found.thermal_status is None and found.battery_c is None and found.screen_on is None
    device.has("dumpsys", "yes")
    monkeypatch.setattr(adb, "CONDITION_S", 1.0)
    found = place.condition()
    assert found is not None and found.battery_percent is None
