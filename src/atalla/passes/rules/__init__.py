"""Rules: how each ATen operator becomes instructions; each module enters a family of them."""

from __future__ import annotations

from atalla.passes.rule import RULES, Rule
from atalla.passes.rules import (  # noqa: F401  each enters its rules
    activations,
    adaptive,
    any_convolution,
    arithmetic,
    attention,
    comparisons,
    convolution,
    creation,
    linear,
    movement,
    norms,
    pools,
    quantized,
    reductions,
    resizing,
    scattering,
    spectra,
    views,
)


def all_rules() -> dict[str, Rule]:
    """Return the table, filled."""
    return RULES
