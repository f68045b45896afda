"""Energy of a sequence: read from a tree of files as Linux shows it, or a reason why not."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from cross_backend.generation.energy import Meter

JOULES = 5.0


def test_the_joules_of_work_are_counted(tmp_path: Path) -> None:
    zone = tmp_path / "powercap" / "intel-rapl:0"
    zone.mkdir(parents=True)
    (zone / "name").write_text("package-0\n")
    (zone / "max_energy_range_uj").write_text("262143328850\n")
    (zone / "energy_uj").write_text("1000000\n")
    meter = Meter(os.getpid(), tmp_path)

    def work() -> str:
        time.sleep(0.25)
        (zone / "new").write_text(f"{int(1e6 + JOULES * 1e6)}\n")
        (zone / "new").rename(zone / "energy_uj")
        time.sleep(0.25)
        return "done"

    found, joules = meter.over(work)
    assert found == "done" and joules == pytest.approx(JOULES, rel=0.05)
    assert meter.note == "of the whole CPU, package-0 (RAPL), idle power included"


def test_without_a_counter_there_is_a_reason(tmp_path: Path) -> None:
    for meter, why in ((Meter(os.getpid(), tmp_path), "not measurable here"), (Meter(None), "on another machine")):
        assert meter.over(lambda: 7) == (7, None) and why in meter.note
