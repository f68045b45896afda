"""Names and values that do not exist: one line with the choices and "did you mean", status 2, no traceback."""

import pytest


def test_no_command(cli):
    result = cli()
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("usage: cross-backend") and "compare" in result.stderr


@pytest.mark.parametrize(
    ("command", "near"), [("exprot", "export"), ("backend", "backends"), ("comapre", "compare"), ("zzz", None)]
)
def test_unknown_command(command, near, cli, usage_error):
    line = usage_error(cli(command), repr(command), "backends", "compare", "doctor", "export", "inspect", "models")
    assert (f"Did you mean '{near}'" in line) if near else ("Did you mean" not in line)


@pytest.mark.parametrize(
    ("args", "wrong", "near"),
    [
        (("export", "linear_regression", "--backnds", "cpu"), "--backnds", "--backends"),
        (("compare", "linear_regression", "--num-rums", "3"), "--num-rums", "--num-runs"),
        (("run", "x.pte", "--imput=1"), "--imput", "--input"),
        (("models", "--jason"), "--jason", "--json"),
        (("--verion",), "--verion", "--version"),
    ],
)
def test_unknown_option(args, wrong, near, cli, usage_error):
    line = usage_error(cli(*args), wrong)
    assert f"did you mean {near}" in line.replace("'", "")


def test_options_are_not_abbreviated(cli, usage_error):
    usage_error(cli("export", "linear_regression", "--back", "cpu"), "--back")


@pytest.mark.parametrize("command", ["export", "compare"])
@pytest.mark.parametrize(
    ("model", "near"), [("linear_regresion", "linear_regression"), ("mobilenet_v3", "mobilenet_v3_small"), ("é", None)]
)
def test_unknown_model(command, model, near, cli, tmp_path, usage_error):
    line = usage_error(cli(command, model, "--backends", "cpu", "--output-dir", tmp_path / "out"), repr(model))
    assert "digits_cnn" in line and "resnet50" in line, "all choices are listed"
    guess = line.partition("Did you mean")[2].partition("?")[0]
    assert (repr(near) in guess) if near else not guess
    assert not (tmp_path / "out").exists(), "nothing is created for a typing error"


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("xnnpak", ("unknown backend 'xnnpak'", "Did you mean", "'xnnpack'", "openvino")),
        ("XNNPACK", ("XNNPACK",)),
        ("", ("not a target",)),
        ("cpu?thread=1", ("'thread'", "Did you mean 'threads'")),
        ("cpu?threads=zero", ("'threads'", "'zero'")),
        ("cpu?threads=0", ("'threads'", "'0'")),
        ("openvino?precision=fp23", ("'fp23'", "fp32", "bf16")),
        ("cpu?threads", ("'threads'", "key=value")),
        ("cpu?threads=1&threads=2", ("'threads'", "twice")),
    ],
)
def test_unknown_target(target, words, cli, usage_error):
    usage_error(cli("compare", "linear_regression", "--backends", "cpu", target), *words)


SLOW_TO_BUILD = """
import time
from pathlib import Path
def net():
    Path(__file__).with_name("built").touch()
    time.sleep(600)
"""


@pytest.mark.parametrize("command", ["export", "compare", "bundle", "explain", "study"])
@pytest.mark.parametrize(("target", "word"), [("xnnpak", "'xnnpack'"), ("cpu?thread=1", "'threads'")])
def test_unknown_target_is_told_before_anything_is_built(command, target, word, cli, tmp_path, write_study):
    (tmp_path / "net.py").write_text(SLOW_TO_BUILD)
    model = f"{tmp_path / 'net.py'}:net"
    asked = {
        "explain": (model, "--backend", target),
        "study": ("run", write_study(tmp_path / "study.yaml", [model], ["cpu", target])),
    }
    result = cli(command, *asked.get(command, (model, "--backends", "cpu", target)), cwd=tmp_path)
    assert result.returncode == 2 and "Traceback" not in result.stderr
    assert "Did you mean" in result.stderr and word in result.stderr
    assert result.stdout == "" and not (tmp_path / "built").exists()


@pytest.mark.parametrize("command", ["export", "compare"])
def test_unknown_platform(command, cli, usage_error):
    usage_error(cli(command, "linear_regression", "--platform", "iso"), "'iso'", "Did you mean 'ios'", "android", "web")


def test_unknown_platform_of_run(linear, cli, usage_error):
    usage_error(cli("run", linear, "--platform", "lunix"), "'lunix'", "Did you mean 'linux'")
    usage_error(cli("run", linear / "linear_regression_torch.pt2", "--platform", "lunix"), "'lunix'")


def test_backends_and_platform_exclude_each_other(cli, usage_error):
    usage_error(
        cli("compare", "linear_regression", "--platform", "ios", "--backends", "cpu"), "--backends", "--platform"
    )


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--num-runs", "0"),
        ("--num-runs", "-5"),
        ("--num-runs", "many"),
        ("--num-runs", "1.5"),
        ("--seconds", "0"),
        ("--seconds", "nan"),
        ("--seconds", "inf"),
        ("--threads", "0"),
        ("--threads", "99999"),
        ("--seed", "x"),
        ("--jobs", "0"),
        ("--timeout", "-1"),
    ],
)
def test_value_that_does_not_fit(option, value, cli, usage_error):
    usage_error(cli("compare", "linear_regression", "--backends", "cpu", f"{option}={value}"), option)


@pytest.mark.parametrize("option", ["--timeout", "--seconds"])
def test_very_long_times_are_allowed_or_refused(option, linear, cli, complaint):
    """A user who wants no limit writes a huge number."""
    args = ("compare", "linear_regression", "--backends", "cpu", "--num-runs", "6", "--seconds", "1")
    result = cli(*args, option, "1e12")
    if result.returncode:
        complaint(result, 2, option)
    else:
        assert "Ranking" in result.stdout


def test_threads_of_run_beyond_the_processors(linear, cli, usage_error):
    args = ("run", linear / "linear_regression_onnxruntime.onnx", "--threads", "4096", "--num-runs", "6")
    usage_error(cli(*args, "--timeout", "30"), "--threads", "4096")


@pytest.mark.parametrize("missing", [("export",), ("compare",), ("run",), ("inspect",)])
def test_forgotten_argument(missing, cli, usage_error):
    usage_error(cli(*missing), "required")


@pytest.mark.parametrize("command", ["run", "inspect"])
def test_artifact_that_does_not_exist(command, cli, tmp_path, complaint):
    result = cli(command, tmp_path / "absent.pte")
    complaint(result, 1, "absent.pte does not exist")


def test_payload_without_a_manifest(cli, damaged, complaint):
    """There is nothing to show; it runs, unverified."""
    (damaged / "linear_regression_xnnpack.json").unlink()
    complaint(cli("inspect", damaged / "linear_regression_xnnpack.pte"), 1, "linear_regression_xnnpack.json", "export")


@pytest.mark.parametrize("command", ["run", "inspect"])
def test_folder_without_artifacts(command, cli, tmp_path, complaint):
    (tmp_path / "empty").mkdir()
    complaint(cli(command, tmp_path / "empty"), 1, "empty")


@pytest.mark.parametrize(
    ("weights", "words"), [("absent.pt", ("absent.pt",)), ("garbage.pt", ("garbage.pt",)), ("other.pt", ("other.pt",))]
)
def test_weights_that_do_not_fit(weights, words, cli, tmp_path, complaint):
    import torch

    (tmp_path / "garbage.pt").write_bytes(b"\x00" * 100)
    torch.save({"weight": torch.zeros(7, 7)}, tmp_path / "other.pt")
    result = cli(
        "export", "linear_regression", "--weights", tmp_path / weights, "--backends", "cpu", "--output-dir", tmp_path
    )
    complaint(result, 1, *words)
