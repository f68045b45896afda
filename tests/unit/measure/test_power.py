"""Power: energy between two instants, from a counter that runs and from a meter; a failing one gives no figure."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cross_backend.errors import RunError
from cross_backend.measure.power import Recorder
from cross_backend.measure.sensors import Hwmon, Rapl

WATTS = 20.0
RANGE_UJ = 6_000_000
"""So that the counter wraps around every 0.3 s."""


@pytest.fixture
def running_rapl(tmp_path: Path) -> Iterator[Path]:
    """Give a tree with a counter of 20 W that something writes every few milliseconds, as the kernel would show it."""
    folder = tmp_path / "intel-rapl:0"
    folder.mkdir()
    (folder / "name").write_text("package-0\n")
    (folder / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")
    stop, began = threading.Event(), time.perf_counter()

    def tick() -> None:
        energy_uj = int((time.perf_counter() - began) * WATTS * 1e6) % RANGE_UJ
        (folder / "new").write_text(f"{energy_uj}\n")
        (folder / "new").rename(folder / "energy_uj")

    def keep_ticking() -> None:
        while not stop.wait(0.005):
            tick()

    tick()
    thread = threading.Thread(target=keep_ticking)
    thread.start()
    yield tmp_path
    stop.set()
    thread.join()


def test_a_counter_gives_the_energy_of_any_stretch(running_rapl: Path) -> None:
    with Recorder(Rapl(running_rapl), interval_s=0.02) as recorder:
        time.sleep(0.1)
        began = time.perf_counter_ns()
        time.sleep(0.8)
        ended = time.perf_counter_ns()
        time.sleep(0.1)
    seconds = (ended - began) / 1e9
    assert recorder.joules(began, ended) == pytest.approx(WATTS * seconds, rel=0.1)
    half = (began + ended) // 2
    parts = recorder.joules(began, half), recorder.joules(half, ended)
    assert sum(parts) == pytest.approx(recorder.joules(began, ended))
    assert parts[0] == pytest.approx(WATTS * seconds / 2, rel=0.2)
    assert recorder.joules(began, began) == 0


def test_a_meter_is_integrated(tmp_path: Path) -> None:
    chip = tmp_path / "hwmon0"
    chip.mkdir()
    (chip / "name").write_text("power_meter\n")
    power = chip / "power1_average"
    power.write_text("10000000\n")
    with Recorder(Hwmon(tmp_path), interval_s=0.01) as recorder:
        began = time.perf_counter_ns()
        time.sleep(0.3)
        middle = time.perf_counter_ns()
        (chip / "new").write_text("30000000\n")
        (chip / "new").rename(power)
        time.sleep(0.3)
        ended = time.perf_counter_ns()
    expected = 10 * (middle - began) / 1e9 + 30 * (ended - middle) / 1e9
    assert recorder.joules(began, ended) == pytest.approx(expected, rel=0.15)


def test_a_sensor_that_goes_away_gives_no_figure(tmp_path: Path) -> None:
    chip = tmp_path / "hwmon0"
    chip.mkdir()
    (chip / "name").write_text("power_meter\n")
    (chip / "power1_average").write_text("10000000\n")
    with Recorder(Hwmon(tmp_path), interval_s=0.01) as recorder:
        began = time.perf_counter_ns()
        time.sleep(0.05)
        (chip / "power1_average").unlink()
        ended = time.perf_counter_ns()
        time.sleep(0.05)
        (chip / "power1_average").write_text("10000000\n")
    with pytest.raises(RunError, match=r"machine \(power_meter, hwmon\) could not be read: FileNotFoundError"):
        recorder.joules(began, ended)


def test_a_stretch_that_was_not_watched_gives_no_figure(running_rapl: Path) -> None:
    before = time.perf_counter_ns()
    with Recorder(Rapl(running_rapl)) as recorder:
        inside = time.perf_counter_ns()
    for stretch in ((before, inside), (inside, time.perf_counter_ns())):
        with pytest.raises(RunError, match="not read from before"):
            recorder.joules(*stretch)
