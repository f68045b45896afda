"""executorch.xnnpack: ExecuTorch's XNNPACK delegate, optimised CPU kernels for x86 and Arm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, final

from cross_backend.backend import THREADS, Option, Options
from cross_backend.backends._quantize import int8_quantizer
from cross_backend.backends.executorch._pte import ExecuTorchBackend, flatbuffer_in, flatbuffer_json
from cross_backend.placement import Arithmetic, computing
from cross_backend.program.composites import with_gelu_by_sigmoid

_READS = frozenset({"input_id", "input1_id", "input2_id", "filter_id"})
"""Fields of a node that name what it reads."""


def _graph(blob: bytes) -> Any:
    return flatbuffer_json("executorch.backends.xnnpack.serialization", flatbuffer_in(blob, b"XH00"))


def _name(node: Mapping[str, Any]) -> str:
    return str(node["xnode_union_type"]).removeprefix("_XNN").removeprefix("XNN")


@final
class Xnnpack(ExecuTorchBackend):
    """Subgraphs for XNNPACK; what it does not take runs on portable kernels."""

    name = "executorch.xnnpack"
    title = "XNNPACK (CPU)"
    delegate_id = "XnnpackBackend"
    preload = ("executorch.exir", "executorch.backends.xnnpack.partition.xnnpack_partitioner")
    takes_half = True
    partitioner_source = (
        "from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner",
        "[XnnpackPartitioner()]",
    )
    rejections = "executorch.exir.backend.utils:WhyNoPartition.__call__"
    options = {
        "precision": Option("arithmetic", "fp32", ("fp32", "fp16", "int8", "int8dyn", "int4w")),
        "threads": THREADS,
    }

    def quantizer(self, options: Options) -> Any:
        return int8_quantizer(is_dynamic=options["precision"] == "int8dyn")

    def edge(self, program: Any, options: Options) -> Any:
        """Its gelu is the exact one whatever is asked for."""
        return super().edge(with_gelu_by_sigmoid(program), options)

    def partitioners(self, program: Any, options: Options) -> Sequence[Any]:
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

        return (XnnpackPartitioner(),)

    def blob_operators(self, blob: bytes) -> Mapping[str, int]:
        return Counter(map(_name, _graph(blob)["xnodes"]))

    def blob_arithmetic(self, blob: bytes) -> Arithmetic:
        """Tell nodes apart by the types of what they read."""
        graph = _graph(blob)
        quantised = {
            number
            for value in graph["xvalues"]
            if value["xvalue_union_type"] == "XNNQuantizedTensorValue"
            for number in [value["xvalue_union"]["tensor_value"].get("id_out", 0)]
        }
        low: Counter[str] = Counter()
        kept: Counter[str] = Counter()
        for node in graph["xnodes"]:
            read = [number for key, number in node["xnode_union"].items() if key in _READS]
            (kept if quantised.isdisjoint(read) else low)[_name(node)] += 1
        conversions = low.pop("Convert", 0) + kept.pop("Convert", 0)
        return Arithmetic(computing(low), computing(kept), conversions)

    def unlogged(self, operator: str) -> str | None:
        from executorch.backends.xnnpack.partition.config import ALL_PARTITIONER_CONFIGS

        name, _, overload = operator.partition(".")
        overload = overload.removesuffix("out").removesuffix("_")  # of "out" alone nothing is known
        table = [config.target_name.partition(".") for config in ALL_PARTITIONER_CONFIGS]
        known = any(name == base and overload in {"", of} for base, _, of in table)
        return None if known else super().unlogged(operator)
