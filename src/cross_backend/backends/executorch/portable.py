"""executorch.portable: ExecuTorch's plain reference kernels; they run everywhere, far slower than XNNPACK on CNNs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from cross_backend.backend import THREADS, ForeignFiles, Option, Options
from cross_backend.backends.executorch._foreign import describe
from cross_backend.backends.executorch._pte import ExecuTorchBackend


@final
class Portable(ExecuTorchBackend):
    """No delegate: every operator is a kernel call."""

    name = "executorch.portable"
    title = "Portable (Reference)"
    takes_half = True
    partitioner_source = ("", "[]")
    foreign = ForeignFiles(".pte", describe)
    options = {"precision": Option("float32, or float16 inside", "fp32", ("fp32", "fp16")), "threads": THREADS}

    def partitioners(self, program: Any, options: Options) -> Sequence[Any]:
        return ()
