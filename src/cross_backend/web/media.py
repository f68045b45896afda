"""Media: what stands between a person and a model's tensors: a digit, a picture, numbers; what is shown of outputs."""

from __future__ import annotations

import io
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from cross_backend.artifact import Artifact
from cross_backend.errors import RunError, UsageError, one_line
from cross_backend.workloads import WORKLOADS

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_PIXELS = 40_000_000
"""Of a picture, before it is unpacked: a small file may hold a huge one."""
TOP = 5
PICTURES = ("image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp")
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet's colours, with which its classifiers were trained."""


@dataclass(frozen=True)
class Share:
    """One class and its share of the probability."""

    label: str
    index: int
    """Of the output."""
    share: float
    """0 to 1."""


@dataclass(frozen=True)
class Shown:
    """What is shown of a run; a field that does not go with the kind stays empty."""

    kind: str
    top: tuple[Share, ...] = ()
    """Likeliest classes first."""
    numbers: tuple[float, ...] = ()
    """First values of the first output, where there is nothing better to show."""
    width: int | None = None
    """Of the source picture, pixels."""
    height: int | None = None
    caveats: tuple[str, ...] = ()
    """What has to be known about the answer, one sentence each."""

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value; what is empty is left out."""
        return {key: value for key, value in asdict(self).items() if value not in (None, [], ())}


class Prepared(tuple[Any, ...]):  # noqa: SLOT001  a tuple of no fixed length has none
    """Arrays, as the model takes them; beside them what is known of the source."""

    seen: Shown

    def __new__(cls, inputs: Sequence[Any], seen: Shown) -> Self:
        """Put both together."""
        made = super().__new__(cls, inputs)
        made.seen = seen
        return made


class Media(ABC):
    """What a model works on."""

    kind: ClassVar[str]
    """``digit``, ``image`` or ``numbers``."""
    accepts: ClassVar[tuple[str, ...]]
    """Media types of files, for a file chooser; what counts is the content."""

    @abstractmethod
    def prepare(self, data: bytes, name: str | None = None) -> Prepared:
        """Return what the model takes, of the bytes of a file.

        Raises:
            UsageError: they are none of that, or too large.
        """

    @abstractmethod
    def present(self, outputs: Sequence[Any], prepared: Prepared) -> Shown:
        """Return what is shown of its outputs.

        Raises:
            RunError: they are not finite.
        """


def of_sample(media: Media, sample: Sequence[Any]) -> Prepared:
    """Return an artifact's own sample as what was prepared."""
    return Prepared(sample, Shown(media.kind))


def media_of(artifact: Artifact) -> Media | None:
    """Return what a model works on; None where it only runs on its own sample."""
    row = WORKLOADS.get(artifact.workload)
    if row is None or not artifact.inputs:
        return None
    shape = tuple(n if isinstance(n, int) else 1 for n in artifact.inputs[0].shape)
    if artifact.workload == "digits_cnn":
        return Digit()
    if row.family == "tabular":
        return Numbers(shape=shape)
    return Picture(size=shape[-1]) if row.family == "vision" and len(shape) == 4 else None


@dataclass(frozen=True)
class Numbers(Media):
    """A few numbers, as text with commas."""

    kind: ClassVar[str] = "numbers"
    accepts: ClassVar[tuple[str, ...]] = ("text/plain",)
    shape: tuple[int, ...]
    low: float = -5.0
    """Where sliders begin."""
    high: float = 5.0

    @property
    def names(self) -> tuple[str, ...]:
        """What each number is."""
        return tuple(f"feature {index + 1}" for index in range(math.prod(self.shape)))

    def prepare(self, data: bytes, name: str | None = None) -> Prepared:  # noqa: ARG002, D102
        import numpy as np

        try:
            values = [float(text) for text in data[:10_000].decode().split(",")]
        except ValueError:
            raise UsageError("numbers such as 1,2,3,4 are wanted.") from None
        if len(values) != math.prod(self.shape) or not all(map(math.isfinite, values)):
            raise UsageError(f"{math.prod(self.shape)} finite numbers are wanted, such as 1,2,3,4.")
        return Prepared([np.array(values, np.float32).reshape(self.shape)], Shown(self.kind))

    def present(self, outputs: Sequence[Any], prepared: Prepared) -> Shown:  # noqa: D102
        return replace(prepared.seen, numbers=numbers_of(outputs))


@dataclass(frozen=True)
class Digit(Media):
    """A digit that was drawn: ink of any colour on paper of another one, brought to 8×8 as scikit-learn's are."""

    kind: ClassVar[str] = "digit"
    accepts: ClassVar[tuple[str, ...]] = PICTURES

    def prepare(self, data: bytes, name: str | None = None) -> Prepared:  # noqa: ARG002, D102
        import numpy as np

        picture = unpacked(opened(data), "L")
        ink = np.asarray(picture, np.float32) / 255
        if ink.mean() > 0.5:  # dark ink on light paper
            ink = 1 - ink
        rows, columns = np.flatnonzero(ink.max(1) > 0.2), np.flatnonzero(ink.max(0) > 0.2)
        if rows.size == 0:
            raise UsageError("nothing is drawn.")
        ink = ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        side = max(ink.shape)
        framed = np.zeros((side, side), np.float32)
        top, left = (side - ink.shape[0]) // 2, (side - ink.shape[1]) // 2
        framed[top : top + ink.shape[0], left : left + ink.shape[1]] = ink
        from PIL import Image

        small = Image.fromarray((framed * 255).astype(np.uint8)).resize((8, 8), Image.Resampling.BOX)
        scaled = np.asarray(small, np.float32) / 255
        seen = Shown(self.kind, width=picture.width, height=picture.height)
        return Prepared([np.round(scaled / max(float(scaled.max()), 1e-6) * 16)[None, None] / 16], seen)

    def present(self, outputs: Sequence[Any], prepared: Prepared) -> Shown:  # noqa: D102
        return replace(prepared.seen, top=shares_of(outputs, tuple("0123456789")))


@dataclass(frozen=True)
class Picture(Media):
    """A photograph, for ImageNet's classifiers: shorter side to 8/7 of the size, middle cut out, normalised."""

    kind: ClassVar[str] = "image"
    accepts: ClassVar[tuple[str, ...]] = PICTURES
    size: int

    def prepare(self, data: bytes, name: str | None = None) -> Prepared:  # noqa: ARG002, D102
        import numpy as np
        from PIL import Image

        picture = opened(data)
        seen = Shown(self.kind, width=picture.width, height=picture.height)
        side = self.size * 8 // 7
        picture.draft("RGB", (side, side))  # a JPEG is decoded no larger than it need be
        picture = unpacked(picture, "RGB")
        scale = side / min(picture.size)
        width, height = (max(side, int(n * scale)) for n in picture.size)
        picture = picture.resize((width, height), Image.Resampling.BILINEAR)
        left, top = round((width - self.size) / 2), round((height - self.size) / 2)
        picture = picture.crop((left, top, left + self.size, top + self.size))
        pixels = np.asarray(picture, np.float32) / 255
        pixels = (pixels - np.array(_MEAN, np.float32)) / np.array(_DEVIATION, np.float32)
        return Prepared([np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])], seen)

    def present(self, outputs: Sequence[Any], prepared: Prepared) -> Shown:  # noqa: D102
        return replace(prepared.seen, top=shares_of(outputs, ()))


def opened(data: bytes) -> Image:
    """Read a picture's head; its pixels are unpacked when they are used.

    Raises:
        UsageError: it is none that is known, or has too many pixels.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        picture = Image.open(io.BytesIO(data), formats=_FORMATS)
    except UnidentifiedImageError:
        raise UsageError(f"this is no picture; {', '.join(_FORMATS)} are known.") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise UsageError(f"this picture cannot be read ({one_line(error)}).") from None
    if picture.width * picture.height > MAX_PIXELS:
        raise UsageError(
            f"the picture has {picture.width}×{picture.height} pixels, more than {MAX_PIXELS / 1e6:.0f} million."
        )
    return picture


def unpacked(picture: Image, mode: str) -> Image:
    """Return a picture's pixels as ``L`` or ``RGB``.

    Raises:
        UsageError: the file is damaged.
    """
    try:
        return picture.convert(mode)
    except (OSError, ValueError, SyntaxError) as error:
        raise UsageError(f"this picture is damaged ({one_line(error)}).") from None


def shares_of(outputs: Sequence[Any], labels: Sequence[str]) -> tuple[Share, ...]:
    """Return the likeliest classes of a row of logits.

    Raises:
        RunError: one is not finite.
    """
    import numpy as np

    logits = np.asarray(outputs[0], np.float64).reshape(-1)
    if not np.isfinite(logits).all():
        raise RunError("the outputs are not finite numbers, so there is nothing to show.")
    shares = np.exp(logits - logits.max())
    shares /= shares.sum()
    best = map(int, np.argsort(-shares, kind="stable")[:TOP])
    return tuple(Share(labels[i] if i < len(labels) else f"#{i}", i, float(shares[i])) for i in best)


def numbers_of(outputs: Sequence[Any]) -> tuple[float, ...]:
    """Return the first values of the first output; what is no number in JSON is left out."""
    import numpy as np

    values = np.asarray(outputs[0]).reshape(-1)[:8].real.astype(np.float64) if outputs else np.zeros(0)
    return tuple(float(v) for v in values if math.isfinite(v))
