"""Text for transformers' models: token ids by a tokenizer's own file, and what the model returns for each token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from cross_backend.errors import UnavailableError, UsageError, failing_as
from cross_backend.workloads.media.base import Media, Prepared, called
from cross_backend.workloads.media.shown import Shown, Token, finite, top_shares

if TYPE_CHECKING:
    import numpy as np
    from tokenizers import Tokenizer

MAX_TEXTBYTES = 1 << 20
MAX_TOKENS = 65_536
MAX_IDS = 1 << 24
"""Largest vocabulary."""
TOKENIZER = "tokenizer.json"
"""Name of the file that transformers keeps a tokenizer in."""


@dataclass(frozen=True, kw_only=True)
class TextMedia(Media):
    """So many tokens: a longer text is cut off, a shorter one is filled up.

    Without a tokenizer a text is a list of ids, or, for a vocabulary that begins with all bytes, those of its bytes.
    """

    kind: ClassVar[str] = "text"
    what: ClassVar[str] = "a text"
    accepts: ClassVar[tuple[str, ...]] = ("text/plain",)
    tokens: int = 128
    """Tokens that the model takes."""
    ids: int
    """Size of the vocabulary."""
    padding: int
    """Token that a short text is filled up with."""
    pads_before: bool = False
    """Whether the filling stands in front: so the last token is the text's own."""
    predicts: bool = False
    """Whether the first output is the logits of the next token, and not a state for each token."""
    has_bytes: bool = False
    """Whether the vocabulary's first 256 tokens are the bytes in GPT-2's order."""
    tokenizer: str | None = field(default=None, repr=False)
    """Content of a ``tokenizer.json``; no manifest holds it."""

    def __post_init__(self) -> None:
        if not 1 <= self.tokens <= MAX_TOKENS or not 0 <= self.padding < self.ids <= MAX_IDS:
            raise ValueError("tokens or their filling cannot be")

    def with_tokenizer(self, text: str) -> TextMedia:
        """Return the same media with a tokenizer.

        Raises:
            UsageError: it is not one, or is of a larger vocabulary than the model.
            UnavailableError: the package that reads it is not installed.
        """
        size = open_tokenizer(text).get_vocab_size()
        if size > self.ids:
            raise UsageError(f"the tokenizer has {size} tokens, and the model knows {self.ids}: it is another model's.")
        return replace(self, tokenizer=text)

    def to_json(self) -> dict[str, Any]:
        """Return what a manifest keeps: all but the tokenizer."""
        return {key: value for key, value in super().to_json().items() if key != "tokenizer"}

    def prepare(self, data: bytes, name: str | None = None) -> Prepared:
        """Return ``(1, tokens)`` ids in int64."""
        import numpy as np

        ids, full = self._encoded(self.read(data, name), name)
        caveats = self.caveats()
        if full > len(ids):
            caveats += (f"Only {len(ids)} of {full} tokens are read.",)
        filling = [self.padding] * (self.tokens - len(ids))
        if filling:
            caveats += (f"The model has no mask: it reads {len(filling)} tokens of filling, too.",)
        row = [*filling, *ids] if self.pads_before else [*ids, *filling]
        seen = Shown(self.kind, tokens=tuple(Token(self._piece(one), one) for one in ids), caveats=caveats)
        return Prepared([np.array([row], np.int64)], seen)

    def present(self, outputs: Sequence[np.ndarray[Any, Any]], prepared: Prepared) -> Shown:
        """Return the likeliest next tokens, or the length of each token's state."""
        import numpy as np

        if self.predicts:
            top = tuple(replace(row, label=self._piece(row.index)) for row in top_shares(outputs[0][:1], ()))
            return replace(prepared.seen, top=top)
        lengths = np.linalg.norm(finite(outputs[0])[0], axis=-1)
        tokens = prepared.seen.tokens
        own = lengths[len(lengths) - len(tokens) :] if self.pads_before else lengths
        return replace(
            prepared.seen, tokens=tuple(replace(one, length=float(n)) for one, n in zip(tokens, own, strict=False))
        )

    def read(self, data: bytes, name: str | None = None) -> str:
        """Return the text of a file.

        Raises:
            UsageError: too long, empty, or no text in UTF-8.
        """
        if len(data) > MAX_TEXTBYTES:
            raise UsageError(f"{called(name)} is longer than {MAX_TEXTBYTES >> 20} MiB.")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise UsageError(f"{called(name)} is no text in UTF-8.") from None
        if "\0" in text or not text.strip():
            raise UsageError(f"{called(name)} holds no text.")
        return text.rstrip("\r\n")

    def ids_of(self, text: str, name: str | None) -> list[int]:
        """Return the ids of a text without a tokenizer.

        Raises:
            UsageError: it needs one.
        """
        ids = _listed(text)
        if ids is not None:
            return ids
        if not self.has_bytes:
            raise UsageError(
                f"{called(name)} needs the model's own tokenizer: give the {TOKENIZER} of its weights, "
                "or token ids such as 101 7592 102."
            )
        return [BYTES.index(byte) for byte in text.encode()]

    def _encoded(self, text: str, name: str | None) -> tuple[list[int], int]:
        """Return the ids that fit, and how many there were."""
        if self.tokenizer is not None:
            with failing_as(UsageError, f"{TOKENIZER} cannot read {called(name)}"):
                full = len(open_tokenizer(self.tokenizer).encode(text).ids)
                return list(open_tokenizer(self.tokenizer, self.tokens, self._end).encode(text).ids), full
        ids = self.ids_of(text, name)
        if max(ids) >= self.ids:
            raise UsageError(f"{called(name)} holds token {max(ids)}; the vocabulary has {self.ids}.")
        kept = ids[-self.tokens :] if self.predicts else ids[: self.tokens]
        return kept, len(ids)

    @property
    def _end(self) -> str:
        """Where a text that is too long is cut off: what comes next depends on its end."""
        return "left" if self.predicts else "right"

    def _piece(self, index: int) -> str:
        if self.tokenizer is not None:
            with failing_as(UsageError, f"{TOKENIZER} cannot write token {index}"):
                tokenizer = open_tokenizer(self.tokenizer)
                return tokenizer.decode([index]) or tokenizer.id_to_token(index) or f"#{index}"
        if self.has_bytes and index < len(BYTES):
            return bytes([BYTES[index]]).decode("ascii", "backslashreplace")
        return f"#{index}"


def _byte_order() -> tuple[int, ...]:
    """Return GPT-2's order of the 256 bytes: first those that Latin-1 prints, then the others."""
    printed = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return (*printed, *(byte for byte in range(256) if byte not in printed))


BYTES = _byte_order()
"""GPT-2's token → its byte, of the first 256."""


def _listed(text: str) -> list[int] | None:
    """Return the ids that a text lists, or None where it says something else."""
    words = text.replace(",", " ").split()
    if not all(word.isascii() and word.isdecimal() and len(word) < 10 for word in words):
        return None
    return [int(word) for word in words]


@lru_cache(maxsize=8)
def open_tokenizer(text: str, most: int | None = None, end: str = "right") -> Tokenizer:
    """Open the content of a ``tokenizer.json``; it fills nothing up, and cuts off only what is beyond ``most``.

    Raises:
        UsageError: it is none.
        UnavailableError: the package that reads it is not installed.
    """
    try:
        import tokenizers
    except ImportError as error:
        remedy = "pip install 'cross-backend[media]'"
        raise UnavailableError("texts need the package tokenizers", remedy) from error
    with failing_as(UsageError, f"{TOKENIZER} cannot be read"):
        tokenizer = tokenizers.Tokenizer.from_str(text)
    tokenizer.no_padding()
    tokenizer.no_truncation() if most is None else tokenizer.enable_truncation(most, direction=end)
    return tokenizer
