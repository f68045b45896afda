"""A ``.tflite`` file as data: its tensors and operators, checked before the runtime opens it.

The runtime verifies that a file is a FlatBuffer of the right kind, and trusts it beyond that: one without a graph ends
the process.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cross_backend.errors import LoadError, one_line
from cross_backend.foreign_files import open_regular

_IDENTIFIER = b"TFL3"
_SHORTEST = 8
_MAX_RANK = 8
_ENTRY_BYTES = 4
"""What each entry of a list takes, and each thing that it leads to at least."""
_NONE = -1
"""Index of an operator's input that is left out."""
_BITS = {
    **dict.fromkeys(("INT2",), 2),
    **dict.fromkeys(("INT4", "UINT4"), 4),
    **dict.fromkeys(("BOOL", "INT8", "UINT8", "FLOAT8_E4M3FN", "FLOAT8_E5M2"), 8),
    **dict.fromkeys(("FLOAT16", "BFLOAT16", "INT16", "UINT16"), 16),
    **dict.fromkeys(("FLOAT32", "INT32", "UINT32"), 32),
    **dict.fromkeys(("FLOAT64", "INT64", "UINT64", "COMPLEX64"), 64),
    "COMPLEX128": 128,
}
"""Bits of an element, of those types whose constants are checked."""


_ZEROS = {"INT8": (-128, 127), "UINT8": (0, 255), "UINT4": (0, 15), "INT4": (-8, 7), "INT2": (-2, 1)}
"""Zero points that a type holds; of others only 0."""
_MAX_ELEMENTS = 1 << 32
"""Of a tensor."""


@dataclass(frozen=True)
class Tensor:
    """One tensor of a graph."""

    dtype: str
    """The file's name in small letters: ``float32``, ``int8``, ``bool``, …"""
    shape: tuple[int, ...]
    """Extents; of a free one what the file begins with."""
    constant_bytes: int
    """Size of its data in the file; 0 where it is computed."""
    is_quantised: bool
    """Whether it has scales."""


@dataclass(frozen=True)
class Operator:
    """One operator of a graph."""

    kind: str
    """``CONV_2D``, …; a custom operator's own name."""
    inputs: tuple[int, ...]
    """Tensors, without those left out."""
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class TfliteGraph:
    """What a file computes."""

    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    """Tensors, in the program's order."""
    outputs: tuple[int, ...]
    names: Mapping[int, str]
    """What its inputs and outputs are called."""
    bodies: tuple[str, ...]
    """Kinds of the operators in the graphs that its control flow calls."""

    @property
    def constant_bytes(self) -> int:
        """Size of all constants."""
        return sum(tensor.constant_bytes for tensor in self.tensors)


def read_graph(path: Path) -> TfliteGraph:
    """Read a file's graph and check it.

    Raises:
        ArtifactError: the file is missing or no file.
        LoadError: it is damaged or no such file; the text says how.
    """
    with open_regular(path) as file:
        try:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            raise LoadError(f"{path.name} is empty.") from None
    try:
        return _read(data)
    except Exception as error:  # a reader of FlatBuffers raises what its offsets lead to
        raise LoadError(f"{path.name} is damaged or not a LiteRT model: {one_line(error)}") from error


def _read(data: Any) -> TfliteGraph:
    from ai_edge_litert import schema_py_generated as schema

    if len(data) < _SHORTEST or data[4:8] != _IDENTIFIER:
        raise ValueError("it does not begin as one")
    model = schema.Model.GetRootAs(data, 0)
    if not model.SubgraphsLength() or not model.BuffersLength():
        raise ValueError("it has no graph")
    _check_room(model, len(data))
    kinds = list(_kinds(model, schema))
    graphs = (_graph(model, model.Subgraphs(i), kinds, schema, len(data)) for i in range(model.SubgraphsLength()))
    (tensors, operators), *others = graphs
    main = model.Subgraphs(0)
    inputs, outputs = _inputs(main), _outputs(main)
    names = {index: _text(main.Tensors(index).Name()) for index in {*inputs, *outputs}}
    return TfliteGraph(
        tensors, operators, inputs, outputs, names, tuple(op.kind for _, those in others for op in those)
    )


def _inputs(graph: Any) -> tuple[int, ...]:
    return tuple(int(graph.Inputs(i)) for i in range(graph.InputsLength()))


def _outputs(graph: Any) -> tuple[int, ...]:
    return tuple(int(graph.Outputs(i)) for i in range(graph.OutputsLength()))


def _check_ports(graph: Any, tensors: tuple[Tensor, ...]) -> None:
    """Refuse inputs whose memory is not theirs: the runtime would write into the file."""
    inputs = _inputs(graph)
    _check_range((*inputs, *_outputs(graph)), len(tensors))
    if len(set(inputs)) < len(inputs):
        raise ValueError("two of its inputs are one tensor")
    if any(tensors[index].constant_bytes for index in inputs):
        raise ValueError("one of its inputs is a constant")


def _check_room(model: Any, size: int) -> None:
    """Refuse lists that share their bytes: a small file could say that it has billions of tensors."""
    room = size // _ENTRY_BYTES - model.OperatorCodesLength() - model.BuffersLength() - model.SubgraphsLength()
    for graph in (model.Subgraphs(i) for i in range(model.SubgraphsLength())):
        room -= graph.TensorsLength() + graph.InputsLength() + graph.OutputsLength() + graph.OperatorsLength()
        if room < 0:
            break
        for row in (graph.Operators(i) for i in range(graph.OperatorsLength())):
            room -= row.InputsLength() + row.OutputsLength()
    if room < 0:
        raise ValueError("its lists are longer than the file")


def _kinds(model: Any, schema: Any) -> Iterator[str]:
    names = {value: name for name, value in vars(schema.BuiltinOperator).items() if isinstance(value, int)}
    for index in range(model.OperatorCodesLength()):
        code = model.OperatorCodes(index)
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        if number not in names:
            raise ValueError(f"operator {number} is unknown")
        yield _text(code.CustomCode()) if names[number] == "CUSTOM" else names[number]


def _graph(
    model: Any, graph: Any, kinds: list[str], schema: Any, size: int
) -> tuple[tuple[Tensor, ...], tuple[Operator, ...]]:
    names = {value: name for name, value in vars(schema.TensorType).items() if isinstance(value, int)}
    tensors = tuple(_tensor(model, graph.Tensors(i), i, names, size) for i in range(graph.TensorsLength()))
    _check_ports(graph, tensors)
    operators = []
    for index in range(graph.OperatorsLength()):
        row = graph.Operators(index)
        if row.OpcodeIndex() >= len(kinds):
            raise ValueError(f"operator {index} has no kind")
        inputs = [int(row.Inputs(i)) for i in range(row.InputsLength())]
        outputs = tuple(int(row.Outputs(i)) for i in range(row.OutputsLength()))
        taken = tuple(i for i in inputs if i != _NONE)
        _check_range((*taken, *outputs), len(tensors))
        operators.append(Operator(kinds[row.OpcodeIndex()], taken, outputs))
    variables = {i for i in range(graph.TensorsLength()) if graph.Tensors(i).IsVariable()}
    _check_order(tensors, operators, variables.union(_inputs(graph)))
    return tensors, tuple(operators)


def _check_order(tensors: tuple[Tensor, ...], operators: list[Operator], known: set[int]) -> None:
    """Refuse operators that read what nobody wrote, write a constant, or convert between the wrong types.

    Kernels trust all of that, and some end the process where it is not so.
    """
    known |= {i for i, tensor in enumerate(tensors) if tensor.constant_bytes or 0 in tensor.shape}
    for place, op in enumerate(operators):
        if not known.issuperset(op.inputs):
            raise ValueError(f"operator {place} ({op.kind}) reads what no operator before it wrote")
        if any(tensors[i].constant_bytes for i in op.outputs):
            raise ValueError(f"operator {place} ({op.kind}) writes a constant")
        for kind, ends in (("QUANTIZE", op.outputs), ("DEQUANTIZE", op.inputs)):
            if op.kind == kind and any(tensors[i].dtype == "float32" for i in ends):
                raise ValueError(f"operator {place} ({op.kind}) converts float32 to itself")
        known |= set(op.outputs)


def _check_range(indices: tuple[int, ...], count: int) -> None:
    for index in indices:
        if not 0 <= index < count:
            raise ValueError(f"tensor {index} does not exist")


def _tensor(model: Any, row: Any, index: int, names: dict[int, str], size: int) -> Tensor:
    if row.Type() not in names:
        raise ValueError(f"tensor {index} has type {row.Type()}")
    kind, shape = names[row.Type()], _shape(row, index)
    if row.Buffer() >= model.BuffersLength():
        raise ValueError(f"tensor {index} lies in buffer {row.Buffer()} of {model.BuffersLength()}")
    buffer = model.Buffers(row.Buffer())
    count = int(buffer.DataLength())
    if buffer.Offset() > 1:  # beside the FlatBuffer: files of more than 2 GB
        count = int(buffer.Size())
        if buffer.Offset() + count > size:
            raise ValueError(f"tensor {index} ends behind the file")
    if count and kind in _BITS and count != -(-math.prod(shape) * _BITS[kind] // 8):
        raise ValueError(f"tensor {index} is {kind.lower()}{list(shape)} of {count} bytes")
    return Tensor(kind.lower(), shape, count, _has_scales(row.Quantization(), kind, shape, index))


def _has_scales(scales: Any, kind: str, shape: tuple[int, ...], index: int) -> bool:
    """Whether a tensor has scales; kernels make tables by them, and trust that they fit."""
    if scales is None:
        return False
    count = scales.ScaleLength()
    axis = scales.QuantizedDimension()
    if count > 1 and not (0 <= axis < len(shape) and count == shape[axis]):
        raise ValueError(f"tensor {index} has {count} scales for {list(shape)}")
    if any(not 0 <= scales.Scale(i) < math.inf for i in range(count)):
        raise ValueError(f"tensor {index} has a scale that is no positive number")
    least, most = _ZEROS.get(kind, (0, 0))
    if count and any(not least <= scales.ZeroPoint(i) <= most for i in range(scales.ZeroPointLength())):
        raise ValueError(f"tensor {index} has a zero point that {kind.lower()} does not hold")
    return bool(count or scales.DetailsType())  # the latter: a scale a group


def _shape(row: Any, index: int) -> tuple[int, ...]:
    if max(row.ShapeLength(), row.ShapeSignatureLength()) > _MAX_RANK:
        raise ValueError(f"tensor {index} has more than {_MAX_RANK} dimensions")
    shape = tuple(int(row.Shape(i)) for i in range(row.ShapeLength()))
    if min(shape, default=0) < 0 or math.prod(max(n, 1) for n in shape) > _MAX_ELEMENTS:
        raise ValueError(f"tensor {index} has shape {list(shape)}, which no tensor has")
    return shape


def _text(value: bytes | None) -> str:
    return (value or b"").decode(errors="replace")[:200]
