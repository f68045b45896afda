"""Header: ``csrc/isa.h``, the instruction set and the format for C, written from ``isa``.

python -m atalla.header > src/atalla/csrc/isa.h
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum

from atalla import isa
from atalla.isa import format  # noqa: A004  what it is

LIMITS = {
    "DIMS": format.MOST_DIMS, "SOURCES": format.MOST_SOURCES, "STEPS": format.MOST_STEPS, "LINE": format.LINE,
    "PAGE": format.PAGE, "MOST_SECTIONS": format.MOST_SECTIONS, "MOST_ROWS": format.MOST_ROWS,
    "MOST_ATTRIBUTE": format.MOST_ATTRIBUTE, "MOST_FILTER_ROWS": format.MOST_FILTER_ROWS,
    "MOST_FACTOR": format.MOST_FACTOR, "MOST_SCALE": format.MOST_SCALE, "MOST_DEPTH": format.MOST_DEPTH,
    "MOST_TAPS": format.MOST_TAPS, "PANEL": isa.PANEL, "QUAD": isa.QUAD, "PAIR": isa.PAIR, "LANE": isa.LANE,
    "FEW_CHANNELS": isa.FEW_CHANNELS, "MAJOR": format.MAJOR,
    "ENDIAN": format.ENDIAN, "REQUIRED_SECTIONS": len(format.REQUIRED),
    "KNOWN_SECTIONS": len(format.REQUIRED + format.OPTIONAL),
}  # fmt: skip


def header() -> str:
    """Return the text of the file."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "// Written by `python -m atalla.header` from the package isa; do not change it here."
    yield "// clang-format off: the file is compared with what Python writes."
    yield "#pragma once"
    for kind, prefix in (
        (isa.Dtype, ""), (isa.Space, ""), (isa.Layout, ""), (isa.Op, "OP_"), (isa.Act, "ACT_"), (isa.Pool, "POOL_"),
        (isa.Reduce, "REDUCE_"), (isa.Norm, "NORM_"), (isa.Resize, "RESIZE_"),
        (isa.Scatter, "SCATTER_"), (isa.Sample, "SAMPLE_"), (isa.Outside, "OUTSIDE_"), (isa.Step, "STEP_"),
        (isa.Verdict, "BAD_"), (isa.NodeKind, "NODE_"), (isa.PatchKind, "PATCH_"), (isa.OutputKind, "KIND_"),
    ):  # fmt: skip
        rows = {f"{prefix}{one.name}": one.value for one in kind}
        yield _enum({**rows, f"{prefix or f'{kind.__name__.upper()}_'}COUNT": max(kind) + 1})
    yield _enum(LIMITS)
    yield f"enum {{ AT_NOTHING = {format.NOTHING:#x} }};"
    yield f"#define AT_MOST_BYTES ((uint64_t){format.MOST_BYTES})"
    yield f"#define AT_MAGIC {_text(format.MAGIC)}"
    yield _table("SECTION_NAMES", map(_text, (*format.REQUIRED, *format.OPTIONAL)))
    yield _table("DTYPE_SIZES", _by_number(isa.Dtype, {one: one.size for one in isa.Dtype}))
    yield _table("OP_NAMES", _by_number(isa.Op, {one: _text(one.name) for one in isa.Op}, "OP_"))
    yield "// Of each operation: sources at least, at most, words (-1: any), whether all sources are there."
    yield _table("OP_SPECS", _by_number(isa.Op, {op: _op_spec(spec) for op, spec in isa.OPS.items()}, "OP_"))
    yield "// Of each step: the kinds of its operands and of its value, see StepSpec."
    kinds = {step: f"{{{_text(spec.operands)}, '{spec.value}'}}" for step, spec in isa.STEPS.items()}
    yield _table("STEP_SPECS", _by_number(isa.Step, dict(sorted(kinds.items())), "STEP_"))
    yield "// What verdicts say, from AT_BAD_SIZE on."
    yield _table("VERDICT_TEXTS", (_text(one.text) for one in isa.Verdict if one))
    yield "// Words of each operation's attributes, by their order."
    for op, spec in isa.OPS.items():
        if spec.attributes:
            yield _enum({f"{op.name}_{name.rstrip('.…').upper()}": i for i, name in enumerate(spec.attributes)})
    yield "// Bytes of each record, and where its fields begin."
    for name, record in vars(format).items():
        if isinstance(record, format.Record):
            fields = {f"{name}_AT_{field.upper()}": record.at(field) for field in record.fields}
            yield _enum({f"{name}_BYTES": record.size, **fields})


def _enum(rows: Mapping[str, int]) -> str:
    return "\n".join(_wrapped("enum {", [f"AT_{name} = {value}" for name, value in rows.items()], "};"))


def _table(name: str, rows: Iterable[str]) -> str:
    return " \\\n".join(_wrapped(f"#define AT_{name} {{", list(rows), "}"))


def _wrapped(head: str, items: Sequence[str], tail: str) -> Iterator[str]:
    """Yield lines that are no longer than others in this house."""
    line = head
    for number, item in enumerate(items, 1):
        part = f" {item}{',' if number < len(items) else f' {tail}'}"
        if len(line) + len(part) > 117:
            yield line
            line = " "
        line += part
    yield line


def _by_number(kind: type[IntEnum], rows: Mapping[IntEnum, object], prefix: str = "") -> Iterator[str]:
    assert set(rows) == set(kind), f"a row of each {kind.__name__}"
    return (f"[AT_{prefix}{one.name}] = {value}" for one, value in rows.items())


def _op_spec(spec: isa.OpSpec) -> str:
    most, words = (-1 if count is None else count for count in (spec.most, spec.words))
    return f"{{{spec.least}, {most}, {words}, {int(spec.takes_any)}}}"


def _text(text: str | bytes) -> str:
    """Return a literal of C."""
    return json.dumps(text if isinstance(text, str) else text.decode()).replace("\\u001a", "\\x1a")


if __name__ == "__main__":
    print(header(), end="")  # noqa: T201  what it is for
