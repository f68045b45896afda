"""Fuzz: ten thousand hostile bundles that the runner's sources read, compare and report in one process, sanitized."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import random
import shutil
import struct
import subprocess
from collections.abc import Iterable, Iterator
from enum import IntEnum
from pathlib import Path
from typing import Any

import nlohmann_json
import numpy as np
import pytest

from tests import needs
from tests.compiled import compiled
from tests.e2e.runner.bundles import ROOT, written
from tests.unit.hostile import makers

SOURCE = Path(__file__).with_name("fuzz_bundle.cpp")
PARTS = (
    *("compare", "deviation", "digest", "file", "json_report", "limits", "local_bench", "manifest", "node", "numbers"),
    *("outcome", "random_inputs", "sha256", "statistics", "tensor", "tensor_file", "text", "text_report", "timing"),
    *("file_report", "mapped_file", "plain_text", "wire"),
)
"""The runner's sources that read a bundle, judge outputs, and report."""
COMPILE = (
    *("g++", "-std=c++17", "-O1", "-g1", "-Wall", "-Wextra", "-Werror", '-DRUNNER_VERSION="0"', "-I."),
    *("-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"),
    *("-isystem", f"{Path(nlohmann_json.__file__).parent}/include"),
)
SANITIZERS = {"ASAN_OPTIONS": "quarantine_size_mb=8:detect_leaks=1"}
FEW, MANY = 2000, 10_000
STEP = {"inputs": "step1", "expected": "step1.expected", "scale": "step1.scale", "rounding": "step1.rounding"}
"""Group of the sample → name of the same tensors as those of a later call."""
GROWTH_BYTES = 64 << 20
DTYPES = ("bool", "int8", "uint16", "int64", "uint64", "float16", "float32", "float64", "complex64", "complex128")
SHAPES = ((), (0,), (1,), (3, 0), (4,), (2, 3), (9,), (1, 16), (3, 9), (2, 9, 8), (1,) * 32)
SPECIAL = (0.0, -0.0, 1.0, 6e-8, 65504.0, 1e308, float("inf"), float("-inf"), float("nan"), -1e-300)
Files = list[tuple["Kind", str, bytes]]


class Kind(IntEnum):
    """What is put at a path; the same as in ``fuzz_bundle.cpp``."""

    FILE = 0
    LINK = 1
    PIPE = 2
    FOLDER = 3
    NOTHING = 4


@pytest.fixture(scope="module")
def program() -> Path:
    """Build the reader, once for all runs of the same sources."""
    needs.program("g++")
    folder = ROOT / "runner" / "src"
    files = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.h"))}
    files |= {f"{part}.cpp": (folder / f"{part}.cpp").read_text(encoding="utf-8") for part in PARTS}
    files |= {SOURCE.name: SOURCE.read_text(encoding="utf-8")}
    return compiled((*COMPILE, *(name for name in files if name.endswith(".cpp")), "-o", "fuzz"), files, {}) / "fuzz"


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    """A small bundle with every group of the sample and two artifacts, one of them a folder."""
    bundle = tmp_path / "bundle"
    (bundle / "sample").mkdir(parents=True)
    (bundle / "net_atalla").mkdir()
    for name in ("net_portable.pte", "net_atalla/a", "net_atalla/b"):
        (bundle / name).write_bytes(name.encode() * 40)
    rng = np.random.default_rng(0)
    tensors: dict[str, list[np.ndarray[Any, Any]]] = {
        "inputs": [rng.normal(size=(1, 4)).astype(np.float32)],
        "inputs2": [rng.normal(size=(1, 4)).astype(np.float32)],
        "expected": [rng.normal(size=(2, 9)).astype(np.float32), np.arange(3)],
        "expected2": [rng.normal(size=(2, 9)).astype(np.float32), np.arange(3)],
        "scale": [np.ones((2, 9), np.float32), np.ones(3, np.float32)],
        "rounding": [np.array(1e-6)],
    }
    sample = {
        group: [written(bundle, f"sample/{group}_{at}.npy", one) for at, one in enumerate(ones)]
        for group, ones in tensors.items()
    }
    for group, name in STEP.items():
        for at in range(len(tensors[group])):
            shutil.copyfile(bundle / f"sample/{group}_{at}.npy", bundle / f"sample/{name}_{at}.npy")
    digest = hashlib.sha256((bundle / "net_portable.pte").read_bytes()).hexdigest()
    lines = "".join(f"{one}\0{_sha256(bundle / 'net_atalla' / one)}\n" for one in "ab")
    names = ("net_portable", "net_atalla")
    artifacts = [
        {
            "name": name, "target": target, "title": name.title(), "path": path, "size_bytes": 640, "sha256": sha256,
            "tolerance": 1e-4, "mean_tolerance": 0.1, "export_s": 0.5,
            "placement": {"delegates": {"XnnpackBackend": 1}, "coverage": 0.5},
        }
        for name, target, path, sha256 in (
            (names[0], "executorch.portable?x=1", "net_portable.pte", digest),
            (names[1], "atalla", "net_atalla", hashlib.sha256(lines.encode()).hexdigest()),
        )
    ]  # fmt: skip
    row = {
        "format": "cross-backend-bundle", "version": 1, "model": "net", "sample": sample, "artifacts": artifacts,
        "orders": {"linux": list(names), "web": [names[1]]},
    }  # fmt: skip
    (bundle / "manifest.json").write_text(json.dumps(row))
    return bundle


def with_state(row: dict[str, Any]) -> dict[str, Any]:
    """Give a manifest whose program has state, and one call more that gives what the first one does."""
    steps = [
        {**one, "path": f"sample/{name}_{at}.npy"}
        for group, name in STEP.items()
        for at, one in enumerate(row["sample"][group])
    ]
    state = [{"name": "total", "dtype": "float32", "shape": [1]}]
    return {**row, "state": state, "sample": {**row["sample"], "steps": steps}}


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def drawn(rng: random.Random, dtype: str = "", shape: tuple[int, ...] | None = None) -> np.ndarray[Any, Any]:
    """Draw a tensor, of any type and shape where none is said; some of its numbers are special."""
    kind, shape = np.dtype(dtype or rng.choice(DTYPES)), rng.choice(SHAPES) if shape is None else shape
    size = int(np.prod(shape))
    if rng.random() < 0.5 and kind.kind in "fc":
        with np.errstate(over="ignore", invalid="ignore"):
            return np.array([rng.choice(SPECIAL) for _ in range(size)]).astype(kind).reshape(shape)
    return np.frombuffer(rng.randbytes(size * kind.itemsize), kind).reshape(shape)


def resampled(row: dict[str, Any], rng: random.Random) -> Files:
    """Replace tensors of the sample by others, and make the manifest agree: only what compares them can notice."""
    expected, files = drawn(rng), list[tuple[Kind, str, bytes]]()
    tensors = {
        "expected": expected,
        "expected2": expected if rng.random() < 0.6 else drawn(rng),
        "scale": drawn(rng, "float32", expected.shape) if rng.random() < 0.8 else drawn(rng),
        "rounding": drawn(rng, "float64", ()) if rng.random() < 0.8 else drawn(rng),
        "inputs": drawn(rng),
    }
    for group, tensor in tensors.items():
        if group != "expected" and rng.random() < 0.4:
            if group != "inputs":
                row["sample"].pop(group)
            continue
        path, content = f"sample/{group}_0.npy", tensor.tobytes()
        files.append((Kind.FILE, path, content))
        row["sample"][group][0] = {
            "path": path, "dtype": str(tensor.dtype), "shape": list(tensor.shape), "offset": 0,
            "size_bytes": len(content), "sha256": hashlib.sha256(content).hexdigest(),
        }  # fmt: skip
    return files


def misplaced(files: dict[str, bytes], rng: random.Random) -> Files:
    """Damage a file, or put there what is none."""
    name = rng.choice([*files, "sample", "net_atalla", "net_atalla/more"])
    kind = rng.choice((Kind.FILE, Kind.FILE, *Kind))
    holds = makers.damaged(files.get(name, b"x" * 9), rng)
    if kind is Kind.LINK:
        holds = rng.choice((b"/etc/passwd", b"/dev/zero", b"..", b"manifest.json", name.encode(), b"absent", b"/tmp"))
    return [(kind, name, holds)]


def records(bundle: Path, count: int) -> Iterator[Files]:
    """Give what is put over a sound bundle, always alike."""
    files = {one.relative_to(bundle).as_posix(): one.read_bytes() for one in bundle.rglob("*") if one.is_file()}
    plain = json.loads(files["manifest.json"])
    for seed in range(count):
        rng = random.Random(seed)
        sound = plain if rng.random() < 0.5 else with_state(plain)
        way = rng.randrange(8)
        if way < 3:
            yield [(Kind.FILE, "manifest.json", json.dumps(makers.poisoned(sound, rng)).encode())]
        elif way < 4:
            yield [(Kind.FILE, "manifest.json", makers.damaged(files["manifest.json"], rng))]
        elif way < 5:
            yield misplaced(files, rng)
        else:
            row = copy.deepcopy(sound)
            changed = resampled(row, rng)
            yield [*changed, (Kind.FILE, "manifest.json", json.dumps(row).encode())]


def packed(found: Iterable[Files]) -> Iterator[bytes]:
    """Give the records as the program reads them."""
    for files in found:
        yield struct.pack("<I", len(files))
        for kind, name, holds in files:
            yield struct.pack("<II", kind, len(name)) + name.encode() + struct.pack("<I", len(holds)) + holds


@pytest.mark.slow
@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.nightly)])
def test_hostile_bundles_are_refused_or_judged(program: Path, sound: Path, tmp_path: Path, count: int) -> None:
    with (tmp_path / "records").open("wb") as file:
        file.writelines(packed(records(sound, count)))
    with (tmp_path / "records").open("rb") as given:
        done = subprocess.run(
            [program, sound], stdin=given, capture_output=True, text=True, timeout=500, check=False,
            env={**os.environ, **SANITIZERS},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    said = json.loads(done.stdout)
    assert said["read"] + said["refused"] == count
    assert said["read"] > count / 4 and said["refused"] > count / 4, said
    assert set(said["outcomes"]) >= {"OK", "LOAD_FAIL", "MISMATCH", "NOT_PROVED", "UNAVAILABLE"}, said
    assert said["grown_bytes"] < GROWTH_BYTES, said
