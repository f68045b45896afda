"""Media: what a model works on besides tensors, one kind a file: a file goes in, something to look at comes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cross_backend.errors import ArtifactError, one_line
from cross_backend.serialization import from_json
from cross_backend.workloads.media.audio import AudioMedia
from cross_backend.workloads.media.base import Media, Prepared, fitted
from cross_backend.workloads.media.boxes import BoxesMedia
from cross_backend.workloads.media.digit import DigitMedia
from cross_backend.workloads.media.image import ImageMedia
from cross_backend.workloads.media.numbers import NumbersMedia
from cross_backend.workloads.media.prompt import PromptMedia
from cross_backend.workloads.media.shown import Box, Share, Shown, Token
from cross_backend.workloads.media.text import TextMedia

__all__ = [
    "KINDS",
    "AudioMedia",
    "Box",
    "BoxesMedia",
    "DigitMedia",
    "ImageMedia",
    "Media",
    "NumbersMedia",
    "Prepared",
    "PromptMedia",
    "Share",
    "Shown",
    "TextMedia",
    "Token",
    "fitted",
    "read_media",
]

KINDS: dict[str, type[Media]] = {
    kind.kind: kind for kind in (AudioMedia, BoxesMedia, DigitMedia, ImageMedia, NumbersMedia, PromptMedia, TextMedia)
}
"""Kind → its class."""


def read_media(row: Mapping[str, Any] | None) -> Media | None:
    """Read what :meth:`Media.to_json` gave; None stays None.

    Raises:
        ArtifactError: of a kind that is not known here, or damaged.
    """
    if row is None:
        return None
    settings = dict(row)
    kind = KINDS.get(str(settings.pop("kind", None)))
    if kind is None:
        raise ArtifactError(f"its media are of the unknown kind {row.get('kind')!r}; known are {', '.join(KINDS)}.")
    try:
        return from_json(kind, settings)
    except Exception as error:
        raise ArtifactError(f"its description of {kind.kind} media is damaged ({one_line(error, 200)}).") from error
