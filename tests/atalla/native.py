"""Native: programs in C with the library's sources in them, built with other flags or for other processors; runs of
the networks in them.
"""

from __future__ import annotations

import fcntl
import hashlib
import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from atalla.build import FLAGS, SETS, SOURCES
from atalla.loader import parse
from atalla.lower import torch_dtype_of

HERE = Path(__file__).with_name("csrc")


def executable(
    folder: Path, driver: Path, flags: Sequence[str], *, compiler: str = "cc", machine: str | None = None
) -> Path:
    """Build a driver and the library into one program, once for all processes; skip where there is no compiler."""
    if not shutil.which(compiler):
        pytest.skip(f"there is no {compiler}")
    sets = SETS if (machine or platform.machine()).lower() in {"x86_64", "amd64"} else {"kernels_base": ()}
    sources = [
        file for file in sorted(SOURCES.glob("*.c")) if not file.stem.startswith("kernels_") or file.stem in sets
    ]
    name = hashlib.sha256(" ".join([compiler, str(driver), *flags]).encode()).hexdigest()[:12]
    path = folder / f"{driver.stem}-{name}"
    with (folder / f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            return path
        objects = []
        for file in (*sources, driver):
            objects.append(folder / f"{path.name}-{file.stem}.o")
            more = ("-I", str(SOURCES), *sets.get(file.stem, ()), *flags)
            _run([compiler, *FLAGS, "-g", *more, "-c", str(file), "-o", str(objects[-1])])
        part = path.with_suffix(".part")
        _run([compiler, *flags, *map(str, objects), "-o", str(part), "-lm", "-lpthread"])
        part.rename(path)
    return path


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]


def run_blob(
    program: Sequence[str],
    data: bytes,
    inputs: Sequence[torch.Tensor],
    folder: Path,
    *,
    threads: int = 1,
    contexts: int = 1,
    runs: int = 2,
    isa: str = "-",
) -> list[torch.Tensor]:
    """Run a blob in a program built of ``run_blob.c``; give the outputs that are tensors."""
    listing = parse(data)
    (folder / "blob").write_bytes(data)
    given = []
    for i, (number, value) in enumerate(zip(listing.inputs, inputs, strict=True)):
        row = listing.tensors[number]
        made = torch.zeros(row.bytes // row.dtype.size, dtype=torch_dtype_of(row.dtype))
        if made.numel():
            made.as_strided(row.shape, row.strides).copy_(value)
        (folder / f"in{i}").write_bytes(made.view(torch.uint8).numpy().tobytes() if made.numel() else b"")
        given.append(str(folder / f"in{i}"))
    rows = [listing.tensors[value] if kind == "tensor" else None for kind, value in listing.outputs]
    places = [f"{folder / f'out{i}'}={row.bytes if row else 0}" for i, row in enumerate(rows)]
    command = [*program, str(folder / "blob"), str(threads), str(contexts), str(runs), isa, *given, "--", *places]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    assert not done.stderr, done.stderr[-4000:]
    outputs = []
    for i, row in enumerate(rows):
        if row is None:
            continue
        flat = torch.frombuffer(bytearray((folder / f"out{i}").read_bytes()), dtype=torch_dtype_of(row.dtype))
        outputs.append(flat.as_strided(row.shape, row.strides))
    return outputs
