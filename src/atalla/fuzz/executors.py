"""Executors under test: each takes a blob and inputs, and returns the outputs; a new chip's is one more."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atalla.errors import AtallaError

if TYPE_CHECKING:
    import torch

Run = Callable[[bytes, "Sequence[torch.Tensor]"], "Sequence[Any]"]
"""``run(blob, inputs)`` returns the outputs."""
REFERENCE = "reference"
SETS = ("base", "avx2", "avx512", "vnni", "amx")
OF_NARROW_PRODUCTS = ("vnni", "amx")
"""Instruction sets that have only products of int8 and bf16; in float32 they are the set beneath."""


@dataclass(frozen=True)
class Executor:
    """A way to run a blob."""

    name: str
    run: Run
    source: str
    """The same in Python, of ``data`` and ``inputs``."""
    imports: str = ""
    """A line of Python that the source needs."""
    like: str = ""
    """Name of the executor that always has the same bits as this one: the same set with one thread."""


def executors(precision: str, more: Sequence[str] = ()) -> list[Executor]:
    """Return those of this machine: the reference, and each instruction set with one thread and with two.

    Args:
        precision: of programs.
        more: ``package.module:function`` of others.

    Raises:
        AtallaError: there is no such function.
    """
    found = [_atalla(REFERENCE, REFERENCE, 1)]
    for isa in sets_here():
        if precision == "float32" and isa in OF_NARROW_PRODUCTS:
            continue
        found += [_atalla(isa, isa, 1), _atalla(f"{isa}, 2 threads", isa, 2)]
    return found + [_named(text) for text in more]


def sets_here() -> list[str]:
    """Return the instruction sets that the kernels can use on this processor."""
    from atalla import ir
    from atalla.blob.arena import plan_arena
    from atalla.blob.writer import encode
    from atalla.errors import KernelError
    from atalla.library import were_built
    from atalla.run.runtime import Loaded

    if not were_built():
        return []
    empty = ir.Program([], [], [])
    data, found = encode(empty, {"producer": "atalla"}, plan_arena(empty), None), []
    for isa in SETS:
        try:
            Loaded(data, isa=isa)
        except KernelError:
            continue
        found.append(isa)
    return found


def _atalla(name: str, isa: str, threads: int) -> Executor:
    more = f", threads={threads}" if threads > 1 else ""

    def run(data: bytes, inputs: Sequence[torch.Tensor]) -> Sequence[Any]:
        from atalla.run.runtime import Loaded

        return Loaded(data, isa=isa, threads=threads).run(inputs)

    return Executor(name, run, f'atalla.load(data, isa="{isa}"{more}).run(inputs)', like=isa if threads > 1 else "")


def _named(text: str) -> Executor:
    module, _, function = text.partition(":")
    try:
        run = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise AtallaError(f"there is no executor {text}: {error}") from error
    return Executor(text, run, f"{function}(data, inputs)", f"from {module} import {function}")
