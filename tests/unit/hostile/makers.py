"""Makers of hostile files: each damages a sound one, or puts hostile values where a stranger could, always alike."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import random
import sqlite3
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from cross_backend.store.schema import METADATA

TEXTS = (
    "", " ", "x", "..", "../../etc/passwd", "/etc/passwd", "C:\\x", "\\\\host\\share", "nul\0", "two\nlines", "a\rb",
    "\x1b[2J\x1b[H", "\x1b]0;title\x07", "\x9b31m", "\u202egnp.exe", "\u2066x", "\ufeff", "\u200b", "\u2028", "\ud800",
    "[red]x[/]", "[link=https://example.org]x[/link]", "[/]", "<script>alert(1)</script>", "|`*_{}[]#!~&@", "%s%n",
    "{0.__class__}", "A" * 5000, "é" * 300, "nan", "-inf", "1e999", "0x10", "٣", "cpu", "executorch.xnnpack",
)  # fmt: skip
VALUES = (
    None, True, False, 0, -1, 1, 2, 7, 255, 2**31, 2**32, 2**53, 2**62, 2**63, -(2**63), 10**400, 0.5, -0.0, 1e308,
    float("nan"), float("inf"), [], {}, [[]], [None], {"name": None}, ["x"] * 300, [[[[[[[[1]]]]]]]], *TEXTS,
)  # fmt: skip
Maker = Callable[[random.Random, Path], Path]
"""Writes a hostile file into a folder and gives its path."""


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Flip bits, cut, or put other bytes into some."""
    changed = bytearray(data)
    way = rng.randrange(6)
    if way == 0:
        return bytes(changed[: rng.randrange(len(changed))])
    if way == 1:
        at = rng.randrange(len(changed))
        changed[at:at] = rng.randbytes(rng.randrange(1, 40))
    elif way == 2:
        at = rng.randrange(len(changed))
        del changed[at : at + rng.randrange(1, 40)]
    else:
        for _ in range(rng.choice((1, 1, 1, 2, 8, 64))):
            changed[rng.randrange(len(changed))] = rng.choice((0, 0xFF, 0x1B, 0x7F, rng.randrange(256)))
    return bytes(changed)


def patched(data: bytes, rng: random.Random) -> bytes:
    """Put hostile numbers of four bytes into some places, as lengths and offsets are."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        number = rng.choice((0, 1, 4, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFC, len(data), len(data) - 1))
        struct.pack_into("<I", changed, rng.randrange(max(1, len(changed) - 4)) & ~3, number)
    return bytes(changed)


def places(row: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Give every place in a document, by the keys that lead there."""
    yield path
    children = row.items() if isinstance(row, dict) else enumerate(row) if isinstance(row, list) else ()
    for key, value in children:
        yield from places(value, (*path, key))


def poisoned(row: Any, rng: random.Random) -> Any:
    """Give a document with hostile values in one or two places, or without what stood there."""
    row = copy.deepcopy(row)
    for _ in range(rng.choice((1, 1, 2))):
        *way, last = rng.choice([path for path in places(row) if path])
        parent = row
        for key in way:
            parent = parent[key]
        if rng.random() < 0.1:
            del parent[last]
        else:
            parent[last] = copy.deepcopy(rng.choice(VALUES))
    return row


def manifest(sound: Path) -> Maker:
    """Manifests of artifacts; the payload and the sample lie beside them."""
    row = json.loads(sound.read_bytes())

    def make(rng: random.Random, folder: Path) -> Path:
        path = folder / sound.name
        if rng.random() < 0.3:
            path.write_bytes(damaged(sound.read_bytes(), rng))
        elif rng.random() < 0.02:
            path.write_bytes(b'{"format": ' + b"[" * 200_000)
        else:
            path.write_text(json.dumps(poisoned(row, rng)))
        return path

    return make


def archive(sound: Path) -> Maker:
    """Bundles as zip files: damaged, with hostile names and manifests."""
    members = {path.relative_to(sound).as_posix(): path.read_bytes() for path in sound.rglob("*") if path.is_file()}
    row = json.loads(members["manifest.json"])

    def make(rng: random.Random, folder: Path) -> Path:
        path, way = folder / "b.zip", rng.randrange(4)
        changed = dict(members)
        if way == 1:
            changed["manifest.json"] = json.dumps(poisoned(row, rng)).encode()
        elif way == 2:
            name = rng.choice(list(changed))
            changed[name] = damaged(changed[name], rng)
        with zipfile.ZipFile(path, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as file:
            for name, data in changed.items():
                file.writestr(name, data)
            if way == 3:
                parent = rng.choice(("", "sample/", "../", f"{row['artifacts'][0]['path']}/"))
                file.writestr((parent + rng.choice(TEXTS).replace("\ud800", "?")) or "x", b"x")
        if way == 0:
            path.write_bytes(rng.choice((damaged, patched))(path.read_bytes(), rng))
        return path

    return make


def tensors() -> Maker:
    """Files of tensors: damaged, and with headers that lie."""
    sound = io.BytesIO()
    np.savez_compressed(sound, input_0=np.ones((2, 3), np.float32), expected_0=np.arange(4))

    def make(rng: random.Random, folder: Path) -> Path:
        path = folder / "t.npz"
        if rng.random() < 0.5:
            path.write_bytes(rng.choice((damaged, patched))(sound.getvalue(), rng))
            return path
        dtypes = ("<f4", "|O", "<U9", "|V0", "|V8", "<M8[s]", ">i8", "|b1", "<c16", "<f4, <f4", [("a", "<f4")])
        extents = (0, 1, 2, 3, -1, 2**31, 2**40, 2**63, 10**30, "x", 1.5, None)
        shape = tuple(rng.choice(extents) for _ in range(rng.randrange(5)))
        row = {"descr": rng.choice(dtypes), "fortran_order": rng.choice((True, False, 3)), "shape": shape}
        text = repr(row).encode() if rng.random() < 0.9 else rng.choice(TEXTS).encode(errors="replace")
        version = rng.choice((b"\1\0", b"\1\0", b"\2\0", b"\3\0", b"\xff\0"))
        size = struct.pack("<H" if version == b"\1\0" else "<I", len(text))
        data = b"\x93NUMPY" + version + size + text + bytes(rng.choice((0, 4, 8, 24, 64)))
        with zipfile.ZipFile(path, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as file:
            file.writestr(rng.choice(("input_0.npy", *TEXTS)).replace("\ud800", "?") or "input_0.npy", data)
        return path

    return make


def onnx_model() -> Maker:
    """ONNX files: damaged, with hostile names, extents and places of data."""
    from onnx import ModelProto, TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "xy")
    w = helper.make_tensor("w", TensorProto.FLOAT, [4], [1.0, 2.0, 3.0, 4.0])
    nodes = [helper.make_node("Mul", ["x", "w"], ["z"], name="first"), helper.make_node("Relu", ["z"], ["y"])]
    graph = helper.make_graph(nodes, "g", [x], [y], [w])
    sound = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()

    def make(rng: random.Random, folder: Path) -> Path:
        path, model = folder / "m.onnx", ModelProto.FromString(sound)
        text = rng.choice(TEXTS).replace("\ud800", "?")
        number = rng.choice([value for value in VALUES if type(value) is int and -(2**63) <= value < 2**63])
        name = rng.choice((model.graph.input[0], model.graph.output[0], model.graph.initializer[0], *model.graph.node))
        way = rng.randrange(8)
        if way == 0:
            name.name = text
        elif way == 1:
            model.graph.node[0].op_type = text
        elif way == 2:
            rng.choice((model.graph.input, model.graph.output))[0].type.tensor_type.shape.dim[1].dim_value = number
        elif way == 3:
            model.graph.initializer[0].dims[:] = [number, rng.choice((1, 4, number))]
        elif way == 4:
            model.graph.input[0].type.tensor_type.elem_type = number & 0x3F
        elif way == 5:
            tensor = model.graph.initializer[0]
            tensor.ClearField("float_data")
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (("location", text), ("offset", str(number)), ("length", str(number))):
                tensor.external_data.add(key=key, value=value)
        path.write_bytes(model.SerializeToString() if way < 6 else damaged(sound, rng))
        return path

    return make


def program(sound: bytes) -> Maker:
    """Flatbuffers of ExecuTorch: damaged, and with lengths and offsets that lie."""

    def make(rng: random.Random, folder: Path) -> Path:
        path = folder / "p.bpte"
        path.write_bytes(rng.choice((damaged, patched, patched))(sound, rng))
        return path

    return make


STUDY = """name: quick
workloads: [linear_regression, {model: digits_cnn, batch_sizes: [1, 2]}]
targets: [cpu, "openvino?precision=bf16"]
batch_sizes: [1, 4]
precisions: [fp32]
threads: [1]
settings: {seconds: 2, margin: 1%, launches: 2, max_launches: 4, instruments: [memory]}
output: {reports: [quick.html, sub/quick.md], db: quick.sqlite}
"""


def study() -> Maker:
    """Studies: damaged, with hostile texts, and with what YAML can do."""
    words = STUDY.replace("[", " ").replace("]", " ").replace("{", " ").replace("}", " ").replace(",", " ").split()
    yaml = (
        "&a [*a]",
        "!!python/object/apply:os.system [x]",
        "*a",
        "<<: {}",
        "- - - - - - - - - - - - x",
        "? x",
        "%TAG ! x",
        "---",
    )

    def make(rng: random.Random, folder: Path) -> Path:
        path, way = folder / "s.yaml", rng.randrange(3)
        if way == 0:
            path.write_bytes(damaged(STUDY.encode(), rng))
            return path
        text = (
            rng.choice((*yaml, f"[{', '.join(map(str, range(3000)))}]")) if way == 1 else json.dumps(rng.choice(TEXTS))
        )
        word = rng.choice(words).rstrip(":")
        path.write_text(STUDY.replace(word, text, 1))
        return path

    return make


def database(sound: Path) -> Maker:
    """Databases: damaged, with values of any type in any column, and with tables of others."""
    columns = [(table.name, column.name) for table in METADATA.tables.values() for column in table.columns]
    values = [
        one for one in VALUES if isinstance(one, str | float | type(None)) or (type(one) is int and abs(one) < 2**63)
    ]
    values += [
        b"\xff\0",
        b"",
        "{}",
        "[]",
        "null",
        "[" * 50_000,
        '{"$samples": 99}',
        '{"a": [[]]}',
        '"\\ud800"',
        "[[1]]",
    ]
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS id, x AS version FROM n"

    def make(rng: random.Random, folder: Path) -> Path:
        path, way = folder / "d.sqlite", rng.randrange(4)
        path.write_bytes(damaged(sound.read_bytes(), rng) if way == 0 else sound.read_bytes())
        if way == 0:
            return path
        table, column = rng.choice(columns)
        value = rng.choice(values)
        value = value.replace("\ud800", "?") if isinstance(value, str) else value
        connected = closing(sqlite3.connect(path, isolation_level=None))
        with connected as connection, contextlib.suppress(sqlite3.IntegrityError):  # SQLite itself refuses some
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("PRAGMA synchronous = OFF")
            if way == 3 and rng.random() < 0.5:
                connection.execute(f"DROP TABLE {table}")
                connection.execute(f"CREATE {rng.choice(('VIEW', 'TABLE'))} {table} AS {endless} LIMIT 9")
            else:
                connection.execute(f"UPDATE OR IGNORE {table} SET {column} = ?", (value,))
        return path

    return make
