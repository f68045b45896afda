"""executorch.xnnpack: ExecuTorch's XNNPACK delegate, optimised CPU kernels for x86 and Arm."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, final

from cross_backend.backend import Options
from cross_backend.backends.executorch._pte import ExecuTorchBackend, flatbuffer_json
from cross_backend.errors import LowerError


@final
class Xnnpack(ExecuTorchBackend):
    """float32 subgraphs for XNNPACK; what it does not take runs on portable kernels."""

    name = "executorch.xnnpack"
    title = "XNNPACK (CPU)"
    delegate_id = "XnnpackBackend"

    def partitioners(self, program: Any, options: Options) -> Sequence[Any]:
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

        return (XnnpackPartitioner(),)

    def blob_operators(self, blob: bytes) -> Mapping[str, int]:
        """Blob: magic ``XH00`` at byte 4, then u16 header size, u32 offset and u32 size of the graph's flatbuffer."""
        if blob[4:8] != b"XH00":
            raise LowerError("the XNNPACK blob does not begin with the header XH00 that this version knows.")
        offset, size = struct.unpack_from("<II", blob, 10)
        graph = flatbuffer_json("executorch.backends.xnnpack.serialization", "schema.fbs", blob[offset : offset + size])
        return Counter(node["xnode_union_type"].removeprefix("_XNN").removeprefix("XNN") for node in graph["xnodes"])
