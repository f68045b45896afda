"""``export``: what is written, what a partial failure says, and what comes from the cache."""

import functools
import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from cross_backend.backends._packages import spaces_in_path

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
    assert "cross_backend.exporting.export" in imported
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
    result = cli("export", "linear_regression", "--backends", "xnnpack", "qnn", "--output-dir", tmp_path)
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    succeeded = next(i for i, line in enumerate(lines) if "Successfully exported 1/2 backends" in line)
    failed = next(i for i, line in enumerate(lines) if "Failed 1 backend(s):" in line)
    assert succeeded < failed
    assert re.fullmatch(r" +• xnnpack: .*linear_regression_xnnpack\.pte \([\d.]+ [kM]?B.*\)", lines[succeeded + 1])
    assert re.fullmatch(r" +• qnn: executorch\.qnn .+", lines[failed + 1])
    assert (tmp_path / "linear_regression_xnnpack.pte").is_file()


def test_partial_failure_in_json(linear, cli, document, tmp_path):
    args = ("export", "linear_regression", "--backends", "xnnpack", "qnn", "--output-dir", tmp_path, "--json")
    good, bad = document(cli(*args))["results"]
    assert good["outcome"] == "OK"
    assert bad["outcome"] == "UNAVAILABLE" and "executorch.qnn" in bad["reason"]
    assert bad["target"] == "executorch.qnn" and bad["path"] is bad["size_bytes"] is bad["coverage"] is None


def test_strict_turns_a_partial_failure_into_status_1(linear, cli, tmp_path):
    result = cli("export", "linear_regression", "--backends", "xnnpack", "qnn", "--strict", "--output-dir", tmp_path)
    assert result.returncode == 1
    assert (tmp_path / "linear_regression_xnnpack.pte").is_file(), "what succeeded is kept"


def test_nothing_succeeded_is_status_1_and_lists_the_choices(linear, cli, tmp_path):
    result = cli("export", "linear_regression", "--backends", "qnn", "--output-dir", tmp_path)
    assert result.returncode == 1
    told = result.stdout + result.stderr
    assert "Traceback" not in told
    assert "No available backends from requested: qnn" in told and "openvino" in told
    assert list(tmp_path.iterdir()) == []


def test_platform_chooses_the_backends(linear, cli, document, tmp_path):
    result = cli("export", "linear_regression", "--platform", "web", "--output-dir", tmp_path, "--json")
    assert [row["target"] for row in document(result)["results"]] == ["executorch.xnnpack", "executorch.portable"]


def test_same_target_twice_is_one_file(linear, cli, document, tmp_path):
    result = cli("export", "linear_regression", "--backends", "cpu", "onnxruntime", "--output-dir", tmp_path, "--json")
    first, second = document(result)["results"]
    assert first["path"] == second["path"] and second["outcome"] == "OK"


@pytest.mark.slow
def test_two_exports_at_once_share_an_empty_cache(cli, document, tmp_path):
    args = ("export", "linear_regression", "--backends", "torch", "cpu", "--json", "--output-dir")
    with ThreadPoolExecutor(2) as pool:
        start = functools.partial(cli, *args, cache=tmp_path / "cache")
        both = list(pool.map(start, (tmp_path / "a", tmp_path / "b")))
    for result in both:
        assert [row["outcome"] for row in document(result)["results"]] == ["OK", "OK"]
    assert {path.name for path in (tmp_path / "a").iterdir()} == {path.name for path in (tmp_path / "b").iterdir()}
    assert len(list((tmp_path / "cache" / "artifacts").iterdir())) == 2
    assert list((tmp_path / "cache" / "tmp").iterdir()) == []


FIELDS = {
    "workload", "target", "outcome", "path", "bundled_path", "size_bytes", "coverage", "flop_coverage", "export_s",
    "estimate", "cached", "reason", "lifecycle",
}  # fmt: skip


def test_json_rows_have_the_same_fields_whatever_happened(linear, cli, document, tmp_path):
    args = ("--backends", "xnnpack", "qnn?precision=int8", "torch", "--precision", "int8", "--output-dir", tmp_path)
    good, unavailable, without = document(cli("export", "linear_regression", *args, "--json"))["results"]
    assert set(good) == set(unavailable) == set(without) == FIELDS
    assert good["flop_coverage"] == good["coverage"] == 1 and good["bundled_path"] is None
    assert (good["lifecycle"], unavailable["lifecycle"], without["lifecycle"]) == ("supported", "supported", None)
    assert (unavailable["outcome"], without["outcome"]) == ("UNAVAILABLE", "UNSUPPORTED")
    assert (
        without["reason"].startswith("torch.eager has no int8: ")
        and without["flop_coverage"] is without["export_s"] is None
    )


def test_bundled_programs_lie_beside_what_executorch_runs(linear, cli, document, tmp_path):
    arguments = ("export", "linear_regression", "--backends", "portable", "openvino", "--output-dir", tmp_path)
    portable, openvino = document(cli(*arguments, "--bundled", "--json"))["results"]
    bundled = tmp_path / "linear_regression_portable.bpte"
    assert (portable["bundled_path"], openvino["bundled_path"]) == (str(bundled), None)
    assert bundled.read_bytes()[4:8] == b"BP08"
    payload = (tmp_path / "linear_regression_portable.pte").read_bytes()
    assert payload in bundled.read_bytes(), "the same program"
    manifest = document(cli("inspect", portable["path"], "--json"))
    assert manifest["bundled"]["path"] == bundled.name
    assert [path.suffix for path in tmp_path.iterdir()].count(".bpte") == 1
    assert f"and {bundled.name} (" in cli(*arguments, "--bundled").stdout


def test_a_damaged_bundled_program_is_refused(linear, cli, complaint, tmp_path):
    assert cli(
        "export", "linear_regression", "--backends", "portable", "--bundled", "--output-dir", tmp_path
    ).returncode == 0  # fmt: skip
    bundled = tmp_path / "linear_regression_portable.bpte"
    bundled.write_bytes(bundled.read_bytes()[:-1])
    complaint(cli("inspect", tmp_path / "linear_regression_portable.pte"), 1, bundled.name, "sha256")


@pytest.mark.slow
def test_all_backends_are_the_registrys(linear, cli, document, tmp_path):
    result = cli(
        "export", "linear_regression", "--backends", "all", "torch?threads=2", "--output-dir", tmp_path, "--json",
        CROSS_BACKEND_TOOLCHAINS=str(tmp_path / "none"),
    )  # fmt: skip
    rows = {row["target"]: row for row in document(result)["results"]}
    known = {row["name"] for row in document(cli("backends", "--json"))["backends"]}
    assert set(rows) == known - {"null"} | {"torch.eager?threads=2"}
    here = {name for name, row in rows.items() if row["outcome"] == "OK"}
    assert {"executorch.coreml", "executorch.portable", "executorch.vulkan", "executorch.xnnpack"} <= here
    assert {"onnxruntime.cpu", "openvino", "torch.compile", "torch.eager"} <= here
    assert ("torch.aot_inductor" in here) == (spaces_in_path() is None)
    others = {name: rows[name]["outcome"] for name in set(rows) - here}
    decoders_only = {name for name, outcome in others.items() if outcome == "UNSUPPORTED"}
    assert decoders_only == {"llama_cpp", "onnxruntime.genai"}
    assert set(others.values()) == {"UNAVAILABLE", "UNSUPPORTED"} and all(rows[name]["reason"] for name in others)
