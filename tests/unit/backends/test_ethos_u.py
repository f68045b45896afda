"""The Ethos-U blob: Vela's blocks, the NPU's command stream, and Vela's summary."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from cross_backend.backends.executorch.ethos_u import EthosU, _stream_operations, _vela_estimate
from cross_backend.errors import LowerError


def block(name: str, data: bytes) -> bytes:
    padding = -len(data) % 16
    return name.encode().ljust(16, b"\0") + struct.pack("<I12x", len(data)) + data + b"\0" * padding


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


STREAM = (
    0x31504F43,  # COP1
    0x00000001, 0x1807, 0x10066001,  # configure, two words
    5, 5,  # nothing
    0x00060002,  # the command stream follows
    0x0001010F,  # set a register
    0x4000, 0x00000002,  # set an address; its payload looks like a convolution and is none
    0x00000002, 0x00000003, 0x00000002,  # convolution, depthwise, convolution
    0x0000FFFF & 0x0,  # stop
)  # fmt: skip


def test_counts_what_computes() -> None:
    blob = block("vela_bin_stream", b"") + block("cmd_data", words(*STREAM)) + block("weight_data", b"12345")
    assert dict(EthosU().blob_operators(blob)) == {"NPU_OP_CONV": 2, "NPU_OP_DEPTHWISE": 1}


@pytest.mark.parametrize("data", [b"", b"\0" * 8, b"COP2" + b"\0" * 60])
def test_another_format_is_refused(data: bytes) -> None:
    with pytest.raises(LowerError, match="command stream"):
        _stream_operations(data)


def test_velas_estimate_is_summed_over_delegates(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}_summary_x.csv").write_text(
            "cycles_total,inference_time,sram_memory_used,off_chip_flash_memory_used,nn_macs\n1000,0.5,2,3,64000\n"
        )
    estimate = _vela_estimate(tmp_path, "ethos-u55-128")
    assert estimate == {
        "cycles": 2000, "inference_s": 1.0, "sram_kib": 4, "off_chip_flash_kib": 6, "macs": 128000,
        "npu_utilisation": 0.5,
    }  # fmt: skip
    assert _vela_estimate(tmp_path / "none", "ethos-u55-128") == {}
