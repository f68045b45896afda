"""Media as such: what manifests keep of them and what they are read from, and how they fit an artifact's inputs."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cross_backend.errors import ArtifactError, UsageError
from cross_backend.tensors import TensorSpec
from cross_backend.workloads.media import (
    KINDS,
    AudioMedia,
    BoxesMedia,
    DigitMedia,
    ImageMedia,
    Media,
    NumbersMedia,
    Prepared,
    PromptMedia,
    Shown,
    TextMedia,
    fitted,
    read_media,
)

ALL = [
    AudioMedia(trained=False),
    BoxesMedia(labels=("cat",), size=320, threshold=0.5),
    DigitMedia(labels=("0", "1")),
    ImageMedia(labels=("a", "ü"), crop=240, resize=255, interpolation="bicubic", mean=(0, 0, 0), std=(1, 1, 1)),
    NumbersMedia(names=("x",)),
    PromptMedia(tokens=64, ids=100, end=99),
    TextMedia(ids=100, padding=3, pads_before=True, predicts=True, has_bytes=True),
]


def test_there_is_one_of_every_kind():
    assert [media.kind for media in ALL] == list(KINDS)


@pytest.mark.parametrize("media", ALL, ids=lambda media: media.kind)
def test_a_manifest_gives_back_what_it_was_given(media):
    assert read_media(json.loads(json.dumps(media.to_json(), allow_nan=False))) == media


def test_a_manifest_that_says_nothing_gives_none():
    assert read_media(None) is None


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"kind": "smell"},
        {"kind": ["image"]},
        {"kind": "image", "crop": 10**9, "resize": 10**9},
        {"kind": "image", "crop": 0},
        {"kind": "image", "interpolation": "__class__"},
        {"kind": "image", "std": [0, 1, 1]},
        {"kind": "image", "std": [1, 1]},
        {"kind": "image", "labels": 5},
        {"kind": "boxes", "size": 10**6},
        {"kind": "boxes", "threshold": "surely"},
        {"kind": "audio", "frames": 10**9},
        {"kind": "audio", "bands": -1},
        {"kind": "text"},
        {"kind": "text", "ids": 10, "padding": 10},
        {"kind": "text", "ids": 10, "padding": 0, "tokens": 10**9},
        {"kind": "numbers", "names": []},
        {"kind": "numbers", "names": ["a"], "low": 1, "high": 1},
    ],
)
def test_a_damaged_or_hostile_description_is_refused(row):
    with pytest.raises(ArtifactError, match=r"kind|damaged"):
        read_media(row)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = sorted({name for media in ALL for name in media.to_json()})


@given(st.sampled_from(ALL), st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=3))
def test_any_description_is_read_or_refused(media, changes):
    try:
        found = read_media(media.to_json() | changes)
    except ArtifactError:
        return
    assert isinstance(found, Media)


def prepared(*shape):
    return Prepared([np.arange(np.prod(shape), dtype=np.float32).reshape(shape)], Shown("image"))


@pytest.mark.parametrize(
    ("shape", "dtype", "wanted"),
    [((1, 3, 2), "float32", (1, 3, 2)), (("n", 3, "w"), "float16", (1, 3, 2)), ((4, 3, 2), "float64", (4, 3, 2))],
)
def test_one_row_becomes_the_artifacts_type_and_batch(shape, dtype, wanted):
    given_row = prepared(1, 3, 2)
    (got,) = fitted(given_row, [TensorSpec("x", dtype, shape)])
    assert got.shape == wanted and got.dtype == dtype
    assert (got == given_row[0]).all()


@pytest.mark.parametrize(
    "specs",
    [
        [TensorSpec("x", "float32", (1, 2, 3))],
        [TensorSpec("x", "float32", (1, 6))],
        [TensorSpec("x", "float32", ())],
        [TensorSpec("x", "float32", (0, 3, 2))],
        [TensorSpec("x", "float32", (1 << 60, 3, 2))],
        [TensorSpec("x", "float32", (1, 3, 2)), TensorSpec("y", "float32", (1, 3, 2))],
        [],
    ],
)
def test_an_artifact_of_other_inputs_is_told(specs):
    with pytest.raises(UsageError, match="the artifact takes"):
        fitted(prepared(1, 3, 2), specs)
