"""executorch.ethos_u: Arm's Ethos-U NPUs in microcontrollers; int8 only, compiled by Vela inside a toolchain."""

from __future__ import annotations

import csv
import struct
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

from cross_backend.backend import Calibration, Lowered, Option, Options, Unavailable
from cross_backend.backends.executorch._pte import ExecuTorchBackend
from cross_backend.errors import LowerError

_TARGETS = (
    *(f"ethos-u55-{macs}" for macs in (32, 64, 128, 256)),
    *(f"ethos-u65-{macs}" for macs in (256, 512)),
    *(f"ethos-u85-{macs}" for macs in (128, 256, 512, 1024, 2048)),
)
_OPERATIONS = {2: "NPU_OP_CONV", 3: "NPU_OP_DEPTHWISE", 5: "NPU_OP_POOL", 6: "NPU_OP_ELEMENTWISE", 7: "NPU_OP_RESIZE"}
"""Operation codes of the NPU's command stream that compute; others set registers, move data or wait."""
_ESTIMATES = {
    "cycles_total": "cycles",
    "inference_time": "inference_s",
    "sram_memory_used": "sram_kib",
    "off_chip_flash_memory_used": "off_chip_flash_kib",
    "nn_macs": "macs",
}
"""Column of Vela's summary → name in the manifest."""


@final
class EthosU(ExecuTorchBackend):
    """One NPU command stream per delegate; quantising at the edges is left to the processor beside it."""

    name = "executorch.ethos_u"
    title = "Ethos-U (Arm NPU)"
    delegate_id = "EthosUBackend"
    rejections = "executorch.exir.backend.utils:WhyNoPartitionReporter.report_reject"
    toolchain = "ethos_u"
    options = {
        "precision": Option("the NPU computes in int8, quantised on the calibration inputs", "int8", ("int8",)),
        "target": Option("NPU and its multiply-accumulate units", "ethos-u55-128", _TARGETS),
    }
    cannot_run = Unavailable(
        "runs on microcontrollers with an Ethos-U only", "link the file into firmware with ExecuTorch's Ethos-U runtime"
    )

    def quantizer(self, options: Options) -> Any:
        from executorch.backends.arm.ethosu import EthosUCompileSpec
        from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config

        return EthosUQuantizer(EthosUCompileSpec(options["target"])).set_global(get_symmetric_quantization_config())

    def lower(self, program: Any, options: Options, stem: Path, calibration: Calibration) -> Lowered:
        """As every ExecuTorch backend, and keep Vela's own estimate of what the NPU will need."""
        with tempfile.TemporaryDirectory() as name:
            lowered = super().lower(program, {**options, "folder": name}, stem, calibration)
            return Lowered(lowered.payload, lowered.placement, _vela_estimate(Path(name), options["target"]))

    def partitioners(self, program: Any, options: Options) -> Sequence[Any]:
        from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner

        spec = EthosUCompileSpec(options["target"])
        spec.dump_intermediate_artifacts_to(options["folder"])
        return (EthosUPartitioner(spec),)

    def prepared(self, program: Any, options: Options, calibration: Calibration) -> Any:
        """Quantise a functional program: the NPU's passes know no operators that write in place."""
        return super().prepared(program.run_decompositions({}), options, calibration)

    def blob_operators(self, blob: bytes) -> Mapping[str, int]:
        return _stream_operations(_blocks(blob).get("cmd_data", b""))

    def unlogged(self, operator: str) -> str | None:
        if "quantize" in operator:
            return "quantising at the edges is left to the processor beside it"
        return super().unlogged(operator)


def _blocks(blob: bytes) -> dict[str, bytes]:
    """Split Vela's binary: blocks of a 16-byte name, u32 size, 12 bytes of padding, data padded to 16 bytes."""
    blocks, offset = {}, 0
    while offset + 32 <= len(blob):
        (size,) = struct.unpack_from("<I", blob, offset + 16)
        blocks[blob[offset : offset + 16].rstrip(b"\0").decode("ascii", "replace")] = blob[
            offset + 32 : offset + 32 + size
        ]
        offset += 32 + -(-size // 16) * 16
    return blocks


def _stream_operations(data: bytes) -> Counter[str]:
    """Count computing operations in a driver payload: ``COP1``, then driver actions, the last being the commands.

    An action's low byte is its kind: 1 configures and is followed by two words, 2 is the command stream of so many
    words, 5 does nothing. A command has its code in the low ten bits; bits 14 and 15 say that a payload word follows.
    """
    words = struct.unpack(f"<{len(data) // 4}I", data[: len(data) // 4 * 4])
    if not words or data[:4] != b"COP1":
        raise LowerError("the Ethos-U blob holds no command stream that this version knows.")
    at = 1
    while at < len(words) and words[at] & 0xFF != 2:
        at += 3 if words[at] & 0xFF == 1 else 1
    stream, at, found = words[at + 1 :], 0, Counter[str]()
    while at < len(stream):
        code, has_payload = stream[at] & 0x3FF, stream[at] >> 14 & 3
        if not has_payload and code in _OPERATIONS:
            found[_OPERATIONS[code]] += 1
        at += 2 if has_payload else 1
    return found


def _vela_estimate(folder: Path, target: str) -> dict[str, float]:
    """Sum the figures of Vela's summaries, one per delegate; utilisation is MACs over what the units could do."""
    total = dict.fromkeys(_ESTIMATES.values(), 0.0)
    for path in folder.rglob("*_summary_*.csv"):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                for column, name in _ESTIMATES.items():
                    total[name] += float(row.get(column) or 0)
    units = int(target.rpartition("-")[2])
    return total | {"npu_utilisation": total["macs"] / (total["cycles"] * units)} if total["cycles"] else {}
