"""Cut: how products are divided among threads."""

from __future__ import annotations

import subprocess

import pytest

from tests.atalla.native import built_alone

PRODUCTS = [  # rows, columns, depth, most rows of a block: ResNet-50's, BERT's, Whisper's
    (3136, 256, 64, 256), (3136, 64, 256, 144), (784, 512, 128, 256), (784, 128, 512, 96), (196, 1024, 256, 144),
    (196, 256, 1024, 96), (196, 512, 1024, 96), (49, 2048, 512, 96), (49, 512, 2048, 96), (128, 768, 3072, 96),
    (128, 3072, 768, 96), (1500, 384, 384, 96), (1500, 1536, 384, 96),
]  # fmt: skip


def shares(*products: tuple[int, int, int, int, int, int]) -> list[tuple[int, int]]:
    """Return the rows by a panel of the thread that makes most, and of the one that makes least."""
    given = "".join(f"{' '.join(map(str, product))}\n" for product in products)
    driver = built_alone("cut", "kernels/cut.h")
    done = subprocess.run([driver], input=given, capture_output=True, text=True, check=True)
    return [(int(most), int(least)) for most, least in (line.split() for line in done.stdout.splitlines())]


@pytest.mark.parametrize("high", [6, 8])
def test_threads_make_equally_much(high: int) -> None:
    found = shares(*((rows, columns, depth, 2, most, high) for rows, columns, depth, most in PRODUCTS))
    uneven = {product: most / least for product, (most, least) in zip(PRODUCTS, found, strict=True)}
    assert max(uneven.values()) < 1.03, uneven


def test_all_is_made_once() -> None:
    sizes = [1, 2, 5, 6, 7, 16, 17, 48, 95, 96, 97, 196, 257, 1000]
    products = [(rows, columns, 64, threads, 96, 6) for rows in sizes for columns in sizes for threads in (1, 2, 3, 7)]
    for (rows, columns, _, threads, *_), (most, least) in zip(products, shares(*products), strict=True):
        whole = rows * -(-columns // 16)
        assert least <= whole // threads <= most <= whole
