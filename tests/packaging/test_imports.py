"""Nothing heavy is imported before it is needed; proved on ``sys.modules`` of fresh interpreters."""

import json
import subprocess
import sys

import pytest

VENDORS = {
    "coremltools",
    "executorch",
    "iree",
    "onnx",
    "onnxruntime",
    "onnxscript",
    "openvino",
    "scipy",
    "sklearn",
    "torch",
    "torchao",
    "torchvision",
    "transformers",
}
OF_TORCH = {f"cross_backend.workloads.{name}" for name in ("_cross_net", "_decoder_net", "_transducer_net")}
"""Modules that are networks of torch, imported only by the function that builds one."""
LIGHT = {"attr", "attrs", "cattrs", "numpy", "platformdirs", "psutil", "pydantic", "rich"}
"""What is installed in any case, and still not needed for help."""


def loaded_after(statement, *paths):
    """Give the top-level names of all modules that are loaded after a statement in a fresh interpreter."""
    script = f"{statement}\nimport json, sys\nprint('\\n' + json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


def command(*arguments):
    """A statement that runs the command's ``main`` as its console script does, and survives its exit."""
    return (
        "from cross_backend.cli import main\n"
        f"try:\n    status = main({list(arguments)!r})\n"
        "except SystemExit as end:\n    status = end.code\n"
        "assert status in {0, None}, status"
    )


def test_the_proof_can_fail():
    assert "torch" in loaded_after("import torch") and "numpy" in loaded_after("import numpy")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        *((name, "--help") for name in ("backends", "compare", "doctor", "export", "inspect", "models", "run")),
    ],
    ids=" ".join,
)
def test_help_imports_nothing_heavy(arguments):
    loaded = loaded_after(command(*arguments))
    assert "cross_backend" in loaded
    assert not loaded & (VENDORS | LIGHT)


@pytest.mark.parametrize("arguments", [("backends",), ("backends", "--json"), ("models",)], ids=" ".join)
def test_lists_import_no_vendor(arguments):
    loaded = loaded_after(command(*arguments))
    assert not loaded & VENDORS
    assert "numpy" not in loaded


def test_the_package_itself_is_light():
    loaded = loaded_after("import cross_backend as xb")
    assert not loaded & (VENDORS | LIGHT)


@pytest.mark.parametrize(
    "name",
    [
        *("cross_backend.report." + name for name in ("notebook", "printed", "tables", "terminal")),
        "cross_backend.records",
    ],
)
def test_reports_and_records_touch_no_vendor(name):
    assert not loaded_after(f"import {name}") & VENDORS


def test_importing_every_backend_imports_no_vendor():
    """Vendor imports are inside functions: looking at a backend costs nothing and needs nothing installed."""
    statement = "from cross_backend.registry import BACKENDS, find_backend\nfor name in BACKENDS: find_backend(name)"
    assert not loaded_after(statement) & VENDORS


def test_public_names():
    """All of them resolve, are listed, and stay what they are after every submodule was imported."""
    script = """
import importlib, pkgutil, types
import cross_backend as xb
assert list(xb.__all__) == sorted(xb.__all__) and len(set(xb.__all__)) == len(xb.__all__)
before = {name: getattr(xb, name) for name in xb.__all__}
for module in pkgutil.walk_packages(xb.__path__, "cross_backend."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
for name, value in before.items():
    assert getattr(xb, name) is value, name
    assert not isinstance(value, types.ModuleType), name
assert isinstance(xb.capture, types.FunctionType) and isinstance(xb.compare, types.FunctionType)
assert set(xb.__all__) <= set(dir(xb))
for name in ("capture", "lower", "load", "load_best", "compare"):
    assert name in xb.__all__, name
try:
    xb.captuer
except AttributeError as error:
    assert "captuer" in str(error)
else:
    raise AssertionError("a name that does not exist resolves")
"""
    loaded_after(script)


def test_capture_is_the_function_after_importing_its_module_first():
    script = "import cross_backend.program.capture\nimport cross_backend as xb\nassert callable(xb.capture)"
    loaded_after(script)


def test_importing_every_submodule_needs_no_vendor():
    """With the vendors' packages hidden, everything of ours still imports."""
    script = f"""
import importlib, pkgutil, sys
for name in {sorted(VENDORS)!r}:
    sys.modules[name] = None
import cross_backend
for module in pkgutil.walk_packages(cross_backend.__path__, "cross_backend."):
    if not module.name.endswith("__main__") and module.name not in {sorted(OF_TORCH)!r}:
        importlib.import_module(module.name)
for name in {sorted(VENDORS)!r}:
    del sys.modules[name]
"""
    assert not loaded_after(script) & VENDORS
