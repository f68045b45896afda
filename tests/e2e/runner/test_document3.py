"""One file of ExecuTorch's in the runner: what ``cross-backend run`` says of it, it says, too."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cross_backend.artifact import Artifact, digest_path
from cross_backend.backends.executorch._bundled import BUNDLED
from tests.e2e import test_cli_run_bundled
from tests.e2e.test_cli_run_bundled import adds_one

__all__ = ["adds_one"]

QUICK = ("--bundled_program", "--num-runs", "30", "--seconds", "1")
Run = Callable[..., Any]
cases: Run = test_cli_run_bundled.cases


@pytest.fixture
def alone(linear: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Write a bundled program with no manifest beside it, as others hand it on; give its path."""

    def write(name: str = "xnnpack") -> Path:
        path = tmp_path / f"theirs_{name}.bpte"
        BUNDLED.write(Artifact.read(linear / f"linear_regression_{name}.json"), path)
        return path

    return write


@pytest.fixture
def complains() -> Run:
    """Check for one clear line and a status; give the line."""

    def check(done: Any, status: int, *words: str) -> str:
        assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
        assert done.stderr.startswith("cross_backend_runner: ") and done.stderr.count("\n") == 1, done.stderr
        assert len(done.stderr) < 1000
        for word in words:
            assert word in done.stderr
        return str(done.stderr)

    return check


@pytest.mark.parametrize("name", ["xnnpack", "portable"])
def test_document_is_that_of_the_command(name: str, alone: Run, runner: Run, cli: Run, document: Run) -> None:
    path = alone(name)
    ours = document(runner("--model_path", path, *QUICK, "--profile", "--json"))
    theirs = document(cli("run", path, *QUICK, "--profile", "--json"))
    (row,), (wanted,) = ours["results"], theirs["results"]
    assert theirs.keys() <= ours.keys()
    assert ours["machine"] == {key: theirs["machine"][key] for key in ours["machine"]}
    assert row.keys() - wanted.keys() <= {"name", "title"}
    for key in ("workload", "target", "outcome", "rank", "coverage", "export_s", "test_cases"):
        assert row[key] == wanted[key], key
    assert row["latency_ms"].keys() == wanted["latency_ms"].keys() and row["latency_ms"]["n"] == 30
    for key in ("max_abs", "max_rel", "tolerance", "verdict", "reason", "unproved"):
        assert row["error"][key] == (
            pytest.approx(wanted["error"][key]) if key == "tolerance" else wanted["error"][key]
        )
    assert len(ours["iterations_ms"]) == 30 and min(ours["iterations_ms"]) > 0
    assert ours["profile_runs"] == theirs["profile_runs"]
    told = [{(one["name"], one["kind"], one["calls"]) for one in found["profile"]} for found in (ours, theirs)]
    assert told[0] == told[1], "the runtime's own tracer tells both the same operators"
    assert sum(one["share"] for one in ours["profile"]) == pytest.approx(1)


def test_text_of_a_bundled_program(alone: Run, runner: Run, plain: Run) -> None:
    done = runner(alone(), "--bundled-program", "--num_runs", "12", "--profile")
    assert (done.returncode, done.stderr) == (0, "")
    plain(done.stdout)
    assert "theirs_xnnpack on executorch.xnnpack: 1 test case is right (largest error " in done.stdout
    assert " ms median (" in done.stdout and " 12 runs, 1 thread(s)" in done.stdout and "2.718" in done.stdout
    (line,) = [one for one in done.stdout.splitlines() if "iterations: " in one]
    assert line.count(",") == 11
    assert "Profile of 12 more runs" in done.stdout and " delegated " in done.stdout
    many = runner(alone(), "--bundled-program", "--iterations", "60", "--profile").stdout
    assert "(the first 10 of 60; min " in many


@pytest.mark.parametrize("wrong", [None, 0, 1, 2])
def test_every_test_case_is_verified(
    wrong: int | None, adds_one: Path, runner: Run, tmp_path: Path, document: Run, complains: Run
) -> None:
    path = cases(tmp_path / "three.bpte", adds_one, 3, wrong)
    done = runner(path, *QUICK, "--json")
    if wrong is None:
        row = document(done)["results"][0]
        assert (row["outcome"], row["test_cases"], row["error"]["max_rel"]) == ("OK", 3, 0)
        assert "3 test cases are right" in runner(path, *QUICK).stdout
        return
    complains(done, 1, f"three on executorch.portable: MISMATCH: test case {wrong}: wrong outputs", "0.0007 is allowed")
    row = json.loads(done.stdout)["results"][0]
    assert row["outcome"] == "MISMATCH" and row["latency_ms"] is None and row["error"]["verdict"] is False


def test_what_proves_nothing_has_its_own_status(adds_one: Path, runner: Run, tmp_path: Path, complains: Run) -> None:
    import torch
    from executorch.devtools import BundledProgram
    from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
    from executorch.devtools.bundled_program.serialize import serialize_from_bundled_program_to_flatbuffer

    nothing = torch.full((1, 4), float("nan"))
    suite = MethodTestSuite("forward", [MethodTestCase([nothing], [nothing])])
    path = tmp_path / "nan.bpte"
    bundled = BundledProgram(None, [suite], pte_file_path=str(adds_one))
    path.write_bytes(serialize_from_bundled_program_to_flatbuffer(bundled))
    complains(runner(path, *QUICK), 3, "NOT_PROVED", "its outputs are all NaN or infinite")


def test_manifest_beside_it_counts(linear: Path, runner: Run, tmp_path: Path, document: Run, complains: Run) -> None:
    folder = shutil.copytree(linear, tmp_path / "ours")
    artifact = Artifact.read(folder / "linear_regression_xnnpack.json")
    path = folder / f"{artifact.name}.bpte"
    BUNDLED.write(artifact, path)
    target = f"{artifact.target}?precision=int8"
    named = dataclasses.replace(artifact, target=target, bundled=path.name, bundled_sha256=digest_path(path))
    named.write_manifest()
    for given in (path, path.with_suffix(".pte"), path.with_suffix(".json")):
        row = document(runner(given, *QUICK, "--json"))["results"][0]
        assert (row["workload"], row["target"], row["error"]["tolerance"]) == ("linear_regression", target, 4.0)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    complains(runner(path, *QUICK), 1, "is not the bundled program that", artifact.name)
    path.with_suffix(".json").write_text('{"layers": 3}')
    assert "theirs" not in runner(path, *QUICK).stderr


@pytest.mark.parametrize("name", ["xnnpack", "portable"])
def test_a_program_without_a_sample(
    name: str, linear: Path, runner: Run, cli: Run, tmp_path: Path, document: Run, plain: Run
) -> None:
    path = shutil.copyfile(linear / f"linear_regression_{name}.pte", tmp_path / "theirs.pte")
    shown = runner(path)
    assert (shown.returncode, shown.stderr) == (0, "")
    plain(shown.stdout)
    assert f"theirs on executorch.{name}: " in shown.stdout and "(random inputs); unverified" in shown.stdout
    ours, theirs = document(runner("--model-path", path, "--json")), document(cli("run", path, "--json"))
    assert {**ours, "output": 0} == {**theirs, "output": 0}
    assert len(ours["output"]) == len(theirs["output"])
    assert ours == document(runner(path, "--json")), "the same inputs each time"


def test_what_does_not_go_together(linear: Path, alone: Run, runner: Run, complains: Run) -> None:
    program, bundled = linear / "linear_regression_portable.pte", alone()
    complains(runner(bundled), 2, "add --bundled-program")
    complains(runner(program, "--profile"), 2, "--profile needs a sample")
    complains(runner(bundled, *QUICK, "--only", "x"), 2, "--only does not go with a file")
    complains(runner(bundled, *QUICK, "--platform", "linux"), 2, "--platform does not go with a file")
    complains(runner(bundled, "--model-path", bundled), 2, "given twice")
    complains(runner("--model-path"), 2, "lacks its value")


def test_a_bundle_is_profiled_too(sound: Path, accelerated: Path, runner: Run, document: Run, complains: Run) -> None:
    found = document(runner(accelerated, "--only", "atalla", "--num-runs", "30", "--profile", "--json"))
    assert {row["kind"] for row in found["profile"]} == {"instruction"} and len(found["iterations_ms"]) == 30
    complains(runner(sound, "--profile"), 2, "--profile takes one artifact")


def test_what_is_no_program(linear: Path, runner: Run, tmp_path: Path, complains: Run) -> None:
    program = linear / "linear_regression_portable.pte"
    complains(runner(tmp_path / "absent.pte"), 1, "does not exist")
    complains(runner(tmp_path / "absent.bpte", *QUICK), 1, "does not exist")
    complains(runner(linear, *QUICK), 1, "is not a bundled program")
    complains(runner(program, *QUICK), 1, "is not a bundled program", "--bundled")
    os.mkfifo(tmp_path / "pipe.pte")
    for path in (tmp_path / "pipe.pte", tmp_path / "pipe.bpte"):
        complains(runner(path, *(QUICK if path.suffix == ".bpte" else ())), 1, path.name)
    for content in (b"", b"no program", bytes(64), b"\0\0\0\0BP99" + bytes(99), b"\1\0\0\0BP08" + b"\xff" * 999):
        for suffix, options in ((".bpte", QUICK), (".pte", ())):
            path = tmp_path / f"x{suffix}"
            path.write_bytes(content)
            is_bundled = b"BP" in content and suffix == ".pte"
            complains(runner(path, *options), 2 if is_bundled else 1, path.name)


@pytest.mark.parametrize("suffix", [".bpte", ".pte"])
def test_damaged_files_are_one_line(
    suffix: str, alone: Run, linear: Path, runner: Run, tmp_path: Path, complains: Run
) -> None:
    whole = (alone() if suffix == ".bpte" else linear / "linear_regression_xnnpack.pte").read_bytes()
    options = (*QUICK, "--timeout", "20") if suffix == ".bpte" else ()
    path, chance = tmp_path / f"bad{suffix}", random.Random(suffix)
    for size in sorted(chance.sample(range(len(whole) - 1), 12)):
        path.write_bytes(whole[:size])
        complains(runner(path, *options), 1, path.name.partition(".")[0])
    for _ in range(25):
        data = bytearray(whole)
        for _ in range(4):
            data[chance.randrange(8, len(data))] = chance.randrange(256)
        path.write_bytes(data)
        done = runner(path, *options)
        assert done.returncode in {0, 1, 3}, (done.returncode, done.stderr)
        assert done.returncode == 0 or done.stderr.count("\n") == 1, done.stderr


def test_parts_that_lie_on_each_other(adds_one: Path, runner: Run, tmp_path: Path, complains: Run) -> None:
    """A megabyte of references to one table, which stand for far more than the file holds."""
    path = cases(tmp_path / "many.bpte", adds_one, 1)
    data = bytearray(path.read_bytes())
    data += np.arange(4 << 20, 0, -4, dtype=np.uint32).tobytes() * 4
    path.write_bytes(data)
    assert runner(path, *QUICK).returncode == 0, "what nobody refers to is not read"


def test_delegate_that_this_build_lacks(cli: Run, runner: Run, tmp_path: Path, complains: Run) -> None:
    done = cli("export", "linear_regression", "--backends", "vulkan", "--bundled", "--output-dir", tmp_path)
    assert done.returncode == 0, done.stderr
    complains(runner(tmp_path / "linear_regression_vulkan.bpte", *QUICK), 1, "VulkanBackend", "EXECUTORCH_BUILD_VULKAN")
    complains(runner(tmp_path / "linear_regression_vulkan.pte"), 1, "VulkanBackend", "EXECUTORCH_BUILD_VULKAN")
