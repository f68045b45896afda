"""executorch.vulkan: compute shaders for the graphics processors of any vendor; lowers anywhere, runs on devices."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, final

from cross_backend.backend import Option, Options, Unavailable
from cross_backend.backends.executorch._pte import ExecuTorchBackend, flatbuffer_in, flatbuffer_json


@final
class Vulkan(ExecuTorchBackend):
    """float32, float16 inside the shaders, or int8 quantised on the calibration inputs."""

    name = "executorch.vulkan"
    title = "Vulkan (GPU)"
    delegate_id = "VulkanBackend"
    preload = ("executorch.exir", "executorch.backends.vulkan.partitioner.vulkan_partitioner")
    rejections = "executorch.backends.vulkan.partitioner.vulkan_partitioner:VulkanSupportedOperators.log_skip"
    options = {"precision": Option("arithmetic and storage inside the shaders", "fp32", ("fp32", "fp16", "int8"))}
    cannot_run = Unavailable(
        "does not run here: the runtime in the executorch package holds no Vulkan backend",
        "run the file on a device whose ExecuTorch runtime is built with -DEXECUTORCH_BUILD_VULKAN=ON",
    )

    def quantizer(self, options: Options) -> Any:
        from executorch.backends.vulkan.quantizer.vulkan_quantizer import (
            VulkanQuantizer,
            get_symmetric_quantization_config,
        )

        return VulkanQuantizer().set_global(get_symmetric_quantization_config())

    def partitioners(self, program: Any, options: Options) -> Sequence[Any]:
        from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner

        _keep_patterns()
        return (VulkanPartitioner({"force_fp16": options["precision"] == "fp16"}),)

    def blob_operators(self, blob: bytes) -> Mapping[str, int]:
        graph = flatbuffer_json("executorch.backends.vulkan.serialization", flatbuffer_in(blob, b"VH00"))
        return Counter(call["name"] for call in graph["chain"])


@functools.cache
def _keep_patterns() -> None:
    """Let the vendor trace the graphs that it looks for once a process.

    By itself it traces them again for each program, which is three quarters of the time that a small one takes.
    """
    from executorch.backends.vulkan.patterns import fusable_patterns

    for entry in fusable_patterns.values():
        if entry.get_graphs_fn is not None:
            entry.get_graphs_fn = functools.cache(entry.get_graphs_fn)
