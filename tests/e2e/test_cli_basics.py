"""The command itself: help, version, and the commands that list what there is."""

import pytest

import cross_backend
from cross_backend.backends._packages import spaces_in_path

COMMANDS = ("backends", "compare", "doctor", "explain", "export", "inspect", "models", "run")


def test_help_names_every_command(cli, plain):
    result = cli("--help")
    assert result.returncode == 0 and result.stderr == ""
    for command in COMMANDS:
        assert f"\n  {command} " in result.stdout
    plain(result.stdout)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(cli, plain, command):
    result = cli(command, "--help")
    assert result.returncode == 0 and result.stderr == ""
    assert f"usage: cross-backend {command}" in result.stdout
    assert "--json" in result.stdout
    plain(result.stdout)


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("compare", "--backends --platform --weights --num-runs --seconds --threads --seed --output-dir --jobs"),
        ("compare", "--timeout --strict"),
        ("explain", "--backend --weights --timeout"),
        ("export", "--backends --platform --weights --output-dir --jobs --timeout --strict"),
        ("export", "--all --mobilenet --yolo --precision --bundled --min-coverage"),
        ("run", "--model --platform --input --output --num-runs --seconds --threads --timeout"),
    ],
)
def test_help_names_every_option(cli, command, options):
    shown = cli(command, "--help").stdout
    for option in options.split():
        assert f"{option} " in shown


def test_version(cli):
    result = cli("--version")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"cross-backend {cross_backend.__version__}\n", "")


def test_models_as_a_table(cli, plain):
    result = cli("models")
    assert result.returncode == 0 and result.stderr == ""
    for name in ("digits_cnn", "linear_regression", "mobilenet_v2", "mobilenet_v3_small", "resnet50"):
        assert name in result.stdout
    plain(result.stdout)


def test_models_as_json(cli, document):
    result = cli("models", "--json")
    found = document(result)
    assert result.stderr == ""
    assert found["schema"] == 1
    rows = {row["name"]: row for row in found["models"]}
    assert {"digits_cnn", "linear_regression", "mobilenet_v2", "mobilenet_v3_small", "resnet50"} <= set(rows)
    assert all(row["summary"] and row["source"] for row in rows.values())
    remedies = {row["remedy"] for row in rows.values() if row["family"] != "detection"}
    assert remedies == {None}, "what the environment was made for is ready"
    assert (rows["yolo11n"]["source"], rows["yolo11n"]["licence"]) == ("ultralytics", "AGPL-3.0")
    resnet = rows["resnet50"]
    assert (resnet["family"], resnet["parameters"], resnet["ready"]) == ("vision", 25_557_032, True)
    assert resnet["flops"] == 8_178_368_512, "two for each of the 4.09 G multiply-adds that are published"


def test_backends_as_a_table(cli, plain):
    result = cli("backends")
    assert result.returncode == 0 and result.stderr == ""
    for name in ("executorch.xnnpack", "executorch.portable", "onnxruntime.cpu", "openvino", "torch.eager", "null"):
        assert name in result.stdout
    for heading in ("lowers", "runs", "life-cycle"):
        assert heading in result.stdout
    plain(result.stdout)


def test_backends_as_json(cli, document):
    result = cli("backends", "--json")
    found = document(result)
    assert result.stderr == ""
    assert found["schema"] == 1 and found["machine"]["cpu"]
    rows = {row["name"]: row for row in found["backends"]}
    assert list(rows) == sorted(rows)
    ours = {"torch.eager", "executorch.portable", "executorch.xnnpack"}
    if not spaces_in_path():
        ours |= {"torch.compile", "torch.aot_inductor"}
    for name in ours | {"onnxruntime.cpu", "openvino", "null"}:
        row = rows[name]
        assert (row["lower"], row["run"]) == (None, None), f"{name} is set up here and must be ready"
        assert row["lifecycle"] == "supported"
    assert {"xnnpack"} <= set(rows["executorch.xnnpack"]["aliases"])
    assert {"onnxruntime", "cpu"} <= set(rows["onnxruntime.cpu"]["aliases"])
    for row in rows.values():
        for unavailable in filter(None, (row["lower"], row["run"])):
            assert unavailable["reason"] and unavailable["remedy"], f"{row['name']} must say what mends it"


@pytest.mark.slow
def test_doctor_finds_this_environment_healthy(cli, document):
    result = cli("doctor", "--json")
    found = document(result)
    assert result.stderr == ""
    assert found["schema"] == 1 and found["healthy"] is True
    assert all(check["ok"] for check in found["checks"])
    assert {"torch", "executorch", "onnxruntime", "openvino"} <= {k for k, v in found["versions"].items() if v}
    outcomes = {row["name"]: row["outcome"] for row in found["backends"]}
    working = ("torch.eager", "executorch.portable", "executorch.xnnpack", "onnxruntime.cpu", "openvino")
    for name in (*working, "onnxruntime.genai"):  # the last of which runs decoders only
        assert outcomes[name] == "OK"


def test_doctor_names_a_cache_that_cannot_be_written(cli, tmp_path, document):
    (tmp_path / "file").touch()
    result = cli("doctor", cache=tmp_path / "file" / "cache", COLUMNS="60")
    assert result.returncode == 1
    assert max(len(line.rstrip()) for line in result.stdout.splitlines() if len(line.split()) > 1) <= 60
    assert "Traceback" not in result.stderr
    assert "CROSS_BACKEND_CACHE" in result.stdout + result.stderr
