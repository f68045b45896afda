"""Prompts: ids and pieces of text with a tokenizer, by bytes and by ids, and prompts that do not fit."""

from __future__ import annotations

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from cross_backend.errors import ArtifactError, UsageError
from cross_backend.workloads.media import PromptMedia, read_media

BYTES = PromptMedia(tokens=24, ids=50_257, has_bytes=True, end=50_256)
IDS = PromptMedia(tokens=24, ids=300)


@pytest.fixture(scope="module")
def worded() -> PromptMedia:
    """Give media with a tokenizer of bytes and a few pairs."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("t", "h"), ("th", "e"), ("Ġ", "s")]
    vocabulary = {piece: index for index, piece in enumerate([*letters, *(a + b for a, b in merges)])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    media = IDS.with_tokenizer(tokenizer.to_str())
    assert isinstance(media, PromptMedia)
    return media


@pytest.mark.parametrize("text", ["the sea", "é the", "日本"])
def test_pieces_of_a_text_are_the_text(worded: PromptMedia, text: str) -> None:
    for media in (worded, BYTES):
        ids, pieces = media.encode(text), media.pieces()
        found = [pieces.take(one) for one in ids]
        assert "".join(found) == text and "\ufffd" not in "".join(found)
    assert len(worded.encode("the sea")) == 4  # "the", " s", "e", "a"


def test_a_letter_of_several_tokens_comes_with_its_last_one(worded: PromptMedia) -> None:
    for media in (worded, BYTES):
        pieces = media.pieces()
        assert [pieces.take(one) for one in media.encode("é")] == ["", "é"]


def test_without_a_tokenizer_prompts_are_ids() -> None:
    assert IDS.encode("5 17, 4") == [5, 17, 4] and IDS.pieces().take(7) == " 7"
    with pytest.raises(UsageError, match=r"needs the model's own tokenizer: give the tokenizer\.json"):
        IDS.encode("the sea")
    with pytest.raises(UsageError, match="holds token 300; the vocabulary has 300"):
        IDS.encode("300")


def test_a_prompt_longer_than_the_caches_is_refused(worded: PromptMedia) -> None:
    for media, text in ((worded, "a" * 24), (BYTES, "a" * 24), (IDS, "1 " * 24)):
        with pytest.raises(UsageError, match="has 24 tokens, and the model's caches hold 24: no room is left"):
            media.encode(text)
        assert len(media.encode(text[: -len(text) // 24])) == 23


def test_a_file_becomes_ids_and_the_first_position() -> None:
    ids, start = BYTES.prepare(b"the sea\n", "a.txt")
    assert ids.shape == (1, 7) and ids.dtype == start.dtype == np.int64 and start.tolist() == [0]


def test_a_manifest_keeps_all_but_the_tokenizer(worded: PromptMedia) -> None:
    assert read_media(worded.to_json()) == IDS and read_media(BYTES.to_json()) == BYTES
    with pytest.raises(ArtifactError, match="prompt media is damaged"):
        read_media({**BYTES.to_json(), "end": 50_257})
