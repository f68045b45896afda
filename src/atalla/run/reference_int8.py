"""Reference, the products of int8: sums are whole numbers, and what is made of them is rounded at every operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from atalla.ir import Instruction

    Tensors = Sequence[torch.Tensor | None]


def gemm(instruction: Instruction, dst: torch.Tensor, sources: Tensors) -> None:
    """QGEMM."""
    src, weight, _, scale, offset = _present(sources)
    sums = (src.double() - instruction.whole("zero")) @ weight.double().t()  # whole numbers far below 2^53: exact
    _store(instruction, dst, sums, scale, offset)


def convolution(instruction: Instruction, dst: torch.Tensor, sources: Tensors) -> None:
    """QCONV2D, QDWCONV2D."""
    from torch.nn import functional

    src, weight, _, scale, offset = _present(sources)
    whole = instruction.whole
    frame = (whole("left"), whole("right"), whole("top"), whole("bottom"))
    image = functional.pad(src.double() - whole("zero"), frame)
    stride, dilation = (whole("stride_h"), whole("stride_w")), (whole("dilation_h"), whole("dilation_w"))
    sums = functional.conv2d(image, weight.double(), None, stride, 0, dilation, whole("groups"))
    channels = (-1, 1, 1)
    _store(instruction, dst, sums[..., : dst.shape[2], : dst.shape[3]], scale.view(channels), offset.view(channels))


def _store(
    instruction: Instruction, dst: torch.Tensor, sums: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor
) -> None:
    """Scale, bound and store."""
    made = (sums.float() * scale + offset).clamp(instruction.number("low"), instruction.number("high"))
    dst.copy_(made if dst.dtype.is_floating_point else made.round())


def _present(sources: Tensors) -> list[torch.Tensor]:
    assert None not in sources, "none of these sources is ever absent"
    return [one for one in sources if one is not None]
