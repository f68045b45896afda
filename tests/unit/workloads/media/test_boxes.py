"""Boxes: the square is ultralytics', boxes come back in the source's pixels, and the drawing shows them."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from cross_backend.errors import RunError, UsageError
from cross_backend.workloads.media import Box, BoxesMedia
from cross_backend.workloads.media.boxes import MOST, OVERLAP, keep_surest, resize_bilinear
from tests.unit.workloads.media.conftest import saved

MEDIA = BoxesMedia(labels=("cat", "dog"))


@pytest.mark.parametrize(("before", "after"), [((427, 640), (300, 411)), ((64, 48), (640, 480)), ((1, 9), (5, 3))])
def test_resizing_is_bilinear_without_a_filter(before, after):
    """As OpenCV's, which rounds its weights to 2048ths."""
    import torch

    values = np.random.default_rng(0).integers(0, 256, (*before, 3), np.uint8)
    tensor = torch.from_numpy(values.transpose(2, 0, 1)[None].astype(np.float32))
    wanted = torch.nn.functional.interpolate(tensor, after, mode="bilinear", align_corners=False)[0].numpy()
    got = resize_bilinear(values, after[1], after[0])
    assert got.dtype == np.uint8 and got.shape == (*after, 3)
    assert np.abs(got.transpose(2, 0, 1) - wanted).max() <= 0.51


@pytest.mark.parametrize(
    ("size", "columns", "rows"),
    [
        ((640, 640), (0, 640), (0, 640)),
        ((640, 480), (0, 640), (80, 560)),
        ((300, 600), (160, 480), (0, 640)),
        ((1000, 701), (0, 640), (95, 544)),  # 449 rows: of 191 left, 95 stand above and 96 below
        ((16, 16), (0, 640), (0, 640)),
    ],
)
def test_grey_stands_around_the_picture(size, columns, rows):
    (got,) = MEDIA.prepare(saved(Image.new("RGB", size, (255, 0, 0))))
    assert got.shape == (1, 3, 640, 640) and got.dtype == np.float32
    red = (got[0] == np.array([1, 0, 0])[:, None, None]).all(0)
    assert (np.flatnonzero(red.any(0))[[0, -1]] + [0, 1]).tolist() == list(columns)
    assert (np.flatnonzero(red.any(1))[[0, -1]] + [0, 1]).tolist() == list(rows)
    assert red.sum() == np.prod(np.diff([columns, rows]))
    assert (got[0][:, ~red] == np.float32(114 / 255)).all()


def output(*rows, classes=2):
    """Give a detector's output that holds (middle, middle, width, height, score of each class) and noise below."""
    made = np.zeros((1, 4 + classes, 8400), np.float32)
    made[0, :4] = np.random.default_rng(0).uniform(0, 640, (4, 8400))
    made[0, 4:] = 0.2
    for at, row in enumerate(rows):
        made[0, :, 17 * at] = row
    return [made]


def test_boxes_come_back_in_the_pixels_of_the_source(picture):
    """The source of 1280×960 is halved, and 80 rows of grey stand above it."""
    prepared = MEDIA.prepare(picture(1280, 960, "JPEG"))
    shown = MEDIA.present(output((100, 180, 40, 60, 0.3, 0.9), (600, 540, 100, 100, 0.5, 0.1)), prepared)
    dog, cat = shown.boxes
    assert dog == Box("dog", 1, pytest.approx(0.9), *map(pytest.approx, (160, 140, 240, 260)))
    assert cat == Box("cat", 0, 0.5, *map(pytest.approx, (1100, 820, 1280, 960)))  # what lies outside is cut off
    assert (shown.width, shown.height) == (1280, 960)
    assert shown.to_json()["boxes"][0]["label"] == "dog"


def test_of_two_boxes_on_one_object_the_surer_one_stays(picture):
    prepared = MEDIA.prepare(picture(640, 640))
    rows = [
        (100, 100, 50, 50, 0.6, 0),
        (102, 100, 50, 50, 0.8, 0),
        (100, 100, 50, 50, 0, 0.7),
        (300, 100, 9, 9, 0.5, 0),
    ]
    shown = MEDIA.present(output(*rows), prepared)
    assert [(box.label, round(box.score, 2)) for box in shown.boxes] == [("cat", 0.8), ("dog", 0.7), ("cat", 0.5)]


def plainly(corners, scores, classes):
    """Keep boxes by the definition, one pair after another."""
    kept = []
    for one in sorted(range(len(scores)), key=lambda i: -scores[i]):
        for other in kept:
            a, b = corners[one], corners[other]
            shared = max(0, min(a[2], b[2]) - max(a[0], b[0])) * max(0, min(a[3], b[3]) - max(a[1], b[1]))
            areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
            if classes[one] == classes[other] and shared > OVERLAP * (areas - shared):
                break
        else:
            kept.append(one)
    return kept[:MOST]


@given(st.integers(0, 60), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_keeping_the_surest_is_what_its_definition_says(count, classes, seed):
    rng = np.random.default_rng(seed)
    low, sides = rng.uniform(0, 30, (count, 2)), rng.uniform(20, 60, (count, 2))
    corners, scores = np.concatenate([low, low + sides], 1), rng.permutation(count) / max(count, 1)
    kinds = rng.integers(0, classes, count)
    assert keep_surest(corners, scores, kinds).tolist() == plainly(corners.tolist(), scores.tolist(), kinds.tolist())


def test_a_network_that_finds_everything_everywhere_gives_so_many_boxes(picture):
    """As random weights do: every score is above the threshold."""
    made = output()
    made[0][0, 2:4] = 5
    made[0][0, 4:] = 0.5
    assert len(MEDIA.present(made, MEDIA.prepare(picture(640, 640))).boxes) == MOST


@pytest.mark.parametrize(
    "made", [np.full((1, 6, 9), np.nan), np.zeros((1, 4, 9)), np.zeros((6, 9)), np.zeros((1, 6, 0))]
)
def test_what_is_no_detectors_output_is_told(made, picture):
    with pytest.raises(RunError):
        MEDIA.present([made], MEDIA.prepare(picture(64, 64)))


def test_the_drawing_is_the_source_with_the_boxes_on_it():
    source = saved(Image.new("RGB", (400, 300), "white"), "JPEG")
    prepared = MEDIA.prepare(source)
    shown = MEDIA.present(output((320, 320, 160, 160, 0.9, 0)), prepared)
    drawn = MEDIA.draw(shown, source)
    assert drawn.startswith(b"\x89PNG")
    got = np.asarray(Image.open(io.BytesIO(drawn)))
    assert got.shape == (300, 400, 3)
    box = shown.boxes[0]
    for x, y in ((box.x0, 150), (box.x1, 150), (200, box.y1)):
        assert got[round(y), round(x)].min() < 120, "a line goes there"
    assert (got[150, 200] > 250).all() and (got[290, 10] > 250).all()
    name = got[round(box.y0) - 20 : round(box.y0), round(box.x0) : round(box.x0) + 40]
    assert (name.max(-1) < 60).any(), "its name stands above it, in black"


def test_a_source_without_objects_is_drawn_as_it_is(picture):
    source = picture(60, 40)
    drawn = MEDIA.draw(MEDIA.present(output(), MEDIA.prepare(source)), source)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(drawn))), np.asarray(Image.open(io.BytesIO(source))))


def test_a_picture_like_a_thread_is_refused():
    with pytest.raises(UsageError, match="too long for its width"):
        MEDIA.prepare(saved(Image.new("L", (1, 5000))))
