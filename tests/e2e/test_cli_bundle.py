"""``bundle``: what is written, what a failure says and leaves behind; and ``inspect`` and ``run`` on what it wrote."""

import ctypes
import dataclasses
import hashlib
import json
import os
import re
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from cross_backend import load_best
from cross_backend.cache import Cache
from cross_backend.machine import Machine
from cross_backend.measurement import Interval
from cross_backend.remembered import Measured, Memory

pytestmark = pytest.mark.usefixtures("own_memory")
XNNPACK, PORTABLE, VULKAN = (f"linear_regression_{name}" for name in ("xnnpack", "portable", "vulkan"))
CPU, OPENVINO = "linear_regression_onnxruntime", "linear_regression_openvino"
WEB = ("bundle", "linear_regression", "--platform", "web")
NEWER = '{"format": "cross-backend-bundle", "version": 7}'


def content(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def manifest(bundle):
    return json.loads((bundle / "manifest.json").read_text())


def names(bundle):
    return [row["name"] for row in manifest(bundle)["artifacts"]]


@pytest.fixture(scope="module")
def web(linear, cli, new_memory, tmp_path_factory):
    """A bundle for browsers; not to be changed. What ``linear`` lowered is in the cache."""
    folder = tmp_path_factory.mktemp("web")
    result = cli(*WEB, "--output-dir", folder, "--strict", cache=new_memory())
    assert result.returncode == 0, result.stderr
    return folder / "linear_regression"


@pytest.fixture
def bundle(web, tmp_path):
    """A copy of that bundle that a test may damage."""
    return Path(shutil.copytree(web, tmp_path / "bundle"))


# --- What is written


def test_text(linear, cli, plain, tmp_path):
    result = cli(*WEB, "--output-dir", tmp_path)
    assert result.returncode == 0, result.stderr
    plain(result.stdout + result.stderr)
    lines = result.stdout.splitlines()
    assert lines[0] == f"* {tmp_path / 'linear_regression'}"
    assert lines[1] == "[ok] 2/2 backends, in fallback order:"
    assert re.fullmatch(rf"1 +XNNPACK \(CPU\) +{XNNPACK} +100 % +[\d.]+ kB +not measured *", lines[3])
    assert re.fullmatch(rf"2 +Portable \(Reference\) +{PORTABLE} +100 % +[\d.]+ kB +not measured *", lines[4])
    assert len(lines) == 5
    assert "lower to" in result.stderr and "lower to" not in result.stdout


def test_json_is_one_document_and_silent(linear, cli, document, tmp_path):
    result = cli(*WEB, "--output-dir", tmp_path, "--json")
    found = document(result)
    assert result.stderr == ""
    assert set(found) == {"schema", "bundle", "orders", "why", "evidence", "results"}
    assert found["orders"] == {"web": [XNNPACK, PORTABLE]} and found["why"] == {"web": "the platform's order"}
    assert found["evidence"] == []
    assert found["schema"] == 1 and found["bundle"] == str(tmp_path / "linear_regression")
    for row, target, name in zip(
        found["results"], ("executorch.xnnpack", "executorch.portable"), (XNNPACK, PORTABLE), strict=True
    ):
        assert row == {
            "target": target, "outcome": "OK", "name": name, "coverage": 1.0, "rank": None, "reason": None,
            "size_bytes": (tmp_path / "linear_regression" / f"{name}.pte").stat().st_size,
        }  # fmt: skip


def test_it_goes_to_bundles_by_default(web, cli, tmp_path):
    assert cli(*WEB, cwd=tmp_path).returncode == 0
    assert content(tmp_path / "bundles" / "linear_regression") == content(web), "and two runs write the same bytes"


def test_zip_is_one_file_with_the_same_content(web, cli, document, tmp_path):
    path = tmp_path / "linear_regression.zip"
    assert document(cli(*WEB, "--zip", "--output-dir", tmp_path, "--json"))["bundle"] == str(path)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == content(web)


def test_own_inputs_are_in_the_bundle_only_where_that_is_said(linear, cli, usage_error, tmp_path):
    command = ("bundle", "linear_regression", "--backends", "portable", "--output-dir", tmp_path)
    np.savez(tmp_path / "mine.npz", input_0=np.array([[7, -7, 0.5, 100]], np.float32))
    usage_error(cli(*command, "--ship-inputs"), "--inputs")
    for flags, count in (([], 0), (["--ship-inputs"], 5)):
        result = cli(*command, "--inputs", tmp_path / "mine.npz", *flags)
        assert result.returncode == 0, result.stderr
        assert len(list((tmp_path / "linear_regression" / "sample").glob("own*.npy"))) == count
    place = tmp_path / "linear_regression"
    assert cli("inspect", place).returncode == 0
    assert cli("run", place).returncode == 0
    row = manifest(place)
    (expected,) = (one for one in row["sample"]["own"] if "expected" in one["path"])
    np.save(place / expected["path"], np.load(place / expected["path"]) + 1)
    expected["sha256"] = hashlib.sha256((place / expected["path"]).read_bytes()).hexdigest()
    (place / "manifest.json").write_text(json.dumps(row))
    result = cli("run", place)
    assert result.returncode == 1 and "mine.npz" in result.stdout + result.stderr


def test_several_platforms_each_have_their_order(linear, cli, tmp_path):
    result = cli("bundle", "linear_regression", "--platform", "web", "android", "desktop", "--json",
                 "--output-dir", tmp_path, "--timeout", "600")  # fmt: skip
    assert result.returncode == 0, result.stderr
    row = manifest(tmp_path / "linear_regression")
    assert list(row["orders"]) == ["web", "android", "linux"], "desktop is called linux"
    assert row["orders"]["web"] == [XNNPACK, PORTABLE]
    assert row["orders"]["android"] == [VULKAN, XNNPACK, PORTABLE]
    linux = row["orders"]["linux"]
    assert linux[:4] == [VULKAN, XNNPACK, OPENVINO, CPU] and linux[-1] == PORTABLE
    assert names(tmp_path / "linear_regression") == linux, "one order that keeps them all"
    loaders = {path.name for path in (tmp_path / "linear_regression" / "loaders").iterdir()}
    assert loaders == {"LoadBest.kt", "load_best.dart", "load_best.hpp", "load_best.py"}


def test_the_order_does_not_depend_on_chance(linear, cli, document, tmp_path):
    """Neither of the two accelerators stands before the other on any platform: the one named first does."""
    for seed in range(4):
        args = ("bundle", "linear_regression", "--platform", "embedded", "android", "--output-dir", tmp_path, "--json")
        found = document(cli(*args, PYTHONHASHSEED=str(seed), CROSS_BACKEND_TOOLCHAINS=str(tmp_path / "none")))
        assert [row["target"].rpartition(".")[2] for row in found["results"]] == [
            "ethos_u", "vulkan", "xnnpack", "portable",
        ]  # fmt: skip


def test_backends_are_their_own_order(linear, cli, tmp_path):
    result = cli("bundle", "linear_regression", "--backends", "cpu", "openvino", "xnnpack", "--output-dir", tmp_path)
    assert result.returncode == 0, result.stderr
    bundle = tmp_path / "linear_regression"
    assert names(bundle) == [CPU, OPENVINO, XNNPACK] and manifest(bundle)["orders"] == {}
    assert (bundle / OPENVINO / "model.xml").is_file()
    assert len(list((bundle / "loaders").iterdir())) == 5, "for any platform"


def test_a_backend_given_twice_is_bundled_once(linear, cli, document, tmp_path):
    again = ("xnnpack", "executorch.xnnpack", "cpu", "onnxruntime", "xnnpack")
    found = document(cli("bundle", "linear_regression", "--backends", *again, "--output-dir", tmp_path, "--json"))
    assert [row["name"] for row in found["results"]] == [XNNPACK, CPU]
    assert cli("inspect", tmp_path / "linear_regression").returncode == 0


def test_precision_asks_every_backend_for_it(linear, cli, tmp_path):
    args = ("bundle", "linear_regression", "--backends", "openvino", "portable", "--precision", "bf16")
    result = cli(*args, "--output-dir", tmp_path)
    assert result.returncode == 0, result.stderr
    (row,) = manifest(tmp_path / "linear_regression")["artifacts"]
    assert row["name"] == "linear_regression_openvino_bf16" and row["target"] == "openvino?precision=bf16"
    assert (row["tolerance"], row["mean_tolerance"]) == (0.05, 0.3)
    with load_best(tmp_path / "linear_regression") as session:
        assert session.options["precision"] == "bf16"
    assert re.search(r"• portable\?precision=bf16: executorch\.portable has no bf16\. It has ", result.stdout)


@pytest.mark.slow
def test_precision_keeps_the_platforms_orders(linear, cli, tmp_path):
    result = cli("bundle", "linear_regression", "--platform", "web", "android", "--precision", "fp16",
                 "--output-dir", tmp_path)  # fmt: skip
    assert result.returncode == 0, result.stderr
    row = manifest(tmp_path / "linear_regression")
    fallback = ["linear_regression_xnnpack_fp16", "linear_regression_portable_fp16"]
    assert row["orders"] == {"web": fallback, "android": ["linear_regression_vulkan_fp16", *fallback]}
    assert (row["artifacts"][0]["tolerance"], row["artifacts"][0]["mean_tolerance"]) == (0.01, 0.15)


def test_labels_of_a_users_model(cli, document, tmp_path):
    (tmp_path / "net.py").write_text(
        "import torch\nimport cross_backend as xb\n"
        "def net():\n    return xb.Workload('net', torch.nn.ReLU(), (torch.ones(1, 2),), labels=('cat', 'dög'))\n"
    )
    args = ("bundle", f"{tmp_path / 'net.py'}:net", "--backends", "torch", "--output-dir", tmp_path / "out", "--json")
    bundle = Path(document(cli(*args))["bundle"])
    assert (bundle / "labels.txt").read_bytes() == "cat\ndög\n".encode()
    assert manifest(bundle)["labels"]["sha256"] == hashlib.sha256((bundle / "labels.txt").read_bytes()).hexdigest()


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


# --- What was measured


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


# --- What fails


def test_partial_failure_is_told_and_the_rest_is_bundled(linear, cli, document, tmp_path):
    args = ("bundle", "linear_regression", "--backends", "xnnpack", "arm", "qnn", "--output-dir", tmp_path)
    result = cli(*args)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert "[ok] 1/3 backends, in fallback order:" in lines
    failed = lines.index("[warn] Failed 2 backend(s):")
    assert re.fullmatch(r" +• arm: .+", lines[failed + 1])
    assert re.fullmatch(r" +• qnn: .+", lines[failed + 2]) and len(lines) == failed + 3
    assert names(tmp_path / "linear_regression") == [XNNPACK]
    good, *unavailable = document(cli(*args, "--json"))["results"]
    assert good["outcome"] == "OK" and good["name"] == XNNPACK
    assert [row["outcome"] for row in unavailable] == ["UNAVAILABLE", "UNAVAILABLE"]
    for row in unavailable:
        assert row["name"] is row["size_bytes"] is row["coverage"] is row["rank"] is None


def test_strict_turns_a_partial_failure_into_status_1(linear, cli, tmp_path):
    args = ("bundle", "linear_regression", "--backends", "xnnpack", "qnn", "--strict", "--output-dir", tmp_path)
    assert cli(*args).returncode == 1
    assert names(tmp_path / "linear_regression") == [XNNPACK], "what succeeded is kept"


def test_nothing_to_bundle_is_status_1_and_an_older_bundle_is_kept(linear, cli, complaint, tmp_path, web):
    older = shutil.copytree(web, tmp_path / "linear_regression")
    result = cli("bundle", "linear_regression", "--backends", "qnn", "--output-dir", tmp_path)
    complaint(result, 1, "nothing to bundle: qnn: executorch.qnn")
    assert result.stdout == "" and content(older) == content(web)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("linear_regression",), ("--platform android|", "--backends")),
        (("linear_regression", "--platform", "web", "--backends", "cpu"), ("--platform", "--backends")),
        (("linear_regression", "--platform", "androit"), ("unknown platform 'androit'", "'android'")),
        (("linear_regression", "--platform", "web", "lunix"), ("unknown platform 'lunix'", "'linux'")),
        (("linear_regresion", "--platform", "web"), ("unknown model", "'linear_regression'")),
        (("linear_regression", "--platform", "web", "--precision", "fp8"), ("fp8",)),
        (("linear_regression", "--platform", "web", "--min-coverage", "2"), ("'2'",)),
        (("linear_regression", "--platform", "web", "--zipp"), ("did you mean --zip",)),
        (("--platform", "web"), ("MODEL",)),
    ],
    ids=" ".join,
)
def test_wrong_usage(args, words, cli, usage_error, tmp_path):
    usage_error(cli("bundle", *args, "--output-dir", tmp_path), *words)
    assert list(tmp_path.iterdir()) == []


def test_an_older_bundle_is_replaced_whole(web, cli, tmp_path):
    older = shutil.copytree(web, tmp_path / "linear_regression")
    (older / "linear_regression_vulkan.pte").touch()
    (older / "manifest.json").write_text(NEWER)
    assert cli(*WEB, "--output-dir", tmp_path).returncode == 0
    assert content(older) == content(web)
    assert [path.name for path in tmp_path.iterdir()] == ["linear_regression"]


@pytest.mark.parametrize("own", [{"thesis.txt": "years"}, {"manifest.json": '{"name": "web app"}', "index.html": ""}])
def test_a_folder_that_is_no_bundle_is_left_alone(own, linear, cli, usage_error, complaint, tmp_path):
    folder = tmp_path / "linear_regression"
    folder.mkdir()
    for name, text in own.items():
        (folder / name).write_text(text)
    before = content(tmp_path)
    line = complaint(cli(*WEB, "--output-dir", tmp_path), 2, "exists and is not a bundle", "--output-dir")
    assert str(folder) in line
    assert content(tmp_path) == before and [path.name for path in tmp_path.iterdir()] == ["linear_regression"]


def test_a_zip_file_that_is_no_bundle_is_left_alone(linear, cli, complaint, tmp_path):
    with zipfile.ZipFile(tmp_path / "linear_regression.zip", "w") as archive:
        archive.writestr("thesis.txt", "years")
    before = content(tmp_path)
    complaint(cli(*WEB, "--zip", "--output-dir", tmp_path), 2, "linear_regression.zip exists and is not a bundle")
    assert content(tmp_path) == before


def as_anybody():
    """Give up root's right to write everywhere, before the command starts: PR_CAPBSET_DROP of CAP_DAC_OVERRIDE."""
    ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)


def test_a_read_only_folder(web, cli, complaint, tmp_path):
    older = shutil.copytree(web, tmp_path / "out" / "linear_regression")
    (tmp_path / "out").chmod(0o500)
    try:
        result = cli(*WEB, "--output-dir", tmp_path / "out", preexec=as_anybody)
    finally:
        (tmp_path / "out").chmod(0o700)
    complaint(result, 1, "Permission denied", str(tmp_path / "out"))
    assert content(older) == content(web) and [path.name for path in (tmp_path / "out").iterdir()] == [older.name]


def test_a_folder_that_cannot_be_made(linear, cli, usage_error, tmp_path):
    (tmp_path / "file").touch()
    usage_error(cli(*WEB, "--output-dir", tmp_path / "file" / "out"), "cannot write to", "file/out")


def test_a_disk_that_is_full_leaves_the_older_bundle(web, cli, complaint, tmp_path):
    older = shutil.copytree(web, tmp_path / "linear_regression")
    result = cli(*WEB, "--output-dir", tmp_path, max_file_bytes=4000)  # payloads fit, the manifest does not
    complaint(result, 1, "File too large")
    assert content(older) == content(web)
    assert [path.name for path in tmp_path.iterdir()] == ["linear_regression"], "no scratch is left"


# --- inspect


def test_inspect_shows_the_order_and_checks_every_digest(bundle, cli, plain, document):
    result = cli("inspect", bundle)
    assert result.returncode == 0 and result.stderr == ""
    plain(result.stdout)
    lines = result.stdout.splitlines()
    assert lines[0] == f"* {bundle}: linear_regression, 2 artifacts in fallback order"
    assert re.fullmatch(rf"{XNNPACK} +executorch\.xnnpack +XnnpackBackend × 1 +100 % +[\d.]+ kB +digest is right *",
                        lines[2])  # fmt: skip
    assert lines[-1] == f"web: {XNNPACK} › {PORTABLE}"
    found = document(cli("inspect", bundle, "--json"))
    assert set(found) == {"schema", "model", "orders", "evidence", "artifacts"}
    assert found["model"] == "linear_regression" and found["orders"] == {"web": [XNNPACK, PORTABLE]}
    assert [(row["target"], row["damage"]) for row in found["artifacts"]] == [
        ("executorch.xnnpack", None), ("executorch.portable", None),
    ]  # fmt: skip


def test_inspect_finds_what_was_damaged(bundle, cli, document):
    path = bundle / f"{XNNPACK}.pte"
    path.write_bytes(path.read_bytes()[:-1])
    result = cli("inspect", bundle)
    assert result.returncode == 1 and result.stdout.count("digest is right") == 1
    assert "was changed, truncated or swapped" in " ".join(result.stdout.split())
    bad, good = document(cli("inspect", bundle, "--json"), 1)["artifacts"]
    assert f"{XNNPACK}.pte is not the payload" in bad["damage"] and good["damage"] is None


def test_inspect_reads_zip_files_payloads_and_the_folder_we_stand_in(bundle, cli, document, tmp_path):
    path = shutil.make_archive(str(tmp_path / "packed"), "zip", bundle)
    assert document(cli("inspect", path, "--json")) == document(cli("inspect", bundle, "--json"))
    assert document(cli("inspect", ".", "--json", cwd=bundle)) == document(cli("inspect", bundle, "--json"))
    alone = document(cli("inspect", bundle / f"{PORTABLE}.pte", "--json"))
    assert alone["target"] == "executorch.portable"


def test_inspect_in_a_folder_that_is_nothing(cli, complaint, tmp_path):
    complaint(cli("inspect", ".", cwd=tmp_path), 1, str(tmp_path))
    complaint(cli("inspect", "/"), 1, "/")


def test_inspect_of_a_payload_that_is_a_folder(linear, cli, document, tmp_path):
    cli("bundle", "linear_regression", "--backends", "openvino", "--output-dir", tmp_path)
    payload = tmp_path / "linear_regression" / OPENVINO
    assert document(cli("inspect", payload, "--json"))["target"] == "openvino"
    assert document(cli("inspect", ".", "--json", cwd=payload))["target"] == "openvino"


@pytest.mark.parametrize("command", ["inspect", "run"])
def test_a_newer_bundle_says_which_version_is_needed(command, cli, complaint, tmp_path):
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / "manifest.json").write_text(NEWER)
    with zipfile.ZipFile(tmp_path / "new.zip", "w") as archive:
        archive.writestr("manifest.json", NEWER)
    for path in (folder, tmp_path / "new.zip"):
        result = cli(command, path)
        complaint(result, 1, f"{path}/manifest.json has format version 7; this cross-backend reads up to 1. Upgrade")
        assert result.stdout == ""


# --- run


def test_run_takes_the_first_that_works(bundle, cli, document, tmp_path):
    path = shutil.make_archive(str(tmp_path / "packed"), "zip", bundle)
    for given, args, target in (
        (bundle, (), "executorch.xnnpack"),
        (path, ("--platform", "web"), "executorch.xnnpack"),
        (bundle / f"{PORTABLE}.pte", (), "executorch.portable"),
    ):
        (row,) = document(cli("run", given, *args, "--num-runs", "6", "--json"))["results"]
        assert row["target"] == target and row["outcome"] == "OK"
    result = cli("run", path, "--input", "1,2,3,4")
    assert result.returncode == 0 and "2.718" in result.stdout


def test_run_falls_back_past_damage(bundle, cli, complaint):
    (bundle / f"{XNNPACK}.pte").unlink()
    result = cli("run", bundle, "--num-runs", "6")
    assert result.returncode == 0, result.stderr
    assert re.search(rf"executorch\.xnnpack passed over: .*{XNNPACK}\.pte is missing", result.stderr)
    assert "on executorch.portable: outputs are right" in result.stdout
    (bundle / f"{PORTABLE}.pte").write_bytes(b"")
    result = cli("run", bundle)
    assert result.returncode == 1 and result.stdout == "" and "Traceback" not in result.stderr
    line = result.stderr.splitlines()[-1]
    assert line.startswith("cross-backend run: nothing in ") and "executorch.xnnpack: " in line and "sha256" in line


def test_run_of_another_model_or_of_nothing_for_a_platform(bundle, cli, complaint):
    complaint(cli("run", bundle, "--model", "other"), 1, "is a bundle of linear_regression, not of other")
    row = manifest(bundle)
    row["orders"]["ios"] = []
    (bundle / "manifest.json").write_text(json.dumps(row))
    complaint(cli("run", bundle, "--platform", "ios"), 1, f"{os.fspath(bundle)} holds no artifact for ios")
