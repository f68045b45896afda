"""The Python loader: it runs what it opened, and is a program of its own."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.loaders.bundles import NOT_HERE, edit, run


def test_the_python_loader_runs_what_it_opened(module: Any, bundle: Path) -> None:
    best = module.load_best(bundle, "linux")
    x = np.load(bundle / "sample" / "input_0.npy")
    for given in (x, x.tolist(), np.asfortranarray(x)):
        (y,) = best(np.asarray(given, np.float32))
        np.testing.assert_array_equal(best.forward(np.asarray(given, np.float32)), y)
        np.testing.assert_allclose(y, np.load(bundle / "sample" / "expected_0.npy"), rtol=1e-4)


def test_the_python_loader_shows_names_of_strangers_plainly(module: Any, bundle: Path) -> None:
    evil = "x\x1b[2J\r\u202e\x9b"

    def rename(row: dict[str, Any]) -> None:
        row["model"], row["orders"] = evil, {}
        for number, artifact in enumerate(row["artifacts"]):
            artifact.update(name=f"{number}{evil}", target=f"{evil}.x")

    edit(bundle, rename)
    with pytest.raises(module.BundleError) as refused:
        module.load_best(bundle)
    assert all(line.isprintable() for line in str(refused.value).split("\n")) and "\\x1b[2J" in str(refused.value)


def test_the_python_loader_waits_for_no_pipe(module: Any, bundle: Path) -> None:
    for file in ("linear_regression_xnnpack.pte", "linear_regression_portable.pte"):
        (bundle / file).unlink()
        os.mkfifo(bundle / file)
    with pytest.raises(module.BundleError, match=r"linear_regression_xnnpack\.pte is missing, or no file"):
        module.load_best(bundle)


@pytest.mark.slow
@pytest.mark.usefixtures("module")
def test_the_python_loader_is_a_program_of_its_own(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Isolated, in the folder where the bundle carries it; the line it prints names artifact and reasons."""
    loader = bundle / "loaders" / "load_best.py"
    done = run(sys.executable, "-I", loader)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["linear_regression_xnnpack", *(f"  not {reason}" for reason in NOT_HERE)]
    monkeypatch.setattr(sys, "argv", [str(loader), str(bundle / "nowhere")])
    with pytest.raises(SystemExit) as ended:  # with a text the interpreter prints that, and its status is 1
        runpy.run_path(str(loader), run_name="__main__")
    assert str(ended.value.code).splitlines()[-1].startswith(f"load_best: {bundle / 'nowhere'} is no bundle")
