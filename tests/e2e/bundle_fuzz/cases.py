"""What the fuzz tests share: how many cases there are, and the tools that damage things, always in the same way."""

import copy
import hashlib
import json

CASES = {
    "manifest bits": 700,
    "manifest cuts": 150,
    "manifest values": 800,
    "payload bits": 250,
    "payload cuts": 50,
    "zip bits": 300,
    "zip cuts": 80,
    "npy bits": 150,
}
"""How many cases each loop has in ``make test-all``; ``make test`` has a tenth. Those with names come on top."""
assert sum(CASES.values()) >= 2000
LIMIT_S = 20.0
"""Of one case, on a busy machine; typical ones take milliseconds."""
XNNPACK, PORTABLE, OPENVINO = (f"linear_regression_{name}" for name in ("xnnpack", "portable", "openvino"))
LABELS = ("one", "two")


def manifest(bundle):
    return json.loads((bundle / "manifest.json").read_text())


def sha256(path):
    """The digest of a file, or of a flat folder."""
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return hashlib.sha256("".join(f"{p.name}\0{sha256(p)}\n" for p in sorted(path.iterdir())).encode()).hexdigest()


def content(folder):
    """Relative path → bytes."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def files_of(bundle):
    """What the manifest names: payloads, sample and labels, file by file."""
    return [path for path in sorted(bundle.rglob("*")) if path.is_file() and path.name != "manifest.json"]


def flip(data, rng, bits=1):
    flipped = bytearray(data)
    for _ in range(bits):
        flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    return bytes(flipped)


def garbage(size):
    return hashlib.shake_128(b"seed").digest(size)


def changed(row, path, value=KeyError):
    """A document with another value at a place, given by the keys that lead there; KeyError takes the place away."""
    if not path:
        return None if value is KeyError else value
    row = copy.deepcopy(row)
    parent = row
    for key in path[:-1]:
        parent = parent[key]
    if value is KeyError:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return row
