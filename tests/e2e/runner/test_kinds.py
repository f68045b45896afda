"""Inputs of other types than float32 on their way: bundle, bundled program, runner, and the user's own files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cross_backend.bench.open_artifact import open_session, resolve_with_threads
from cross_backend.bundling import find_artifact
from cross_backend.tensors import dtype_of, load_tensors, to_numpy
from tests.e2e.runner.bundles import QUICK
from tests.e2e.runner.conftest import once
from tests.e2e.runner.serving import Serving, raw, subject

NETWORK = """
import torch


class Kinds(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4).bfloat16()

    def forward(self, x, pixels, scale):
        return self.linear(x), pixels.float() * scale


def make():
    torch.manual_seed(0)
    return Kinds(), (torch.randn(2, 4).bfloat16(), torch.arange(0, 240, 10, dtype=torch.uint8), torch.tensor(0.5))
"""
HALF = dtype_of("bfloat16")
INPUTS = (
    (np.arange(8).reshape(2, 4) / 4).astype(HALF),
    np.arange(24, dtype=np.uint8),
    np.float32(2).reshape(()),
)


@pytest.fixture(scope="session")
def kinds(cli: Callable[..., Any], shared_folder: Path) -> Path:
    """A folder with a bundle and a bundled program."""

    def make(folder: Path) -> None:
        folder.mkdir()
        (folder / "nets.py").write_text(NETWORK)
        model = f"{folder / 'nets.py'}:make"
        for command in (
            ("bundle", model, "--backends", "portable", "--strict", "--output-dir", folder / "bundle"),
            ("export", model, "--backends", "portable", "--bundled", "--strict", "--output-dir", folder / "plain"),
        ):
            done = cli(*command)
            assert done.returncode == 0, done.stdout + done.stderr

    made: Path = once(shared_folder, "runner_kinds", make)  # type: ignore[no-untyped-call]
    return made


def test_the_runner_verifies_them(kinds: Path, rows: Callable[..., Any], runner: Callable[..., Any]) -> None:
    found = rows(next((kinds / "bundle").iterdir()), *QUICK)
    assert found["nets_make_portable"]["outcome"] == "OK", found
    (program,) = (kinds / "plain").glob("*.bpte")
    done = runner("--bundled-program", program, *QUICK)
    assert done.returncode == 0 and "1 test case is right" in done.stdout, done.stdout + done.stderr


def test_the_command_verifies_them_and_takes_the_users_own(
    kinds: Path, cli: Callable[..., Any], document: Callable[..., Any], complaint: Callable[..., Any], tmp_path: Path
) -> None:
    bundle = next((kinds / "bundle").iterdir())
    (program,) = (kinds / "plain").glob("*.bpte")
    row = document(cli("run", program, "--bundled-program", "--num-runs", "6", "--json"))["results"][0]
    assert row["outcome"] == "OK", row
    given, made = tmp_path / "in.npz", tmp_path / "out.npz"
    np.savez(given, **{f"input_{index}": x for index, x in enumerate(INPUTS)})  # type: ignore[arg-type]
    done = cli("run", bundle, "--input", given, "--output", made)
    assert done.returncode == 0, done.stderr
    halves, shares = load_tensors(made)["output"]
    assert halves.dtype == HALF and halves.shape == (2, 4)
    np.testing.assert_array_equal(shares, np.arange(24, dtype=np.float32) * 2)
    np.savez(given, **{f"input_{index}": x.astype(np.float32) for index, x in enumerate(INPUTS)})  # type: ignore[arg-type]
    complaint(cli("run", bundle, "--input", given), 1, "must be bfloat16[2, 4]", "x.astype(ml_dtypes.bfloat16)")


def test_a_bench_elsewhere_gives_what_a_session_here_does(kinds: Path, built: Path, tmp_path: Path) -> None:
    asked = subject(next((kinds / "bundle").iterdir()), "nets_make_portable", INPUTS, tmp_path)
    artifact = find_artifact(Path(asked["payload"]))
    resolved, options = resolve_with_threads(artifact.target, 1)
    (tmp_path / "out").mkdir()
    with open_session(artifact, resolved, options) as session, Serving(built / "cross_backend_runner") as serving:
        serving.ask("Open", **asked)
        serving.ask("Bind", inputs=raw(INPUTS, tmp_path, "bound"))
        rows = serving.ask("Run", outputs=str(tmp_path / "out"))["outputs"]
        assert [row["dtype"] for row in rows] == ["bfloat16", "float32"]
        for row, want in zip(rows, map(to_numpy, session.bind(INPUTS)()), strict=True):
            got = np.frombuffer(Path(row["path"]).read_bytes(), dtype_of(row["dtype"])).reshape(row["shape"])
            np.testing.assert_array_equal(got, want, strict=True)
