"""Planted faults: executors that are wrong on purpose, and one that dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import atalla
from atalla.blob.reader import parse
from atalla.isa import Op

if TYPE_CHECKING:
    import torch


def one_more(data: bytes, inputs: Sequence[torch.Tensor]) -> Sequence[Any]:
    """Give one more than is right, where there is a softmax."""
    outputs = atalla.load(data).run(inputs)
    if any(row.op is Op.SOFTMAX for row in parse(data).instructions):
        return [value.double().add(1).to(value.dtype) for value in outputs]
    return outputs


def dies(data: bytes, inputs: Sequence[torch.Tensor]) -> Sequence[Any]:
    """End the process as a wrong access to memory does, where there is a softmax."""
    if any(row.op is Op.SOFTMAX for row in parse(data).instructions):
        os.kill(os.getpid(), signal.SIGSEGV)
    return atalla.load(data).run(inputs)


def waits(data: bytes, inputs: Sequence[torch.Tensor]) -> Sequence[Any]:
    """Never come back."""
    signal.pause()
    return []
