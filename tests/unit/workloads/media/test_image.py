"""Pictures for classifiers: the numbers are torchvision's own, for every model and weights of the table."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from atalla.torchvision import torchvision_models
from cross_backend.errors import RunError, UsageError
from cross_backend.workloads import WORKLOADS
from cross_backend.workloads.media import ImageMedia
from cross_backend.workloads.vision import SIZE, SIZES, _media
from tests.unit.workloads.media.conftest import saved

CLASSIFIERS = [name for name, row in WORKLOADS.items() if row.build.endswith(":classifier")]


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_numbers_are_those_of_torchvision(name, picture):
    size = SIZES.get(name, SIZE)
    of_this_size = [row for row in torchvision_models().get_model_weights(name) if row.transforms().crop_size == [size]]
    assert of_this_size
    for row in of_this_size:
        media = _media(row.transforms(), (), size, trained=True)
        for sides in ((97, 64), (640, 427), (700, 701)):
            data = picture(*sides)
            wanted = row.transforms()(Image.open(io.BytesIO(data)).convert("RGB"))[None].numpy()
            (got,) = media.prepare(data)
            assert got.dtype == np.float32 and got.shape == wanted.shape == (1, 3, size, size)
            assert np.abs(got - wanted).max() < 1e-5, (row, sides)


def test_weights_of_another_size_have_no_media():
    """The workload takes 224×224, and these were trained on 384×384."""
    row = torchvision_models().get_model_weights("vit_b_16").IMAGENET1K_SWAG_E2E_V1
    assert _media(row.transforms(), (), 224, trained=True) is None


def test_the_likeliest_classes_come_first_with_their_shares(picture):
    media = ImageMedia(labels=("ant", "bee", "cat"))
    prepared = media.prepare(picture(300, 200))
    shown = media.present([np.log(np.array([[0.2, 0.5, 0.2, 0.1]]))], prepared)
    assert [(row.label, row.index, round(row.share, 6)) for row in shown.top] == [
        ("bee", 1, 0.5), ("ant", 0, 0.2), ("cat", 2, 0.2), ("#3", 3, 0.1),
    ]  # fmt: skip
    assert (shown.width, shown.height, shown.caveats) == (300, 200, ())
    assert shown.to_json()["top"][0] == {"label": "bee", "index": 1, "share": pytest.approx(0.5)}
    assert "boxes" not in shown.to_json()


def test_huge_logits_do_not_overflow(picture):
    media = ImageMedia()
    shown = media.present([np.array([[1e30, 0, -1e30]], np.float32)], media.prepare(picture(9, 9)))
    assert [row.share for row in shown.top] == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_outputs_that_are_no_numbers_show_nothing(wrong, picture):
    media = ImageMedia()
    with pytest.raises(RunError, match="not finite"):
        media.present([np.array([[1.0, wrong]])], media.prepare(picture(9, 9)))


def test_random_weights_are_told(picture):
    media = ImageMedia(trained=False)
    assert "random" in media.present([np.ones((1, 3))], media.prepare(picture(9, 9))).caveats[0]


def test_a_picture_like_a_thread_is_refused_before_it_is_stretched():
    """One pixel wide: its longer side would become 256 times as many."""
    data = saved(Image.new("L", (1, 30_000)), "PNG")
    with pytest.raises(UsageError, match="1×30000: too long"):
        ImageMedia().prepare(data, "thread.png")


def test_only_a_detector_draws(picture):
    media = ImageMedia()
    with pytest.raises(UsageError, match="nothing is drawn"):
        media.draw(media.prepare(picture(9, 9)).seen, picture(9, 9))
