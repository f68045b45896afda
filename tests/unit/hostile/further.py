"""Makers of more hostile files: profiles of ExecuTorch, checkpoints, hardware of Atalla, folders of toolchains."""

from __future__ import annotations

import collections
import importlib
import io
import json
import os
import pickle
import random
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

from tests.unit.hostile.makers import TEXTS, VALUES, Maker, damaged, patched, poisoned


def etdump_document() -> dict[str, Any]:
    """Return a sound profile, as flatc gives it: the loading, and three runs with operators and a delegate."""

    def event(name: str, number: int, start: int = 1000, end: int = 3000, **fields: Any) -> dict[str, Any]:
        row = {
            "name": name, "chain_index": 0, "instruction_id": number, "delegate_debug_id_int": -1,
            "delegate_debug_id_str": "", "delegate_debug_metadata": [], "start_time": start, "end_time": end,
        }  # fmt: skip
        return {"profile_event": row | fields}

    def block(name: str, *events: dict[str, Any]) -> dict[str, Any]:
        return {"name": name, "bundled_input_index": -1, "allocators": [{"name": "a"}], "events": list(events)}

    run = (
        event("Method::execute", 0, 0, 90_000), event("OPERATOR_CALL", 1), event("native_call_add.out", 1),
        event("OPERATOR_CALL", 2), event("DELEGATE_CALL", 3, 1000, 9000),
        event("Convolution #3", 3, delegate_debug_id_str="conv", delegate_debug_metadata=[1, 2]),
    )  # fmt: skip
    blocks = [block("init", event("Program::load_method", -1)), *(block("execute", *run) for _ in range(3))]
    return {"version": 0, "run_data": blocks}


def etdump() -> Maker:
    """Profiles: damaged, with offsets that lie, and as documents with hostile values, which flatc would give."""
    from executorch.devtools.etdump import serialize
    from executorch.exir._serialize._flatbuffer import _run_flatc

    document = etdump_document()
    with tempfile.TemporaryDirectory() as folder:
        for schema in (serialize.ETDUMP_FLATCC_SCHEMA_NAME, serialize.SCALAR_TYPE_SCHEMA_NAME):
            serialize._write_schema(folder, schema)
        source, schema = Path(folder) / "sound.json", f"{folder}/{serialize.ETDUMP_FLATCC_SCHEMA_NAME}.fbs"
        source.write_text(json.dumps(document))
        _run_flatc(["--binary", "--size-prefixed", "-o", folder, schema, str(source)])
        sound = next(path for path in Path(folder).iterdir() if path.suffix not in {".fbs", ".json"}).read_bytes()

    def make(rng: random.Random, folder: Path) -> Path:
        path = folder / "p.etdp"
        if rng.random() < 0.5:
            path.write_text(json.dumps(poisoned(document, rng)))
        else:
            path.write_bytes(rng.choice((damaged, patched, patched))(sound, rng))
        return path

    return make


RANG: list[object] = []
"""What code out of a file would leave behind."""


def ring(*given: object) -> None:
    """Stand in for any function: a call of it means that a file's code ran."""
    RANG.append(given)


class _Code:
    """What a pickle calls when it is opened."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.call


def _archive(state: Any) -> bytes:
    import torch

    held = io.BytesIO()
    torch.save(state, held)
    return held.getvalue()


def _repacked(archive: bytes, rng: random.Random, pickled: bytes | None = None) -> bytes:
    """Write an archive again: with another pickle, with members that are compressed, lack, or come twice."""
    held = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(held, "w") as new, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of members of one name
        for info in old.infolist():
            data = old.read(info)
            if info.filename.endswith("data.pkl"):
                data = data if pickled is None else pickled
            elif pickled is None and rng.random() < 0.3:
                data = rng.choice((b"", bytes(1 << 20), damaged(data, rng) if data else b"x"))
            for _ in range(rng.choice((1, 1, 1, 1, 1, 1, 0, 2)) if pickled is None else 1):
                new.writestr(info.filename, data, rng.choice((zipfile.ZIP_STORED,) * 6 + (zipfile.ZIP_DEFLATED,)))
    return held.getvalue()


def checkpoint() -> Maker:
    """Checkpoints of torch: damaged, with code in their pickles, with tensors that lie, with values of any kind."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they will not be there for long
        quantized = torch.quantize_per_tensor(torch.ones(1, 4), 0.1, 0, torch.qint8)
    state = {"weight": torch.ones(1, 4), "bias": torch.zeros(1)}
    sound, old = _archive(state), io.BytesIO()
    torch.save(state, old, _use_new_zipfile_serialization=False)
    code = (
        _Code(ring, 1), _Code(os.system, "true"), _Code(eval, "1"), _Code(exec, "x"), _Code(bytearray, 1 << 40),
        _Code(torch.load, "x"), _Code(torch.zeros, 1 << 40), _Code(getattr, state, 1),
        _Code(importlib.import_module, "this"), _Code(collections.OrderedDict, [(i, i) for i in range(9)]),
        _Code(torch.Size, [1 << 62]), _Code(collections.Counter, {"x": 1}), _Code(set, [1]),
    )  # fmt: skip
    tensors: tuple[Any, ...] = (
        torch.ones(1 << 12), torch.ones(4, 1), torch.ones(1, 4, dtype=torch.complex64), torch.ones(1, 4).to_sparse(),
        torch.full((1, 4), float("nan")), torch.ones(1, 4, dtype=torch.bool), torch.ones(1, 4, device="meta"),
        quantized, torch.ones(1, 1).expand(1 << 20, 4),
        torch.nn.Parameter(torch.ones(1, 4)), [torch.ones(1, 4)], torch.Size([1, 4]), torch.float32,
    )  # fmt: skip

    def hostile(rng: random.Random) -> Any:
        value = rng.choice(tensors) if rng.random() < 0.5 else rng.choice(VALUES)
        row: Any = {**state, rng.choice((*state, *TEXTS, 7, None)): value}
        return rng.choice(
            (row, row, {"state_dict": row}, {"state_dict": value}, value, [row], {**row, "state_dict": 3})
        )

    def make(rng: random.Random, folder: Path) -> Path:
        path, way = folder / "w.pt", rng.randrange(6)
        if way < 2:
            path.write_bytes(rng.choice((damaged, patched))((sound, old.getvalue())[way], rng))
        elif way == 2:
            path.write_bytes(_repacked(sound, rng))
        elif way == 3:
            called = rng.choice(code)
            value = pickle.dumps(
                {"weight": called, "bias": [called]} if rng.random() < 0.5 else called, rng.choice((0, 2, 4))
            )
            path.write_bytes(_repacked(sound, rng, value) if rng.random() < 0.7 else value)
        elif way == 4:
            with zipfile.ZipFile(io.BytesIO(sound)) as archive:
                name = next(name for name in archive.namelist() if name.endswith("data.pkl"))
                path.write_bytes(_repacked(sound, rng, rng.choice((damaged, patched))(archive.read(name), rng)))
        else:
            torch.save(hostile(rng), path, _use_new_zipfile_serialization=rng.random() < 0.8)
        return path

    return make


HARDWARE = {
    "clock_mhz": 800, "array": 16, "accumulator_rows": 512, "lanes": 16, "scratchpad_bytes": 65536, "banks": 16,
    "align": 64, "dma_bytes_per_cycle": 16, "queue": 8, "vector_int8_factor": 2, "name": "small",
}  # fmt: skip


def hardware() -> Maker:
    """Hardware of Atalla's device: damaged, with values of any kind, and with what TOML and JSON can do."""
    toml = "".join(f"{name} = {json.dumps(value)}\n" for name, value in HARDWARE.items())
    values = (
        "0x" + "f" * 5000, "0b" + "1" * 40_000, "9" * 5000, "1979-05-27T07:32:00Z", "inf", "nan",
        "'" + "x" * 20_000 + "'", "[" * 3000 + "]" * 3000, "[1, [0x" + "f" * 5000 + "]]",
        "{a = {b = 1}}", "'''\nx\n'''", '"\\u001b[2J"',
        '"\\U0010ffff"', "1_0", "+7", "07", "1e3",
    )  # fmt: skip
    lines = (
        "a." * 1500 + "a = 1", "[" + "a." * 1500 + "a]", "[a]\n[a]", "[[name]]", "\0", "# \x1b[2J", "'\x1b[2J' = 1",
        "name",
    )  # fmt: skip

    def make(rng: random.Random, folder: Path) -> Path:
        path, way = folder / rng.choice(("h.toml", "h.toml", "h.json")), rng.randrange(4)
        text = toml if path.suffix == ".toml" else json.dumps(HARDWARE)
        if way == 0:
            path.write_bytes(damaged(text.encode(), rng))
        elif path.suffix == ".json":
            path.write_text(json.dumps(poisoned(HARDWARE, rng) if way < 3 else rng.choice(VALUES)))
        elif way == 1:
            name = rng.choice(list(HARDWARE))
            path.write_text(toml.replace(f"{name} = {json.dumps(HARDWARE[name])}", f"{name} = {rng.choice(values)}"))
        elif way == 2:
            value = rng.choice([one for one in VALUES if isinstance(one, str | int) and one != "\ud800"])
            name = rng.choice(list(HARDWARE))
            path.write_text(toml.replace(f"{name} = {json.dumps(HARDWARE[name])}", f"{name} = {json.dumps(value)}"))
        else:
            path.write_text(toml + rng.choice(lines) * rng.choice((1, 1, 1, 20)))
        return path

    return make


def toolchain_folder(place: str, outside: Path) -> Maker:
    """Folders of a toolchain: links, pipes and folders in the place of files, and names that a terminal obeys.

    Args:
        place: the name of the toolchain's folder.
        outside: what a link may lead to, and nobody may touch.
    """
    names = [
        name for name in TEXTS if name.strip("./") and not set("\0\ud800/") & set(name) and len(name.encode()) < 200
    ]

    def put(rng: random.Random, path: Path) -> None:
        way = rng.randrange(6)
        if way == 0:
            path.symlink_to(
                rng.choice((outside, outside / "kept", "absent", path.name, "..", "/dev/zero", "/proc/self"))
            )
        elif way == 1:
            os.mkfifo(path)
        elif way == 2:
            path.mkdir()
            (path / rng.choice(names)).write_bytes(b"x")
        elif way == 3:
            path.write_bytes(rng.choice((b"", b"\x1b[2J", bytes(1000), b"#!/bin/sh\ntouch ran\n")))
            path.chmod(0o755)

    def make(rng: random.Random, folder: Path) -> Path:
        root = folder / "toolchains"
        root.mkdir()
        if rng.random() < 0.2:
            put(rng, root / place)
            return root
        (root / place).mkdir()
        for name in ("ready", "bin", "Scripts", "ort.wasm.min.mjs", *rng.sample(names, 3)):
            put(rng, root / place / name)
        if (root / place / "bin").is_dir() and not (root / place / "bin").is_symlink():
            put(rng, root / place / "bin" / "python")
        return root

    return make
