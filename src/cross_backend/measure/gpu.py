"""What the drivers of GPUs tell about a process: the devices it works on, the memory it holds there, their energy."""

from __future__ import annotations

import contextlib
import io
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from cross_backend.errors import UnavailableError, one_line


class Driver(ABC):
    """A vendor's management library, opened."""

    name: ClassVar[str]
    """How messages call it."""

    _devices: list[Any]

    def count(self) -> int:
        """Return the number of GPUs; they are called 0, 1, and so on."""
        return len(self._devices)

    @abstractmethod
    def memory_of(self, pid: int) -> dict[int, int | None]:
        """Return the GPUs on which a process works → bytes that it holds there, None where the driver hides them.

        Inside a container the driver may know processes by other numbers than we do: then nothing is found.
        """

    @abstractmethod
    def energy_j(self, device: int) -> float | None:
        """Return the joules that a GPU has used since some instant in the past; None where it does not count them."""

    @abstractmethod
    def power_w(self, device: int) -> float:
        """Return the power of a GPU now."""


class Nvml(Driver):
    """NVIDIA's: the package ``nvidia-ml-py`` over the library that comes with the driver."""

    name = "NVML"

    def __init__(self) -> None:
        try:
            import pynvml
        except ImportError:
            raise UnavailableError("NVML is not installed", "pip install nvidia-ml-py") from None
        self._nvml: Any = pynvml
        try:
            pynvml.nvmlInit()
            self._devices = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        except pynvml.NVMLError as error:
            raise UnavailableError(f"no NVIDIA driver ({error})") from error

    def memory_of(self, pid: int) -> dict[int, int | None]:
        found: dict[int, int | None] = {}
        for index, device in enumerate(self._devices):
            for process in self._nvml.nvmlDeviceGetComputeRunningProcesses(device):
                if process.pid == pid:
                    found[index] = process.usedGpuMemory
        return found

    def energy_j(self, device: int) -> float | None:
        try:
            return float(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._devices[device])) / 1e3
        except self._nvml.NVMLError:  # before Volta, and on some virtual GPUs
            return None

    def power_w(self, device: int) -> float:
        return float(self._nvml.nvmlDeviceGetPowerUsage(self._devices[device])) / 1e3


class AmdSmi(Driver):
    """AMD's: the package ``amdsmi`` that comes with ROCm."""

    name = "amdsmi"

    def __init__(self) -> None:
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # it prints where it looked for its library
                import amdsmi
        except ImportError:
            raise UnavailableError("amdsmi is not installed", "install ROCm's amdsmi") from None
        except Exception as error:
            raise UnavailableError(f"amdsmi finds no library of ROCm ({one_line(error)})") from error
        self._smi: Any = amdsmi
        try:
            amdsmi.amdsmi_init()
            self._devices = list(amdsmi.amdsmi_get_processor_handles())
        except amdsmi.AmdSmiException as error:
            raise UnavailableError(f"no AMD driver ({one_line(error)})") from error

    def memory_of(self, pid: int) -> dict[int, int | None]:
        found: dict[int, int | None] = {}
        for index, device in enumerate(self._devices):
            for process in self._smi.amdsmi_get_gpu_process_list(device):
                if process["pid"] == pid:
                    found[index] = int(process["memory_usage"]["vram_mem"])
        return found

    def energy_j(self, device: int) -> float | None:
        try:
            row = self._smi.amdsmi_get_energy_count(self._devices[device])
        except self._smi.AmdSmiException:
            return None
        return float(row["energy_accumulator"]) * float(row["counter_resolution"]) / 1e6  # resolution: µJ a count

    def power_w(self, device: int) -> float:
        row = self._smi.amdsmi_get_power_info(self._devices[device])
        for key in ("current_socket_power", "socket_power", "average_socket_power"):  # which one depends on the GPU
            if isinstance(row.get(key), int | float):
                return float(row[key])
        raise UnavailableError("amdsmi reports no power of this GPU")


def drivers() -> tuple[list[Driver], list[str]]:
    """Open the libraries that are here; return them, and why the others are not."""
    opened: list[Driver] = []
    reasons = []
    for kind in (Nvml, AmdSmi):
        try:
            driver = kind()
        except UnavailableError as error:
            reasons.append(error.reason)
            continue
        if driver.count():
            opened.append(driver)
        else:
            reasons.append(f"{driver.name} knows no GPU")
    return opened, reasons


def memory_of(pid: int) -> int:
    """Return the bytes that a process holds on all GPUs together.

    Raises:
        UnavailableError: no driver reports it, with the reason.
    """
    opened, reasons = drivers()
    for driver in opened:
        try:
            held = driver.memory_of(pid)
        except Exception as error:
            reasons.append(f"{driver.name} failed: {one_line(error)}")
            continue
        if held and None not in held.values():
            return sum(value for value in held.values() if value is not None)
        reasons.append(
            f"{driver.name} hides how much"
            if held
            else f"{driver.name} knows of no work of this process (it uses no GPU, or a container hides its number)"
        )
    raise UnavailableError(f"not measurable here: {', '.join(reasons)}")
