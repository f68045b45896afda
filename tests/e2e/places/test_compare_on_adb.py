"""``compare --on adb:``: the real adb and the real runner, on a device that speaks adb's protocol and is no phone."""

import contextlib
import os

import pytest

from tests.adb_device import Device, adb_server

MODEL = "linear_regression"
QUICK = ("--num-runs", "60", "--seconds", "1", "--launches", "1", "--json")
DUMPSYS = """
case "$1" in
  thermalservice)
    looks=$(($(cat looks 2>/dev/null) + 1)); echo $looks > looks
    case $looks in 10|11|12) echo "Thermal Status: 1" ;; *) echo "Thermal Status: 0" ;; esac ;;
  battery) printf '  USB powered: true\\n  level: 80\\n  scale: 100\\n  temperature: 281\\n' ;;
  display) echo "mScreenState=ON" ;;
esac
"""
"""It is hot after the ninth round, and cool again at the third look from there."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The variables of an adb server of its own."""
    with adb_server(tmp_path_factory.mktemp("adb")) as found:
        yield {"ANDROID_ADB_SERVER_PORT": found["ANDROID_ADB_SERVER_PORT"]}


@pytest.fixture
def phone():
    """A device that says that it is a phone."""
    with contextlib.closing(Device()) as found:
        found.is_android()
        found.has("dumpsys", DUMPSYS)
        yield found


@pytest.fixture
def compared(cli, document, toolchains, server, linear):
    """Run the command; give its document."""

    def run(phone, *args):
        command = ("compare", MODEL, "--backends", "portable", "mps", "--on", f"adb:{phone.serial}", *QUICK, *args)
        return document(cli(*command, CROSS_BACKEND_TOOLCHAINS=toolchains, **server))

    return run


@pytest.mark.slow
def test_a_phone_has_its_panel_and_keeps_nothing(compared, phone):
    found = compared(phone, "--skip-throttled")
    (panel,) = found["panels"]
    assert panel["place"] == f"adb:{phone.serial}" and panel["lost"] is None
    machine = panel["machine"]
    assert (machine["cpu"], machine["system"], machine["release"]) == (
        "Google Tensor G3 (Google Pixel 8)",
        "android",
        "14",
    )
    rows = {row["target"]: row for row in found["results"]}
    assert rows["executorch.portable"]["outcome"] == "OK" and rows["executorch.portable"]["latency_ms"]["n"] >= 6
    assert rows["executorch.mps"]["outcome"] == "UNAVAILABLE"
    heat = "heat: the device throttled in 1 of 30 rounds (thermal status 1, light); these rounds do not count"
    assert heat in panel["warnings"] and panel["settings"]["skip_throttled"] is True
    assert any("pauses of" in text for text in panel["warnings"]), "two looks, two seconds apart"
    assert phone.files == []


@pytest.mark.slow
def test_what_is_no_android_is_a_linux_machine(compared, phone):
    phone.has("getprop", "exit 127")
    (panel,) = compared(phone)["panels"]
    assert panel["machine"]["system"] == "linux" and panel["machine"]["release"] == os.uname().release


@pytest.mark.slow
def test_a_cable_that_is_pulled_keeps_what_was_measured(start, streams, until, toolchains, server, linear, phone):
    command = ("compare", MODEL, "--backends", "portable", "--on", f"adb:{phone.serial}", "--launches", "3", "--json")
    process = start(
        *command, "--seconds", "60", "--num-runs", "100000000", CROSS_BACKEND_TOOLCHAINS=toolchains, **server
    )
    until(lambda: sum("--serve" in command for command in phone.running) >= 3, "both are open there", of=process)
    phone.unplug()
    until(lambda: process.poll() is not None, "the command ends", seconds=60)
    assert process.returncode == 1 and "broke" in streams()[0] + streams()[1]
    until(lambda: not phone.files, "nothing of ours is there", seconds=40)


@pytest.mark.parametrize(
    ("args", "words"),
    [((), "cross-backend toolchain add runner-android"), (("--via", "python"), "Leave --via out")],
)
def test_what_a_phone_needs_is_one_line(args, words, cli, complaint, server, phone, tmp_path):
    command = ("compare", MODEL, "--backends", "portable", "--on", f"adb:{phone.serial}", *args)
    complaint(cli(*command, CROSS_BACKEND_TOOLCHAINS=str(tmp_path), **server), 1, words)
    assert phone.files == []
