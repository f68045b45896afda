"""``run --bundled-program``: ExecuTorch's bundled programs, ours and those that others made."""

import dataclasses
import json
import shutil

import pytest

from cross_backend.artifact import Artifact, digest_path
from cross_backend.backends.executorch._bundled import BUNDLED

QUICK = ("--bundled-program", "--num-runs", "30", "--seconds", "1")


@pytest.fixture
def alone(linear, tmp_path):
    """Write a bundled program with no manifest beside it, as others hand it on; give its path."""

    def write(name="xnnpack"):
        path = tmp_path / f"theirs_{name}.bpte"
        BUNDLED.write(Artifact.read(linear / f"linear_regression_{name}.json"), path)
        return path

    return write


@pytest.fixture
def ours(damaged):
    """Give an artifact whose manifest names its bundled program, as ``export --bundled`` writes them."""

    def write(name="xnnpack"):
        artifact = Artifact.read(damaged / f"linear_regression_{name}.json")
        path = damaged / f"{artifact.name}.bpte"
        BUNDLED.write(artifact, path)
        named = dataclasses.replace(artifact, bundled=path.name, bundled_sha256=digest_path(path))
        named.write_manifest()
        return named

    return write


@pytest.mark.parametrize("name", ["xnnpack", "portable"])
def test_file_of_others_is_verified_and_timed(name, alone, cli, document):
    result = cli("run", alone(name), *QUICK, "--json")
    found = document(result)
    assert result.stderr == ""
    (row,) = found["results"]
    assert (row["target"], row["workload"]) == (f"executorch.{name}", f"theirs_{name}")
    assert (row["outcome"], row["test_cases"], row["latency_ms"]["n"]) == ("OK", 1, 30)
    assert row["error"]["verdict"] is True and row["error"]["tolerance"] == pytest.approx(7.2e-4)
    assert row["placement"] is None and row["export_s"] is None, "nothing is said that the file does not tell"


def test_file_of_ours_keeps_what_its_manifest_says(ours, cli, document, plain):
    artifact = ours()
    row = document(cli("run", artifact.bundled_path, *QUICK, "--json"))["results"][0]
    assert (row["target"], row["workload"]) == (artifact.target, "linear_regression")
    assert row["placement"]["inside"] and row["export_s"] == artifact.export_s
    shown = cli("run", artifact.bundled_path, *QUICK)
    assert shown.returncode == 0, shown.stderr
    assert "1 test case is right" in shown.stdout and "2.718" in shown.stdout and "ms median" in shown.stdout
    plain(shown.stdout)


@pytest.mark.parametrize("given", ["payload_path", "manifest_path"])
def test_payload_and_manifest_stand_for_the_bundled_program(given, ours, cli, document):
    row = document(cli("run", getattr(ours(), given), "--bundled_program", "--num_runs", "6", "--json"))["results"][0]
    assert row["outcome"] == "OK" and row["test_cases"] == 1


def test_digest_is_checked_before_the_runtime_sees_a_byte(ours, cli, complaint):
    artifact = ours()
    data = bytearray(artifact.bundled_path.read_bytes())
    data[-1] ^= 1
    artifact.bundled_path.write_bytes(data)
    complaint(cli("run", artifact.bundled_path, *QUICK), 1, "is not the bundled program that", artifact.name)


@pytest.mark.slow
def test_precision_of_our_manifest_is_the_tolerance(cli, tmp_path, document, complaint):
    made = tmp_path / "made"
    exported = cli(
        "export", "linear_regression", "--backends", "xnnpack?precision=int8", "--bundled", "--output-dir", made
    )
    assert exported.returncode == 0, exported.stderr + exported.stdout
    (path,) = made.glob("*.bpte")
    row = document(cli("run", path, *QUICK, "--json"))["results"][0]
    assert row["outcome"] == "OK" and row["error"]["tolerance"] == 4.0 and row["error"]["max_rel"] > 1e-4
    shutil.copyfile(path, tmp_path / "theirs.bpte")
    complaint(cli("run", tmp_path / "theirs.bpte", *QUICK), 1, "MISMATCH", "0.0007 is allowed")


def test_profile_of_a_bundled_program(alone, cli, document):
    found = document(cli("run", alone(), *QUICK, "--profile", "--json"))
    assert len(found["iterations_ms"]) == 30
    assert {row["kind"] for row in found["profile"]} == {"delegate", "delegated"}


def cases(path, payload, count, wrong=None):
    """Bundle a program that adds one to four numbers with several test cases, as executorch's documentation shows."""
    import torch
    from executorch.devtools import BundledProgram
    from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
    from executorch.devtools.bundled_program.serialize import serialize_from_bundled_program_to_flatbuffer

    made = []
    for index in range(count):
        x = torch.full((1, 4), float(index + 1))
        made.append(MethodTestCase([x], [x + (2 if index == wrong else 1)]))
    bundled = BundledProgram(None, [MethodTestSuite("forward", made)], pte_file_path=str(payload))
    path.write_bytes(serialize_from_bundled_program_to_flatbuffer(bundled))
    return path


@pytest.fixture(scope="module")
def adds_one(tmp_path_factory):
    """Lower a program that adds one, with executorch alone."""
    import torch
    from executorch.exir import to_edge

    class AddOne(torch.nn.Module):
        def forward(self, x):
            return x + 1

    path = tmp_path_factory.mktemp("adds_one") / "adds_one.pte"
    program = to_edge(torch.export.export(AddOne(), (torch.ones(1, 4),))).to_executorch()
    path.write_bytes(program.buffer)
    return path


def test_every_test_case_is_verified(adds_one, cli, tmp_path, document):
    path = cases(tmp_path / "three.bpte", adds_one, 3)
    row = document(cli("run", path, *QUICK, "--json"))["results"][0]
    assert (row["outcome"], row["test_cases"]) == ("OK", 3)
    assert "3 test cases are right" in cli("run", path, *QUICK).stdout


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_one_wrong_test_case_is_found(wrong, adds_one, cli, tmp_path, complaint):
    path = cases(tmp_path / "three.bpte", adds_one, 3, wrong)
    result = cli("run", path, *QUICK, "--json")
    complaint(result, 1, "MISMATCH", f"test case {wrong}: wrong outputs")
    row = json.loads(result.stdout)["results"][0]
    assert row["outcome"] == "MISMATCH" and row["latency_ms"] is None


def test_bundled_program_may_be_called_pte(adds_one, cli, tmp_path, document, usage_error):
    """As in executorch's own examples: ``mv2_mps_bundled.pte``."""
    path = cases(tmp_path / "net_bundled.pte", adds_one, 1)
    assert document(cli("run", path, *QUICK, "--json"))["results"][0]["outcome"] == "OK"
    usage_error(cli("run", path), "add --bundled-program")


def test_foreign_json_beside_it_is_left_alone(adds_one, cli, tmp_path, document):
    path = cases(tmp_path / "net.bpte", adds_one, 1)
    (tmp_path / "net.json").write_text('{"layers": 3}')
    assert document(cli("run", path, *QUICK, "--json"))["results"][0]["outcome"] == "OK"


def test_outputs_are_those_of_the_first_case(adds_one, cli, tmp_path):
    import numpy as np

    path = cases(tmp_path / "net.bpte", adds_one, 2)
    result = cli("run", path, *QUICK, "--output", tmp_path / "out.npz")
    assert result.returncode == 0, result.stderr
    with np.load(tmp_path / "out.npz") as written:
        np.testing.assert_array_equal(written["output_0"], [[2, 2, 2, 2]])


def test_delegate_that_this_runtime_does_not_hold(cli, tmp_path, complaint):
    made = tmp_path / "made"
    exported = cli("export", "linear_regression", "--backends", "vulkan", "--bundled", "--output-dir", made)
    assert exported.returncode == 0, exported.stderr
    shutil.copyfile(made / "linear_regression_vulkan.bpte", tmp_path / "theirs.bpte")
    for path in (made / "linear_regression_vulkan.bpte", tmp_path / "theirs.bpte"):
        complaint(cli("run", path, *QUICK), 1, "executorch.vulkan does not run here", "EXECUTORCH_BUILD_VULKAN")


def test_runtime_that_aborts_is_one_line(adds_one, cli, tmp_path, complaint):
    """The file is well-formed, and its only instruction takes a number where its kernel wants a tensor."""
    from executorch.exir._serialize._program import deserialize_pte_binary, serialize_pte_binary

    file = deserialize_pte_binary(adds_one.read_bytes())
    args = file.program.execution_plan[0].chains[0].instructions[0].instr_args.args
    args[0] = args[2]
    (tmp_path / "bad.pte").write_bytes(bytes(serialize_pte_binary(file)))
    path = cases(tmp_path / "bad.bpte", tmp_path / "bad.pte", 1)
    complaint(cli("run", path, *QUICK), 1, "SIGABRT")


@pytest.mark.parametrize("content", [b"", b"no program", b"\0\0\0\0BP99" + bytes(99), b"\1\0\0\0BP08" + b"\xff" * 999])
def test_garbage_is_one_line(content, cli, tmp_path, complaint):
    (tmp_path / "x.bpte").write_bytes(content)
    complaint(cli("run", tmp_path / "x.bpte", *QUICK), 1, "x.bpte")


def test_what_is_no_bundled_program(linear, cli, tmp_path, complaint, usage_error):
    complaint(cli("run", linear / "linear_regression_portable.pte", *QUICK), 1, "is not a bundled program", "--bundled")
    complaint(cli("run", linear / "linear_regression_onnxruntime.onnx", *QUICK), 1, "is not a bundled program")
    complaint(cli("run", linear, *QUICK), 1, "is not a bundled program")
    complaint(cli("run", tmp_path / "absent.bpte", *QUICK), 1, "does not exist")


def test_bundled_program_without_its_option(alone, cli, usage_error):
    usage_error(cli("run", alone()), "add --bundled-program")


@pytest.mark.parametrize("option", [("--input", "1,2,3,4"), ("--model", "net"), ("--platform", "linux")])
def test_what_the_file_brings_itself(option, alone, cli, usage_error):
    usage_error(cli("run", alone(), *QUICK, *option), option[0], "--bundled-program")
