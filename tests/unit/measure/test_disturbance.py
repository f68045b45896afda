"""Disturbance: causes by name and number, nothing where the system does not tell, and load that is really there."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest

from cross_backend.measure.disturbance import Snapshot, causes

BEFORE = Snapshot(
    at_s=100.0,
    total_s=1000.0,
    busy_s=300.0,
    own_s=50.0,
    steal_s=10.0,
    frequency_mhz=3000.0,
    throttles=2,
    limited_s=1.0,
    memory_stall_s=5.0,
    swapped_bytes=1 << 30,
    free_memory=0.5,
)
AFTER = replace(BEFORE, at_s=110.0, total_s=1040.0, busy_s=310.0, own_s=60.0)
"""Ten seconds on four processors: one was busy, with our own work."""


def told(usable: int = 4, threads: int = 1, **changes: float | None) -> str:
    after = replace(AFTER, **changes)
    return "; ".join(causes(BEFORE, after, usable_cpus=usable, threads=threads))


def test_a_quiet_machine_says_nothing() -> None:
    assert told() == ""


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"steal_s": 12.8}, "steal: the hypervisor took 7% of the processor time"),
        ({"busy_s": 325.0}, "load: other processes used 1.5 of the machine's 4 processors on average"),
        ({"limited_s": 3.2}, "quota: the container's processor limit kept it waiting for 2.2 s"),
        ({"throttles": 5}, "heat: the processor slowed itself down 3 times"),
        ({"frequency_mhz": 2400.0}, "frequency: the processor went from 3.00 to 2.40 GHz"),
        ({"memory_stall_s": 6.0}, "memory: tasks waited for memory 10% of the time"),
        ({"swapped_bytes": (1 << 30) + (64 << 20)}, "swap: 64 MiB went to or came from the swap space"),
        ({"free_memory": 0.021}, "memory: only 2.1% of it was free"),
        ({"usable": 1}, "too few cores: a target of threads=1 and the driver share 1 processor"),
        ({"threads": 4}, "too few cores: a target of threads=4 and the driver share 4 processors"),
    ],
)
def test_each_cause_has_its_name_and_number(changes: dict[str, float], text: str) -> None:
    assert told(**changes).startswith(text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"steal_s": 10.3},
        {"busy_s": 311.0},
        {"frequency_mhz": 3100.0},
        {"memory_stall_s": 5.05},
        {"swapped_bytes": (1 << 30) + 4096},
        {"threads": 3},
        {"steal_s": 0.0, "limited_s": 0.0, "throttles": 0},
    ],
)
def test_little_is_not_told(changes: dict[str, float]) -> None:
    """Nor a counter that was started anew."""
    assert told(**changes) == ""  # type: ignore[arg-type]


def test_where_the_system_does_not_tell_nothing_is_said() -> None:
    unknown = dict.fromkeys(
        ("steal_s", "frequency_mhz", "throttles", "limited_s", "memory_stall_s", "swapped_bytes", "free_memory")
    )
    assert causes(replace(BEFORE, **unknown), AFTER, usable_cpus=4) == ()
    assert causes(BEFORE, replace(AFTER, **unknown), usable_cpus=4) == ()


def test_several_causes_are_all_told() -> None:
    assert told(steal_s=20.0, threads=4, free_memory=0.01).count(";") == 2


def burn(seconds: float) -> list[str]:
    return [sys.executable, "-c", f"import time\nend = time.time() + {seconds}\nwhile time.time() < end: pass"]


def test_our_own_work_is_not_somebody_elses() -> None:
    """A child that computes is ours while it lives and after it has ended."""
    before = Snapshot.take()
    with subprocess.Popen(burn(600.0)) as child:
        spent = 0.0
        while spent < 0.3:  # however busy the machine is
            time.sleep(0.1)
            spent = sum(psutil.Process(child.pid).cpu_times()[:2])
        during = Snapshot.take()
        child.kill()
    after = Snapshot.take()
    assert during.own_s - before.own_s > 0.5 * spent
    assert after.own_s - before.own_s > during.own_s - before.own_s - 0.05
    assert after.busy_s - before.busy_s >= 0.5 * (after.own_s - before.own_s)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps no orphans: a child's child stays ours")
def test_load_of_others_is_seen() -> None:
    """The grandchild is nobody's child once its parent has ended."""
    start = f"import subprocess, sys; subprocess.Popen({burn(2.6)!r}, start_new_session=True)"
    subprocess.run([sys.executable, "-c", start], check=True)
    before = Snapshot.take()
    time.sleep(2.0)
    found = causes(before, Snapshot.take(), usable_cpus=1)
    assert any(text.startswith("load: other processes used") for text in found), found


def test_a_snapshot_of_this_machine_is_sane() -> None:
    first = Snapshot.take()
    second = Snapshot.take()
    assert second.at_s >= first.at_s and second.total_s >= first.total_s >= first.busy_s > 0
    assert first.free_memory is not None and 0 < first.free_memory <= 1
    assert first.frequency_mhz is None or 100 < first.frequency_mhz < 10_000
    if sys.platform == "linux":
        assert first.steal_s is not None and first.steal_s >= 0
