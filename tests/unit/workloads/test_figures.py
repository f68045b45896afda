"""The table's figures: every model that can be built here is counted again."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from cross_backend.cache import Cache
from cross_backend.program.captured import Captured
from cross_backend.program.captures import capture_workload
from cross_backend.workloads import WORKLOADS

SCRIPT = Path(__file__).parents[3] / "docs" / "model_figures.py"
HERE = [name for name, row in WORKLOADS.items() if row.family != "detection"]
"""Detectors need a package under the AGPL, which the tests' environment does not have."""


@pytest.fixture(scope="module")
def figures() -> Callable[[str], tuple[int, int]]:
    spec = importlib.util.spec_from_file_location("model_figures", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.figures  # type: ignore[no-any-return]


FEW = (
    *("linear_regression", "digits_cnn", "mobilenet_v3_small", "vit_b_16", "t5_encoder", "whisper_tiny"),
    *("rnnt_decoder", "t5_decoder"),
)
"""One of each family; the others are slow."""
TRAINED = "llama_text"


def marks(name: str) -> list[pytest.MarkDecorator]:
    """Return when it is counted: one that is trained first is counted at night."""
    return [] if name in FEW else [pytest.mark.slow, *([pytest.mark.nightly] if name == TRAINED else [])]


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in HERE])
def test_parameters_and_flops_are_those_of_the_model(name: str, figures: Callable[[str], tuple[int, int]]) -> None:
    assert figures(name) == (WORKLOADS[name].parameters, WORKLOADS[name].flops)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["digits_cnn", "mobilenet_v3_small", pytest.param("t5_encoder", marks=pytest.mark.slow)]
)
def test_flops_are_those_of_the_captured_program(name: str) -> None:
    captured: Captured = capture_workload(name, None, Cache())
    assert captured.flops == WORKLOADS[name].flops


@pytest.mark.parametrize(
    ("name", "millions"), [("resnet50", 25.6), ("vit_b_16", 86.6), ("bert_base", 109.5), ("gpt2", 124.4)]
)
def test_parameters_are_the_published_ones(name: str, millions: float) -> None:
    assert round(WORKLOADS[name].parameters / 1e6, 1) == millions
