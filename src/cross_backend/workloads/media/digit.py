"""A drawn digit, made 8×8 as those of the data set were, and the likeliest digits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from cross_backend.errors import UsageError
from cross_backend.workloads.media.base import Media, Prepared, called
from cross_backend.workloads.media.pictures import ACCEPTS, open_picture, pillow
from cross_backend.workloads.media.shown import Shown, top_shares

if TYPE_CHECKING:
    import numpy as np

SIDE = 8
"""Pixels a side."""
BLOCK = 4
"""Pixels a side of a block of a 32×32 bitmap; a digit of the data set is how many of each block are ink."""
FAINTEST = 32
"""Difference of brightness, of 255, from which on something is drawn."""


@dataclass(frozen=True, kw_only=True)
class DigitMedia(Media):
    """Dark on light, light on dark, or ink on nothing; cut out, scaled to the full height, put into the middle."""

    kind: ClassVar[str] = "digit"
    what: ClassVar[str] = "a drawn digit"
    accepts: ClassVar[tuple[str, ...]] = ACCEPTS
    labels: tuple[str, ...] = ()
    """Names of the classes, by index of the output."""

    def prepare(self, data: bytes, name: str | None = None) -> Prepared:
        """Return ``(1, 1, 8, 8)`` in float32, 0 paper, 1 ink."""
        import numpy as np

        picture = open_picture(data, name)
        ink = _ink(picture)
        if int(ink.max()) - int(ink.min()) < FAINTEST:
            raise UsageError(f"nothing is drawn in {called(name)}.")
        bitmap = _bitmap(ink > (int(ink.max()) + int(ink.min())) / 2)
        counts = bitmap.reshape(SIDE, BLOCK, SIDE, BLOCK).sum((1, 3), dtype=np.float32) / np.float32(BLOCK**2)
        rows = tuple(tuple(map(float, row)) for row in counts)
        seen = Shown(self.kind, width=picture.width, height=picture.height, pixels=rows, caveats=self.caveats())
        return Prepared([counts[None, None]], seen)

    def present(self, outputs: Sequence[np.ndarray[Any, Any]], prepared: Prepared) -> Shown:
        """Return the likeliest digits."""
        return replace(prepared.seen, top=top_shares(outputs[0][:1], self.labels))


def _ink(picture: Any) -> np.ndarray[Any, Any]:
    """Return how much ink each pixel has, 0 to 255; what most of the border is made of is paper."""
    import numpy as np

    if picture.mode == "RGBA":
        alpha = np.asarray(picture.getchannel("A"))
        if alpha.min() == 0 and alpha.max() > 0:  # a drawing without paper, whatever its colour
            return alpha
    grey = np.asarray(picture.convert("L"))
    border = np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]])
    inked: np.ndarray[Any, Any] = 255 - grey if np.median(border) > (int(grey.max()) + int(grey.min())) / 2 else grey
    return inked


def _bitmap(inked: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the inked part as a bitmap of 32×32, as high as it is where it is not wider."""
    import numpy as np

    rows, columns = (np.flatnonzero(inked.any(axis)) for axis in (1, 0))
    cut = inked[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    full = SIDE * BLOCK
    height, width = (max(1, round(full * side / max(cut.shape))) for side in cut.shape)
    picture = pillow().fromarray(cut.astype(np.uint8) * 255)
    small = np.asarray(picture.resize((width, height), pillow().Resampling.BILINEAR)) >= 128
    bitmap = np.zeros((full, full), bool)
    top, left = (full - height) // 2, (full - width) // 2
    bitmap[top : top + height, left : left + width] = small
    return bitmap
