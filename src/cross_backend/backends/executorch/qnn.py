"""executorch.qnn: Qualcomm's AI Engine Direct, the Hexagon NPU of Snapdragon; needs Qualcomm's SDK to lower."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from cross_backend.backend import Missing, Option, Options, Unavailable
from cross_backend.backends.executorch._pte import ExecuTorchBackend
from cross_backend.machine import Machine

SDK_VARIABLE = "QNN_SDK_ROOT"
SDK_VERSION = "2.37"
_SOCS = ("SM8350", "SM8450", "SM8475", "SM8550", "SM8650", "SM8750", "SM8850", "QCM6490", "SC8380XP", "SA8295")


@final
class Qnn(ExecuTorchBackend):
    """float16 on the HTP, or int8 quantised on the calibration inputs."""

    name = "executorch.qnn"
    title = "QNN (Qualcomm NPU)"
    delegate_id = "QnnBackend"
    options = {
        "precision": Option("arithmetic on the NPU", "fp16", ("fp16", "int8")),
        "soc_model": Option("system on chip that the file is compiled for", "SM8650", _SOCS),
    }
    cannot_run = Unavailable(
        "runs on Snapdragon devices only", "run the file on the device, with Qualcomm's libraries beside it"
    )

    def missing(self, machine: Machine) -> Missing | None:
        """Without the SDK the vendor's package would try to download it while it lowers: so it is asked for first."""
        absent = super().missing(machine)
        if absent is not None and absent.lower is not None:
            return absent
        root = os.environ.get(SDK_VARIABLE)
        if root and Path(root).is_dir():
            return absent
        reason = f"needs Qualcomm's QNN SDK {SDK_VERSION}" + (f": {SDK_VARIABLE}={root} is no folder" if root else "")
        remedy = (
            f"download it from https://www.qualcomm.com/developer/software/qualcomm-ai-engine-direct-sdk "
            f"and set {SDK_VARIABLE} to its folder"
        )
        return Missing(Unavailable(reason, remedy), self.cannot_run)

    def quantizer(self, options: Options) -> Any:
        from executorch.backends.qualcomm.quantizer.quantizer import QnnQuantizer

        return QnnQuantizer()

    def edge(self, program: Any, options: Options) -> Any:
        """The vendor's own entry: its passes must run before its partitioner."""
        from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset
        from executorch.backends.qualcomm.utils.utils import (
            generate_htp_compiler_spec,
            generate_qnn_executorch_compiler_spec,
            to_edge_transform_and_lower_to_qnn,
        )

        specs = generate_qnn_executorch_compiler_spec(
            soc_model=QcomChipset[options["soc_model"]],
            backend_options=generate_htp_compiler_spec(use_fp16=options["precision"] == "fp16"),
        )
        return to_edge_transform_and_lower_to_qnn(program.module(), program.example_inputs[0], specs)

    def blob_operators(self, blob: bytes) -> Mapping[str, int]:
        """The blob is a compiled context binary, which only Qualcomm's own tools open: it counts as one."""
        return {"context binary": 1} if blob else {}
