"""The public names: cheap to import, and the README's first screen works."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import cross_backend as xb
from cross_backend.artifact import Artifact
from cross_backend.errors import CrossBackendError, LowerError, UnavailableError, UsageError
from cross_backend.records import Outcome
from cross_backend.toolchains import TOOLCHAINS

X = torch.tensor([[1.0, 2.0, 3.0, 4.0]])


def capture(text: str) -> torch.export.ExportedProgram:
    """Capture a network of its own for each text."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int.from_bytes(text.encode()) % 2**31)
        return xb.capture(torch.nn.Linear(4, 2), (X,))


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    return capture("")


def test_every_public_name_is_there() -> None:
    assert sorted(xb.__all__) == xb.__all__ == dir(xb)
    for name in xb.__all__:
        assert getattr(xb, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = xb.no_such_name


def test_importing_it_imports_nothing_heavy(run_python: Callable[..., str]) -> None:
    heavy = "{'torch', 'numpy', 'rich', 'onnx', 'onnxruntime', 'openvino', 'executorch', 'torchvision', 'psutil'}"
    for use in ("xb.Target, xb.Session, xb.load_best, xb.lower, xb.compare", "xb.Artifact, xb.Workload, xb.Panel"):
        script = f"import sys; import cross_backend as xb; {use}; print(sorted({heavy} & sys.modules.keys()))"
        assert run_python(script).strip() == "[]"


@pytest.mark.parametrize("module", ["report.tables", "report.terminal", "records", "cli", "registry", "loading.load"])
def test_no_module_imports_a_vendor_at_its_top(module: str, run_python: Callable[..., str]) -> None:
    heavy = "{'torch', 'onnx', 'onnxruntime', 'openvino', 'executorch', 'torchvision', 'sklearn'}"
    script = f"import sys; import cross_backend.{module}; print(sorted({heavy} & sys.modules.keys()))"
    assert run_python(script).strip() == "[]"


def test_the_first_screen_of_the_readme(program: torch.export.ExportedProgram) -> None:
    artifact = xb.lower(program, "cpu")
    with xb.load(artifact) as session:
        output = session(X)
        run = session.bind((X,))
    torch.testing.assert_close(output, program.module()(X))
    assert session.target == "onnxruntime.cpu"
    assert callable(run)


def test_files_go_where_the_caller_says(tmp_path: Path) -> None:
    program = capture("files")
    artifact = xb.lower(program, "null", name="net", output_dir=str(tmp_path / "out"))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "net_null.json",
        "net_null.null",
        "net_sample.npz",
    ]
    assert Artifact.read(artifact.payload_path) == artifact
    kept = xb.lower(program, "null", name="net")
    assert kept.folder != artifact.folder
    assert kept.sha256 == artifact.sha256


def test_a_target_keeps_its_options(program: torch.export.ExportedProgram, tmp_path: Path) -> None:
    for output_dir in (None, tmp_path):
        artifact = xb.lower(program, "torch?threads=1", output_dir=output_dir)
        assert artifact.target == "torch.eager?threads=1"
        assert xb.load(artifact).options["threads"] == 1


def test_each_call_gives_its_own_name(program: torch.export.ExportedProgram, tmp_path: Path) -> None:
    """The same program is stored once, but an artifact is called what its caller calls it."""
    for name in ("first", "second"):
        artifact = xb.lower(program, "null", name=name, output_dir=tmp_path)
        assert (artifact.workload, artifact.name) == (name, f"{name}_null")


@pytest.mark.parametrize("name", ["../outside", "a/b", "", ".", "v1.2 (final)"])
def test_a_name_never_leaves_the_folder(name: str, tmp_path: Path) -> None:
    """A name is refused, or what was written can be read again."""
    program, folder = capture(f"name {name}"), tmp_path / "out"
    try:
        artifact = xb.lower(program, "null", name=name, output_dir=folder)
    except CrossBackendError:
        pass
    else:
        assert Artifact.read(artifact.manifest_path) == artifact
        assert artifact.manifest_path.parent == folder
    assert {path.name for path in tmp_path.iterdir()} <= {"out"}


def test_an_unknown_target_is_told_before_any_work(program: torch.export.ExportedProgram) -> None:
    with pytest.raises(UsageError, match="Did you mean 'openvino'"):
        xb.lower(program, "openvin")


def test_comparing_tells_an_unknown_target_before_it_captures() -> None:
    class Untouched(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise AssertionError("it was captured")

    with pytest.raises(UsageError, match="Did you mean 'openvino'"):
        xb.compare(Untouched(), ["torch", "openvin"], (X,))


@pytest.mark.parametrize("by_name", [pytest.param(True, marks=pytest.mark.slow), False])
def test_comparing_takes_names_and_programs(by_name: bool, program: torch.export.ExportedProgram) -> None:
    model = "linear_regression" if by_name else program
    panel = xb.compare(model, ["torch", "null"], num_runs=30, seconds=0.5)
    assert panel.workload == ("linear_regression" if by_name else "model")
    assert [result.outcome for result in panel.results] == [Outcome.OK, Outcome.MISMATCH]
    assert [result.target for result in panel.ranked] == ["torch.eager"]


def test_comparing_takes_a_module_with_its_inputs() -> None:
    panel = xb.compare(torch.nn.Linear(4, 2).eval(), ["torch"], (X,), num_runs=30, seconds=0.5)
    assert [result.outcome for result in panel.results] == [Outcome.OK]


def test_comparing_refuses_settings_that_it_does_not_know() -> None:
    with pytest.raises((TypeError, UsageError), match="runs"):
        xb.compare("linear_regression", ["null"], runs=3)


def test_numpy_alone_is_enough_to_run(program: torch.export.ExportedProgram, run_python: Callable[..., str]) -> None:
    """Where the runtime is not torch, running an artifact does not import torch."""
    artifact = xb.lower(program, "cpu")
    script = """
import sys
import numpy as np
import cross_backend as xb
with xb.load(sys.argv[1]) as session:
    print(session(np.array([[1, 2, 3, 4]], np.float32)).tolist())
print("torch" in sys.modules)
"""
    output, imported = run_python(script, str(artifact.manifest_path)).splitlines()
    np.testing.assert_allclose(np.array(eval(output)), program.module()(X).detach().numpy(), rtol=1e-5)
    assert imported == "False"


def test_submodules_do_not_shadow_the_functions() -> None:
    """``xb.capture`` is a function although ``cross_backend.program.capture`` is a module."""
    importlib.import_module("cross_backend.program.capture")
    importlib.import_module("cross_backend.lowering.lower")
    assert callable(xb.capture) and callable(xb.lower) and callable(xb.load) and callable(xb.compare)


@pytest.mark.slow
def test_a_backend_with_a_toolchain_is_lowered_under_its_interpreter(
    program: torch.export.ExportedProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This interpreter stands in for the toolchain's: it has no MPS, and says so from the other process."""
    monkeypatch.setenv("CROSS_BACKEND_TOOLCHAINS", str(tmp_path / "toolchains"))
    monkeypatch.setenv("CROSS_BACKEND_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UnavailableError, match="cross-backend toolchain add mps"):
        xb.lower(program, "mps")
    toolchain = TOOLCHAINS["mps"]
    toolchain.python.parent.mkdir(parents=True)
    (toolchain.folder / "ready").touch()
    toolchain.python.write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path}/started"\nexec "{sys.executable}" "$@"\n')
    toolchain.python.chmod(0o755)
    with pytest.raises(LowerError, match=r"cannot lower it to MPS.*No module named 'executorch\.backends\.apple\.mps'"):
        xb.lower(program, "mps")
    assert len((tmp_path / "started").read_text().splitlines()) >= 1
    assert not list((tmp_path / "cache").glob("artifacts/*"))
