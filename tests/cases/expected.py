"""What is right for each network and ONNX file, and on which targets it is otherwise, and why."""

from __future__ import annotations

from collections.abc import Mapping

from cross_backend.machine import Machine
from tests.cases.verdicts import EVERY, TARGETS, names

TWINS = sorted(name for name, _ in names() if f"{name}_wrong" in dict(names()))
KINDS = (
    *("channels_last", "last_inside", "strided", "bfloat16", "bfloat16_input", "float16", "float16_input", "picture"),
    *("int8_input", "scalar_input", "empty_past", "no_rows", "bool_input"),
)
"""Networks of which layouts and types of inputs are the matter; each runs on every target."""
NETWORKS = sorted(name for name, _ in names() if not name.endswith("_wrong") and name not in KINDS)
WRONG = "MISMATCH"
UNMOVED = "output 1 (relu) is the same for every input"
HAS_VNNI = any("vnni" in one for one in Machine.here().isa) or Machine.here().arch != "x86_64"
OTHERWISE: Mapping[tuple[str, str], str] = {
    # Their variance is E[x²] − E[x]², which is negative beside an offset of 300.
    **{("offset", target): WRONG for target in ("portable", "xnnpack")},
    **{("one_moves", target): UNMOVED for target in TARGETS},
    ("rows", "xnnpack"): "delegates 0 of 1 operators",
    ("branch", "xnnpack"): "delegates 0 of 5 operators",
    ("branch", "iree"): "operation 'cond' not implemented",
    ("branch", "atalla"): "control flow and submodules are not compiled",
    ("masked", "iree"): "linalg.pack",  # its data tiling and booleans
}
"""Network and target → a part of what is said; all others are OK."""
_NCNN = {
    "bfloat16": "input 'input' is bfloat16[2, 8]; possible: float32,",
    "float16": "input 'input' is float16[2, 8]; possible: float32,",
    "scalar_input": "input 'scale' has no dimensions",
    "empty_past": "input 'past' is empty",
    "no_rows": "input 'input' is empty",
    "bool_input": "input 'mask' is bool[1, 4]",
}
_NO_KERNEL = "no kernel of Gemm for the element types of this model. Convert the model to float32"
REFUSED: Mapping[tuple[str, str], str] = {
    **{(name, target): part for target in ("ncnn", "ncnn?device=vulkan") for name, part in _NCNN.items()},
    ("bfloat16", "xnnpack"): "delegates 0 of 3 operators (aten::addmm.out: invalid dtype",
    ("bfloat16", "cpu"): _NO_KERNEL,
    ("bfloat16", "iree.vulkan"): "has no bfloat16 weights. Convert the model to float32",
    ("picture", "iree.vulkan"): "where a convolution follows an input of uint8. Convert the input to float32",
    **{(name, "browser.wasm"): "JavaScript has no bfloat16. Convert" for name in ("bfloat16", "bfloat16_input")},
    **{("no_rows", target): "its outputs are empty" for target in EVERY if "ncnn" not in target},
    ("no_rows", "executorch.atalla"): "addmm.out: No dim may be of size 0",
}
"""Network and target → a part of the one line that says what a target does not take; all others are OK."""
SAME = {("pool", "cpu")}
"""Twins that the runtime makes right: ONNX Runtime 1.31 fuses a padding with 0 into the maximum, which pads with −∞."""
SATURATES = {} if HAS_VNNI else dict.fromkeys(("cpu", "openvino"), "MISMATCH")
"""Without VNNI both add products of 8 bits in 16, which saturate; the quantiser left no room (``reduce_range``)."""
FILES: Mapping[str, Mapping[str, str]] = {
    **{name: {} for name in ("bn8", "bn9", "op7", "drop7", "convt", "ln_scale2", "iff")},
    "static17": SATURATES,
    "seg11": {"openvino": "MISMATCH"},  # it takes the softmax of opset 11 along one axis, where the rest is flattened
    "resize10": dict.fromkeys(("cpu", "openvino", "iree"), "part at Resize"),
    "loop": {"iree": "onnx.Loop"},
}
"""ONNX file → target → a part of what is said; all others are OK."""
