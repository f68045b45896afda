"""Pictures for ImageNet's classifiers, prepared as torchvision's presets do, and their likeliest classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from cross_backend.errors import UsageError
from cross_backend.workloads.media.base import Media, Prepared, called
from cross_backend.workloads.media.pictures import ACCEPTS, MAX_PIXELS, open_picture, pillow
from cross_backend.workloads.media.shown import Shown, top_shares

if TYPE_CHECKING:
    import numpy as np

MAX_SIDE = 4096
"""Longest side of a model's picture."""
FILTERS = ("bicubic", "bilinear")


@dataclass(frozen=True, kw_only=True)
class ImageMedia(Media):
    """Shorter side resized, middle cut out, colours scaled: what torchvision calls ``ImageClassification``."""

    kind: ClassVar[str] = "image"
    what: ClassVar[str] = "a picture"
    accepts: ClassVar[tuple[str, ...]] = ACCEPTS
    crop: int = 224
    """Pixels a side of what the model takes."""
    resize: int = 256
    """Pixels of the shorter side, before the middle is cut out."""
    interpolation: str = "bilinear"
    """One of ``FILTERS``."""
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    """Of red, green and blue, 0 to 1; subtracted."""
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    """What is then divided by."""
    labels: tuple[str, ...] = ()
    """Names of the classes, by index of the output."""

    def __post_init__(self) -> None:
        if not 1 <= self.crop <= self.resize <= MAX_SIDE or self.interpolation not in FILTERS or not all(self.std):
            raise ValueError("a picture's size, filter or scale cannot be")

    def prepare(self, data: bytes, name: str | None = None) -> Prepared:
        """Return ``(1, 3, crop, crop)`` in float32."""
        import numpy as np

        picture = open_picture(data, name)
        picture = picture if picture.mode == "RGB" else picture.convert("RGB")
        width, height = picture.size
        short, long = sorted(picture.size)
        sides = (self.resize, int(self.resize * long / short))
        if sides[0] * sides[1] > MAX_PIXELS:
            raise UsageError(f"{called(name)} is {width}×{height}: too long for its width.")
        size = sides if width <= height else sides[::-1]
        if size != picture.size:
            picture = picture.resize(size, getattr(pillow().Resampling, self.interpolation.upper()))
        left, top = (round((side - self.crop) / 2.0) for side in size)
        picture = picture.crop((left, top, left + self.crop, top + self.crop))
        colours = np.ascontiguousarray(np.asarray(picture).transpose(2, 0, 1)).astype(np.float32)
        mean, std = (np.array(values, np.float32)[:, None, None] for values in (self.mean, self.std))
        colours /= np.float32(255)  # in place, as the way through memory is what takes time
        colours -= mean
        colours /= std
        seen = Shown(self.kind, width=width, height=height, caveats=self.caveats())
        return Prepared([colours[None]], seen)

    def present(self, outputs: Sequence[np.ndarray[Any, Any]], prepared: Prepared) -> Shown:
        """Return the likeliest classes."""
        return replace(prepared.seen, top=top_shares(outputs[0][:1], self.labels))
