"""``bundle``: what is written, in which order, and what is printed of it."""

import hashlib
import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from cross_backend import load_best
from tests.e2e.bundle.contents import CPU, OPENVINO, PORTABLE, VULKAN, WEB, XNNPACK, content, manifest, names

pytestmark = pytest.mark.usefixtures("own_memory")


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


@pytest.mark.slow
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
