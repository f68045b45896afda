"""Vela's estimate of each layer of a network on an Ethos-U: quantised and lowered by ExecuTorch in its toolchain.

python benchmarks/_vela.py PROGRAM CALIBRATION FOLDER TARGET, in the toolchain, lowers; the rest runs outside.
"""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cross_backend.toolchains import find_toolchain

OPERATORS = ("Conv2D", "DepthwiseConv2D")
"""What Vela calls convolutions; a fully connected layer is one of 1 × 1 to it."""
REPORT = Path("output") / "out_per-layer.csv"
"""Where Vela writes under ``--verbose-performance``, in the folder of ExecuTorch's intermediate files."""


@dataclass(frozen=True)
class Layer:
    """A line of Vela's report: an operator, and what follows it in the same pass (a table, rescaling)."""

    operator: str
    """``Conv2D``, ``DepthwiseConv2D``."""
    cycles: int
    """``Op Cycles``: the largest of those below."""
    computing: int
    """``NPU``: of the elements alone."""
    macs: int
    """Multiplications, those with padding included."""


def parse(text: str) -> list[Layer]:
    """Read the convolutions of a report, in the order in which they run."""
    rows = csv.DictReader(io.StringIO(text))
    return [
        Layer(row["NNG Operator"], int(row["Op Cycles"]), int(row["NPU"]), int(row["MAC Count"]))
        for row in rows
        if row["NNG Operator"] in OPERATORS
    ]


def estimate(program: Any, calibration: Any, target: str) -> str:
    """Return Vela's report.

    Args:
        program: of ``torch.export``, float32.
        calibration: tuples of tensors.
        target: ``ethos-u85-1024``, …
    """
    import torch

    toolchain = find_toolchain("ethos_u")
    if not toolchain.added:
        raise SystemExit("Vela needs its toolchain: cross-backend toolchain add ethos_u")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        torch.export.save(program, folder / "program.pt2")
        torch.save(list(calibration), folder / "calibration.pt")
        files = [str(folder / file) for file in ("program.pt2", "calibration.pt", "lowered")]
        command = [str(toolchain.python), __file__, *files, target]
        packages = Path(sys.modules["cross_backend"].__path__[0]).parent
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(packages)}
        )
        if done.returncode:
            raise SystemExit(f"Vela failed: {(done.stderr.strip() or 'no output').splitlines()[-1]}")
        return (folder / "lowered" / REPORT).read_text()


def lower(program: str, calibration: str, folder: str, target: str) -> None:
    """Quantise and lower, inside the toolchain; leaves Vela's files in the folder."""
    import torch
    from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
    from executorch.exir import to_edge_transform_and_lower

    from cross_backend.backends.executorch.ethos_u import EthosU

    Path(folder).mkdir()
    samples = [tuple(x.numpy() for x in sample) for sample in torch.load(calibration)]
    quantised = EthosU().prepared(torch.export.load(program), {"precision": "int8", "target": target}, samples)
    spec = EthosUCompileSpec(target, extra_flags=["--verbose-performance"])
    spec.dump_intermediate_artifacts_to(folder)
    to_edge_transform_and_lower(quantised, partitioner=[EthosUPartitioner(spec)])


if __name__ == "__main__":
    lower(*sys.argv[1:])
