"""What the runner prints, and which artifacts it takes."""

import json
import os
import pty
import subprocess

from cross_backend.measure.paired import RESOLUTION
from tests.e2e.runner.bundles import PORTABLE, QUICK, VULKAN, XNNPACK, edit


def test_text_report(sound, runner, plain):
    result = runner(sound)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    plain(result.stdout)
    lines = result.stdout.splitlines()
    assert lines[0] == "* cross-backend: linear_regression"
    assert lines[2] == "* Input features: [1, 2, 3, 4]"
    assert any(line.startswith("[ok] XNNPACK (CPU): ") and " ms avg, " in line for line in lines)
    assert any(line.startswith("[ok] Portable (Reference): ") for line in lines)
    missing = next(line for line in lines if line.startswith("[warn] Vulkan (GPU): UNAVAILABLE: "))
    assert "VulkanBackend" in missing
    assert "EXECUTORCH_BUILD_VULKAN" in missing
    ranking = lines[lines.index("* Performance Ranking (median, 95 % interval):") + 2 :][:2]
    assert " × the first (" in ranking[1]
    assert " × the first (" not in ranking[0]
    assert all("1000 runs" in line and "(output: 2.7182" in line and " – " in line for line in ranking)
    assert ranking[0].startswith("1. ")
    assert "   - Fastest: " in result.stdout
    assert lines[-1] == "[ok] 2 of 3 artifacts ran, and every output was right."


def test_terminal_gets_emoji(sound, built):
    master, slave = pty.openpty()
    command = [built / "cross_backend_runner", sound, *QUICK]
    loud = {**{k: v for k, v in os.environ.items() if k != "NO_COLOR"}, "TERM": "xterm-256color"}
    for extra, fancy in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
        subprocess.run(command, stdout=slave, stderr=subprocess.DEVNULL, env={**loud, **extra}, timeout=60, check=True)
        shown = os.read(master, 65536).decode()
        assert all((emoji in shown) is fancy for emoji in ("🚀", "✅", "🏆", "🥇", "📈")), shown
    subprocess.run([*command, "--plain"], stdout=slave, env=loud, timeout=60, check=True)
    assert "🚀" not in os.read(master, 65536).decode()
    os.close(master)
    os.close(slave)


def test_json_document(sound, runner, document):
    found = document(runner(sound, "--json"))
    assert found["schema"] == 1
    assert found["model"] == "linear_regression"
    assert found["machine"]["system"] == "linux"
    assert found["machine"]["usable_cpus"] == len(os.sched_getaffinity(0))
    assert found["noise_floor"] >= RESOLUTION
    assert found["found_from"] > 0.05
    by_name = {row["name"]: row for row in found["results"]}
    assert list(by_name) == [row["name"] for row in json.loads((sound / "manifest.json").read_text())["artifacts"]]
    vulkan = by_name[VULKAN]
    assert (vulkan["outcome"], vulkan["rank"], vulkan["latency_ms"], vulkan["error"]) == ("UNAVAILABLE", *[None] * 3)
    for name in (PORTABLE, XNNPACK):
        row = by_name[name]
        latency = row["latency_ms"]
        assert row["outcome"] == "OK"
        assert row["reason"] is None
        assert isinstance(row["warnings"], list)
        assert 0 < latency["low"] <= latency["median"] <= latency["high"]
        assert latency["n"] == 1000
        assert row["error"]["verdict"] is True
        assert row["error"]["max_rel"] <= 1e-4
        assert row["size_bytes"] == (sound / f"{name}.pte").stat().st_size
        assert row["load_s"] > 0
        assert row["export_s"] > 0
    assert min(row["rank"] or 9 for row in by_name.values()) == 1
    first, other = sorted((by_name[name]["ratio"] for name in (PORTABLE, XNNPACK)), key=lambda ratio: ratio["value"])
    assert first == {"value": 1, "low": 1, "high": 1}
    assert 0 < other["low"] < other["value"] < other["high"]
    assert vulkan["ratio"] is None


def test_only_and_platform(bundle, rows, refused):
    edit(bundle, lambda row: row["orders"].update(android=[VULKAN, PORTABLE]))
    assert list(rows(bundle, "--platform", "android", *QUICK)) == [VULKAN, PORTABLE]
    assert list(rows(bundle, "--only", PORTABLE, "executorch.xnnpack", *QUICK)) == [PORTABLE, XNNPACK]
    assert list(rows(bundle, "--platform", "android", "--only", PORTABLE, *QUICK)) == [PORTABLE]
    refused(bundle, "--platform", "toaster", words=("toaster", "android"))
    refused(bundle, "--only", "nonsense", words=("nonsense", PORTABLE))
    refused(bundle, "--platform", "android", "--only", XNNPACK, words=(XNNPACK,))
