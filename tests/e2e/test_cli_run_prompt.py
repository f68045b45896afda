"""``run --prompt``: a bundle's decoder continues a text, as the model itself does, and what cannot be continued."""

from __future__ import annotations

import json

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from cross_backend.workloads import find_workload

pytestmark = pytest.mark.usefixtures("own_memory")
MODEL = "llama?layers=1&hidden=32&heads=2&kv_heads=1&inner=48&vocabulary=300&context=32"
NEW = 9


def byte_tokenizer() -> Tokenizer:
    """Give a tokenizer of all bytes and one pair."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: index for index, piece in enumerate([*letters, "th"])}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[("t", "h")]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return made


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    byte_tokenizer().save(str(path))
    return path


@pytest.fixture(scope="module")
def bundle(cli, tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundles")
    words = ("bundle", MODEL, "--backends", "torch", "onnxruntime", "--tokenizer", tokenizer, "--output-dir", folder)
    result = cli(*words, "--zip", "--strict")
    assert result.returncode == 0, result.stderr
    (path,) = folder.iterdir()
    return path


def reference(ids: list[int], count: int) -> list[int]:
    """Give what the model itself chooses, one token after the other."""
    model, tokens, start = find_workload(MODEL).build().model, list(ids), 0
    found: list[int] = []
    with torch.no_grad():
        for _ in range(count):
            found.append(int(model(torch.tensor([tokens]), torch.tensor([start])).argmax()))
            tokens, start = found[-1:], start + len(tokens)
    return found


def test_a_bundle_continues_a_text(cli, bundle, tokenizer):
    text = "the thing"
    ids = Tokenizer.from_file(str(tokenizer)).encode(text).ids
    result = cli("run", bundle, "--prompt", text, "--new-tokens", str(NEW), "--json")
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["prompt"] == {"text": text, "tokens": ids} and told["tokens"] == reference(ids, NEW)
    assert told["verified"] and told["stopped"] == "length" and told["target"] == "torch.eager"
    assert told["first_token_ms"] > 0 and len(told["decode_ms"]) == NEW - 1 and told["tokens_per_s"] > 0
    shown = cli("run", bundle, "--prompt", text, "--new-tokens", str(NEW))
    assert shown.returncode == 0, shown.stderr
    assert f"{NEW} tokens after {len(ids)}" in shown.stdout and "tokens/s" in shown.stdout
    assert shown.stdout.startswith(text) and "weights are random" in shown.stdout


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--prompt", "a" * 32], "has 32 tokens, and the model's caches hold 32"),
        (["--prompt", "abc", "--new-tokens", "30"], "Ask for at most 29 new tokens"),
        (["--prompt", " "], "--prompt is empty"),
        (["--new-tokens", "3"], "Add --prompt TEXT"),
        (["--prompt", "abc", "--input", "1"], "--prompt does not go with --input"),
        (["--prompt", "abc", "--profile"], "--prompt does not go with --profile"),
    ],
)
def test_what_cannot_be_continued_is_one_line(cli, bundle, words, reason):
    result = cli("run", bundle, *words)
    assert result.returncode == 2 and reason in result.stderr and len(result.stderr.splitlines()) == 1


def test_a_model_that_does_not_generate_is_refused(cli, tmp_path):
    assert cli("export", "linear_regression", "--backends", "torch", "--output-dir", tmp_path).returncode == 0
    result = cli("run", tmp_path, "--prompt", "abc")
    assert result.returncode == 2 and "linear_regression does not generate" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.slow
def test_another_models_tokenizer_is_refused(cli, tmp_path, tokenizer):
    small = MODEL.replace("300", "200")
    result = cli("bundle", small, "--backends", "torch", "--tokenizer", tokenizer, "--output-dir", tmp_path)
    assert result.returncode == 2 and "the tokenizer has 257 tokens, and the model knows 200" in result.stderr
