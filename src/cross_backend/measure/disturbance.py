"""Disturbance: what else the machine did while it was measured, told by name of cause and with its number.

Two snapshots, before and after; :func:`causes` compares them. Where the system does not say, nothing is said.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

STEAL_SHARE = 0.01
"""Stolen processor time, as a share of all, from which on it is named."""
OTHERS_SHARE = 0.05
"""Processor time of other processes, as a share of the machine's, from which on it is named."""
FREQUENCY_CHANGE = 0.05
SWITCHES_PER_S = 50.0
"""Involuntary context switches per second of timed work from which on they are named; below ten in all, never."""
STALLED_SHARE = 0.01
"""Share of the time in which some task waited for memory from which on it is named."""
LITTLE_MEMORY = 0.05
"""Share of the memory that is free, below which it is named."""
SWAPPED_BYTES = 1 << 20
THROTTLED_S = 0.01


@dataclass(frozen=True)
class Snapshot:
    """Counters of the machine at one moment; None where the system does not say."""

    at_s: float
    """Monotonic clock."""
    total_s: float
    """Processor time that has passed, all logical processors, idle or not."""
    busy_s: float
    """Part of it that some process used, of this machine only."""
    own_s: float
    """Processor time of this process and its descendants, ended ones included."""
    steal_s: float | None = None
    """Part of it that the hypervisor gave to other machines."""
    frequency_mhz: float | None = None
    """Of the fastest processor now: the one that works."""
    throttles: int | None = None
    """How often the processors have slowed down because they were hot."""
    limited_s: float | None = None
    """Time that the container's processor quota has kept tasks waiting."""
    memory_stall_s: float | None = None
    """Time in which some task waited for memory."""
    swapped_bytes: int | None = None
    """Read from and written to the swap space."""
    free_memory: float | None = None
    """Share of the memory that is available, 0 to 1."""

    @classmethod
    def take(cls, marked: tuple[str, str] | None = None) -> Snapshot:
        """Read the counters now; it costs a few milliseconds.

        Args:
            marked: environment variable and value of the processes that are ours; where None, this process and its
                descendants are.
        """
        import psutil

        times = psutil.cpu_times()
        # What a guest uses is counted in user and nice as well.
        total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        steal = getattr(times, "steal", None)
        idle = times.idle + getattr(times, "iowait", 0.0)
        memory = psutil.virtual_memory()
        return cls(
            at_s=time.monotonic(),
            total_s=total,
            busy_s=total - idle - (steal or 0.0),
            own_s=_own_s(marked),
            steal_s=steal,
            frequency_mhz=_frequency_mhz(),
            throttles=_throttles(),
            limited_s=_limited_s(),
            memory_stall_s=_memory_stall_s(),
            swapped_bytes=_swapped_bytes(),
            free_memory=memory.available / memory.total,
        )


def causes(before: Snapshot, after: Snapshot, *, usable_cpus: int, threads: int = 1) -> tuple[str, ...]:
    """Return what may have disturbed a measurement, one line a cause, the most telling first.

    Args:
        before: at its start.
        after: at its end.
        usable_cpus: logical processors that the targets may use.
        threads: of the target with the most; one more processor is wanted for the driver and the system.
    """
    wall_s = max(after.at_s - before.at_s, 1e-9)
    total_s = max(after.total_s - before.total_s, 1e-9)
    found = []
    stolen = _grown(before.steal_s, after.steal_s) / total_s
    if stolen >= STEAL_SHARE:
        found.append(f"steal: the hypervisor took {stolen:.0%} of the processor time")
    others_s = (after.busy_s - before.busy_s) - (after.own_s - before.own_s)
    if others_s / total_s >= OTHERS_SHARE and wall_s >= 1:  # counters tick every 10 ms
        whole = _processors(round(total_s / wall_s))
        found.append(f"load: other processes used {others_s / wall_s:.1f} of the machine's {whole} on average")
    limited_s = _grown(before.limited_s, after.limited_s)
    if limited_s >= THROTTLED_S:
        found.append(f"quota: the container's processor limit kept it waiting for {limited_s:.1f} s")
    found += _frequency(before, after)
    stalled = _grown(before.memory_stall_s, after.memory_stall_s) / wall_s
    if stalled >= STALLED_SHARE:
        found.append(f"memory: tasks waited for memory {stalled:.0%} of the time")
    swapped = _grown(before.swapped_bytes, after.swapped_bytes)
    if swapped >= SWAPPED_BYTES:
        found.append(f"swap: {swapped / 2**20:.0f} MiB went to or came from the swap space")
    if after.free_memory is not None and after.free_memory < LITTLE_MEMORY:
        found.append(f"memory: only {after.free_memory:.1%} of it was free")
    if usable_cpus <= threads:
        found.append(f"too few cores: a target of threads={threads} and the driver share {_processors(usable_cpus)}")
    return tuple(found)


def _processors(count: int) -> str:
    return f"{count} processor{'s' if count > 1 else ''}"


def _grown(before: float | None, after: float | None) -> float:
    """Return a counter's growth; 0 where it is not reported, or was started again."""
    return 0.0 if before is None or after is None else max(after - before, 0.0)


def _frequency(before: Snapshot, after: Snapshot) -> list[str]:
    found = []
    hot = int(_grown(before.throttles, after.throttles))
    if hot:
        found.append(f"heat: the processor slowed itself down {hot} times")
    first, last = before.frequency_mhz, after.frequency_mhz
    if first and last and abs(last / first - 1) >= FREQUENCY_CHANGE:
        found.append(f"frequency: the processor went from {first / 1000:.2f} to {last / 1000:.2f} GHz")
    return found


def _own_s(marked: tuple[str, str] | None) -> float:
    """Sum over the living; who has ended is counted by its parent."""
    import psutil

    me = psutil.Process()
    ours = [me, *me.children(recursive=True)] if marked is None else filter(_has(marked), psutil.process_iter())
    spent = 0.0
    for process in ours:
        with contextlib.suppress(psutil.Error):
            spent += sum(process.cpu_times()[:4])  # user, system, and those of ended children
    return spent


def _has(marked: tuple[str, str]) -> Callable[[psutil.Process], bool]:
    """Return whether a process has a variable of a value in its environment."""
    import psutil

    def has(process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error, OSError):
            return bool(process.environ().get(marked[0]) == marked[1])
        return False

    return has


def _frequency_mhz() -> float | None:
    import psutil

    try:
        found = [one.current for one in psutil.cpu_freq(percpu=True) or () if one.current]
    except (AttributeError, OSError, NotImplementedError, RuntimeError):  # not on this system
        return None
    return max(found, default=None)


def _throttles() -> int | None:
    """Linux on Intel."""
    found = [
        _number(path) for path in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/thermal_throttle/core_throttle_count")
    ]
    known = [one for one in found if one is not None]
    return sum(known) if known else None


def _limited_s() -> float | None:
    """Linux, control groups version 2 or 1."""
    for folder, key, unit_s in ((_group("0::"), "throttled_usec", 1e-6), (_group("cpu"), "throttled_time", 1e-9)):
        with contextlib.suppress(OSError, ValueError):
            for line in (folder / "cpu.stat").read_text().splitlines():
                name, _, value = line.partition(" ")
                if name == key:
                    return int(value) * unit_s
    return None


def _group(wanted: str) -> Path:
    """Return the folder of this process' control group, or the root's, which is the container's own."""
    root = Path("/sys/fs/cgroup") if wanted == "0::" else Path("/sys/fs/cgroup/cpu")
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            names, path = line.split(":", 2)[1:]
            mine = line.startswith(wanted) if wanted == "0::" else wanted in names.split(",")
            if mine and (root / path.lstrip("/") / "cpu.stat").is_file():
                return root / path.lstrip("/")
    return root


def _memory_stall_s() -> float | None:
    """Linux with pressure stall information."""
    with contextlib.suppress(OSError, ValueError):
        first = Path("/proc/pressure/memory").read_text().splitlines()[0]
        return int(first.rpartition("total=")[2]) / 1e6
    return None


def _swapped_bytes() -> int | None:
    import psutil

    with warnings.catch_warnings(), contextlib.suppress(OSError, RuntimeError):
        warnings.simplefilter("ignore")  # says in words what we take as "not told"
        swap = psutil.swap_memory()
        return int(swap.sin + swap.sout)
    return None


def _number(path: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text())
    return None
