"""Precisions: the one grammar of arithmetic, ``?precision=int8``; what each word means on every backend."""

from __future__ import annotations

from collections.abc import Mapping

MEANINGS: Mapping[str, str] = {
    "fp32": "float32 weights and arithmetic",
    "fp16": "float16 weights and arithmetic",
    "bf16": "bfloat16 products, with sums of float32 where the runtime has them",
    "int8": "8-bit weights, a scale a channel; 8-bit activations with scales from the calibration inputs",
    "int8dyn": "8-bit weights, a scale a channel; 8-bit activations with scales computed at each call",
    "int4w": "4-bit weights, a scale a group; activations of 8 bits at each call, or float",
}
"""What a target may ask for → what that is. A backend has those in which its vendor really computes."""
QUANTISED = frozenset({"int8", "int8dyn", "int4w"})
"""Those whose weights are whole numbers: a quantiser chooses their scales."""
CALIBRATED = frozenset({"int8"})
"""Those whose scales of activations come from calibration inputs: beyond that range values are cut off."""
