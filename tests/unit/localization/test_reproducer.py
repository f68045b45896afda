"""Reproducers: vendors' faults are shown by short scripts that run without this package."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from cross_backend.errors import UnsupportedError
from cross_backend.localization.attempt import DIFFERS, SAME, Attempt
from cross_backend.localization.reproducer import Budget, Reproducer, reproduce
from cross_backend.localization.script import MOST_LINES
from cross_backend.registry import check_runs, resolve
from cross_backend.worker.process import Worker
from tests import needs

ALONE = """
import runpy, sys
class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("cross_backend", "atalla"):
            raise ImportError(f"{name} is not there")
sys.meta_path.insert(0, Refused())
runpy.run_path(sys.argv[1], run_name="__main__")
"""
"""Runs a script where our packages cannot be imported."""


class Net(nn.Module):
    def __init__(self, run: Callable[..., Any]) -> None:
        super().__init__()
        self.run = run
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.run(self, *inputs)


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def _nested(m: Any, x: torch.Tensor) -> torch.Tensor:
    def positive(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.max() > 1, lambda x: m.a(x), lambda x: m.b(x), (x,))  # noqa: PLW0108  torch.cond takes functions

    return torch.cond(x.sum() > 0, positive, lambda x: m.c(x), (x,))  # noqa: PLW0108


mask = torch.ones(4, 4, dtype=torch.bool)
mask[1] = False
sevens = torch.tensor([[-7, 7, -8, 5]])
FAULTS: dict[str, tuple[str, Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "masked row, openvino": (
        "openvino",
        lambda _, *qkvm: F.scaled_dot_product_attention(*qkvm) * 2,
        (*(drawn(1, 1, 4, 8) for _ in range(3)), mask),
    ),
    "rest of negatives": ("portable", lambda _, x: x % 3, (sevens,)),
    "bilinear": ("openvino", lambda _, x: F.interpolate(x, size=(1, 1), mode="bilinear"), (drawn(1, 1, 6, 6),)),
    "nested": ("xnnpack", _nested, (torch.ones(2, 4),)),
}
"""Others are found and reproduced in the page, by ``tests/e2e/serve/test_localizing.py``."""
RUN = {"bilinear": pytest.mark.slow, "rest of negatives": pytest.mark.slow, "masked row, openvino": pytest.mark.slow}
"""Faults of each run; the others are nightly."""


def reproduced(name: str, folder: Path) -> Reproducer:
    target, run, inputs = FAULTS[name]
    program = torch.export.export(Net(run).eval(), inputs)
    return reproduce(program, inputs, resolve(target), folder, "fault", Budget(lowerings=14, seconds=60))


@pytest.mark.parametrize("name", [pytest.param(name, marks=RUN.get(name, pytest.mark.nightly)) for name in FAULTS])
def test_a_vendors_fault_is_shown_by_a_script_without_us(name: str, tmp_path: Path) -> None:
    found = reproduced(name, tmp_path)
    text = found.script.read_text()
    assert found.lines == len(text.splitlines()) and "cross_backend" not in text and "atalla" not in text
    assert found.lowerings <= 15
    assert found.lines <= MOST_LINES + 4 * (name == "nested"), "of the last, the budget here leaves two branches"
    assert name == "nested" or found.nodes == 1
    home = tmp_path / "home"
    home.mkdir()
    done = subprocess.run(
        [sys.executable, "-I", "-c", ALONE, str(found.script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "HOME": str(home)},
    )
    assert done.returncode == 1 and "expected\n" in done.stdout
    assert not (home / "intel").exists(), "OpenVINO's telemetry stays off: it waits for a network"
    if name != "nested":  # it fails to lower, so there is an error instead of outputs
        assert "\ngot\n" in done.stdout and "Traceback" not in done.stderr
    report = found.text.read_text()
    assert text.strip() in report and f"torch {torch.__version__.partition('+')[0]}" in report
    assert "## Expected" in report


def test_what_the_vendor_computes_rightly_is_no_fault(tmp_path: Path) -> None:
    inputs = (drawn(2, 4),)
    program = torch.export.export(Net(lambda m, x: m.a(x).relu()).eval(), inputs)
    with pytest.raises(UnsupportedError, match="does not show the fault without cross-backend"):
        reproduce(program, inputs, resolve("openvino"), tmp_path, "fault")
    assert not list(tmp_path.iterdir())


RIGHT = """\
import torch
class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.relu(x @ y.softmax(1)), y * 2 + 1
model, inputs = Model(), (torch.ones(3, 4), torch.arange(16.0).reshape(4, 4))
expected = model(*inputs)
program = torch.export.export(model, inputs)
"""


@pytest.mark.parametrize("target", ["ncnn", "mnn"])
def test_a_vendors_script_computes_what_torch_does_where_it_is_right(target: str, tmp_path: Path) -> None:
    if target == "mnn":
        needs.mnn()
    resolved = resolve(target)
    check_runs(resolved)
    text = RIGHT + "\n".join(resolved.backend.reproduction(resolved.options))
    with Worker(tmp_path / "log", resolved.lowering_python) as worker:
        tried = worker.ask(Attempt(text), 120)
    assert tried.kind in {SAME, DIFFERS} and tried.deviation < 1e-6, tried.detail


def test_what_is_no_operators_fault_has_no_script() -> None:
    for target in ("atalla", "executorch.atalla"):
        with pytest.raises(UnsupportedError, match="part of this package"):
            resolve(target).backend.reproduction(resolve(target).options)


def test_a_backend_without_a_script_says_so(tmp_path: Path) -> None:
    inputs = (drawn(2, 4),)
    program = torch.export.export(Net(lambda m, x: m.a(x + 1)).eval(), inputs)
    with pytest.raises(UnsupportedError, match="cannot be called from a short script"):
        reproduce(program, inputs, resolve("null"), tmp_path, "fault")
    with pytest.raises(UnsupportedError, match="short scripts for fp32"):
        reproduce(program, inputs, resolve("xnnpack?precision=int8"), tmp_path, "fault")
