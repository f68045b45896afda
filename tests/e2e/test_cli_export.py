"""``export``: what is written, what a partial failure says, and what comes from the cache."""

import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

VENDORS = ("torch", "torchvision", "executorch", "onnx", "onnxruntime", "openvino", "sklearn")
FILES = {
    "xnnpack": "linear_regression_xnnpack.pte",
    "portable": "linear_regression_portable.pte",
    "cpu": "linear_regression_onnxruntime.onnx",
    "openvino": "linear_regression_openvino",
    "torch": "linear_regression_torch.pt2",
}


@pytest.fixture(scope="module")
def cold(tmp_path_factory, cli, document):
    """An export into a cache that was empty: (cache, output folder, document, standard error)."""
    folder = tmp_path_factory.mktemp("cold")
    result = cli(
        "export", "linear_regression", "--backends", "cpu", "torch", "--output-dir", folder / "out", "--json",
        cache=folder / "cache",
    )  # fmt: skip
    return folder / "cache", folder / "out", document(result), result.stderr


def test_files_lie_where_the_guide_says(linear):
    for payload in FILES.values():
        assert (linear / payload).exists()
        assert (linear / payload).with_suffix(".json").is_file()
    assert (linear / FILES["openvino"]).is_dir(), "only a payload of several files is a folder"
    expected = {*FILES.values(), *((linear / p).with_suffix(".json").name for p in FILES.values())}
    assert {path.name for path in linear.iterdir()} == expected | {"linear_regression_sample.npz"}


def test_manifest_certifies_what_is_inside(linear):
    manifest = json.loads((linear / "linear_regression_xnnpack.json").read_text())
    assert manifest["target"] == "executorch.xnnpack"
    assert manifest["placement"]["delegates"] == {"XnnpackBackend": 1}
    assert manifest["placement"]["coverage"] > 0
    assert manifest["payload"]["size_bytes"] == (linear / FILES["xnnpack"]).stat().st_size
    assert {"cross-backend", "executorch", "torch"} <= set(manifest["versions"])
    portable = json.loads((linear / "linear_regression_portable.json").read_text())
    assert portable["placement"]["delegates"] == {}


def test_json_is_one_document_and_silent(cold):
    _, folder, found, stderr = cold
    assert stderr == ""
    assert found["schema"] == 1
    assert [row["target"] for row in found["results"]] == ["onnxruntime.cpu", "torch.eager"]
    for row in found["results"]:
        assert row["outcome"] == "OK" and row["reason"] is None and row["workload"] == "linear_regression"
        assert row["cached"] is False and row["export_s"] >= 0 and 0 < row["coverage"] <= 1
        assert row["path"].startswith(str(folder)) and row["size_bytes"] > 0


def test_second_export_is_served_from_the_cache(cold, cli, document, tmp_path):
    cache, first, _, _ = cold
    again = cli(
        "export", "linear_regression", "--backends", "cpu", "torch", "--output-dir", tmp_path, "--json",
        cache=cache, before=("-X", "importtime"),
    )  # fmt: skip
    assert [row["cached"] for row in document(again)["results"]] == [True, True]
    imported = set(re.findall(r"\|\s+([\w.]+)$", again.stderr, re.MULTILINE))
    assert "cross_backend.export" in imported
    assert not imported & set(VENDORS)
    for path in first.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("damaged", ["capture.json", "program.pt2", "sample.npz"])
def test_damaged_cache_entries_are_made_again(damaged, cold, cli, document, tmp_path):
    cache = tmp_path / "cache"
    shutil.copytree(cold[0], cache)
    manifests = list(cache.glob("artifacts/*/*.json"))
    (capture,) = cache.glob(f"captures/*/{damaged}")
    assert len(manifests) == 2
    for path in [capture, *(m.with_name(json.loads(m.read_text())["payload"]["path"]) for m in manifests)]:
        path.write_bytes(path.read_bytes()[:10])
    result = cli(
        "export", "linear_regression", "--backends", "cpu", "torch", "--output-dir", tmp_path / "out", "--json",
        cache=cache,
    )  # fmt: skip
    assert [(row["outcome"], row["cached"]) for row in document(result)["results"]] == [("OK", False)] * 2


def test_progress_goes_to_standard_error(cli, plain, tmp_path):
    result = cli("export", "linear_regression", "--backends", "cpu", "--output-dir", tmp_path)
    assert result.returncode == 0
    assert "lower to cpu" in result.stderr and "lower to" not in result.stdout
    plain(result.stdout + result.stderr)


def test_partial_failure_is_told_as_in_the_guide(linear, cli, tmp_path):
    result = cli("export", "linear_regression", "--backends", "xnnpack", "nonsense", "--output-dir", tmp_path)
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    succeeded = next(i for i, line in enumerate(lines) if "Successfully exported 1/2 backends" in line)
    failed = next(i for i, line in enumerate(lines) if "Failed 1 backend(s):" in line)
    assert succeeded < failed
    assert re.fullmatch(r" +• xnnpack: .*linear_regression_xnnpack\.pte \([\d.]+ [kM]?B.*\)", lines[succeeded + 1])
    assert re.fullmatch(r" +• nonsense: unknown backend 'nonsense'.*xnnpack.*", lines[failed + 1])
    assert (tmp_path / "linear_regression_xnnpack.pte").is_file()


def test_partial_failure_in_json(linear, cli, document, tmp_path):
    args = ("export", "linear_regression", "--backends", "xnnpack", "nonsense", "--output-dir", tmp_path, "--json")
    good, bad = document(cli(*args))["results"]
    assert good["outcome"] == "OK"
    assert bad["outcome"] != "OK" and "nonsense" in bad["reason"]
    assert bad["target"] == "nonsense" and bad["path"] is bad["size_bytes"] is bad["coverage"] is None


def test_strict_turns_a_partial_failure_into_status_1(linear, cli, tmp_path):
    result = cli(
        "export", "linear_regression", "--backends", "xnnpack", "nonsense", "--strict", "--output-dir", tmp_path
    )
    assert result.returncode == 1
    assert (tmp_path / "linear_regression_xnnpack.pte").is_file(), "what succeeded is kept"


def test_nothing_succeeded_is_status_1_and_lists_the_choices(linear, cli, tmp_path):
    result = cli("export", "linear_regression", "--backends", "xnpack", "--output-dir", tmp_path)
    assert result.returncode == 1
    told = result.stdout + result.stderr
    assert "Traceback" not in told
    assert "Did you mean" in told and "'xnnpack'" in told and "openvino" in told
    assert list(tmp_path.iterdir()) == []


def test_platform_chooses_the_backends(linear, cli, document, tmp_path):
    result = cli("export", "linear_regression", "--platform", "web", "--output-dir", tmp_path, "--json")
    assert [row["target"] for row in document(result)["results"]] == ["executorch.xnnpack", "executorch.portable"]


def test_same_target_twice_is_one_file(linear, cli, document, tmp_path):
    result = cli("export", "linear_regression", "--backends", "cpu", "onnxruntime", "--output-dir", tmp_path, "--json")
    first, second = document(result)["results"]
    assert first["path"] == second["path"] and second["outcome"] == "OK"


def test_several_models(linear, cli, document, tmp_path):
    (tmp_path / "net.py").write_text("import torch\ndef half():\n    return torch.nn.ReLU(), torch.ones(1, 2)\n")
    models = ("linear_regression", f"{tmp_path / 'net.py'}:half")
    result = cli("export", *models, "--backends", "torch", "--output-dir", tmp_path / "out", "--json")
    assert [row["workload"] for row in document(result)["results"]] == ["linear_regression", "net_half"]
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"linear_regression_torch.pt2", "net_half_torch.pt2"} <= written


def test_two_exports_at_once_share_an_empty_cache(cli, document, tmp_path):
    args = ("export", "linear_regression", "--backends", "torch", "cpu", "--json", "--output-dir")
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda name: cli(*args, tmp_path / name, cache=tmp_path / "cache"), ("a", "b")))
    for result in both:
        assert [row["outcome"] for row in document(result)["results"]] == ["OK", "OK"]
    assert {path.name for path in (tmp_path / "a").iterdir()} == {path.name for path in (tmp_path / "b").iterdir()}
    assert len(list((tmp_path / "cache" / "artifacts").iterdir())) == 2
    assert list((tmp_path / "cache" / "tmp").iterdir()) == []
