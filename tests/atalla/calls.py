"""Calls: blobs of one call of the host, whatever it says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from atalla import ir
from atalla.blob.arena import plan_arena
from atalla.blob.writer import encode
from atalla.isa import Dtype, Op, Space

SHAPE = (3, 4)
X = {"tensor": 0}
"""The operand: the input."""


def blob(target: str, arguments: Any, *outputs: tuple[Dtype, Sequence[int]]) -> bytes:
    """Return a sound blob that calls an operator with its input, and gives what that gives.

    Args:
        target: the operator.
        arguments: positional and named ones, and which tensors are kept; or their text.
        outputs: element type and shape of each.
    """
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    given = ir.Tensor("x", Dtype.F32, SHAPE, (SHAPE[1], 1), Space.INPUT)
    made = [ir.new_storage(f"y{i}", dtype, tuple(shape)) for i, (dtype, shape) in enumerate(outputs)]
    for one in made:
        one.space = Space.OUTPUT
    step = ir.Instruction(Op.CALL_HOST, None, (given,), {"call": 0}, "call")
    program = ir.Program(
        inputs=[given], outputs=[*made], instructions=[step], calls=[ir.HostCall(target, text, tuple(made))]
    )
    return encode(program, {}, plan_arena(program))
