"""That the runner's SHA-256 is the standard's."""

import hashlib
import random

import pytest

from cross_backend.artifact import digest_path
from tests.e2e.runner.bundles import probe

NIST = {
    b"": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    b"abc": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq": (
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
    ),
    (
        b"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
        b"hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"
    ): ("cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"),
    b"a" * 1_000_000: "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
}


def digest(built, path):
    return probe(built, {"digest": str(path)})


@pytest.mark.parametrize("content", NIST, ids=len)
def test_vectors_of_the_standard(content, built, tmp_path):
    (tmp_path / "content").write_bytes(content)
    assert digest(built, tmp_path / "content") == NIST[content]


@pytest.mark.parametrize(
    "size", [1, 55, 56, 57, 63, 64, 65, 119, 120, 127, 128, 129, 2**20 - 1, 2**20, 2**20 + 1, 3 * 2**20 + 57]
)
def test_sizes_at_the_edges_of_blocks(size, built, tmp_path):
    content = random.Random(size).randbytes(size)
    (tmp_path / "content").write_bytes(content)
    assert digest(built, tmp_path / "content") == hashlib.sha256(content).hexdigest()


@pytest.mark.slow
def test_size_in_bits_passes_32_bits(built, tmp_path):
    """The last eight bytes of what is digested hold the size."""
    with (tmp_path / "content").open("wb") as file:
        file.truncate(2**29 + 3)
    assert digest(built, tmp_path / "content") == digest_path(tmp_path / "content")


def test_folder_is_digested_piece_by_piece(built, tmp_path):
    """Names of many lengths begin and end at every place of a block."""
    folder = tmp_path / "folder"
    for number in range(70):
        file = folder / f"sub{number % 3}" / ("é" * (number % 5) + "n" * (number + 1))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(number))
    assert digest(built, folder) == digest_path(folder)
