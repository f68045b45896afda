"""executorch.xnnpack: ExecuTorch's XNNPACK delegate, optimised CPU kernels for x86 and Arm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, final

from cross_backend.backend import THREADS, Option, Options
from cross_backend.backends._quantize import int8_quantizer
from cross_backend.backends.executorch._pte import ExecuTorchBackend, flatbuffer_in, flatbuffer_json


@final
class Xnnpack(ExecuTorchBackend):
    """Subgraphs for XNNPACK; what it does not take runs on portable kernels."""

    name = "executorch.xnnpack"
    title = "XNNPACK (CPU)"
    delegate_id = "XnnpackBackend"
    preload = ("executorch.exir", "executorch.backends.xnnpack.partition.xnnpack_partitioner")
    takes_half = True
    rejections = "executorch.exir.backend.utils:WhyNoPartition.__call__"
    options = {
        "precision": Option(
            "float32, float16 inside, or int8 quantised on the calibration inputs", "fp32", ("fp32", "fp16", "int8")
        ),
        "threads": THREADS,
    }

    def quantizer(self, options: Options) -> Any:
        return int8_quantizer()

    def partitioners(self, program: Any, options: Options) -> Sequence[Any]:
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

        return (XnnpackPartitioner(),)

    def blob_operators(self, blob: bytes) -> Mapping[str, int]:
        graph = flatbuffer_json("executorch.backends.xnnpack.serialization", "schema.fbs", flatbuffer_in(blob, b"XH00"))
        return Counter(node["xnode_union_type"].removeprefix("_XNN").removeprefix("XNN") for node in graph["xnodes"])

    def unlogged(self, operator: str) -> str | None:
        from executorch.backends.xnnpack.partition.config import ALL_PARTITIONER_CONFIGS

        name, _, overload = operator.partition(".")
        overload = overload.removesuffix("out").removesuffix("_")  # of "out" alone nothing is known
        table = [config.target_name.partition(".") for config in ALL_PARTITIONER_CONFIGS]
        known = any(name == base and overload in {"", of} for base, _, of in table)
        return None if known else super().unlogged(operator)
