"""Prompts: texts of any length that a decoder with caches continues, token after token."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import ClassVar

from cross_backend.errors import UsageError, failing_as
from cross_backend.workloads.media.base import Prepared, called
from cross_backend.workloads.media.shown import Shown, Token
from cross_backend.workloads.media.text import BYTES, TOKENIZER, TextMedia, open_tokenizer


@dataclass(frozen=True, kw_only=True)
class PromptMedia(TextMedia):
    """A text that goes in whole and is continued; ``tokens`` is how many the model's caches hold.

    Without a tokenizer a text is a list of ids, or, for a vocabulary that begins with all bytes, those of its bytes.
    """

    kind: ClassVar[str] = "prompt"
    padding: int = 0
    predicts: bool = True
    end: int | None = None
    """Token that ends a text; None where there is none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.end is not None and not 0 <= self.end < self.ids:
            raise ValueError("the token that ends a text is not in the vocabulary")

    def prepare(self, data: bytes, name: str | None = None) -> Prepared:
        """Return ``(1, tokens)`` ids in int64, and the position of the first one."""
        import numpy as np

        ids = self.encode(self.read(data, name), name)
        tokens = tuple(Token(self._piece(one), one) for one in ids)
        seen = Shown(TextMedia.kind, tokens=tokens, caveats=self.caveats())
        return Prepared([np.array([ids], np.int64), np.zeros(1, np.int64)], seen)

    def encode(self, text: str, name: str | None = None) -> list[int]:
        """Return the ids of a prompt.

        Args:
            text: the prompt.
            name: of the file, for messages.

        Raises:
            UsageError: it is longer than the caches, or needs a tokenizer that is not there.
        """
        ids = self._all_ids(text, name or "the prompt")
        if not ids:
            raise UsageError(f"{name or 'the prompt'} has no tokens.")
        if max(ids) >= self.ids:
            raise UsageError(f"{name or 'the prompt'} holds token {max(ids)}; the vocabulary has {self.ids}.")
        if len(ids) >= self.tokens:
            raise UsageError(
                f"{name or 'the prompt'} has {len(ids)} tokens, and the model's caches hold {self.tokens}: no room is "
                "left for an answer. Shorten it."
            )
        return ids

    def pieces(self) -> Pieces:
        """Return what turns tokens into text, one after the other."""
        return Pieces(self)

    def _all_ids(self, text: str, name: str) -> list[int]:
        if self.tokenizer is not None:
            with failing_as(UsageError, f"{TOKENIZER} cannot read {called(name)}"):
                return list(open_tokenizer(self.tokenizer).encode(text).ids)
        return self.ids_of(text, name)


class Pieces:
    """Text of tokens that come one by one: a letter of several tokens appears with its last one."""

    def __init__(self, media: PromptMedia) -> None:
        """Begin.

        Args:
            media: with its tokenizer, where there is one.
        """
        self._media = media
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._ids: list[int] = []
        self._from, self._to = 0, 0

    def take(self, index: int) -> str:
        """Return the text that a token adds; empty while its letter is not whole.

        Raises:
            UsageError: the tokenizer cannot write it.
        """
        media = self._media
        if media.tokenizer is None:
            if media.has_bytes:
                return self._utf8.decode(bytes([BYTES[index]])) if index < len(BYTES) else f"#{index}"
            return f" {index}"
        self._ids.append(index)
        tokenizer = open_tokenizer(media.tokenizer)
        with failing_as(UsageError, f"{TOKENIZER} cannot write token {index}"):
            # Tokens are written together with those before them, on which spaces between words depend.
            before = tokenizer.decode(self._ids[self._from : self._to])
            now = tokenizer.decode(self._ids[self._from :])
        if len(now) <= len(before) or now.endswith("\ufffd"):
            return ""
        self._from, self._to = self._to, len(self._ids)
        return now[len(before) :]
