"""Sensors: the counters of energy and the meters of power that a machine may have, one class each."""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from cross_backend.errors import UnavailableError, one_line
from cross_backend.measure.gpu import Driver

SYS_CLASS = Path("/sys/class")
"""Where Linux shows its devices."""


class Probe(ABC):
    """Something that counts energy, or reports power; building it fails where it is not there."""

    covers: str
    """What part of the machine it is about, and where the figure comes from."""
    counts_energy: bool = True
    """Whether :meth:`read` returns joules since some instant, or watts."""

    @abstractmethod
    def read(self) -> float:
        """Return joules or watts.

        Raises:
            Exception: it is gone, or reports nothing now.
        """


class GpuProbe(Probe):
    """The GPUs on which a process works, as their driver reports them."""

    def __init__(self, driver: Driver, devices: list[int]) -> None:
        if not devices:
            raise UnavailableError(f"{driver.name} knows of no work of this process")
        self._driver, self._devices = driver, devices
        self.counts_energy = all(driver.energy_j(device) is not None for device in devices)
        self.covers = f"GPU {', '.join(map(str, devices))} ({driver.name})"

    def read(self) -> float:
        if not self.counts_energy:
            return sum(self._driver.power_w(device) for device in self._devices)
        return sum(self._driver.energy_j(device) or 0.0 for device in self._devices)


class _Counter:
    """A file with µJ that begins again at 0 after a maximum."""

    def __init__(self, path: Path, maximum_uj: int) -> None:
        self._path, self._maximum_uj = path, maximum_uj
        self._last_uj = int(path.read_text())
        self._total_uj = self._last_uj

    def joules(self) -> float:
        now_uj = int(self._path.read_text())
        step_uj = now_uj - self._last_uj
        if step_uj < 0:
            step_uj += self._maximum_uj
        self._last_uj = now_uj
        self._total_uj += step_uj
        return self._total_uj / 1e6


class Rapl(Probe):
    """Running Average Power Limit of Intel's and AMD's processors through Linux' powercap (docs.kernel.org/power)."""

    def __init__(self, root: Path = SYS_CLASS / "powercap") -> None:
        zones = {zone: _text(zone / "name") for zone in sorted(root.glob("intel-rapl:*"))}
        # core and uncore lie inside package; psys counts package again; intel-rapl-mmio is a second way to package.
        chosen = [zone for zone, name in zones.items() if name.startswith("package") or name == "dram"]
        if not chosen:
            raise UnavailableError(f"no RAPL counter ({root})")
        try:
            self._counters = [
                _Counter(zone / "energy_uj", int((zone / "max_energy_range_uj").read_text())) for zone in chosen
            ]
        except PermissionError:
            raise UnavailableError(f"RAPL's counters may only be read by root ({chosen[0] / 'energy_uj'})") from None
        except (OSError, ValueError) as error:
            raise UnavailableError(f"RAPL's counters cannot be read ({one_line(error)})") from error
        self.covers = f"CPU, {' + '.join(sorted({zones[zone] for zone in chosen}))} (RAPL)"

    def read(self) -> float:
        return sum(counter.joules() for counter in self._counters)


class Hwmon(Probe):
    """A sensor of the whole machine or of its processors among Linux' hardware monitors."""

    counts_energy = False
    _CHIPS: ClassVar[Mapping[str, str]] = {"power_meter": "machine", "fam15h_power": "CPU", "zenpower": "CPU"}
    """Driver's name → what its power is of. Others (drives, GPUs, single rails) say nothing about the work."""

    def __init__(self, root: Path = SYS_CLASS / "hwmon") -> None:
        chips = {chip: _text(chip / "name") for chip in sorted(root.glob("hwmon*"))}
        for wanted, part in self._CHIPS.items():
            for chip in (chip for chip, name in chips.items() if name == wanted):
                found = sorted(chip.glob("power*_average")) or sorted(chip.glob("power*_input"))
                if found:
                    self._paths = found
                    self.covers = f"{part} ({wanted}, hwmon)"
                    return
        others = ", ".join(sorted(set(chips.values()))) or "none at all"
        raise UnavailableError(f"no power sensor of the machine among its monitors ({root}: {others})")

    def read(self) -> float:
        return sum(int(path.read_text()) for path in self._paths) / 1e6


class Battery(Probe):
    """What leaves the battery: the whole machine with its screen. Batteries measure slowly, about once a second."""

    counts_energy = False

    def __init__(self, root: Path = SYS_CLASS / "power_supply") -> None:
        supplies = [supply for supply in sorted(root.glob("*")) if _text(supply / "type") == "Battery"]
        found = [supply for supply in supplies if _text(supply / "scope") != "Device"]  # a mouse's, say
        if not found:
            raise UnavailableError(f"no battery ({root})")
        self._supplies = found
        self.covers = "machine (battery)"
        self.read()

    def read(self) -> float:
        watts = 0.0
        for supply in self._supplies:
            if _text(supply / "status") != "Discharging":
                raise UnavailableError("the battery is not discharging", "unplug the charger")
            if (supply / "power_now").is_file():
                watts += abs(int(_text(supply / "power_now"))) / 1e6
            else:  # µA × µV
                watts += abs(int(_text(supply / "current_now"))) * int(_text(supply / "voltage_now")) / 1e12
        return watts


class PowerMetrics(Probe):
    """CPU, GPU and neural engine of Apple's processors, as macOS' own tool reports it to root."""

    counts_energy = False
    covers = "CPU, GPU and neural engine (powermetrics)"

    def __init__(self) -> None:
        if shutil.which("powermetrics") is None:
            raise UnavailableError("no powermetrics (macOS)")
        if os.geteuid() != 0:
            raise UnavailableError("powermetrics needs root", "run it with sudo")
        self.read()

    def read(self) -> float:
        shown = subprocess.run(
            ["powermetrics", "--samplers", "cpu_power", "-i", "100", "-n", "1", "-f", "plist"],
            capture_output=True,
            timeout=30,
            check=True,
        )
        return combined_power_w(shown.stdout)


def combined_power_w(plist: bytes) -> float:
    """Read one sample of powermetrics: milliwatts of the processor's parts together.

    Raises:
        UnavailableError: it names no power (Intel's processors in virtual machines).
    """
    processor = plistlib.loads(plist.strip(b"\0\n")).get("processor", {})
    if "combined_power" in processor:
        return float(processor["combined_power"]) / 1e3
    if "package_watts" in processor:  # Intel
        return float(processor["package_watts"])
    raise UnavailableError("powermetrics reports no power of this processor")


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
