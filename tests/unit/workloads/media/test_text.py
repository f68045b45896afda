"""Text: token ids are those of transformers' own tokenizers, and without one nothing is made up."""

from __future__ import annotations

import contextlib
import json

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from cross_backend.errors import RunError, UsageError, failing_as
from cross_backend.workloads._transformers import import_transformers
from cross_backend.workloads.media import TextMedia, read_media
from cross_backend.workloads.nlp import _TEXT

BERT = TextMedia(tokens=12, ids=30_522, **_TEXT["BertModel"])
GPT2 = TextMedia(tokens=12, ids=50_257, **_TEXT["GPT2LMHeadModel"])
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "sat", "##s", ".", "mat", "on"]
TEXTS = ["The cat sat.", "cats, cats & dogs", "the cat sat on the mat . the cat sat on the mat .", "é\n\tthe"]


@pytest.fixture(scope="module")
def bert_tokenizer():
    """Give transformers' tokenizer for a small vocabulary."""
    package = import_transformers("bert_base", "nlp")
    vocabulary = {word: index for index, word in enumerate(WORDS)}
    return package.BertTokenizerFast(vocab=vocabulary)


@pytest.fixture(scope="module")
def gpt2_tokenizer():
    """Give transformers' tokenizer of GPT-2's kind, whose vocabulary has the bytes and three pairs."""
    letters = {letter: index for index, letter in enumerate(_alphabet())}
    merges = [("t", "h"), ("th", "e"), ("c", "a")]
    vocabulary = letters | {a + b: len(letters) + index for index, (a, b) in enumerate(merges)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    package = import_transformers("gpt2", "nlp")
    return package.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="!")


def _alphabet() -> list[str]:
    """Give the letters that stand for bytes, in the order of GPT-2's vocabulary."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    return list(bytes_to_unicode().values())


@pytest.mark.parametrize("text", TEXTS)
def test_ids_are_those_of_transformers(text, bert_tokenizer):
    media = BERT.with_tokenizer(bert_tokenizer.backend_tokenizer.to_str())
    wanted = bert_tokenizer(text, truncation=True, max_length=12, padding="max_length")["input_ids"]
    prepared = media.prepare(text.encode())
    assert prepared[0].tolist() == [wanted] and prepared[0].dtype == np.int64
    assert [one.index for one in prepared.seen.tokens] == [one for one in wanted if one]  # 0 is the filling


def test_what_is_cut_off_and_what_is_filled_up_is_told(bert_tokenizer):
    media = BERT.with_tokenizer(bert_tokenizer.backend_tokenizer.to_str())
    assert media.prepare(TEXTS[2].encode()).seen.caveats == ("Only 12 of 16 tokens are read.",)
    assert media.prepare(b"cat").seen.caveats == ("The model has no mask: it reads 9 tokens of filling, too.",)
    assert [one.text for one in media.prepare(b"cats").seen.tokens] == ["[CLS]", "cat", "##s", "[SEP]"]


@pytest.mark.parametrize("pattern", ["(a+)+$", "(?:a|a)*b\\1", "(?<=(a|aa)+)b", "(", "(?#", "a{9999999}"])
def test_a_tokenizer_that_panics_is_an_error_of_ours(pattern, bert_tokenizer):
    """A panic of a library in Rust is no ``Exception``; it ended a request with a traceback."""
    row = json.loads(bert_tokenizer.backend_tokenizer.to_str())
    row["normalizer"] = {"type": "Replace", "pattern": {"Regex": pattern}, "content": "x"}
    with contextlib.suppress(UsageError):
        BERT.with_tokenizer(json.dumps(row)).prepare(b"a" * 4000 + b"!")


def test_a_panic_becomes_an_error_and_an_interrupt_does_not():
    class PanicException(BaseException):  # as pyo3's
        pass

    with pytest.raises(UsageError, match=r"it failed: PanicException: index out of bounds"), \
         failing_as(UsageError, "it failed"):  # fmt: skip
        raise PanicException("index out of bounds")
    with pytest.raises(KeyboardInterrupt), failing_as(UsageError, "it failed"):
        raise KeyboardInterrupt


@pytest.mark.parametrize("text", [*TEXTS, "x" * 40])
def test_a_language_models_text_stands_at_the_end_and_loses_its_beginning(text, gpt2_tokenizer):
    media = GPT2.with_tokenizer(gpt2_tokenizer.backend_tokenizer.to_str())
    whole = gpt2_tokenizer(text)["input_ids"]
    (got,) = media.prepare(text.encode())
    assert got[0].tolist() == ([50_256] * 12 + whole)[-12:]


@pytest.mark.parametrize("text", ["Hello, world", "größer\n\x7f €"])
def test_bytes_are_tokens_of_gpt2_without_a_tokenizer(text):
    letters = _alphabet()
    wanted = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    wanted.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    ids = wanted.encode(text).ids
    prepared = GPT2.prepare(text.encode())
    assert prepared[0][0].tolist() == ([50_256] * 12 + ids)[-12:]
    assert [one.text for one in prepared.seen.tokens][-1] == {"Hello, world": "d", "größer\n\x7f €": "\\xac"}[text]


@pytest.mark.parametrize("text", ["101 7592 102", "101,7592,102\n"])
@pytest.mark.parametrize("media", [BERT, GPT2])
def test_ids_are_taken_as_they_are(text, media):
    row = media.prepare(text.encode())[0][0].tolist()
    assert [one for one in row if one not in {0, 50_256}] == [101, 7592, 102]
    assert media.prepare(text.encode()).seen.tokens[1].text == "#7592"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"hello", "tokenizer.json of its weights"), (b"", "holds no text"), (b" \n", "holds no text"),
        (b"\xff\xfe", "no text in UTF-8"), (b"a\0b", "holds no text"), (b"30522", "the vocabulary has 30522"),
        (b"x" * (1 << 20) + b"y", "longer than 1 MiB"),
    ],
)  # fmt: skip
def test_what_is_refused(data, words):
    with pytest.raises(UsageError, match=r"in\.txt") as caught:
        BERT.prepare(data, "in.txt")
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["", "{}", "[1", '{"model": {"type": "Evil"}}'])
def test_a_file_that_is_no_tokenizer_is_told(text):
    with pytest.raises(UsageError, match=r"tokenizer\.json cannot be read"):
        BERT.with_tokenizer(text)


def test_a_tokenizer_of_another_model_is_told(gpt2_tokenizer):
    small = TextMedia(tokens=12, ids=100, padding=0)
    with pytest.raises(UsageError, match="259 tokens, and the model knows 100"):
        small.with_tokenizer(gpt2_tokenizer.backend_tokenizer.to_str())


def test_the_next_token_has_its_share_and_its_text(gpt2_tokenizer):
    media = GPT2.with_tokenizer(gpt2_tokenizer.backend_tokenizer.to_str())
    logits = np.zeros((1, 50_257), np.float32)
    logits[0, 257] = 20
    logits[0, 50_000] = 18
    shown = media.present([logits, np.zeros((1, 12, 12, 64))], media.prepare(b"the cat"))
    assert [(row.label, row.index) for row in shown.top[:2]] == [("the", 257), ("#50000", 50_000)]
    assert shown.top[0].share == pytest.approx(0.88, abs=0.01)
    assert "".join(one.text for one in shown.tokens) == "the cat"


def test_states_have_their_lengths(bert_tokenizer):
    media = BERT.with_tokenizer(bert_tokenizer.backend_tokenizer.to_str())
    states = np.zeros((1, 12, 4), np.float32)
    states[0, :, 0] = np.arange(12)
    shown = media.present([states, np.zeros((1, 4))], media.prepare(b"the cat"))
    assert [(one.text, one.length) for one in shown.tokens] == [("[CLS]", 0), ("the", 1), ("cat", 2), ("[SEP]", 3)]
    with pytest.raises(RunError):
        media.present([states * np.nan], media.prepare(b"the cat"))


def test_no_manifest_holds_a_tokenizer(bert_tokenizer):
    text = bert_tokenizer.backend_tokenizer.to_str()
    row = BERT.with_tokenizer(text).to_json()
    assert "tokenizer" not in row and read_media(json.loads(json.dumps(row))) == BERT
