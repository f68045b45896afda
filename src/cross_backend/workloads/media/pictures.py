"""Pictures: files by their content, bounded in bytes and pixels, decoded upright by Pillow."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING

from cross_backend.errors import UnavailableError, UsageError, failing_as
from cross_backend.workloads.media.base import called, check_length

if TYPE_CHECKING:
    from types import ModuleType

    from PIL.Image import Image

MAX_PIXELS = 50_000_000
"""Larger pictures are refused before they are decoded: 150 MB of colours."""
MAX_SIDE = 1 << 15
"""Longer ones are refused before they are decoded: narrow pictures grow when their shorter side is resized."""
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "WEBP")
"""What Pillow is let at."""
ACCEPTS = ("image/bmp", "image/gif", "image/jpeg", "image/png", "image/webp")


def pillow() -> ModuleType:
    """Import Pillow's module of images.

    Raises:
        UnavailableError: it is not installed.
    """
    try:
        import PIL.Image
    except ImportError as error:
        raise UnavailableError("pictures need the package pillow", "pip install 'cross-backend[media]'") from error
    return PIL.Image


def open_picture(data: bytes, name: str | None = None) -> Image:
    """Decode the first frame of a picture, turned as its camera was held.

    The colours are ``RGB``, ``RGBA`` where the file has transparency, or ``L``.

    Raises:
        UsageError: no picture, of another kind, damaged, too long or of too many pixels.
    """
    check_length(data, name)
    module = pillow()
    from PIL.ImageOps import exif_transpose

    with warnings.catch_warnings(), failing_as(UsageError, f"{called(name)} cannot be read as a picture"):
        warnings.simplefilter("ignore")  # Pillow warns of what is refused below, and of damaged metadata
        try:
            picture = module.open(io.BytesIO(data), formats=FORMATS)
        except module.UnidentifiedImageError:
            kinds = ", ".join(FORMATS)
            raise UsageError(f"{called(name)} is not a readable picture. Readable formats: {kinds}.") from None
        except module.DecompressionBombError:
            raise UsageError(f"{called(name)} has more than {MAX_PIXELS:,} pixels.") from None
        with picture:
            width, height = picture.size
            if width * height > MAX_PIXELS:
                raise UsageError(f"{called(name)} is {width}×{height}: more than {MAX_PIXELS:,} pixels.")
            if max(width, height) > MAX_SIDE:
                raise UsageError(f"{called(name)} is {width}×{height}: a side has more than {MAX_SIDE:,} pixels.")
            picture.load()
            return _plain(exif_transpose(picture))


def _plain(picture: Image) -> Image:
    if picture.mode in {"I", "I;16", "I;16B", "I;16L"}:  # 16 bits of grey, which Pillow would clip and not scale
        import numpy as np

        return pillow().fromarray((np.asarray(picture).astype(np.uint32) >> 8).clip(0, 255).astype(np.uint8))  # type: ignore[no-any-return]
    if picture.mode in {"1", "L"}:
        return picture.convert("L")
    mode = "RGBA" if picture.has_transparency_data else "RGB"
    return picture if picture.mode == mode else picture.convert(mode)
