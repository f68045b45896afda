"""Manifests with flipped bits, cut short, and with hostile values in every place."""

import copy
import json
import random

from tests.e2e.bundle_fuzz.cases import changed, flip, manifest


def test_bits_of_the_manifest(bundle, examine, count):
    path = bundle / "manifest.json"
    whole, refused = path.read_bytes(), 0
    for seed in range(count("manifest bits")):
        rng = random.Random(seed)
        path.write_bytes(flip(whole, rng, rng.choice([1, 1, 1, 2, 8])))
        refused += examine(bundle) is not None
    assert refused > count("manifest bits") / 3, "the rest was in what a reader ignores"


def test_manifests_that_were_cut(bundle, examine, count):
    path = bundle / "manifest.json"
    whole = path.read_bytes()
    for seed in range(count("manifest cuts")):
        path.write_bytes(whole[: random.Random(seed).randrange(len(whole) - 1)])
        assert "is damaged or not a bundle's manifest" in examine(bundle)


HOSTILE = [
    None, True, 0, -1, 1.5, 1 << 63, 10**400, float("nan"), float("inf"), "", "x", ".", "..", "../../etc/passwd",
    "/etc/passwd", "\\\\server\\share", "C:\\x", "nul\0", "two\nlines", "\x1b[2Jx", "\ud800", "\u202e", "A" * 10_000,
    "sample/../manifest.json", "nan", "1e999", [], {}, [[]], [None], {"name": None}, ["x"] * 1000, KeyError,
]  # fmt: skip
"""KeyError stands for: not there."""


def places(row, path=()):
    """Every place in a document, by the keys that lead there."""
    yield path
    children = row.items() if isinstance(row, dict) else enumerate(row) if isinstance(row, list) else ()
    for key, value in children:
        yield from places(value, (*path, key))


def test_hostile_values_anywhere(bundle, examine, count):
    row = manifest(bundle)
    cases = [(place, value) for place in places(row) for value in HOSTILE]
    assert len(cases) > 3000
    for place, value in random.Random(0).sample(cases, count("manifest values")):
        (bundle / "manifest.json").write_text(json.dumps(changed(row, place, value)))
        examine(bundle)


REQUIRED = {
    "": ("format", "version", "model", "program", "inputs", "outputs", "sample", "labels", "artifacts", "orders"),
    "artifacts 0": ("name", "target", "path", "size_bytes", "sha256", "placement", "estimate", "versions", "export_s"),
    "inputs 0": ("name", "dtype", "shape"),
    "sample": ("inputs", "expected"),
    "sample inputs 0": ("path", "sha256"),
    "labels": ("path", "sha256"),
    "evidence 0": ("platform", "machine", "place", "date", "threads", "targets", "order", "rows"),
    "evidence 0 machine": ("cpu", "arch", "system", "digest"),
    "evidence 0 rows 0": ("name", "rank", "ratio", "low", "high", "median_ms"),
}


def test_what_is_missing_is_missed(bundle, examine):
    row = manifest(bundle)
    for place, keys in REQUIRED.items():
        for key in keys:
            path = [int(part) if part.isdecimal() else part for part in (*place.split(), key)]
            (bundle / "manifest.json").write_text(json.dumps(changed(row, path)))
            complaint = examine(bundle)
            assert complaint is not None and f"KeyError: '{key}'" in complaint, path


def test_what_stands_there_twice(bundle, examine):
    """Each list with one of its rows again at its end."""
    row = manifest(bundle)
    for *place, last in [place for place in places(row) if place and isinstance(place[-1], int)]:
        twice = copy.deepcopy(row)
        rows = twice
        for key in place:
            rows = rows[key]
        rows.append(rows[last])
        (bundle / "manifest.json").write_text(json.dumps(twice))
        complaint = examine(bundle)
        if place[0] in {"artifacts", "inputs", "outputs", "sample", "orders"} and len(place) == 1 + (
            place[0] in {"orders", "sample"}
        ):
            assert complaint is not None, place
