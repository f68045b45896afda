"""``export``: what is written, what a partial failure says, and what comes from the cache."""

import functools
import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from cross_backend.backends._packages import space_gap

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
    assert "cross_backend.export.export" in imported
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
NEEDS_YOLO = "needs the package ultralytics; pip install 'cross-backend[yolo]'"
FEWER = """\
import sys
from cross_backend.workloads.table import WORKLOADS
for name in set(WORKLOADS) - {"digits_cnn", "linear_regression", "yolo11n"}:
    del WORKLOADS[name]
del sys.argv[1:3]  # -m cross_backend
from cross_backend.cli import main
raise SystemExit(main())
"""
NETS = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 8)

    def forward(self, x):
        return self.linear(x).cumsum(1).cumsum(0)

def net():
    torch.manual_seed(0)
    return Net(), (torch.ones(2, 16),)

def broken():
    raise ValueError("no weights")
"""


@pytest.fixture(scope="module")
def nets(tmp_path_factory):
    """A file with a model of which XNNPACK takes one operator of three, and one that cannot be built."""
    path = tmp_path_factory.mktemp("nets") / "nets.py"
    path.write_text(NETS)
    return path


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


def test_two_tables_of_times_and_sizes_come_last(linear, cli, tmp_path, plain):
    (tmp_path / "net.py").write_text("import torch\ndef relu():\n    return torch.nn.ReLU(), torch.ones(1, 2)\n")
    models = ("linear_regression", f"{tmp_path / 'net.py'}:relu")
    result = cli("export", *models, "--backends", "torch", "openvino", "qnn", "--output-dir", tmp_path / "out")
    assert result.returncode == 0
    plain(result.stdout)
    lines = [re.sub(r"\s{2,}", " | ", line.strip()) for line in result.stdout.splitlines() if line.strip()]
    assert lines[-8].startswith("- Export time, capture excluded")
    assert lines[-7] == "Backend | linear_regression | net_relu"
    for line, target in zip(lines[-6:-4], ("torch", "openvino"), strict=True):
        assert re.fullmatch(rf"{target} \| [\d.]+ s \| [\d.]+ s", line)
    assert lines[-4:-2] == ["* File size", "Model | torch | openvino"]
    sizes = {}
    for line in lines[-2:]:
        name, *cells = line.split(" | ")
        assert all(re.fullmatch(r"[\d.]+ [kM]?B", cell) for cell in cells) and len(cells) == 2
        sizes[name] = cells[0]
    written = (tmp_path / "out" / "linear_regression_torch.pt2").stat().st_size
    assert sizes["linear_regression"] == f"{written / 1000:.1f} kB" and "net_relu" in sizes


def test_several_models_of_which_one_cannot_be_built(nets, cli, document, tmp_path):
    models = (f"{nets}:broken", "linear_regression")
    result = cli("export", *models, "--backends", "torch", "--output-dir", tmp_path)
    assert result.returncode == 1 and "Traceback" not in result.stderr
    broken, good = result.stdout.index("ValueError: no weights"), result.stdout.index("Successfully exported 1/1")
    assert broken < good
    assert (tmp_path / "linear_regression_torch.pt2").is_file()
    rows = document(cli("export", *models, "--backends", "torch", "--output-dir", tmp_path, "--json"), 1)["results"]
    assert [(row["workload"], row["outcome"]) for row in rows] == [
        ("nets_broken", "LOWER_FAIL"), ("linear_regression", "OK")
    ]  # fmt: skip


@pytest.mark.parametrize("floor", ["0.9", "90%"])
def test_below_the_floor_of_coverage_nothing_is_delivered(floor, nets, cli, document, tmp_path):
    arguments = ("export", f"{nets}:net", "--min-coverage", floor, "--output-dir", tmp_path, "--backends")
    result = cli(*arguments, "xnnpack")
    assert result.returncode == 1 and "Traceback" not in result.stderr
    assert "executes only 33.3% of the operators; 90% is asked for. Left: 2 × aten::cumsum.out." in result.stdout
    assert "No available backends" not in result.stdout, "it was available"
    assert list(tmp_path.iterdir()) == []
    bad, good = document(cli(*arguments, "xnnpack", "portable", "--json"))["results"]
    assert (bad["outcome"], bad["path"], good["outcome"]) == ("LOWER_FAIL", None, "OK")
    assert {path.name for path in tmp_path.iterdir()} == {
        "nets_net_portable.pte", "nets_net_portable.json", "nets_net_sample.npz"
    }  # fmt: skip


def test_at_the_floor_of_coverage_it_is_delivered(nets, cli, document, tmp_path):
    arguments = ("--backends", "xnnpack", "--min-coverage", "33%", "--output-dir", tmp_path, "--json")
    (row,) = document(cli("export", f"{nets}:net", *arguments))["results"]
    assert row["coverage"] == pytest.approx(1 / 3) and row["flop_coverage"] == 1
    assert (tmp_path / "nets_net_xnnpack.pte").is_file()


@pytest.mark.parametrize("share", ["2", "-0.1", "101%", "%", "nan", "most", ""])
def test_what_is_no_share_is_refused(share, cli, usage_error):
    usage_error(cli("export", "linear_regression", f"--min-coverage={share}"), "--min-coverage", "share from 0 to 1")


def test_precision_is_asked_of_every_backend_that_names_none(linear, cli, document, tmp_path):
    targets = ("portable", "iree", "openvino", "openvino?precision=bf16", "coreml?compute_unit=cpu")
    result = cli(
        "export", "linear_regression", "--backends", *targets, "--precision", "fp32", "--output-dir", tmp_path, "--json"
    )
    assert [(row["target"], row["outcome"]) for row in document(result)["results"]] == [
        ("executorch.portable?precision=fp32", "OK"),
        ("iree.llvm_cpu", "OK"),  # it computes in float32 and nothing else
        ("openvino?precision=fp32", "OK"),
        ("openvino?precision=bf16", "OK"),
        ("executorch.coreml?compute_unit=cpu&precision=fp32", "OK"),
    ]


def test_a_precision_that_a_backend_lacks_is_its_own_failure(linear, cli, document, tmp_path):
    arguments = ("--backends", "torch", "portable", "xnnpack", "--precision", "int8", "--output-dir", tmp_path)
    torch, portable, xnnpack = document(cli("export", "linear_regression", *arguments, "--json"))["results"]
    assert torch["outcome"] == portable["outcome"] == "UNSUPPORTED"
    assert torch["reason"].startswith("torch.eager has no int8: torch computes")
    assert portable["reason"] == "executorch.portable has no int8. It has fp32, fp16."
    assert xnnpack["outcome"] == "OK" and xnnpack["path"].endswith("linear_regression_xnnpack_int8.pte")


def test_an_unknown_precision_is_refused(cli, usage_error):
    usage_error(cli("export", "linear_regression", "--precision", "int3"), "--precision", "int3", "int8")


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


def test_what_was_removed_by_its_vendor_is_told_with_the_ways_out(linear, cli, document, tmp_path):
    arguments = ("export", "linear_regression", "--backends", "mps", "torch", "--output-dir", tmp_path)
    result = cli(*arguments, CROSS_BACKEND_TOOLCHAINS=str(tmp_path / "none"))
    assert result.returncode == 0
    assert re.search(
        r"mps: removed in executorch 1\.5 \(.* is installed here\); ways out: executorch\.coreml", result.stdout
    )
    mps, _ = document(cli(*arguments, "--json", CROSS_BACKEND_TOOLCHAINS=str(tmp_path / "none")))["results"]
    assert mps["outcome"] == "UNAVAILABLE" and mps["reason"].endswith("cross-backend toolchain add mps")
    assert mps["lifecycle"].startswith("removed in executorch 1.5")


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
    assert ("torch.aot_inductor" in here) == (space_gap() is None)
    assert all(rows[name]["outcome"] == "UNAVAILABLE" and rows[name]["reason"] for name in set(rows) - here)


def test_mobilenet_stands_for_the_guides_model(cli, document, tmp_path):
    arguments = ("mobilenet_v3_small", "--mobilenet", "--backends", "torch", "--output-dir", tmp_path, "--json")
    (row,) = document(cli("export", *arguments))["results"]
    assert (row["workload"], row["outcome"]) == ("mobilenet_v3_small", "OK")
    assert (tmp_path / "mobilenet_v3_small_torch.pt2").is_file()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("MODEL", "--mobilenet", "--yolo NAME", "--all")),
        (("--yolo", "yolo11x9"), ("unknown YOLO detector 'yolo11x9'", "Did you mean", "yolov8n")),
        (("--yolo", "resnet50"), ("unknown YOLO detector 'resnet50'", "yolo11n")),
        (("--yolo",), ("--yolo",)),
    ],
)
def test_models_that_are_none_are_told_before_anything_is_done(arguments, words, cli, usage_error, tmp_path):
    usage_error(cli("export", *arguments, cwd=tmp_path, cache=tmp_path / "cache"), *words)
    assert list(tmp_path.iterdir()) == []


def test_a_detector_without_its_package_tells_the_remedy(cli, complaint, tmp_path):
    result = cli("export", "--yolo", "yolo11n", "--backends", "torch", "--output-dir", tmp_path / "out")
    complaint(result, 1, f"yolo11n {NEEDS_YOLO}")
    assert result.stdout == ""


def test_all_models_are_exported_and_those_without_their_package_are_told(cli, document, tmp_path):
    """Of a table with fewer rows: all of them take a quarter of an hour. This environment has no ultralytics: it is
    licensed under the AGPL and only installed by who asks for it.
    """

    def export(*more):
        return cli("export", "--all", "--backends", "torch", "--output-dir", tmp_path, *more, before=("-c", FEWER))

    result = export()
    assert result.returncode == 0, result.stderr
    assert {path.name for path in tmp_path.glob("*.pt2")} == {"digits_cnn_torch.pt2", "linear_regression_torch.pt2"}
    assert [line for line in result.stdout.splitlines() if NEEDS_YOLO in line] == [f"[warn] yolo11n {NEEDS_YOLO}"]
    assert "No available backends" not in result.stdout
    tables = result.stdout[result.stdout.index("Export time") :]
    assert "digits_cnn" in tables and "yolo" not in tables
    rows = document(export("--json"))["results"]
    assert {row["workload"]: row["outcome"] for row in rows} == {
        "digits_cnn": "OK", "linear_regression": "OK", "yolo11n": "UNAVAILABLE"
    }  # fmt: skip
    assert export("--strict", "--json").returncode == 1
    assert export("--yolo", "yolo11n", "--json").returncode == 1, "a model that was named must be there"
