"""The C++ loader: its digest, another digest in its place, and a compiler that finds mistakes."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from tests import needs
from tests.compiled import compiled
from tests.unit.loaders.cpp import COMPILE, PROGRAM, VERSIONS, header_of


@pytest.mark.parametrize("size", [0, 1, 55, 56, 63, 64, 65, 119, 120, 1_000_003])
def test_the_cpp_loader_digests_as_hashlib_does(program: Path, size: int) -> None:
    data = hashlib.shake_128(b"seed").digest(size)
    done = subprocess.run([program, "sha256"], input=data, capture_output=True, check=True)
    assert done.stdout == hashlib.sha256(data).digest()


@pytest.mark.slow
def test_another_digest_can_be_given_to_the_cpp_loader(sources: Path) -> None:
    """One in hardware, for example."""
    needs.program("g++")
    hook = (
        "#include <cstddef>\nvoid mine(const unsigned char*, std::size_t, unsigned char*);\n"
        '#define CROSS_BACKEND_SHA256 mine\n#include "load_best.hpp"\n'
    )
    files = {"load_best.hpp": header_of(sources), "hook.cpp": hook}
    compiled((*COMPILE, "-fsyntax-only", "hook.cpp"), files, VERSIONS)


@pytest.mark.slow
def test_the_compiler_finds_a_mistake(sources: Path) -> None:
    needs.program("g++")
    wrong = header_of(sources).replace("load_forward()", "load_forwards()")
    files = {"load_best.hpp": wrong, "main.cpp": PROGRAM}
    compiled((*COMPILE, "-fsyntax-only", "main.cpp"), files, VERSIONS, refused_for="load_forwards")
