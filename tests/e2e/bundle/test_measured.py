"""``bundle --measure`` and ``--measured``: ranks and evidence decide orders, and what runs."""

import dataclasses
import re
from pathlib import Path

import pytest

from cross_backend import load_best
from cross_backend.cache import Cache
from cross_backend.machine import Machine
from cross_backend.measurement import Interval
from cross_backend.remembered import Measured, Memory
from tests.e2e.bundle.contents import PORTABLE, VULKAN, WEB, XNNPACK, manifest

pytestmark = pytest.mark.usefixtures("own_memory")


def test_measure_writes_the_ranks_and_they_order_what_runs(linear, cli, new_memory, document, tmp_path):
    args = ("bundle", "linear_regression", "--backends", "vulkan", "portable", "cpu", "--json")
    cache = new_memory()
    found = document(cli(*args, "--measure", "--output-dir", tmp_path / "1", cache=cache))
    bundle = Path(found["bundle"])
    measured = {row["target"]: row["measured"] for row in manifest(bundle)["artifacts"]}
    assert measured.pop("executorch.vulkan") is None, "it does not run here"
    assert {row["target"]: row["rank"] for row in found["results"]} == {
        "executorch.vulkan": None, **{target: row["rank"] for target, row in measured.items()},
    }  # fmt: skip
    assert 1 in (row["rank"] for row in measured.values())
    for row in measured.values():
        assert 0 < row["low_ms"] <= row["median_ms"] <= row["high_ms"] and row["threads"] == 1
        assert re.fullmatch("[0-9a-f]{16}", row["machine"]) and row["cpu"]

    later = document(cli(*args, "--output-dir", tmp_path / "2", cache=cache))
    assert manifest(Path(later["bundle"]))["artifacts"] == manifest(bundle)["artifacts"], "ranks are remembered"

    best = min(measured, key=lambda target: measured[target]["rank"])
    run = document(cli("run", bundle, "--num-runs", "6", "--json", cache=cache))
    assert [row["target"] for row in run["results"]] == [best]
    text = cli(*args[:-1], "--output-dir", tmp_path / "3", cache=cache).stdout
    assert re.search(r"rank 1, [\d.,]+ ms median", text) and text.count("not measured") == 1


@pytest.fixture
def measured(linear, cli, new_memory, tmp_path):
    """Give a function that bundles in a cache in which machines measured: (changes of this one, place, target → rank).

    It gives the cache with the finished command.
    """
    cache = new_memory()
    done = cli(*WEB, "--output-dir", tmp_path / "first", cache=cache)
    assert done.returncode == 0, done.stderr
    program = manifest(tmp_path / "first" / "linear_regression")["program"]

    def run(machines, *args):
        for day, (changes, place, ranks) in enumerate(machines, start=1):
            machine = dataclasses.replace(Machine.here(), **changes)
            rows = {
                target: Measured(
                    rank, rank / 8, 0.1, 2.0, 1, machine.digest, machine.cpu, Interval(rank, rank, rank + 0.5)
                )
                for target, rank in ranks.items()
            }
            Memory(Cache(cache), machine).keep_measured(program, rows, place, f"2026-11-{day:02}T10:00:00Z")
        return cache, cli("bundle", "linear_regression", *args, "--output-dir", tmp_path / "out", cache=cache)

    return run


PHONE = {"cpu": "SM8650", "arch": "arm64", "system": "android"}
BACKWARDS = {"executorch.portable": 1, "executorch.xnnpack": 2}


def test_measured_orders_each_platform_by_its_own_machines(measured, cli, document, tmp_path):
    machines = [
        (
            {"cpu": "Pi", "arch": "arm64"},
            "ssh://pi",
            {"executorch.xnnpack": 1, "executorch.portable": 2, "torch.eager": 3},
        ),
        ({"cpu": "Other"}, "ssh://other", {**BACKWARDS, "torch.eager": 2}),
        (PHONE, "ssh://phone", BACKWARDS),
    ]
    args = ("--platform", "web", "android", "--measured", "--json")
    cache, result = measured(machines, *args)
    found = document(result)
    assert found["orders"] == {"web": [XNNPACK, PORTABLE], "android": [PORTABLE, XNNPACK, VULKAN]}
    assert found["why"] == {
        "web": "no measurement of such a machine; the platform's order",
        "android": "measured on SM8650 (arm64, android), 2026-11-03",
    }
    row = manifest(tmp_path / "out" / "linear_regression")
    assert row["orders"] == found["orders"] and row["evidence"] == found["evidence"]
    assert row["evidence"] == [{
        "platform": "android",
        "machine": {**PHONE, "digest": dataclasses.replace(Machine.here(), **PHONE).digest},
        "place": "ssh", "date": "2026-11-03T10:00:00Z", "threads": 1, "targets": 2,
        "order": [PORTABLE, XNNPACK, VULKAN],
        "rows": [
            {"name": PORTABLE, "rank": 1, "ratio": 1, "low": 1, "high": 1.5, "median_ms": 0.125},
            {"name": XNNPACK, "rank": 2, "ratio": 2, "low": 2, "high": 2.5, "median_ms": 0.25},
        ],
    }]  # fmt: skip
    inspected = document(cli("inspect", tmp_path / "out" / "linear_regression", "--json"))
    assert inspected["evidence"] == row["evidence"]
    text = cli("inspect", tmp_path / "out" / "linear_regression").stdout
    assert "android, measured on SM8650 (arm64, android), 2026-11-03, 1 thread, place ssh:" in text
    assert re.search(rf"{XNNPACK} +2 of 2 +2\.00 \(2\.00 to 2\.50\) +0\.2500 ms", text)

    plain = cli("bundle", "linear_regression", *args[:-2], "--output-dir", tmp_path / "plain", cache=cache)
    assert plain.returncode == 0, plain.stderr
    row = manifest(tmp_path / "plain" / "linear_regression")
    assert row["orders"]["android"] == [VULKAN, XNNPACK, PORTABLE] and row["evidence"] == [], "only where it is said"


@pytest.mark.slow
def test_a_machine_like_this_one_decides_and_load_best_says_so(measured, plain, tmp_path, monkeypatch):
    machines = [
        ({"memory_bytes": 1}, "ssh://twin", {**BACKWARDS, "torch.eager": 3}),
        ({"cpu": "Pi", "arch": "arm64"}, "ssh://pi", {"executorch.xnnpack": 1, "executorch.portable": 2}),
    ]
    cache, result = measured(machines, "--platform", "linux", "web", "--measured")
    assert result.returncode == 0, result.stderr
    plain(result.stdout)
    here, bundle = Machine.here(), tmp_path / "out" / "linear_regression"
    about = f"{here.cpu} ({here.arch}, linux), 2026-11-01"
    lines = " ".join(result.stdout.split())
    assert f"linux: measured on {about}: {PORTABLE} › {XNNPACK} › linear_regression_torch ›" in lines
    assert f"web: no measurement of such a machine; the platform's order: {XNNPACK} › {PORTABLE}" in lines
    assert [one["machine"]["cpu"] for one in manifest(bundle)["evidence"]] == [here.cpu, "Pi"]

    monkeypatch.setenv("CROSS_BACKEND_CACHE", str(cache))
    with load_best(bundle) as session:
        assert session.target == "executorch.portable"
        assert session.why == f"measured rank 1 of 3 on {about}; by the bundle's evidence"
    with load_best(bundle, "web") as session:
        assert session.target == "executorch.xnnpack"
        assert session.why == "no measurement of this machine; the order of web"
    rows = {target: Measured(rank, 1.0, 1.0, 1.0, 1, here.digest, here.cpu) for target, rank in
            {"executorch.xnnpack": 1, "executorch.portable": 2}.items()}  # fmt: skip
    Memory(Cache(cache)).keep_measured(manifest(bundle)["program"], rows, date="2026-11-27T10:00:00Z")
    with load_best(bundle) as session:
        assert session.target == "executorch.xnnpack"
        assert session.why == f"measured rank 1 of 2 on this machine ({here.cpu}), 2026-11-27"


@pytest.mark.slow
def test_measure_and_measured_close_the_circle(linear, cli, new_memory, document, tmp_path, monkeypatch):
    cache = new_memory()
    args = ("bundle", "linear_regression", "--platform", "web", "linux", "--precision", "fp32", "--json")
    found = document(cli(*args, "--measure", "--measured", "--output-dir", tmp_path, cache=cache, timeout=600))
    (evidence,) = found["evidence"]
    here = Machine.here()
    assert (evidence["platform"], evidence["place"]) == ("linux", "local")
    assert evidence["machine"] == {"cpu": here.cpu, "arch": here.arch, "system": "linux", "digest": here.digest}
    ranks = [row["rank"] for row in evidence["rows"]]
    assert ranks == sorted(ranks) and ranks[0] == 1 and len(ranks) >= 3
    assert evidence["order"][: len(ranks)] == [row["name"] for row in evidence["rows"]]
    for row in evidence["rows"]:
        assert 0 < row["low"] <= row["ratio"] <= row["high"] and row["median_ms"] > 0
    monkeypatch.setenv("CROSS_BACKEND_CACHE", str(cache))
    with load_best(Path(found["bundle"])) as session:
        assert session.why.startswith(f"measured rank 1 of {len(ranks)} on this machine ({here.cpu}), 20")


def test_measured_needs_platforms(cli, usage_error, tmp_path):
    args = ("bundle", "linear_regression", "--backends", "portable", "--measured", "--output-dir", tmp_path)
    usage_error(cli(*args), "--measured", "--platform")
