"""The documents' Python: each block runs as it is written, or is a part of a file that it names."""

from __future__ import annotations

import builtins
import dis
import inspect
import re
import zlib
from collections import Counter
from pathlib import Path
from typing import Any, final

import numpy as np
import pytest
import torch

import atalla
import cross_backend as xb
from atalla.device.hardware import Hardware
from atalla.run.device import simulate
from cross_backend.backend import Backend, Lowered, Session
from cross_backend.backends._packages import missing_packages
from cross_backend.errors import LowerError, failing_as
from cross_backend.measurement import Measurement
from cross_backend.placement import Placement, count_operators
from cross_backend.store.samples import pack
from tests.unit.test_documents import ROOT, code, run

OTHERS = {
    "docs/sessions.md": "test_documents.py",
    "docs/inputs.md": "test_documents.py",
    "README.md": "test_documents.py",
    "docs/reference/api.md": "test_examples.py",
}
"""Page → the test file that runs its Python."""
HERE = {
    *("docs/adding-a-backend.md", "docs/selection.md", "docs/store.md", "docs/study.md"),
    *("docs/atalla/delegate.md", "docs/atalla/device.md", "docs/atalla/fuzzing.md", "docs/atalla/rtl.md"),
}


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.linear(x).relu()
        return out


@pytest.fixture
def model() -> torch.nn.Module:
    return Net().eval()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_page_with_python_is_run() -> None:
    pages = [page.relative_to(ROOT).as_posix() for page in sorted((ROOT / "docs").rglob("*.md"))]
    found = {page for page in ("README.md", *pages) if "tutorials" not in page and code(page, "python")}
    assert found == HERE | set(OTHERS)


def test_a_backend_is_made_of_what_there_is() -> None:
    """Its SDK is nobody's, so that methods are not called; all other names that they use are there."""
    given = (Backend, Counter, LowerError, Lowered, Placement, Session, count_operators, failing_as, final)
    names = run("docs/adding-a-backend.md", {one.__name__: one for one in (*given, missing_packages)})
    methods = [
        one for kind in ("MyChip", "_MySession") for one in vars(names[kind]).values() if inspect.isfunction(one)
    ]
    used = {step.argval for one in methods for step in dis.get_instructions(one) if step.opname == "LOAD_GLOBAL"}
    assert len(methods) == 6 and "missing_packages" in used and used <= {*names, *dir(builtins)}
    for method in ("missing", "lower", "load"):
        asked = inspect.signature(getattr(Backend, method)).parameters
        assert list(inspect.signature(getattr(names["MyChip"], method)).parameters) == list(asked)


def test_the_best_of_a_bundle(model: torch.nn.Module, capsys: pytest.CaptureFixture[str]) -> None:
    image = torch.ones(1, 8)
    xb.bundle(xb.capture(model, (image,)), ["cpu"], name="mobilenet_v3_small", output_dir="bundles")
    names = run("docs/selection.md", {"image": image})
    torch.testing.assert_close(names["output"], model(image))
    assert capsys.readouterr().out.startswith("onnxruntime.cpu ")


def test_samples_are_read_without_the_package() -> None:
    rounds = ([70_000, 80_000], [90_000])
    packed = pack(Measurement("latency", "ns", rounds, launches=(2,)))
    assert packed.encoding == "u4"
    names = run("docs/store.md", {"np": np, "zlib": zlib, "data": packed.data})
    assert names["samples"].tolist() == [70_000, 80_000, 90_000]


def test_a_study_is_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path(folder, "nightly.yaml").write_text("name: nightly\nworkloads: [linear_regression]\ntargets: [cpu]\n")
    run("docs/study.md", {})
    assert "linear_regression" in capsys.readouterr().out


def test_the_device_runs_a_blob(model: torch.nn.Module, folder: Path) -> None:
    x = torch.ones(1, 8)
    data = atalla.compile(torch.export.export(model, (x,))).data
    Path(folder, "model.atl").write_bytes(data)
    given = {"atalla": atalla, "Hardware": Hardware, "simulate": simulate}
    names = run("docs/atalla/device.md", {**given, "inputs": (x,), "data": data})
    torch.testing.assert_close(names["outputs"][0], model(x))
    assert names["loaded"].simulation.cycles > 0


def test_a_finding_that_was_mended_fails_no_more() -> None:
    try:
        run("docs/atalla/fuzzing.md", {})
    finally:
        torch.set_grad_enabled(True)


@pytest.mark.slow
def test_the_matrix_unit_multiplies() -> None:
    a, b = torch.ones(4, 8, dtype=torch.int8), torch.ones(8, 4, dtype=torch.int8)
    names = run("docs/atalla/rtl.md", {"a": a, "b": b})
    assert np.asarray(names["product"].sums).tolist() == [[8] * 4] * 4 and names["product"].cycles > 0


@pytest.mark.slow
def test_a_delegate_is_lowered_run_and_listed(model: torch.nn.Module, capsys: pytest.CaptureFixture[str]) -> None:
    """Its first and its last block are programs; those between quote the files that make it."""
    first, *quotes, last = code("docs/atalla/delegate.md", "python")
    x = torch.ones(1, 8)
    names: dict[str, Any] = {"model": model, "x": x}
    exec(compile(first, "delegate.md", "exec"), names)
    torch.testing.assert_close(names["outputs"][0], model(x))
    exec(compile(last, "delegate.md", "exec"), names)
    assert capsys.readouterr().out
    quotes += code("docs/atalla/delegate.md", "cpp")
    files = [*(ROOT / "src/atalla/executorch").glob("*.py"), ROOT / "src/atalla/csrc/executorch_delegate.cpp"]
    known = {bare(line) for path in files for line in path.read_text(encoding="utf-8").splitlines()}
    assert [line for one in quotes for line in one.splitlines() if bare(line) not in {*known, "", "..."}] == []


def bare(line: str) -> str:
    """Return a line of code without comments, bodies and types, which a page leaves out."""
    text = re.sub(r"\s+(#|//) .*", "", line).strip().rstrip("{; ")
    return text.partition("(")[0] if text.startswith("def ") else text
