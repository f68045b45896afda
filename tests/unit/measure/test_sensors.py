"""Sensors: read from trees of files as Linux' documentation of powercap, hwmon and power_supply shows them."""

from __future__ import annotations

import plistlib
from pathlib import Path

import pytest

from cross_backend.errors import UnavailableError
from cross_backend.measure.power import find_probe
from cross_backend.measure.sensors import Battery, Hwmon, PowerMetrics, Rapl, combined_power_w

RANGE_UJ = 262_143_328_850
"""Of the counters of Intel's processors; it is full after an hour at 73 W."""


def write(folder: Path, **files: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (folder / name).write_text(f"{value}\n")
    return folder


def zone(root: Path, number: str, name: str, energy_uj: int) -> Path:
    return write(root / f"intel-rapl:{number}", name=name, energy_uj=energy_uj, max_energy_range_uj=RANGE_UJ)


def test_rapl_adds_packages_and_memory_and_nothing_twice(tmp_path: Path) -> None:
    package = zone(tmp_path, "0", "package-0", 5_000_000)
    core = zone(tmp_path, "0:0", "core", 4_000_000)
    memory = zone(tmp_path, "0:1", "dram", 1_000_000)
    whole = zone(tmp_path, "1", "psys", 9_000_000)
    second_way = zone(tmp_path, "9", "package-0", 7_000_000).rename(tmp_path / "intel-rapl-mmio:0")
    probe = Rapl(tmp_path)
    before = probe.read()
    for folder, step_uj in ((package, 2_500_000), (core, 2_000_000), (memory, 500_000), (whole, 8), (second_way, 9)):
        write(folder, energy_uj=int((folder / "energy_uj").read_text()) + step_uj)
    assert probe.counts_energy
    assert probe.read() - before == pytest.approx(3.0), "joules: 2.5 of the package and 0.5 of its memory"
    assert probe.covers == "CPU, dram + package-0 (RAPL)"


def test_rapls_counter_wraps_around(tmp_path: Path) -> None:
    package = zone(tmp_path, "0", "package-0", RANGE_UJ - 1_000_000)
    probe = Rapl(tmp_path)
    before = probe.read()
    readings = []
    for energy_uj in (RANGE_UJ - 500_000, 500_000, 2_000_000, 1_000_000):
        write(package, energy_uj=energy_uj)
        readings.append(probe.read() - before)
    assert readings[:3] == pytest.approx([0.5, 1.5, 3.0])
    assert readings[3] == pytest.approx(3.0 + RANGE_UJ / 1e6 - 1.0), "and a second time"


def test_rapl_that_tells_nothing_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="no RAPL counter"):
        Rapl(tmp_path / "none")
    write(tmp_path / "intel-rapl:0", name="package-0", max_energy_range_uj=RANGE_UJ, energy_uj="")
    with pytest.raises(UnavailableError, match="cannot be read"):
        Rapl(tmp_path)


def test_hwmon_takes_the_machines_meter_before_the_processors_and_no_other(tmp_path: Path) -> None:
    write(tmp_path / "hwmon0", name="nvme", temp1_input=40_000)
    write(tmp_path / "hwmon1", name="amdgpu", power1_average=90_000_000)
    with pytest.raises(UnavailableError, match="amdgpu, nvme"):
        Hwmon(tmp_path)
    write(tmp_path / "hwmon2", name="fam15h_power", power1_input=35_500_000)
    assert (Hwmon(tmp_path).read(), Hwmon(tmp_path).covers) == (35.5, "CPU (fam15h_power, hwmon)")
    write(tmp_path / "hwmon3", name="power_meter", power1_average=180_250_000)
    assert (Hwmon(tmp_path).read(), Hwmon(tmp_path).counts_energy) == (180.25, False)


@pytest.mark.parametrize(
    "files",
    [{"power_now": 12_500_000}, {"power_now": -12_500_000}, {"current_now": 1_000_000, "voltage_now": 12_500_000}],
)
def test_a_battery_tells_power_or_current(tmp_path: Path, files: dict[str, int]) -> None:
    write(tmp_path / "AC", type="Mains", online=0)
    write(tmp_path / "mouse", type="Battery", scope="Device", status="Discharging", power_now=1)
    battery = write(tmp_path / "BAT0", type="Battery", status="Discharging", **files)
    probe = Battery(tmp_path)
    assert probe.read() == pytest.approx(12.5)
    write(battery, status="Charging")
    with pytest.raises(UnavailableError, match="not discharging; unplug"):
        probe.read()


def test_no_battery(tmp_path: Path) -> None:
    write(tmp_path / "mouse", type="Battery", scope="Device", status="Discharging", power_now=1)
    with pytest.raises(UnavailableError, match="no battery"):
        Battery(tmp_path)


def test_powermetrics_is_read_in_milliwatts() -> None:
    apple = plistlib.dumps({"processor": {"cpu_power": 3_000.0, "gpu_power": 250.0, "combined_power": 3_250.0}})
    intel = plistlib.dumps({"processor": {"package_watts": 14.5}})
    assert combined_power_w(apple + b"\0") == 3.25  # samples of its stream end with a zero
    assert combined_power_w(intel) == 14.5
    with pytest.raises(UnavailableError, match="no power"):
        combined_power_w(plistlib.dumps({"processor": {}}))


def test_powermetrics_needs_macos_and_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="no powermetrics"):
        PowerMetrics()


def test_the_processors_counter_comes_before_the_machines_meter(tmp_path: Path) -> None:
    write(tmp_path / "hwmon" / "hwmon0", name="power_meter", power1_average=180_000_000)
    assert isinstance(find_probe(1, tmp_path), Hwmon)
    zone(tmp_path / "powercap", "0", "package-0", 1)
    assert isinstance(find_probe(1, tmp_path), Rapl)


def test_where_there_is_nothing_every_reason_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match=r"^not measurable here: ") as caught:
        find_probe(1, tmp_path)
    for said in (f"no RAPL counter ({tmp_path}/powercap)", "no power sensor", "no battery", "no powermetrics"):
        assert said in str(caught.value)
    assert "NVIDIA" in str(caught.value) or "NVML" in str(caught.value)
    assert "\n" not in str(caught.value)
