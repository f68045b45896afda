"""``export`` with demands: what is below a floor, lacks a precision or cannot be built is not delivered."""

import re

import pytest

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


@pytest.mark.slow
@pytest.mark.parametrize("floor", ["0.9", "90%"])
def test_below_the_floor_of_coverage_nothing_is_delivered(floor, nets, cli, document, tmp_path):
    arguments = ("export", f"{nets}:net", "--min-coverage", floor, "--output-dir", tmp_path, "--backends")
    result = cli(*arguments, "xnnpack")
    assert result.returncode == 1 and "Traceback" not in result.stderr
    assert (
        "executes only 33.3% of the operators; 90% is asked for. Not delegated: 2 × aten::cumsum.out." in result.stdout
    )
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


@pytest.mark.slow
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
