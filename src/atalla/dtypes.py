"""Element types by the names that torch has for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from atalla.errors import UnsupportedError
from atalla.isa import Dtype

if TYPE_CHECKING:
    import torch


def dtype_of(torch_dtype: torch.dtype) -> Dtype:
    """Return the element type.

    Raises:
        UnsupportedError: the accelerator has none such.
    """
    found = dtypes().get(torch_dtype)
    if found is None:
        raise UnsupportedError(f"no element type {str(torch_dtype).removeprefix('torch.')}")
    return found


def torch_dtype_of(dtype: Dtype) -> torch.dtype:
    """Return torch's name of an element type."""
    return next(name for name, found in dtypes().items() if found is dtype)


def dtypes() -> Mapping[torch.dtype, Dtype]:
    """Return the element types by torch's names."""
    import torch

    return {
        torch.float32: Dtype.F32,
        torch.float64: Dtype.F64,
        torch.float16: Dtype.F16,
        torch.bfloat16: Dtype.BF16,
        torch.int8: Dtype.I8,
        torch.uint8: Dtype.U8,
        torch.int16: Dtype.I16,
        torch.int32: Dtype.I32,
        torch.int64: Dtype.I64,
        torch.bool: Dtype.BOOL,
    }
