"""Zip files with flipped bits, cut short, and built to harm whoever unpacks them."""

import io
import json
import random
import re
import stat
import struct
import zipfile
import zlib

import pytest

from tests.e2e.bundle_fuzz.cases import OPENVINO, PORTABLE, changed, content, flip, garbage
from tests.two_archives import two_archives

PAYLOAD = f"{PORTABLE}.pte"
ZEROS = bytes(64 << 20)
"""Packs to 64 kB."""


@pytest.fixture(scope="module")
def packed(sound):
    """The bundle as a zip file, some of it deflated."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for index, (name, data) in enumerate(sorted(content(sound).items())):
            archive.writestr(name, data, zipfile.ZIP_DEFLATED if index % 2 else zipfile.ZIP_STORED)
    return file.getvalue()


def test_bits_of_a_zip_file(packed, examine, tmp_path, count):
    path, refused = tmp_path / "damaged.zip", 0
    for seed in range(count("zip bits")):
        rng = random.Random(seed)
        path.write_bytes(flip(packed, rng, rng.choice([1, 1, 4])))
        refused += examine(path) is not None
    assert refused > count("zip bits") / 2, "the rest was in dates and the like"


def test_zip_files_that_were_cut(packed, examine, tmp_path, count):
    path = tmp_path / "cut.zip"
    for seed in range(count("zip cuts")):
        path.write_bytes(packed[: random.Random(seed).randrange(len(packed))])
        assert f"{path} is damaged or not a bundle" in examine(path)


class Packer:
    """Builds a zip file of a bundle's members, with one thing wrong."""

    def __init__(self, sound, path):
        self.members, self.path = content(sound), path
        self.row = json.loads(self.members["manifest.json"])

    def edit(self, *place, to):
        self.row = changed(self.row, place, to)
        self.members["manifest.json"] = json.dumps(self.row).encode()
        return self

    def without(self, *names):
        for name in names:
            del self.members[name]
        return self

    def write(self, *more):
        """Write the members, and (name or ZipInfo, data) pairs after them; a name may stand there twice."""
        with zipfile.ZipFile(self.path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in (*self.members.items(), *more):
                archive.writestr(name, data)
        return self

    def replace(self, name, data):
        return self.without(name).write((name, data))

    def patch(self, pattern, replacement):
        """Change what was written, in every place: fields that zipfile would not write like that."""
        data = self.path.read_bytes()
        assert re.search(pattern, data, re.DOTALL)
        self.path.write_bytes(re.sub(pattern, replacement, data, flags=re.DOTALL))


def info(name, mode=0o644, packing=zipfile.ZIP_DEFLATED):
    made = zipfile.ZipInfo(name)
    made.external_attr, made.compress_type = mode << 16, packing
    return made


def million_members():
    """Only a table of contents; all rows point to one file."""
    start = struct.pack("<4s5H3I2H", b"PK\3\4", 20, 0, 0, 0, 33, 0, 0, 0, 8, 0) + bytes(8)
    row = struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, 20, 0, 0, 0, 33, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0)
    n = 10**6
    table = b"".join(row + b"%08d" % index for index in range(n))
    end64 = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, n, n, len(table), len(start))
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, len(start) + len(table), 1)
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return start + table + end64 + locator + end


def damaged_stream(z):
    noise = random.Random(0).randbytes(5000)
    z.replace(PAYLOAD, noise)
    deflate = zlib.compressobj(wbits=-15)
    start = (deflate.compress(noise) + deflate.flush())[:50]
    z.patch(re.escape(start), lambda match: b"\xff" * 50)


def field(signature, skip, value):
    """Give a pattern and its replacement: the bytes after a signature and ``skip`` more."""
    return b"(%b.{%d}).{%d}" % (re.escape(signature), skip, len(value)), lambda match: match[1] + value


def encrypted(z):
    z.write().patch(*field(b"PK\1\2", 4, b"\1\0"))
    z.patch(*field(b"PK\3\4", 2, b"\1\0"))


def packed_in_an_unknown_way(z):
    z.write().patch(*field(b"PK\1\2", 6, b"\x63\0"))
    z.patch(*field(b"PK\3\4", 4, b"\x63\0"))


def in_a_folder(z):
    z.members = {f"linear_regression/{name}": data for name, data in z.members.items()}
    z.write()


TOO_MUCH, UNPACKED = 20 << 30, "unpacks to more than"
NOT_PLAIN, NOT_PAYLOAD, NO_MANIFEST = "is not a plain file name", "is not the payload", "no item named 'manifest.json'"
HARMFUL = {
    # Bombs
    "a payload": (lambda z: z.replace(PAYLOAD, ZEROS), f"{PAYLOAD} {UNPACKED}"),
    "a payload as announced": (
        lambda z: z.edit("artifacts", 2, "size_bytes", to=TOO_MUCH).replace(PAYLOAD, ZEROS),
        "too many for a file of its size",
    ),
    "a payload paid with a negative one": (
        lambda z: (
            z.edit("artifacts", 2, "size_bytes", to=TOO_MUCH)
            .edit("artifacts", 0, "size_bytes", to=-TOO_MUCH)
            .replace(PAYLOAD, ZEROS)
        ),
        "is no size",
    ),
    "a sample": (lambda z: z.replace("sample/input_0.npy", ZEROS), f"sample/input_0.npy {UNPACKED}"),
    "a sample paid with a negative offset": (
        lambda z: (
            z.edit("sample", "inputs", 0, "offset", to=-TOO_MUCH)
            .edit("sample", "expected", 0, "offset", to=TOO_MUCH)
            .replace("sample/input_0.npy", ZEROS)
        ),
        "is no size",
    ),
    "labels": (lambda z: z.replace("labels.txt", ZEROS), f"labels.txt {UNPACKED} 16777216 bytes"),
    "a manifest": (lambda z: z.replace("manifest.json", ZEROS), f"manifest.json {UNPACKED} 16777216 bytes"),
    "many files": (
        lambda z: z.write(*((f"{OPENVINO}/{index}", b"") for index in range(10_000))),
        "more than 10000 files",
    ),
    "many folders": (
        lambda z: z.write(*((f"{OPENVINO}/" + "d/" * depth + "f", b"") for depth in (40, 80))),
        "nested more than 16 deep",
    ),
    "a million members": (lambda z: z.path.write_bytes(million_members()), "table of contents is longer than 4 MiB"),
    # Names
    "dots": (lambda z: z.write(("sample/../../../../elsewhere", b"x")), f"'..' {NOT_PLAIN}"),
    "an empty part": (lambda z: z.write(("sample//elsewhere", b"x")), f"'' {NOT_PLAIN}"),
    "backslashes": (lambda z: z.write(("sample/..\\..\\elsewhere", b"x")), NOT_PLAIN),
    "a drive": (lambda z: z.write(("sample/C:elsewhere", b"x")), f"'C:elsewhere' {NOT_PLAIN}"),
    "control codes": (lambda z: z.write(("sample/\x1b[2J\n", b"x")), NOT_PLAIN),
    "an endless name": (lambda z: z.write(("sample/" + "x" * 60_000, b"x")), "xxx"),
    "an endless path": (lambda z: z.write(("sample/" + "x/" * 300 + "x", b"x")), "nested more than 16 deep"),
    # Kinds of members
    "a payload that is a link": (
        lambda z: z.without(PAYLOAD).write((info(PAYLOAD, stat.S_IFLNK | 0o777), b"/etc/passwd")),
        NOT_PAYLOAD,
    ),
    "a folder that is a link": (
        lambda z: z.without("sample/input_0.npy", "sample/expected_0.npy").write(
            (info("sample", stat.S_IFLNK | 0o777), b"/tmp"), ("sample/elsewhere", b"x")
        ),
        "sample",
    ),
    "a file below a file": (lambda z: z.write((f"{PAYLOAD}/elsewhere", b"")), PAYLOAD),
    "a folder named like a file": (lambda z: z.without(PAYLOAD).write((f"{PAYLOAD}/elsewhere", b"")), NOT_PAYLOAD),
    "a second manifest": (
        lambda z: z.write(("manifest.json", json.dumps(changed(z.row, ("artifacts", 0, "path"), "../elsewhere")))),
        "have one name",
    ),
    "a second payload": (lambda z: z.write((PAYLOAD, b"other")), "have one name"),
    "the manifest as a payload": (
        lambda z: z.edit("artifacts", 0, "path", to="manifest.json").write(),
        f"manifest.json {UNPACKED}",
    ),
    "the sample as a payload": (lambda z: z.edit("artifacts", 0, "path", to="sample").write(), NOT_PAYLOAD),
    # Members that lie
    "a wrong checksum": (lambda z: z.write().patch(*field(b"PK\1\2", 12, b"\1\2\3\4")), "contradicts the table"),
    "encrypted": (encrypted, "encrypted"),
    "packed in an unknown way": (packed_in_an_unknown_way, "is neither stored nor deflated"),
    "packed with lzma": (  # its decoder can be told to allocate gigabytes, and has exceptions of its own
        lambda z: z.write((info(PAYLOAD, packing=zipfile.ZIP_LZMA), z.members.pop(PAYLOAD))),
        f"{PAYLOAD} is neither stored nor deflated",
    ),
    "sizes": (lambda z: z.write().patch(*field(b"PK\1\2", 20, b"\x7f\0\0\0")), "contradicts the table"),
    "longer sizes": (
        lambda z: z.write().patch(*field(b"PK\1\2", 16, b"\xff\xff\xff\x7f" * 2)),
        "contradicts the table",
    ),
    "text before it": (
        lambda z: z.write().path.write_bytes(b"#!/bin/sh\nexit\n" + z.path.read_bytes()),
        "table of contents does not end",
    ),
    "two archives": (
        lambda z: z.write().path.write_bytes(two_archives(z.path.read_bytes(), z.path.read_bytes())),
        "table of contents does not end",
    ),
    "places": (lambda z: z.write().patch(*field(b"PK\1\2", 38, b"\xf0\xff\xff\x7f")), "damaged"),
    "a count": (lambda z: z.write().patch(*field(b"PK\5\6", 4, b"\xff\xff\xff\xff\0\xff\xff\xff")), "damaged"),
    "a damaged stream": (damaged_stream, "damaged"),
    # Little or nothing
    "only a manifest": (lambda z: z.without(*set(z.members) - {"manifest.json"}).write(), "labels.txt does not exist"),
    "all in a folder": (in_a_folder, NO_MANIFEST),
    "no members": (lambda z: z.without(*z.members.copy()).write(), NO_MANIFEST),
    "no bytes": (lambda z: z.path.touch(), "not a zip file"),
    "no zip file": (lambda z: z.path.write_bytes(garbage(5000)), "not a zip file"),
}  # fmt: skip
"""What is wrong → how it is built, and a part of the complaint."""


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
@pytest.mark.parametrize("what", HARMFUL)
def test_zip_files_made_to_harm(what, sound, examine, tmp_path):
    build, said = HARMFUL[what]
    path = tmp_path / "harmful.zip"
    build(Packer(sound, path))
    complaint = examine(path)
    assert complaint is not None and said in complaint, complaint
    assert f"{tmp_path}/cache/tmp" not in complaint, "the scratch folder is gone when its name is read"


def names_outside(z):
    z.write(*((name, ZEROS) for name in ("/elsewhere", "../elsewhere", "C:\\elsewhere", "..\\elsewhere", "elsewhere")))


def a_comment(z):
    z.write()
    with zipfile.ZipFile(z.path, "a") as archive:
        archive.comment = b"a comment"


@pytest.mark.parametrize("build", [names_outside, a_comment])
def test_zip_files_that_are_odd_and_harmless(build, sound, examine, tmp_path):
    path = tmp_path / "odd.zip"
    build(Packer(sound, path))
    assert examine(path) is None
    (unpacked,) = (tmp_path / "cache" / "bundles").iterdir()
    assert content(unpacked) == content(sound), "strangers stay in the zip file"
