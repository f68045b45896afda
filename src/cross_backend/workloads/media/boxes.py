"""Pictures for YOLO's detectors, prepared as ultralytics does, and the boxes of what was found, which can be drawn."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from cross_backend.errors import RunError, UsageError
from cross_backend.workloads.media.base import Media, Prepared, called
from cross_backend.workloads.media.pictures import ACCEPTS, open_picture
from cross_backend.workloads.media.shown import Box, Shown, finite, label_of

if TYPE_CHECKING:
    import numpy as np

MAX_SIDE = 4096
"""Longest side of a model's picture."""
PADDING = 114
"""Grey, of 255, around a picture that is not square."""
OVERLAP = 0.7
"""Intersection over union above which the surer of two boxes of one class stays, as ultralytics' ``predict`` has it."""
MOST = 300
"""Boxes that stay, as there."""


@dataclass(frozen=True, kw_only=True)
class BoxesMedia(Media):
    """The whole picture in a square, grey around it; boxes come back in the picture's own pixels."""

    kind: ClassVar[str] = "boxes"
    what: ClassVar[str] = "a picture"
    accepts: ClassVar[tuple[str, ...]] = ACCEPTS
    size: int = 640
    """Pixels a side of what the model takes."""
    threshold: float = 0.25
    """Lowest score of a box that is shown."""
    labels: tuple[str, ...] = ()
    """Names of the classes, by index."""

    def __post_init__(self) -> None:
        if not 1 <= self.size <= MAX_SIDE or not 0 <= self.threshold <= 1:
            raise ValueError("a picture's size or a score cannot be")

    def prepare(self, data: bytes, name: str | None = None) -> Prepared:
        """Return ``(1, 3, size, size)`` in float32, 0 to 1."""
        import numpy as np

        picture = open_picture(data, name).convert("RGB")
        width, height = picture.size
        left, top, inner_width, inner_height = _place(width, height, self.size)
        if not inner_width or not inner_height:
            raise UsageError(f"{called(name)} is {width}×{height}: too long for its width.")
        square = np.full((self.size, self.size, 3), PADDING, np.uint8)
        resized = resize_bilinear(np.asarray(picture), inner_width, inner_height)
        square[top : top + inner_height, left : left + inner_width] = resized
        colours = square.transpose(2, 0, 1).astype(np.float32) / np.float32(255)
        seen = Shown(self.kind, width=width, height=height, caveats=self.caveats())
        return Prepared([np.ascontiguousarray(colours)[None]], seen)

    def present(self, outputs: Sequence[np.ndarray[Any, Any]], prepared: Prepared) -> Shown:
        """Return the boxes of ``(1, 4 + classes, candidates)``: middle, width and height, then each class's score."""
        import numpy as np

        first = outputs[0]
        width, height = prepared.seen.width, prepared.seen.height
        if first.ndim != 3 or first.shape[1] < 5 or width is None or height is None:
            raise RunError(f"the output of shape {first.shape} is not that of a detector.")
        rows = finite(first[0]).T
        scores, classes = rows[:, 4:].max(1), rows[:, 4:].argmax(1)
        sure = np.flatnonzero(scores > self.threshold)
        middle, half = rows[sure, :2], rows[sure, 2:4] / 2
        corners = np.concatenate([middle - half, middle + half], 1)
        kept = keep_surest(corners, scores[sure], classes[sure])
        left, top, *_ = _place(width, height, self.size)
        gain = min(self.size / height, self.size / width)
        found = (corners[kept] - np.array([left, top, left, top])) / gain
        found = found.clip(0, np.array([width, height, width, height]))
        boxes = tuple(
            Box(label_of(int(classes[row]), self.labels), int(classes[row]), float(scores[row]), *map(float, box))
            for row, box in zip(sure[kept], found, strict=True)
        )
        return replace(prepared.seen, boxes=boxes)

    def draw(self, shown: Shown, source: bytes) -> bytes:
        """Return the source picture with its boxes, as a PNG file."""
        from PIL import ImageDraw, ImageFont

        picture = open_picture(source).convert("RGB")
        pen = ImageDraw.Draw(picture)
        line = max(2, round(max(picture.size) / 400))
        font = ImageFont.load_default(max(11, round(max(picture.size) / 50)))
        for box in reversed(shown.boxes):  # the surest lies on top
            colour = _colour(box.index)
            pen.rectangle((box.x0, box.y0, box.x1, box.y1), outline=colour, width=line)
            text = f"{box.label} {box.score:.0%}"
            x0, y0, x1, y1 = pen.textbbox((0, 0), text, font=font)
            at = (box.x0, max(0.0, box.y0 - (y1 - y0) - 2 * line))
            pen.rectangle((*at, at[0] + x1 - x0 + 2 * line, at[1] + y1 - y0 + 2 * line), fill=colour)
            pen.text((at[0] + line - x0, at[1] + line - y0), text, fill="black", font=font)
        file = io.BytesIO()
        picture.save(file, "PNG")
        return file.getvalue()


def _place(width: int, height: int, size: int) -> tuple[int, int, int, int]:
    """Return left, top, width and height of a picture inside the square; odd paddings as ultralytics rounds them."""
    gain = min(size / height, size / width)
    inner_width, inner_height = round(width * gain), round(height * gain)
    return round((size - inner_width) / 2 - 0.1), round((size - inner_height) / 2 - 0.1), inner_width, inner_height


def resize_bilinear(picture: np.ndarray[Any, Any], width: int, height: int) -> np.ndarray[Any, Any]:
    """Resize ``(height, width, 3)`` bytes as OpenCV's ``INTER_LINEAR`` does, within 1 of 255: two neighbours a side."""
    import numpy as np

    if picture.shape[:2] == (height, width):
        return picture

    def neighbours(before: int, after: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        at = np.clip((np.arange(after) + 0.5) * (before / after) - 0.5, 0, before - 1)
        first = at.astype(np.intp)
        return first, np.minimum(first + 1, before - 1), (at - first).astype(np.float32)

    upper, lower, share = neighbours(picture.shape[0], height)
    rows = picture[upper] + share[:, None, None] * (picture[lower].astype(np.float32) - picture[upper])
    left, right, share = neighbours(picture.shape[1], width)
    mixed = rows[:, left] + share[:, None] * (rows[:, right] - rows[:, left])
    return np.rint(mixed).astype(np.uint8)  # type: ignore[no-any-return]


def keep_surest(
    corners: np.ndarray[Any, Any], scores: np.ndarray[Any, Any], classes: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Return which boxes stay, surest first: none overlaps a surer one of its class by more than ``OVERLAP``."""
    import numpy as np

    areas = (corners[:, 2:] - corners[:, :2]).prod(1)
    left = np.argsort(-scores, kind="stable")
    kept: list[int] = []
    while left.size and len(kept) < MOST:
        best, left = left[0], left[1:]
        kept.append(int(best))
        low = np.maximum(corners[left, :2], corners[best, :2])
        high = np.minimum(corners[left, 2:], corners[best, 2:])
        shared = (high - low).clip(0).prod(1)
        overlaps = shared > OVERLAP * (areas[left] + areas[best] - shared)
        left = left[~(overlaps & (classes[left] == classes[best]))]
    return np.array(kept, np.intp)


def _colour(index: int) -> str:
    """Return a bright colour that differs between classes: hues a golden angle apart."""
    return f"hsl({index * 137.5 % 360:.0f}, 90%, 60%)"
