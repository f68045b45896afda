"""Native: programs in C with the library's sources in them, built with other flags or for other processors; runs of
the networks in them.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import re
import subprocess
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from atalla.blob.reader import parse
from atalla.build import FLAGS, SOURCES, build, files_of, sets_of
from atalla.dtypes import torch_dtype_of
from tests import needs, surroundings
from tests.compiled import compiled

HERE = Path(__file__).with_name("csrc")
OF_NARROW_PRODUCTS = {"vnni", "amx"}
"""Instruction sets that only have narrow products; all else is that of the set beneath."""


def sets_here() -> set[str]:
    """Ask the system which of our instruction sets the processor has."""
    flags = set(re.findall(r"\w+", Path("/proc/cpuinfo").read_text())) if Path("/proc/cpuinfo").exists() else set()
    found = {"base"}
    if {"avx2", "fma"} <= flags:
        found.add("avx2")
    if {"avx2", "fma", "avx512f"} <= flags:
        found.add("avx512")
    if found >= {"avx512"} and {"avx512bw", "avx512vl", "avx512_vnni"} <= flags:
        found.add("vnni")
    if found >= {"vnni"} and {"amx_tile", "amx_int8", "amx_bf16", "avx512_bf16"} <= flags:
        found.add("amx")
    return found


def executable(
    driver: Path,
    flags: Sequence[str],
    link: Sequence[str] = (),
    *,
    isas: Collection[str] | None = None,
    compiler: str = "cc",
    machine: str | None = None,
) -> Path:
    """Build a driver and the library into one program, once for all runs; skip where there is no compiler.

    Drivers of the same flags share the library's objects.

    Args:
        driver: its source.
        flags: of the compiler, behind the library's own.
        link: flags that only the linker gets.
        isas: the instruction sets of its kernels, if not all that this processor has.
        compiler: its command.
        machine: the processor that it builds for, if not this.
    """
    needs.program(compiler)
    place, objects, lacking = _library(flags, isas, compiler, machine)
    own = _place(place.name, *link, driver.stem, surroundings.digest_of([driver, *driver.parent.glob("*.h")]))
    program = own / driver.stem
    with _locked(own):
        if not program.exists():
            made = own / f"{driver.stem}.o"
            _compile(compiler, driver, made, (*lacking, *flags), lines=bool(flags))
            _run([compiler, *flags, *link, *map(str, objects), str(made), "-o", str(program), "-lm", "-lpthread"])
    return program


def built_alone(name: str, *others: str) -> Path:
    """Return a driver of csrc/, built without the library but for the sources that it includes."""
    needs.program("cc")
    driver = HERE / f"{name}.c"
    sources = {other: (SOURCES / other).read_text() for other in ("internal.h", *others)}
    command = ["cc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-pthread", "-I", str(SOURCES)]
    return compiled([*command, f"{name}.c", "-o", name], {f"{name}.c": driver.read_text()}, sources) / name


def _library(
    flags: Sequence[str], isas: Collection[str] | None, compiler: str, machine: str | None
) -> tuple[Path, list[Path], list[str]]:
    """Compile the library's sources, once for all drivers and runs; return the folder, the objects in it, and the flags
    that tell which kernels it lacks.
    """
    wanted = sets_here() if isas is None else isas
    all_sets = sets_of(machine or platform.machine())
    sets = {name: more for name, more in all_sets.items() if name.removeprefix("kernels_") in wanted}
    sources, lacking = files_of(sets)
    made_of = surroundings.digest_of([*sources, *SOURCES.rglob("*.h"), *SOURCES.rglob("*.inc")])
    place = _place(compiler, _version(compiler), *lacking, *flags, made_of)
    objects = [place / f"{file.stem}.o" for file in sources]
    with _locked(place), ThreadPoolExecutor(os.cpu_count()) as pool:
        made = [
            pool.submit(_compile, compiler, file, path, (*lacking, *sets.get(file.stem, ()), *flags), lines=bool(flags))
            for file, path in zip(sources, objects, strict=True)
            if not path.exists()
        ]
        for one in made:
            one.result()
    return place, objects, lacking


def _compile(compiler: str, file: Path, made: Path, flags: Sequence[str], *, lines: bool) -> None:
    """Compile one file, with the lines that a sanitizer names; all of ``-g`` is a third of the compiler's time."""
    part = made.with_suffix(".part")
    more = ("-g1",) if lines else ()
    _run([compiler, *FLAGS, "-Werror", *more, "-I", str(SOURCES), *flags, "-c", str(file), "-o", str(part)])
    part.replace(made)


@contextlib.contextmanager
def _locked(place: Path) -> Iterator[None]:
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _place(*words: str) -> Path:
    place = surroundings.KEPT / "native" / hashlib.sha256(" ".join(words).encode()).hexdigest()[:16]
    place.mkdir(parents=True, exist_ok=True)
    return place


def shared_library(flags: Sequence[str]) -> Path:
    """Build the library with other flags, once for all runs; skip where there is no compiler."""
    needs.program("cc")
    made_of = surroundings.digest_of([*SOURCES.rglob("*.c"), *SOURCES.rglob("*.h"), *SOURCES.rglob("*.inc")])
    name = hashlib.sha256(" ".join([_version("cc"), *flags, made_of]).encode()).hexdigest()[:16]
    path = surroundings.KEPT / "native" / f"{name}.so"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            build(path, flags)
    return path


def _version(compiler: str) -> str:
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout


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
