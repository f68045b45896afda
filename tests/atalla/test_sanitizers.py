"""Sanitizers: the library with a driver in C, under ASan, UBSan and TSan, as a debug build, and for ARM."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from atalla.blob.reader import parse
from atalla.build import FLAGS, SETS, SOURCES
from atalla.isa import Layout, Op, Verdict
from atalla.isa.format import MOST_BYTES, TENSOR
from tests import needs
from tests.atalla import bf16_programs, f32_programs, int8_programs
from tests.atalla.native import HERE, executable, run_blob, sets_here, shared_library
from tests.atalla.nets import HOSTED, NETS
from tests.atalla.odd import odd
from tests.atalla.one_instruction import Given
from tests.atalla.test_compile import compiled, same
from tests.atalla.test_verify import python, sections, signed

pytestmark = pytest.mark.slow
ALL = ("-DATALLA_WORTH_SHARING=1", "-DATALLA_WORTH_PAIRING=1")
"""What threads can share is shared, and what can run in one pass does."""
UNDEFINED = ("-fsanitize=undefined,float-cast-overflow", "-fno-sanitize-recover=all")
LITTLE = ("-O1", "-fexpensive-optimizations")
"""Optimised little, but sums and products become one operation, as those do that the tiles have in assembly."""
ADDRESS = (*LITTLE, "-fsanitize=address", *UNDEFINED, "-fno-omit-frame-pointer", *ALL)
THREAD = (*LITTLE, "-fsanitize=thread", *ALL)
DEBUG = (*LITTLE, "-DATALLA_DEBUG", "-DATALLA_WORTH_SHARING=1")
ARM, QEMU = "aarch64-linux-gnu-gcc", "qemu-aarch64"
DRIVER = HERE / "run_blob.c"


def checked(program: list[str], name: str, folder: Path, tolerance: float = 2e-5, **options: int | str) -> None:
    """Run a network; what the host computes is not compared, as the driver has no host."""
    made, inputs, wanted = compiled(name)
    found = run_blob(program, made.data, inputs, folder, **options)
    if name not in HOSTED:
        same(found, wanted, tolerance)


@pytest.mark.parametrize("isa", sorted(sets_here()))
@pytest.mark.parametrize("name", NETS)
def test_no_byte_out_of_bounds_and_nothing_undefined(name: str, isa: str, tmp_path: Path) -> None:
    checked([str(executable(DRIVER, ADDRESS))], name, tmp_path, threads=2, isa=isa)


@pytest.mark.parametrize("isa", sorted(sets_here()))
@pytest.mark.parametrize("name", NETS)
def test_odd_numbers_do_nothing_undefined(name: str, isa: str, tmp_path: Path) -> None:
    """NaN, infinity, what is below 0 or hardly above it, and what overflows; indices stay in their tables."""
    made, inputs, _ = compiled(name)
    is_index = any(row.op is Op.GATHER for row in parse(made.data).instructions)
    for first in (0, 7):
        given = [x if is_index and not x.is_floating_point() else odd(x, first + i) for i, x in enumerate(inputs)]
        run_blob([str(executable(DRIVER, ADDRESS))], made.data, given, tmp_path, threads=2, isa=isa)


@pytest.mark.parametrize("isa", sorted(sets_here()))
@pytest.mark.parametrize("make", [*f32_programs.MAKERS, *bf16_programs.MAKERS, *int8_programs.MAKERS])
def test_steps_of_a_dim_of_one_element_are_never_taken(make: Callable[[int], Given], isa: str, tmp_path: Path) -> None:
    """Files may say the largest there is: whoever takes one is outside of all memory."""
    ran = 0
    for seed in range(16):
        blob, inputs, _ = make(seed)
        far = steps_apart(blob)
        if far == blob or python(far) != Verdict.SOUND:
            continue
        program = [str(executable(DRIVER, ADDRESS))]
        usual, found = (run_blob(program, one, inputs, tmp_path, threads=2, isa=isa) for one in (blob, far))
        same(found, usual, 0)
        ran += 1
    assert ran > 2


def steps_apart(blob: bytes) -> bytes:
    """Return the file with the largest steps, wherever a dim has one element."""
    listing, changed, first = parse(blob), bytearray(blob), sections(blob)[b"TENS"][0]
    for number, row in enumerate(listing.tensors):
        for dim, extent in enumerate(row.shape):
            if extent == 1 and row.layout is Layout.STRIDED:
                place = first + TENSOR.size * number + TENSOR.at("strides") + 8 * dim
                struct.pack_into("<q", changed, place, MOST_BYTES)
    return signed(changed)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_samples_with_odd_numbers_do_nothing_undefined() -> None:
    """Of every fifth operator, under the library that the sanitizer watches, in a process of its own."""
    library = shared_library((*LITTLE, "-g", *UNDEFINED))
    environment = {**os.environ, "ATALLA_LIBRARY": str(library)}
    command = [sys.executable, "-m", "tests.atalla.odd", "0", "5", "10"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0 and "runtime error" not in done.stderr, done.stderr[-4000:]
    assert int(done.stdout) > 40


@pytest.mark.parametrize("name", NETS)
def test_threads_do_not_race(name: str, tmp_path: Path) -> None:
    """Three contexts of one blob at once, each with a pool of two; kernels of every set share work alike."""
    checked([str(executable(DRIVER, THREAD, isas=["base"]))], name, tmp_path, threads=2, contexts=3, runs=3)


@pytest.mark.parametrize("isa", sorted(sets_here()))
@pytest.mark.parametrize("name", NETS)
def test_each_instruction_writes_its_tensor_only(name: str, isa: str, tmp_path: Path) -> None:
    """What is dead or not yet written is NaN, so that whoever reads it shows."""
    checked([str(executable(DRIVER, DEBUG))], name, tmp_path, threads=2, isa=isa)


@pytest.mark.parametrize("name", NETS)
def test_another_processor_gives_the_same(name: str, tmp_path: Path) -> None:
    needs.program(QEMU)
    program = executable(DRIVER, ("-O2", "-static"), compiler=ARM, machine="aarch64")
    checked([QEMU, str(program)], name, tmp_path, threads=2, isa="base")


WRAPPED = "malloc", "calloc", "realloc", "posix_memalign", "pthread_create"


@pytest.mark.parametrize("name", ["mlp", "fallback", "winograd", "transformer"])
def test_out_of_memory_is_an_error_wherever_it_happens(name: str, tmp_path: Path) -> None:
    """Every allocation of loading, reserving, running and planning fails once; nothing leaks."""
    wraps = tuple(f"-Wl,--wrap={one}" for one in WRAPPED)
    program = executable(HERE / "no_memory.c", ADDRESS, wraps)
    (tmp_path / "blob").write_bytes(compiled(name)[0].data)
    done = subprocess.run([program, tmp_path / "blob"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    lived, planned = map(int, done.stdout.split())
    assert lived >= 14 and planned >= 20, "fewer allocations than there are in the sources"


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("source", sorted(SOURCES.rglob("*.c")), ids=lambda file: file.stem)
def test_no_compiler_warns(compiler: str, source: Path) -> None:
    needs.program(compiler)
    command = [compiler, *FLAGS, *SETS.get(source.stem, ()), "-Werror", "-fsyntax-only", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
