"""Sample tensors whose headers lie: what is read is never more than the file holds, and never code."""

import io
import random
import struct
import time

import numpy as np
import pytest

from cross_backend.errors import ArtifactError
from cross_backend.tensors import load_tensors
from tests.e2e.bundle_fuzz.cases import LIMIT_S, flip


def npy(header, data=bytes(16), version=(1, 0)):
    """A tensor file with any header."""
    text = header if isinstance(header, bytes) else repr(header).encode()
    size = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + size + text + data


def archive():
    file = io.BytesIO()
    np.savez(file, input_0=np.ones((1, 4), np.float32))
    return file.getvalue()


def header(descr="<f4", shape=(1, 4)):
    return {"descr": descr, "fortran_order": False, "shape": shape}


LIES = {
    "a petabyte": npy(header(shape=(1 << 50,))),
    "more than numbers hold": npy(header(shape=(10**30,))),
    "a product that overflows": npy(header(shape=(1 << 32, 1 << 32))),
    "a little too much": npy(header(shape=(1, 5))),
    "a negative extent": npy(header(shape=(-1, 4))),
    "too many dimensions": npy(header(shape=(1,) * 200)),
    "an extent in words": npy(header(shape=("four",))),
    "objects": npy(header("|O"), b"cos\nsystem\n(S'true'\ntR."),
    "objects in a row": npy(header([("a", "<f4"), ("b", "|O")])),
    "rows of two": npy(header([("a", "<f4"), ("b", "<f4")], (1, 2))),
    "words": npy(header("<U1")),
    "dates": npy(header("<M8[D]", (1, 2))),
    "nothing, very often": npy(header("|V0", (1 << 40,))),
    "an unknown type": npy(header("<q99")),
    "a call": npy(b"__import__('os').system('true')"),
    "deep nesting": npy(b"(" * 5000, version=(2, 0)),
    "a long header": npy(b" " * 50_000),
    "a header longer than the file": b"\x93NUMPY\x02\x00" + struct.pack("<I", 0xFFFFFFFF) + b"{}",
    "no header": b"\x93NUMPY\x01\x00",
    "a future version": npy(header(), version=(9, 9)),
    "a key too many": npy({**header(), "more": 1}),
    "a key too few": npy({"descr": "<f4", "shape": (1, 4)}),
    "an archive": archive(),
    "a damaged archive": archive()[:50],
    "nothing": b"",
}


def read(folder):
    """Read a sample and give the complaint; what comes back is never larger than the files."""
    started, complaint, groups = time.monotonic(), None, {}
    try:
        groups = load_tensors(folder)
    except ArtifactError as error:
        complaint = str(error)
    assert time.monotonic() - started < LIMIT_S
    tensors = [tensor for group in groups.values() for tensor in group]
    assert sum(tensor.nbytes for tensor in tensors) <= sum(path.stat().st_size for path in folder.iterdir())
    assert all(tensor.dtype.kind in "biufc" for tensor in tensors)
    assert complaint is None or (complaint.isprintable() and f"{folder} is damaged or not a tensor file" in complaint)
    return complaint


@pytest.mark.parametrize("lie", LIES)
def test_headers_that_lie(lie, bundle):
    (bundle / "sample" / "input_0.npy").write_bytes(LIES[lie])
    assert read(bundle / "sample") is not None


def test_bits_of_headers(bundle, count):
    path = bundle / "sample" / "input_0.npy"
    whole, refused = path.read_bytes(), 0
    for seed in range(count("npy bits")):
        rng = random.Random(seed)
        path.write_bytes(flip(whole[:128], rng, rng.choice([1, 2, 4])) + whole[128:])
        refused += read(bundle / "sample") is not None
    assert refused > count("npy bits") / 3, "the rest was in the padding, or in a type of the same size"


@pytest.mark.parametrize("name", ["input.npy", "input_x.npy", "input_-1.npy", ".npy"])
def test_names_that_say_no_place(name, bundle):
    (bundle / "sample" / "input_0.npy").rename(bundle / "sample" / name)
    assert "names such as input_0 are wanted" in read(bundle / "sample")
