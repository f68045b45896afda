"""``export`` of models by name: several, all, and those that are none or lack their package."""

import re

import pytest


def test_several_models(linear, cli, document, tmp_path):
    (tmp_path / "net.py").write_text("import torch\ndef half():\n    return torch.nn.ReLU(), torch.ones(1, 2)\n")
    models = ("linear_regression", f"{tmp_path / 'net.py'}:half")
    result = cli("export", *models, "--backends", "torch", "--output-dir", tmp_path / "out", "--json")
    assert [row["workload"] for row in document(result)["results"]] == ["linear_regression", "net_half"]
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"linear_regression_torch.pt2", "net_half_torch.pt2"} <= written


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


@pytest.mark.slow
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
