"""What the tests of media share: pictures and sounds as files."""

from __future__ import annotations

import io
import wave
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def picture() -> Callable[..., bytes]:
    """Give a function that makes a file of a smooth random picture, so that wrong resizing shows."""

    def make(width: int, height: int, form: str = "PNG", mode: str = "RGB", seed: int = 0, **options: object) -> bytes:
        channels = len(mode)
        noise = np.random.default_rng(seed).integers(0, 256, (max(2, height // 7), max(2, width // 7), channels))
        coarse = Image.fromarray(noise.astype(np.uint8).squeeze(-1) if channels == 1 else noise.astype(np.uint8), mode)
        return saved(coarse.resize((width, height), Image.Resampling.BICUBIC), form, **options)

    return make


def saved(image: Image.Image, form: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def wav(samples: np.ndarray, rate: int, channels: int = 1, width: int = 2) -> bytes:
    """Give a WAV file of whole numbers, by Python's own writer; samples are -1 to 1, one row a channel."""
    file = io.BytesIO()
    scaled = np.rint(np.atleast_2d(samples).T * (2 ** (8 * width - 1) - 1)).astype(np.int64)
    if width == 1:
        scaled += 128
    packed = np.ascontiguousarray(scaled.astype("<i8")).view(np.uint8).reshape(*scaled.shape, 8)[..., :width]
    with wave.open(file, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(width)
        out.setframerate(rate)
        out.writeframes(packed.tobytes())
    return file.getvalue()
