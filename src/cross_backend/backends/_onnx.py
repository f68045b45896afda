"""An ONNX file as a payload: shared by the backends that run one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from cross_backend.backend import Lowered
from cross_backend.backend.interface import Feature
from cross_backend.placement import Placement, count_operators
from cross_backend.program.capture import OnnxProgram, Program
from cross_backend.program.onnx_export import export_onnx

SUFFIX = ".onnx"
LIMITS: Mapping[Feature, str] = {"state": "ONNX programs keep nothing from one call to the next"}
TO_LOWER = ("onnx", "onnxscript", "torch")
"""What writes the payload; no runtime takes part in that."""


def lower_to_onnx(program: Program, stem: Path) -> Lowered:
    """Write the file, and read back what it holds."""
    import onnx

    payload = stem.with_name(stem.name + SUFFIX)
    if isinstance(program, OnnxProgram):
        payload.write_bytes(program.path.read_bytes())
    else:
        export_onnx(program, payload)
    graph = onnx.load(payload, load_external_data=False).graph
    inside = count_operators(Counter(node.op_type for node in graph.node))
    return Lowered(payload, Placement(inside=inside, constant_bytes=sum(t.ByteSize() for t in graph.initializer)))
