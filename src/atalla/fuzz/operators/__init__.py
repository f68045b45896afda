"""Operators: how a call of each, with operands that it takes, is added to a program."""

from __future__ import annotations

from atalla.fuzz.operators import (  # noqa: F401  each enters its operators
    elementwise,
    images,
    indexing,
    products,
    quantized,
    reductions,
    views,
)
from atalla.fuzz.operators.table import MAKERS, Make

UNREACHED = {
    "aten._assert_scalar.default": "export writes it only for sizes that depend on data",
    "aten.sym_constrain_range.default": "export writes it only for sizes that depend on data",
    "aten.sym_constrain_range_for_size.default": "export writes it only for sizes that depend on data",
    "aten._fft_r2c.default": "its result is complex; a blob holds complex numbers between two operators only",
    "aten._to_dim_order_copy.default": "an operator of ExecuTorch's edge dialect, which torch alone does not have",
}
"""Native operators that no program here has, each with the reason."""


def makers() -> dict[str, Make]:
    """Return the table, filled."""
    return MAKERS
