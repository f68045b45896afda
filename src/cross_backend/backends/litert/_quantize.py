"""Lower precision of a float32 ``.tflite`` file, by the vendor's quantiser; runs in the toolchain that has it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from cross_backend.backend import Calibration
from cross_backend.backends._integers import to_int32
from cross_backend.backends.litert._file import TfliteGraph, read_graph
from cross_backend.backends.litert._placement import kinds_left, read_arithmetic
from cross_backend.errors import LowerError, UnsupportedError, failing_as
from cross_backend.placement import Arithmetic
from cross_backend.tensors import to_numpy

_EDGES = ("INPUT", "OUTPUT")
"""What the quantiser calls a program's inputs and outputs, which keep their types."""
_NORMS = ("DIV", "MEAN", "POW", "RSQRT", "SQRT", "SQUARE", "SQUARED_DIFFERENCE", "SUM")
"""Kinds of operators of norms, whose squares have no room in 256 steps."""
_SELECTS = ("SELECT", "SELECT_V2")
_TRIES = 3
"""Most times that operators are given back to float32."""


def quantize(path: Path, precision: str, calibration: Calibration) -> tuple[TfliteGraph, Arithmetic | None]:
    """Replace a float32 file by one of lower precision; return its graph, and in what its operators compute.

    XNNPACK takes some kinds of operators in float32 only. In 8 bits the runtime's own kernels compute them, ten times
    as slowly for a whole network, so those kinds stay in float32.

    Raises:
        UnsupportedError: nothing in the program can have this precision.
        LowerError: with the quantiser's reason.
    """
    graph = read_graph(path)
    source, left = path.read_bytes(), kinds_left(path, graph)
    with failing_as(LowerError, f"LiteRT's quantiser failed at {precision}"):
        quantiser = _Quantiser(source, precision, _feeds(source, calibration) if precision == "int8" else [])
        kept = quantiser.known(_masks(graph)) if precision == "int8" else set()
        for _ in range(_TRIES):
            path.write_bytes(quantiser.quantise(kept))
            made = read_graph(path)
            slower = {kind for kind, count in kinds_left(path, made).items() if count > left[kind]}
            if precision == "fp16" or not quantiser.known(slower - kept):
                break
            kept |= quantiser.known(slower)
    if precision == "fp16":
        return made, None
    found = read_arithmetic(made)
    if not found.low:
        what = "matrix product" if precision == "int4w" else "convolution or matrix product"
        raise UnsupportedError(f"{precision} changes nothing: there is no {what} of constant weights that fits it.")
    return made, found


def _masks(graph: TfliteGraph) -> set[str]:
    """Return the kinds of operators that hide scores of an attention, where a softmax reads what they leave.

    A hidden score is so low that 256 steps from there to the others leave those no difference.
    """
    written = {index for one in graph.operators if one.kind in _SELECTS for index in one.outputs}
    hides = any(one.kind == "SOFTMAX" and written.intersection(one.inputs) for one in graph.operators)
    return {*_SELECTS, "SOFTMAX", *_NORMS} if hides else set()


def _feeds(source: bytes, calibration: Calibration) -> list[dict[str, Any]]:
    """Return calibration inputs by their names in the file, in its types."""
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(model_content=source).get_signature_runner()
    rows = sorted(runner.get_input_details().items(), key=lambda item: int(item[0].rpartition("_")[2]))
    feeds = []
    for sample in calibration:
        arrays = [to_numpy(x) for x in sample]
        feeds.append(
            {
                name: to_int32(name, x) if x.dtype == np.int64 else x.astype(row["dtype"])
                for (name, row), x in zip(rows, arrays, strict=True)
            }
        )
    return feeds


class _Quantiser:
    """The vendor's quantiser for one file and precision, whose calibration runs once."""

    def __init__(self, source: bytes, precision: str, feeds: list[dict[str, Any]]) -> None:
        self._source, self._precision, self._feeds = source, precision, feeds
        self._ranges: Mapping[str, Any] | None = None

    def known(self, kinds: Collection[str]) -> set[str]:
        """Return those kinds of operators that it can be told about."""
        from ai_edge_quantizer.qtyping import TFLOperationName

        return set(kinds) & set(TFLOperationName.__members__)

    def quantise(self, kept: Collection[str]) -> bytes:
        """Return the file's bytes with all but these kinds of operators in the precision."""
        from ai_edge_litert.interpreter import Interpreter
        from ai_edge_quantizer.quantizer import Quantizer

        quantiser = Quantizer(bytearray(self._source), self._recipe(kept))
        if self._precision == "int8" and self._ranges is None:
            (signature,) = Interpreter(model_content=self._source).get_signature_list()
            self._ranges = quantiser.calibrate({signature: self._feeds}, num_threads=1)
        if self._precision == "int8" and not self._ranges:  # no operator that it knows
            return self._source
        made = quantiser.quantize(self._ranges).quantized_model
        return bytes(made) if made is not None else self._source

    def _recipe(self, kept: Collection[str]) -> Any:
        from ai_edge_quantizer.algorithm_manager import AlgorithmName
        from ai_edge_quantizer.qtyping import QuantGranularity, TFLOperationName
        from ai_edge_quantizer.recipe_manager import RecipeManager

        recipe, everything = RecipeManager(), TFLOperationName.ALL_SUPPORTED
        match self._precision:
            case "fp16":
                recipe.add_weight_only_config(".*", everything, 16, algorithm_key=AlgorithmName.FLOAT_CASTING)
            case "int8":
                recipe.add_static_config(".*", everything, 8, 8)
            case "int8dyn":
                recipe.add_dynamic_config(".*", everything, 8)
            case _:  # groups of 32, as everywhere
                recipe.add_dynamic_config(".*", TFLOperationName.FULLY_CONNECTED, 4, QuantGranularity.BLOCKWISE_32)
        for kind in (*(_EDGES if self._precision == "int8" else ()), *sorted(kept)):
            recipe.add_quantization_config(".*", TFLOperationName[kind], algorithm_key=AlgorithmName.NO_QUANTIZE)
        return recipe.get_quantization_recipe()
