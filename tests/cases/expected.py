"""What is right for each network and ONNX file, and on which targets it is otherwise, and why."""

from __future__ import annotations

from collections.abc import Mapping

from tests.cases.verdicts import TARGETS, names

TWINS = sorted(name for name, _ in names() if f"{name}_wrong" in dict(names()))
NETWORKS = sorted(name for name, _ in names() if not name.endswith("_wrong"))
NO_MEMORY = ("cpu", "openvino")
NO_STATE = "nothing from one call to the next"
WRONG = "MISMATCH"
UNMOVED = "output 1 (relu) is the same for every input"
OTHERWISE: Mapping[tuple[str, str], str] = {
    **{
        (name, target): NO_STATE for name in ("cache", "counter", "counter_from_five") for target in ("cpu", "openvino")
    },
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
SAME = {("pool", "cpu")}
"""Twins that the runtime makes right: ONNX Runtime 1.31 fuses a padding with 0 into the maximum, which pads with −∞."""
FILES: Mapping[str, Mapping[str, str]] = {
    **{name: {} for name in ("bn8", "bn9", "op7", "drop7", "static17", "convt", "ln_scale2", "iff")},
    "seg11": {"openvino": "MISMATCH"},  # it takes the softmax of opset 11 along one axis, where the rest is flattened
    "resize10": dict.fromkeys(("cpu", "openvino", "iree"), "part at Resize"),
    "loop": {"iree": "onnx.Loop"},
}
"""ONNX file → target → a part of what is said; all others are OK."""
