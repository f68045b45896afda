"""Machines without Python: the C++ runner measures there; an emulated one shows right or wrong."""

import platform

import pytest

from cross_backend.toolchains import VARIABLE
from tests.needs import program

QUICK = ("--num-runs", "40", "--seconds", "1", "--launches", "1")


def test_a_place_without_the_runner_says_how_to_build_it(cli, far, complaint, tmp_path):
    command = ("compare", "linear_regression", "--backends", "portable", *QUICK)
    more = {VARIABLE: str(tmp_path), "CROSS_BACKEND_SSH": far.command}
    result = cli(*command, "--on", "ssh://there", "--via", "runner", **more)
    complaint(result, 1, "ssh://there needs the C++ runner", "toolchain add runner-")
    result = cli(*command, "--on", "ssh://there?python=/nowhere", "--via", "python", **more)
    complaint(result, 1, "has no usable Python at '/nowhere'", "--via runner")


@pytest.mark.parametrize("architecture", ["mips", "riscv64"])
def test_an_emulated_machine_that_is_not_there(architecture, cli, complaint):
    command = ("compare", "linear_regression", "--backends", "portable", "--on", f"qemu:{architecture}")
    complaint(cli(*command), 1, f"qemu:{architecture}")


@pytest.mark.slow
def test_over_ssh_it_ranks_what_it_holds(cli, far, document, toolchains):
    command = ("compare", "mobilenet_v3_small", "--backends", "xnnpack", "atalla", "openvino", *QUICK, "--json")
    result = cli(
        *command, "--on", "ssh://there", "--via", "runner", **{VARIABLE: toolchains, "CROSS_BACKEND_SSH": far.command}
    )
    rows = {row["target"]: row for row in document(result)["results"]}
    for target in ("executorch.xnnpack", "atalla"):
        assert rows[target]["outcome"] == "OK" and rows[target]["latency_ms"]["n"] >= 6
        assert rows[target]["error"]["max_rel"] < 1e-3
        assert {one["metric"] for one in rows[target]["measurements"]} == {
            "cold_start.load",
            "cold_start.first_inference",
        }
    assert rows["openvino"]["outcome"] == "UNAVAILABLE" and "C++ runner" in rows["openvino"]["reason"]
    assert not list(far.cache.glob("scratch/*"))


@pytest.mark.slow
@pytest.mark.timeout(1500)  # a build with all kernels, beside other tests
def test_arm_programs_are_verified_under_emulation_and_never_ranked(cli, document, kept_folder):
    program("qemu-aarch64")
    program("aarch64-linux-gnu-g++")
    folder = str(kept_folder / "runners")
    result = cli("toolchain", "add", "runner-aarch64", timeout=1200, **{VARIABLE: folder})
    assert result.returncode == 0, result.stderr
    command = ("compare", "mobilenet_v3_small", "--backends", "xnnpack", "portable", "atalla", *QUICK, "--json")
    result = cli(*command, "--on", "qemu:aarch64", **{VARIABLE: folder})
    found = document(result)
    (panel,) = found["panels"]
    assert (panel["place"], panel["machine"]["arch"]) == ("qemu:aarch64", "arm64")
    for row in found["results"]:
        assert row["outcome"] == "OK" and row["error"]["max_rel"] < 1e-3, row["reason"]
        assert row["rank"] is None and row["latency_ms"] is None and "emulated" in row["unranked"]


@pytest.mark.slow
def test_run_says_what_the_runner_says(cli, far, document, toolchains, linear):
    more = {VARIABLE: toolchains, "CROSS_BACKEND_SSH": far.command}
    artifact = linear / "linear_regression_xnnpack.pte"
    result = cli("run", artifact, "--on", "ssh://there", "--via", "runner", "--profile", "--json", *QUICK[:2], **more)
    found = document(result)
    assert found["place"] == "ssh://there" and found["results"][0]["outcome"] == "OK"
    assert any(row["name"] == "XnnpackBackend" for row in found["profile"])
    result = cli("run", artifact, "--input", "1,2,3,4", "--on", "ssh://there", "--via", "runner", **more)
    assert "2.718" in result.stdout


@pytest.mark.nightly
@pytest.mark.timeout(1500)  # as above
def test_the_runner_that_users_build_for_such_a_machine_measures_there(cli, far, document, kept_folder, linear):
    folder = str(kept_folder / "runners")
    result = cli("toolchain", "add", f"runner-{platform.machine()}", timeout=1200, **{VARIABLE: folder})
    assert result.returncode == 0, result.stderr
    artifact, more = linear / "linear_regression_xnnpack.pte", {VARIABLE: folder, "CROSS_BACKEND_SSH": far.command}
    found = document(cli("run", artifact, "--on", "ssh://there", "--via", "runner", "--json", *QUICK[:2], **more))
    assert found["place"] == "ssh://there" and found["results"][0]["outcome"] == "OK"
