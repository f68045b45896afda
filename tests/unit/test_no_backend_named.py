"""Adding a backend is one file and one row: no shared file knows one by its name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cross_backend.registry import BACKENDS

PACKAGE = Path(__file__).parents[2] / "src" / "cross_backend"
COMMON = {"arm", "browser", "compile", "cpu", "cuda", "eager", "mps", "torch"}
"""Aliases that are words for something else, too: torch is what models are written in."""
NAMES = {
    *BACKENDS,
    *(part for name in BACKENDS for part in name.split(".")),
    *(alias for row in BACKENDS.values() for alias in row.aliases),
    *("aotinductor", "inductor", "vela"),
} - COMMON
DATA = {
    "names/platforms.py": "orders that users ask for",
    "registry.py": "the rows",
    "toolchains/environments.py": "what the private environments hold",
    "toolchains/npm.py": "what the runtimes from npm hold",
    "toolchains/runners.py": "what the runner is built with",
}
"""Tables in which backends are data."""
OTHERWISE = {
    "browser/assets.py": {"wasm"},  # a kind of file
    "browser/process.py": {"null"},  # the operating system's
    "exporting/onnx_file.py": {"onnxruntime"},  # the tool that runs ONNX files, whatever the target is
    "lowering/free_batch.py": {"onnxruntime"},
    "program/onnx_file.py": {"onnxruntime"},
    "program/onnx_truth.py": {"onnxruntime"},
    "measure/gpu.py": {"rocm"},  # whose package reads the power
    "bundling/archive.py": {"atalla"},  # our own second package
    "foreign_files.py": {"atalla"},
    "localization/as_python.py": {"atalla"},  # whose fuzzer holds programs as text, and makes them small
    "localization/given_leaf.py": {"atalla"},
    "localization/plainer_leaves.py": {"atalla"},
    "localization/reproducer.py": {"atalla"},
    "localization/script.py": {"atalla"},
    "localization/text_values.py": {"atalla"},
    "program/foreign_operators.py": {"atalla"},
    "program/pt2.py": {"atalla"},
    "places/adb.py": {"null"},  # the operating system's
    "study/checked.py": {"null"},  # JSON Schema's type
    "web/localized_pages.py": {"null"},
    "places/condition.py": {"null"},
    "places/python.py": {"null"},  # the operating system's
    "places/shell.py": {"null"},
    "worker/process.py": {"atalla"},
    "workloads/_transformers.py": {"atalla"},  # whose way to torchvision it is
    "workloads/checkpoint.py": {"atalla"},
    "workloads/detection.py": {"atalla"},
    "workloads/user_code.py": {"atalla"},
    "workloads/user_files.py": {"atalla"},
    "workloads/vision.py": {"atalla"},
    "study/yaml_nodes.py": {"null"},  # YAML's
    "worker/child.py": {"null"},  # the operating system's
    "web/api.py": {"null"},  # JSON's
    "web/study_api.py": {"null"},
    "web/catalogue.py": {"null"},  # a check, which nobody plays with
    "web/pages.py": {"wasm"},  # a word of a page's policy
    "web/visitor.py": {"wasm"},  # a kind of file
    "names/target.py": {"xnnpack"},  # the example in the error for an empty target
}
"""Words that mean something else there, or a package that is a tool."""
SHARED = sorted(path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] != "backends")


def texts(tree: ast.AST) -> Iterator[str]:
    """Yield what the code says: identifiers, modules, and texts that are neither docstrings nor help."""
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    helps = [node.value for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "help"]
    silent |= {id(node) for text in helps for node in ast.walk(text)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in silent:
                yield text
            case ast.Name(id=text) | ast.Attribute(attr=text) | ast.alias(name=text) | ast.ImportFrom(module=str(text)):
                yield text


def named(source: str) -> set[str]:
    """Return the backends that a file's code names, and whose files it imports."""
    said = {word for text in texts(ast.parse(source)) for word in words(text)}
    return said & NAMES | {word for word in said if word.startswith("cross_backend.backends.")}


def words(text: str) -> Iterator[str]:
    """Yield a text's dotted words, and the parts of each."""
    for word in re.findall(r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*", text.lower()):
        yield word
        yield from word.split(".")


@pytest.mark.parametrize("path", SHARED, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_shared_file_names_a_backend(path: Path) -> None:
    place = path.relative_to(PACKAGE).as_posix()
    found = named(path.read_text(encoding="utf-8"))
    assert place in DATA or found == OTHERWISE.get(place, set())


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('READER = "executorch.portable"', {"executorch.portable", "executorch", "portable"}),
        ('if name == "xnnpack": pass', {"xnnpack"}),
        ('print(f"use openvino{x}")', {"openvino"}),
        ("import iree.runtime", {"iree"}),
        ("from cross_backend.backends.null import Null", {"cross_backend.backends.null", "null"}),
        ('def f():\n    """Lower to xnnpack."""\nparser.add("--to", help="xnnpack, cpu")', set()),
        ('device = "cuda"', set()),
    ],
)
def test_what_names_one(source: str, found: set[str]) -> None:
    assert named(source) == found
