"""Quantisation of OpenVINO's models with its own tool, NNCF; and in what the CPU plugin computes what comes out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from cross_backend.backend import Calibration
from cross_backend.errors import LowerError, UnavailableError, UnsupportedError, failing_as
from cross_backend.machine import version_of
from cross_backend.placement import Arithmetic, computing
from cross_backend.tensors import to_numpy

GROUP = 32
"""Weights that share a scale where they have 4 bits."""
_LOW = {"i8", "u8", "i4", "u4"}
_CONVERTS = {"Reorder", "Convert", "FakeQuantize"}
_MOVES = {"Broadcast", "Convert", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
_NO_WORK = {"Input", "Output", "Const", "Parameter", "Result", "Constant", "Broadcast"}


def quantize(model: Any, precision: str, calibration: Calibration) -> Any:
    """Return a quantised model.

    Args:
        model: an ``openvino.Model`` of float32.
        precision: ``int8``: weights and activations; ``int8dyn``, ``int4w``: the weights of matrix products, where
            the plugin quantises activations at each call.
        calibration: inputs on which the ranges of activations are observed.

    Raises:
        UnavailableError: NNCF is not installed.
        UnsupportedError: the model is quantised already, or has nothing to quantise.
        LowerError: with the tool's reason.
    """
    if version_of("nncf") is None:
        raise UnavailableError(f"precision={precision} needs NNCF, which quantises", "pip install nncf")
    if any(op.get_type_name() == "FakeQuantize" for op in model.get_ops()):
        raise UnsupportedError("the model is quantised already: leave the precision away.")
    import nncf
    from nncf.quantization.advanced_parameters import AdvancedSmoothQuantParameters

    nncf.set_log_level("ERROR")
    with failing_as(LowerError, f"NNCF cannot quantise it to {precision}"):
        if precision == "int8":
            samples = [[to_numpy(x) for x in sample] for sample in calibration]
            names = [port.get_any_name() for port in model.inputs]
            feeds = [dict(zip(names, sample, strict=True)) for sample in samples]
            kind = nncf.ModelType.TRANSFORMER if _attends(model) else None
            # SmoothQuant needs many inputs to know a channel's range; with few it doubled the error.
            never = AdvancedSmoothQuantParameters(convolution=-1, matmul=-1)
            plain = nncf.AdvancedQuantizationParameters(smooth_quant_alphas=never)
            quantised = nncf.quantize(
                model, nncf.Dataset(feeds), subset_size=len(feeds), model_type=kind, advanced_parameters=plain
            )
        elif precision == "int8dyn":
            quantised = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_SYM)
        else:
            quantised = nncf.compress_weights(
                model,
                mode=nncf.CompressWeightsMode.INT4_SYM,
                group_size=GROUP,
                ratio=1.0,
                all_layers=True,
                advanced_parameters=nncf.AdvancedCompressionParameters(
                    group_size_fallback_mode=nncf.GroupSizeFallbackMode.IGNORE
                ),
            )
            if not any(
                op.get_element_type().get_type_name() in {"i4", "u4"}
                for op in quantised.get_ops()
                if op.get_output_size()
            ):
                raise UnsupportedError(
                    f"it has no matrix product whose rows of weights hold a multiple of {GROUP} values."
                )
    return quantised


def _attends(model: Any) -> bool:
    """Whether a softmax's shares are multiplied, as in an attention.

    The tool has a mode for such models, which leaves norms in float: their squares have no room in 256 steps.
    """
    reached = [op for op in model.get_ops() if op.get_type_name() == "Softmax"]
    for op in reached:
        for port in op.outputs():
            readers = [one.get_node() for one in port.get_target_inputs()]
            if any(one.get_type_name() == "MatMul" for one in readers):
                return True
            reached += [one for one in readers if one.get_type_name() in _MOVES]
    return any(op.get_type_name() == "ScaledDotProductAttention" for op in model.get_ops())


def read_arithmetic(path: Path) -> Arithmetic:
    """Read in what the CPU plugin computes a model's operators, from the graph that it makes when it opens the file."""
    import openvino

    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return arithmetic_of(compiled.get_runtime_model())


def arithmetic_of(runtime_model: Any) -> Arithmetic:
    """Tell the operators apart that a plugin has made of a model."""
    low: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    conversions = 0
    for node in runtime_model.get_ops():
        info = node.get_rt_info()
        kind, precision = (text_in(info, key) for key in ("layerType", "runtimePrecision"))
        if kind in _CONVERTS or (kind, precision) == ("Subgraph", "dynamic"):  # the latter widens weights
            conversions += 1
        elif kind not in _NO_WORK:
            (low if precision in _LOW else kept)[kind] += 1
    return Arithmetic(computing(low), computing(kept), conversions)


def text_in(info: Any, key: str) -> str:
    """Return what a plugin says of a node under a key; empty where it says nothing."""
    return str(info[key].astype(str)) if key in info else ""
