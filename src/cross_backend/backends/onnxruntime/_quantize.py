"""Quantisation with ONNX Runtime's own tools: of weights and activations, or of matrix products' weights alone."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from cross_backend.backend import Calibration
from cross_backend.backends._onnx import REMEDY
from cross_backend.errors import LowerError, UnavailableError, UnsupportedError, failing_as
from cross_backend.machine import version_of
from cross_backend.placement import Arithmetic, split_arithmetic
from cross_backend.tensors import to_numpy

GROUP = 32
"""Weights that share a scale where they have 4 bits."""
_HIDDEN = -1000.0
"""Scores of an attention from here down are hidden ones."""
_INT8_ACTIVATIONS = 4
"""``accuracy_level`` of ``MatMulNBits``: activations are quantised to 8 bits at each call."""
_LOG_FATAL = 4
_OF_QUANTISER = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"}
_LOW = {"DynamicQuantizeMatMul", "MatMulIntegerToFloat", "MatMulInteger", "ConvInteger", "MatMulNBits", "QGemm"}


def quantize(payload: Path, precision: str, calibration: Calibration) -> Arithmetic:
    """Replace a float32 file by one of lower precision; return in what its operators compute, once optimised.

    ``int8`` writes pairs of QuantizeLinear and DequantizeLinear, which the runtime fuses when it opens the file.

    Raises:
        UnavailableError: ONNX Runtime, which quantises, is not installed.
        UnsupportedError: nothing in the program can have this precision.
        LowerError: with the tool's reason.
    """
    if version_of("onnxruntime") is None:
        raise UnavailableError(f"precision={precision} needs ONNX Runtime to quantise", "pip install onnxruntime")
    import onnx

    graph = onnx.load(payload, load_external_data=False).graph
    if any(tensor.data_type == onnx.TensorProto.BFLOAT16 for tensor in graph.initializer):
        raise UnsupportedError(f"ONNX Runtime quantises no bfloat16 weights. {REMEDY}")
    before = Counter(node.op_type for node in graph.node)
    if any(name in _OF_QUANTISER for name in before):
        raise UnsupportedError(f"the model is quantised already: leave precision={precision} away.")
    with (
        tempfile.TemporaryDirectory(dir=payload.parent) as name,
        failing_as(LowerError, f"ONNX Runtime cannot quantise it to {precision}"),
    ):
        made = Path(name) / payload.name
        if precision == "int8":
            _static(payload, made, calibration)
        else:
            matrices = Path(name) / "matrices.onnx"
            _with_plain_products(payload, matrices)
            (_dynamic if precision == "int8dyn" else _four_bits)(matrices, made)
        found = _arithmetic(made, Path(name) / "optimised.onnx")
        made.replace(payload)
    if not found.low:
        kinds = "convolution or matrix product" if precision == "int8" else "matrix product"
        raise UnsupportedError(f"{precision} changes nothing: there is no {kinds} of constant weights.")
    return found


def _static(source: Path, target: Path, calibration: Calibration) -> None:
    import onnx
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared = target.with_name("prepared.onnx")
    quant_pre_process(source, prepared, skip_symbolic_shape=True)  # it also merges equal weights
    model = onnx.load(prepared)
    _part_shared(model.graph, {"Conv", "Gemm", "LayerNormalization", "MatMul"})
    onnx.save(model, prepared)
    quantize_static(
        prepared,
        target,
        _reader(source, calibration),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        weight_type=QuantType.QInt8,
        activation_type=QuantType.QUInt8,
        nodes_to_exclude=_masks(model.graph),
    )


def _masks(graph: Any) -> list[str]:
    """Return the nodes that hide scores of an attention, and the softmax of what they leave.

    A hidden score is so low that 256 steps from there to the others leave those no difference.
    """
    import onnx

    constants = {tensor.name: tensor for tensor in graph.initializer}
    hiding = [
        node
        for node in graph.node
        if node.op_type == "Where"
        for hidden in [constants.get(name) for name in node.input[1:]]
        if hidden is not None and onnx.numpy_helper.to_array(hidden).min() <= _HIDDEN
    ]
    written = {name for node in hiding for name in node.output}
    softmaxes = [node for node in graph.node if node.op_type == "Softmax" and node.input[0] in written]
    return [node.name for node in (*hiding, *softmaxes)]


def _reader(source: Path, calibration: Calibration) -> Any:
    import onnx
    from onnxruntime.quantization import CalibrationDataReader

    graph = onnx.load(source, load_external_data=False).graph
    constants = {tensor.name for tensor in graph.initializer}
    names = [value.name for value in graph.input if value.name not in constants]

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        """Yields the samples one after the other."""

        def __init__(self) -> None:
            self._left: Iterator[Mapping[str, Any]] = (
                dict(zip(names, map(to_numpy, sample), strict=True)) for sample in calibration
            )

        def get_next(self) -> Mapping[str, Any] | None:
            return next(self._left, None)

    return Reader()


def _with_plain_products(source: Path, target: Path) -> None:
    """Write the model with MatMul and Add where it had Gemm, which these tools do not take."""
    import onnx
    from onnxruntime.quantization.onnx_model import ONNXModel

    model = ONNXModel(onnx.load(source))
    _part_shared(model.model.graph, {"Gemm"})
    model.replace_gemm_with_matmul()
    del model.model.graph.value_info[:]  # the shapes of weights that it has transposed
    model.save_model_to_file(str(target))


def _part_shared(graph: Any, kinds: Collection[str]) -> None:
    """Give each operator of these kinds a copy of weights that others read, too, as a decoder reads its embeddings.

    The tool transposes those of Gemm where they lie, and ``x64quantprecision`` fails where two operators read them.
    """
    import onnx

    readers = Counter(name for node in graph.node for name in set(node.input))
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for number, node in enumerate(one for one in graph.node if one.op_type in kinds):
        for place, name in enumerate(node.input):
            if name in constants and readers[name] > 1:
                copy = onnx.TensorProto()
                copy.CopyFrom(constants[name])
                copy.name = node.input[place] = f"{name}_of_{number}_{place}"
                graph.initializer.append(copy)


def _dynamic(source: Path, target: Path) -> None:
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    unknown = {"DefaultTensorType": onnx.TensorProto.FLOAT}  # what operators of ONNX Runtime's own return
    quantize_dynamic(source, target, ["MatMul"], per_channel=True, weight_type=QuantType.QInt8, extra_options=unknown)


def _four_bits(source: Path, target: Path) -> None:
    import onnx
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(
        onnx.load(source), block_size=GROUP, is_symmetric=True, accuracy_level=_INT8_ACTIVATIONS
    )
    quantizer.process()
    quantizer.model.save_model_to_file(str(target))


def _arithmetic(path: Path, optimised: Path) -> Arithmetic:
    """Read in what the operators compute, from the graph that this runtime makes of a file when it opens it."""
    import onnx
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = _LOG_FATAL
    settings.optimized_model_filepath = str(optimised)
    onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    names = Counter(node.op_type for node in onnx.load(optimised, load_external_data=False).graph.node)
    return split_arithmetic(
        names,
        is_conversion=lambda name: name in _OF_QUANTISER,
        is_low=lambda name: name in _LOW or name.startswith("QLinear"),
    )
