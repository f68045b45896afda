"""executorch.mps: Metal Performance Shaders on Apple's GPUs; removed in ExecuTorch 1.5, lowered by a toolchain."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, final

from cross_backend.backend import Lifecycle, Option, Options, Unavailable
from cross_backend.backends.executorch._pte import ExecuTorchBackend, flatbuffer_json
from cross_backend.errors import LowerError


@final
class Mps(ExecuTorchBackend):
    """The GPU of Apple's systems, from iOS 17 and macOS Sonoma on."""

    name = "executorch.mps"
    title = "MPS (Apple Metal)"
    delegate_id = "MPSBackend"
    toolchain = "mps"
    lifecycle = Lifecycle(
        "executorch",
        deprecated="1.2",
        removed="1.5",
        instead="executorch.coreml (GPU and Neural Engine), or stay with executorch 1.4 in the app",
    )
    options = {"precision": Option("arithmetic inside MPS", "fp32", ("fp32", "fp16"))}
    cannot_run = Unavailable(
        "runs on Apple's systems only", "run the file with an ExecuTorch 1.4 runtime on iOS 17 or macOS 14 and newer"
    )

    def partitioners(self, program: Any, options: Options) -> Sequence[Any]:
        from executorch.backends.apple.mps.partition import MPSPartitioner
        from executorch.exir.backend.backend_details import CompileSpec

        return (MPSPartitioner([CompileSpec("use_fp16", bytes([options["precision"] == "fp16"]))]),)

    def blob_operators(self, blob: bytes) -> Mapping[str, int]:
        """Blob: magic ``MP00`` at byte 4, u64 offset and u64 size of the weights; the graph fills bytes 24 to there."""
        if blob[4:8] != b"MP00":
            raise LowerError("the MPS blob does not begin with the header MP00 that this version knows.")
        graph_bytes = blob[24 : struct.unpack_from("<Q", blob, 8)[0]]
        graph = flatbuffer_json("executorch.backends.apple.mps.serialization", graph_bytes)
        return Counter(node["mpsnode_union_type"].removeprefix("MPS") for node in graph["mps_nodes"])
