"""executorch.openvino: OpenVINO as an ExecuTorch delegate; its toolchain has the older OpenVINO that it wants."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, final

from cross_backend.artifact import Artifact
from cross_backend.backend import THREADS, Option, Options
from cross_backend.backends.executorch._pte import ExecuTorchBackend, PteSession

sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # as in backends/openvino.py


@final
class OpenVinoDelegate(ExecuTorchBackend):
    """Intel's CPU plugin inside a ``.pte``."""

    name = "executorch.openvino"
    title = "OpenVINO delegate (CPU, bf16)"
    delegate_id = "OpenvinoBackend"
    toolchain = "openvino_delegate"
    runtime_modules = ("torch", "executorch.extension.pybindings.portable_lib")
    options = {
        # What the file asked for is forgotten: the plugin chooses again when it opens the blob, and the delegate has
        # no way to tell it otherwise. So this says what may happen, and outputs are judged by it.
        "precision": Option(
            "bfloat16 where the processor can; the delegate leaves no choice", "bf16", ("bf16",), at="load"
        ),
        "threads": THREADS,
    }

    def partitioners(self, program: Any, options: Options) -> Sequence[Any]:
        from executorch.backends.openvino.partitioner import OpenvinoPartitioner
        from executorch.exir.backend.backend_details import CompileSpec

        return (OpenvinoPartitioner([CompileSpec("device", b"CPU")]),)

    def load(self, artifact: Artifact, options: Options) -> PteSession:
        return _OpenVinoDelegateSession(artifact, options)

    def blob_operators(self, blob: bytes) -> Mapping[str, int]:
        """The blob is an exported compiled model: opened with the same OpenVINO, its runtime graph is counted."""
        import io

        import openvino

        model = openvino.Core().import_model(io.BytesIO(blob), "CPU").get_runtime_model()
        kinds = Counter(str(op.get_rt_info()["layerType"].value) for op in model.get_ops())
        for bookkeeping in ("Input", "Output", "Const", "Parameter", "Result"):
            del kinds[bookkeeping]
        return kinds


class _OpenVinoDelegateSession(PteSession):
    def _open(self) -> None:
        threads = self.options["threads"]
        if threads is not None and hasattr(os, "sched_setaffinity"):
            # OpenVINO takes as many threads as it may use processors, and the delegate hands no other number on.
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
        # The vendor's own entry shows the delegate where the package keeps OpenVINO's library.
        from executorch.extension.pybindings import portable_lib  # noqa: F401

        super()._open()
