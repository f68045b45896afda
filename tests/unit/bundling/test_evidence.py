"""Evidence in a bundle: which machines order a platform, what a device takes, and what a reader refuses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cross_backend.bundling import Bundle, Evidence, find_evidence
from cross_backend.bundling.evidence import MAX_EVIDENCE, MAX_MACHINES
from cross_backend.errors import ArtifactError
from cross_backend.machine import MachineIdentity
from cross_backend.measurement import Interval
from cross_backend.names.platforms import find_platform
from cross_backend.remembered import MachineRanks, Measured
from tests.unit.bundling.bundles import OPENVINO, TORCH, Write, edit

HERE = MachineIdentity("Here", "x86_64", "linux", "0" * 16)
ORDER = ["net_a", "net_b", "net_c"]
TARGETS = {"net_a": "a", "net_b": "b", "net_c": "c"}


def ranks(cpu: str = "Here", arch: str = "x86_64", system: str = "linux", day: int = 27, **rank: int) -> MachineRanks:
    targets = {
        target: Measured(one, one / 2, 0.1, 9.0, 2, "1" * 16, cpu, Interval(float(one), one - 0.1, one + 0.1))
        for target, one in rank.items()
    }
    machine = MachineIdentity(cpu, arch, system, "1" * 16)
    return MachineRanks("program", machine, "local", f"2026-11-{day:02}T10:00:00Z", targets)


def found(*known: MachineRanks, platform: str = "linux") -> list[Evidence]:
    newest = sorted(known, key=lambda one: one.date, reverse=True)
    return find_evidence(find_platform(platform), ORDER, TARGETS, newest, HERE)


def test_what_was_measured_comes_first_and_the_rest_keeps_the_platforms_order() -> None:
    (one,) = found(ranks(c=1, b=3, other=2))
    assert one.order == ("net_c", "net_b", "net_a")
    assert [(row.name, row.rank, row.ratio, row.low, row.high) for row in one.rows] == [
        ("net_c", 1, 1.0, 0.9, 1.1), ("net_b", 3, 3.0, 2.9, 3.1),
    ]  # fmt: skip
    assert (one.platform, one.targets, one.threads, one.date) == ("linux", 3, 2, "2026-11-27T10:00:00Z")


def test_ties_keep_the_platforms_order() -> None:
    (one,) = found(ranks(c=1, b=1, a=1))
    assert one.order == tuple(ORDER)


def test_one_artifact_alone_orders_nothing() -> None:
    assert found(ranks(c=1, other=2)) == []


@pytest.mark.parametrize(
    ("platform", "system"), [("android", "android"), ("android-qualcomm", "android"), ("ios", "ios")]
)
def test_only_machines_of_the_platforms_system_count(platform: str, system: str) -> None:
    there = ranks("Phone", "arm64", system, a=2, b=1)
    assert [one.machine.cpu for one in found(ranks(a=2, b=1), there, platform=platform)] == ["Phone"]
    assert [one.machine.cpu for one in found(ranks(a=2, b=1), there)] == ["Here"]


def test_the_same_processor_comes_first_then_the_architecture_then_the_newest() -> None:
    known = [
        ranks("Pi", "arm64", day=27, a=1, b=2),
        ranks("Old", day=20, a=1, b=2),
        ranks("New", day=26, a=1, b=2),
        ranks(day=1, a=1, b=2),
    ]
    assert [one.machine.cpu for one in found(*known)] == ["Here", "New", "Old", "Pi"]


def test_of_machines_that_a_device_cannot_tell_apart_the_newest_counts() -> None:
    (one,) = found(ranks(day=20, a=1, b=2), ranks(day=21, a=2, b=1))
    assert one.date.startswith("2026-11-21")


def test_no_more_machines_than_a_reader_accepts_and_none_with_a_name_that_it_refuses() -> None:
    many = [ranks(f"Machine {number}", a=1, b=2) for number in range(MAX_MACHINES + 5)]
    assert len(found(*many)) == MAX_MACHINES
    assert found(ranks("evil\x1b[2J", a=1, b=2), ranks("x" * 1000, a=1, b=2)) == []


# --- In a manifest

EVIDENCE = Evidence("linux", HERE, "ssh://pi", "2026-11-27T10:00:00Z", 1, 3, (TORCH, OPENVINO), ())


@pytest.fixture
def measured(write: Write, tmp_path: Path) -> Path:
    other = dataclasses.replace(HERE, cpu="Other", arch="arm64")
    rows = [EVIDENCE, dataclasses.replace(EVIDENCE, machine=other, order=(OPENVINO, TORCH))]
    return write(tmp_path / "made", evidence=rows)


def test_it_is_read_as_it_was_written_and_orders_a_device(measured: Path) -> None:
    bundle = Bundle.read(measured)
    assert bundle.evidence[0] == EVIDENCE and len(bundle.evidence) == 2

    def order(device: MachineIdentity | None) -> list[str]:
        return [artifact.name for artifact in bundle.ordered("linux", device)]

    assert order(None) == [OPENVINO, TORCH]
    assert order(HERE) == [TORCH, OPENVINO], "the same processor"
    assert order(dataclasses.replace(HERE, cpu="Third")) == [TORCH, OPENVINO], "the same architecture and system"
    assert order(dataclasses.replace(HERE, cpu="Third", arch="arm64")) == [OPENVINO, TORCH]
    assert order(dataclasses.replace(HERE, cpu="Third", system="windows")) == [OPENVINO, TORCH], "the platform's"
    assert bundle.fitting("web", HERE) is None


def test_a_bundle_without_it_is_read(measured: Path) -> None:
    edit(measured, lambda row: row.pop("evidence"))
    assert Bundle.read(measured).evidence == ()


def change_first(**values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda row: row["evidence"][0].update(values)


ROW = {"name": TORCH, "rank": 1, "ratio": 1.0, "low": 1.0, "high": 1.0, "median_ms": 0.5}
MACHINE = dataclasses.asdict(HERE)
HOSTILE = {
    "no list": lambda row: row.update(evidence={}),
    "too many": lambda row: row.update(evidence=row["evidence"] * MAX_EVIDENCE),
    "no object": lambda row: row.update(evidence=[3]),
    "another platform": change_first(platform="ios"),
    "a stranger in the order": change_first(order=[TORCH, "stranger"]),
    "one left out": change_first(order=[TORCH]),
    "one twice": change_first(order=[TORCH, TORCH]),
    "an order that is none": change_first(order="ab"),
    "a date that is none": change_first(date="2026-11-27"),
    "a date that is long": change_first(date="2026-11-27T10:00:00Z\x1b[2J"),
    "no digest": change_first(machine={**MACHINE, "digest": "0"}),
    "no processor": change_first(machine={**MACHINE, "cpu": ""}),
    "a processor that a terminal obeys": change_first(machine={**MACHINE, "cpu": "\x1b[2J"}),
    "a long processor": change_first(machine={**MACHINE, "cpu": "x" * 300}),
    "no machine": change_first(machine=None),
    "a place that a terminal obeys": change_first(place="a\rb"),
    "no threads": change_first(threads=0),
    "threads that are true": change_first(threads=True),
    "threads without end": change_first(threads=10**30),
    "rows that are none": change_first(rows=None),
    "rows of more than the order": change_first(rows=[ROW] * 3),
    "rows in another order": change_first(rows=[{**ROW, "name": OPENVINO}]),
    "a rank beyond the targets": change_first(rows=[{**ROW, "rank": 4}]),
    "a rank that is a text": change_first(rows=[{**ROW, "rank": "1"}]),
    "NaN": change_first(rows=[{**ROW, "ratio": float("nan")}]),
    "infinity": change_first(rows=[{**ROW, "high": float("inf")}]),
    "half a ratio": change_first(rows=[{**ROW, "low": None}]),
    "a number without end": change_first(rows=[{**ROW, "median_ms": 10**400}]),
    "a median below zero": change_first(rows=[{**ROW, "median_ms": -1}]),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_makes_no_sense_is_refused(change: Callable[[dict[str, Any]], object], measured: Path) -> None:
    edit(measured, change)
    with pytest.raises(ArtifactError, match="is damaged or not a bundle's manifest") as refused:
        Bundle.read(measured)
    assert str(refused.value).isprintable() and len(str(refused.value)) < 400


def test_the_changes_start_from_what_is_accepted(measured: Path) -> None:
    edit(measured, change_first(rows=[ROW, {**ROW, "name": OPENVINO, "ratio": None, "low": None, "high": None}]))
    assert [row.ratio for row in Bundle.read(measured).evidence[0].rows] == [1.0, None]
