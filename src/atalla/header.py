"""Header: ``csrc/isa.h``, the instruction set for C, written from ``isa``.

python -m atalla.header > src/atalla/csrc/isa.h
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from atalla import isa


def header() -> str:
    """Return the text of the file."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "// Written by `python -m atalla.header` from isa.py; do not change it here."
    yield "#pragma once"
    for kind, prefix in (
        (isa.Dtype, ""), (isa.Space, ""), (isa.Layout, ""), (isa.Op, "OP_"), (isa.Act, "ACT_"), (isa.Pool, "POOL_"),
        (isa.Reduce, "REDUCE_"), (isa.Norm, "NORM_"), (isa.Step, "STEP_"),
        (isa.Verdict, "BAD_"), (isa.Node, "NODE_"), (isa.Patch, "PATCH_"),
    ):  # fmt: skip
        yield from _enum(kind, prefix)
    sizes = ", ".join(f"[AT_{one.name}] = {one.size}" for one in isa.Dtype)
    yield f"#define AT_DTYPE_SIZES {{{sizes}}}"
    operations = ", ".join(f'[AT_OP_{one.name}] = "{one.name}"' for one in isa.Op)
    yield f"#define AT_OP_NAMES {{{operations}}}"
    yield f"enum {{ AT_PANEL = {isa.PANEL}, AT_FEW_CHANNELS = {isa.FEW_CHANNELS} }};"
    yield "// Words of each operation's attributes, by their order."
    for op, shape in isa.OPS.items():
        names = [name.rstrip(".…").upper() for name in shape.attributes]
        if names:
            rows = ", ".join(f"AT_{op.name}_{name} = {i}" for i, name in enumerate(names))
            yield f"enum {{ {rows} }};"


def _enum(kind: type[IntEnum], prefix: str) -> Iterator[str]:
    name = kind.__name__.upper()
    rows = [f"AT_{prefix}{one.name} = {one.value}" for one in kind]
    yield "enum {"
    for row in [*rows, f"AT_{name}_COUNT = {max(kind) + 1}"]:
        yield f"  {row},"
    yield "};"


if __name__ == "__main__":
    print(header(), end="")  # noqa: T201  what it is for
