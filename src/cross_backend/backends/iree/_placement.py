"""What a finished IREE module dispatches: read back from its bytecode with IREE's own disassembler.

A program becomes kernels ("dispatches") named ``main$async_dispatch_9_matmul_like_16x3136x16_f32``. The bytecode looks
their functions up by name and records their calls into command buffers; what its initializer dispatches (weights
packed once, when the module is loaded) is not part of an inference and is not counted.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from cross_backend.backends.iree._tools import tool
from cross_backend.errors import LowerError
from cross_backend.placement import Placement, count_operators

_LINE_BYTES = 4096
"""Kept of a line: those of large constants are as long as the weights, twice."""
_INITIALIZER = "vm.func @__init() -> () {"
_CONSTANT = re.compile(r"vm\.rodata\[(\d+)\] = ([0-9A-F]*)$")
_NAMED = re.compile(r"%r(\d+) = vm\.const\.ref\.rodata (\d+)")
_LOOKUP = re.compile(r"%i(\d+) = vm\.call @hal\.executable\.lookup\.function\(%r\d+, %r(\d+)\)")
_DISPATCH = re.compile(r"@hal\.command_buffer\.dispatch segments\[[^]]*\]\(%r\d+, %r\d+, %i(\d+)")
_NUMBERED = re.compile(r"^.*?(?:dispatch|encoding)_\d+_?")
_SHAPE = re.compile(r"_(?:\d.*|D[x_].*|D|[a-z]*\d+x?.*)$")


def read_placement(path: Path) -> Placement:
    """Count a module's dispatches by what they compute.

    Raises:
        LowerError: the module cannot be read.
    """
    with tempfile.TemporaryFile() as said:
        with subprocess.Popen(
            [tool("iree-dump-module"), "--output=disassembly", str(path)], stdout=subprocess.PIPE, stderr=said
        ) as process:
            assert process.stdout is not None
            names = dispatched(_lines(process.stdout))
        if process.returncode:
            said.seek(0)
            reason = said.read(300).decode(errors="replace").strip().partition("\n")[0]
            raise LowerError(f"iree-dump-module cannot read {path.name}: {reason}")
    return Placement(inside=count_operators(Counter(map(kind_of, names))))


def dispatched(lines: Iterator[str]) -> list[str]:
    """Return the names of the kernels that a disassembled module dispatches in an inference, in their order."""
    constants: dict[int, str] = {}
    named: dict[str, str] = {}
    functions: dict[str, str] = {}
    found: list[str] = []
    initializing = False
    for raw in lines:
        if raw.startswith("vm.func"):
            initializing = raw.startswith(_INITIALIZER)
            named, functions = {}, {}
            continue
        if len(raw) < _LINE_BYTES and (constant := _CONSTANT.match(raw)):
            constants[int(constant[1])] = bytes.fromhex(constant[2]).decode("latin-1")
            continue
        line = raw.replace("%R", "%r").replace("%I", "%i")  # a capital marks a register's last use
        if name := _NAMED.search(line):
            named[name[1]] = constants.get(int(name[2]), "")
        elif lookup := _LOOKUP.search(line):
            functions[lookup[1]] = named.get(lookup[2], "")
        elif not initializing and (call := _DISPATCH.search(line)):
            found.append(functions.get(call[1], ""))
    return found


def kernel_of(name: str) -> str:
    """Return a kernel's name without its number: ``matmul_like_16x3136x16_f32``."""
    return _NUMBERED.sub("", name) or "dispatch"


def kind_of(name: str) -> str:
    """Return what a kernel computes, without shapes and element types: ``matmul_like``."""
    return _SHAPE.sub("", kernel_of(name))


def _lines(stream: IO[bytes]) -> Iterator[str]:
    """Return the lines, each cut where only a large constant's digits follow."""
    kept = b""
    while chunk := stream.read(1 << 20):
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            yield (kept + part[:_LINE_BYTES])[:_LINE_BYTES].decode("latin-1")
            kept = b""
        kept = (kept + rest)[:_LINE_BYTES]
    if kept:
        yield kept.decode("latin-1")
