"""Probes of an ONNX file: further inputs, chosen by its graph, on which two references agree."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cross_backend.program.reference import FEW, MOST_BYTES
from cross_backend.program.stability import UNSTABLE
from cross_backend.tensors import kind_of
from cross_backend.verify.deviation import deviation, scale_of
from cross_backend.verify.further import KnownInput
from cross_backend.verify.probes import Hint, ProbeInput, probes_of, resized

if TYPE_CHECKING:
    import numpy as np

    Arrays = Sequence[np.ndarray[Any, Any]]
    Run = Callable[[Arrays], list[Any]]

SIZES = 3
"""Free extents are 1 in the sample, and this in one probe."""
_SAME = {"Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Cast", "Dropout", "Expand"}
_COMPARED = {"Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal", "Max", "Min", "PRelu"}
_EDGES: Mapping[str, tuple[float, ...]] = {
    **dict.fromkeys(("Relu", "LeakyRelu", "Elu", "Selu", "Celu", "Abs", "Sign", "PRelu"), (0.0,)),
    **dict.fromkeys(("HardSigmoid", "HardSwish"), (-3.0, 3.0, -2.5, 2.5)),
    "Round": (-1.5, -0.5, 0.5, 1.5, 2.5),
    **dict.fromkeys(("Floor", "Ceil"), (-1.0, 0.0, 1.0)),
}
"""Operator → values of its input at which it changes what it does."""


class OnnxGraph:
    """What a model's main graph says of its inputs."""

    def __init__(self, model: Any) -> None:
        """Read the constants.

        Args:
            model: ``onnx.ModelProto`` that holds its weights.
        """
        import onnx

        self._nodes = list(model.graph.node)
        self._makers = {name: node for node in self._nodes for name in node.output}
        self._weights = {one.name: one for one in model.graph.initializer}
        for node in self._nodes:
            if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
                self._weights[node.output[0]] = node.attribute[0].t
        self._array = onnx.numpy_helper.to_array

    def hints(self, names: Sequence[str]) -> list[Hint]:
        """Return a hint for each input."""
        thresholds: dict[str, dict[float, None]] = {name: {} for name in names}
        rows: dict[str, int] = {}
        for node in self._nodes:
            for name, value in self._decisions(node):
                source, at = self._solved(name, value)
                if source in thresholds:
                    thresholds[source][at] = None
            if node.op_type == "Gather" and node.input[0] in self._weights and not _attribute(node, "axis", 0):
                source, _ = self._solved(node.input[1], 0.0)
                rows[source] = min(self._weights[node.input[0]].dims[0], rows.get(source, 1 << 62))
        return [Hint(tuple(thresholds[name]), rows.get(name)) for name in names]

    def fixed(self, names: Sequence[str], outputs: Sequence[str]) -> list[bool]:
        """Return for each output whether it depends on none of the inputs."""
        moving = set(names)
        for node in self._nodes:
            inner = any(one.HasField("g") or one.graphs for one in node.attribute)  # may read anything of this graph
            if inner or moving.intersection(node.input) or node.op_type.startswith("Random"):
                moving.update(node.output)
        return [name not in moving for name in outputs]

    def _decisions(self, node: Any) -> Iterator[tuple[str, float]]:
        """Yield values at which a node decides, with the name of what is compared."""
        for value in _EDGES.get(node.op_type, ()):
            yield node.input[0], value
        if node.op_type == "Clip":
            bounds = [self._number(name) for name in node.input[1:]]
            bounds += [_attribute(node, name, None) for name in ("min", "max")]
            for bound in bounds:
                if bound is not None and abs(bound) < 1e30:
                    yield node.input[0], bound
        if node.op_type == "ThresholdedRelu":
            yield node.input[0], _attribute(node, "alpha", 1.0)
        if node.op_type in _COMPARED and len(node.input) == 2:
            for one, other in (node.input, reversed(node.input)):
                number = self._number(other)
                if number is not None:
                    yield one, number

    def _number(self, name: str) -> float | None:
        """Return a constant of one finite element; None for all else."""
        if name not in self._weights or math.prod(self._weights[name].dims) != 1:
            return None
        value = float(self._array(self._weights[name]).reshape(-1)[0])
        return value if math.isfinite(value) else None

    def _solved(self, name: str, value: float) -> tuple[str, float]:
        """Return where a tensor comes from elementwise, and what stands there where the tensor has a value."""
        while (node := self._makers.get(name)) is not None and node.input:
            number = self._number(node.input[1]) if len(node.input) > 1 else None
            if node.op_type == "Neg":
                value = -value
            elif node.op_type == "Mul" and number:
                value /= number
            elif node.op_type == "Div" and number:
                value *= number
            elif node.op_type in {"Add", "Sub"} and number is not None:
                value += number if node.op_type == "Sub" else -number
            elif node.op_type not in _SAME:
                break
            name = node.input[0]
        return name, value


def onnx_probes(
    graph: OnnxGraph, names: Sequence[str], free: Sequence[Sequence[int]], inputs: Arrays, expected: Arrays, run: Run,
    other: Run, work: float,
) -> tuple[list[KnownInput], dict[str, str]]:  # fmt: skip
    """Return the probes that work, with reference and rounding, and why others were dropped.

    Args:
        graph: of the file.
        names: of the inputs.
        free: axes of each input whose extent is free.
        inputs: the sample.
        expected: reference outputs of the sample.
        run: the reference.
        other: another one, which must agree.
        work: floating point operations of a call.
    """
    import numpy as np

    most = next((count for limit, count in FEW if work <= limit), 1)
    kept: list[KnownInput] = []
    dropped: dict[str, str] = {}
    size = 0
    for probe in _candidates(inputs, graph.hints(names), free):
        size += sum(x.nbytes for x in probe.inputs)
        if len(kept) >= most or (kept and size > MOST_BYTES):
            break
        try:
            outputs, again = run(probe.inputs), [np.asarray(y) for y in other(probe.inputs)]
        except Exception as error:
            dropped[probe.name] = f"the model fails on it ({str(error)[:200]})"
            continue
        rounding, reason = _rounding(expected, outputs, again)
        if reason is not None:
            dropped[probe.name] = reason
        else:
            kept.append(KnownInput(probe.name, probe.inputs, outputs, rounding))
    return kept, dropped


def _candidates(inputs: Arrays, hints: Sequence[Hint], free: Sequence[Sequence[int]]) -> Iterator[ProbeInput]:
    probes = list(probes_of(inputs, hints))
    yield from probes[:1]
    if any(free):
        shapes = [
            tuple(SIZES if axis in axes else n for axis, n in enumerate(x.shape))
            for x, axes in zip(inputs, free, strict=True)
        ]
        yield ProbeInput("larger sizes", resized(probes[0].inputs if probes else inputs, shapes))
    yield from probes[1:]


def _rounding(first: Arrays, outputs: Arrays, again: Arrays) -> tuple[float, str | None]:
    """Return the largest deviation between two references, or why the probe shows nothing."""
    import numpy as np

    seen = 0.0
    for sample, want, got in zip(first, outputs, again, strict=True):
        if want.shape != got.shape or want.dtype != got.dtype:
            return 0.0, "the references disagree"
        if kind_of(want) not in "fc":
            if not np.array_equal(want, got):
                return 0.0, "the references disagree"
        elif not np.isfinite(want).all():
            return 0.0, "the outputs are not finite"
        elif want.size:
            scale = scale_of(want, sample if sample.shape == want.shape else None)
            seen = max(seen, float(deviation(want, got, scale).max()))
    return seen, None if seen <= UNSTABLE else f"the references differ by {seen:.2g} of their scale"


def work_of(model: Any) -> float:
    """Return the floating point operations of a model's products, free extents 1; infinite where shapes are unknown."""
    import onnx

    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    shapes = {
        value.name: [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
        for value in (*inferred.value_info, *inferred.input, *inferred.output)
    }
    shapes |= {one.name: list(one.dims) for one in inferred.initializer}
    work = 0.0
    for node in inferred.node:
        if node.op_type in {"Conv", "ConvTranspose", "Gemm", "MatMul", "QLinearConv", "QLinearMatMul", "ConvInteger"}:
            weight = node.input[3 if node.op_type.startswith("QLinear") else 1]
            if not {node.output[0], node.input[0], weight} <= shapes.keys():
                return math.inf
            if "Conv" not in node.op_type:
                work += 2.0 * math.prod(shapes[node.output[0]]) * (shapes[node.input[0]] or [1])[-1]
            else:
                places = shapes[node.input[0] if node.op_type == "ConvTranspose" else node.output[0]]
                work += 2.0 * math.prod(places[:1] + places[2:]) * math.prod(shapes[weight])
    return work


def _attribute(node: Any, name: str, default: Any) -> Any:
    import onnx

    return next((onnx.helper.get_attribute_value(one) for one in node.attribute if one.name == name), default)
