"""Decoders: a prompt at once and token by token agree, GPT-2 computes what transformers does, and sizes are checked."""

from __future__ import annotations

import copy

import pytest
import torch

from cross_backend.errors import CaptureError, CrossBackendError, UsageError
from cross_backend.workloads import decoder, decoder_of, find_workload
from cross_backend.workloads._transformers import import_transformers
from cross_backend.workloads.decoder import Shape

SMALL = "layers=2&hidden=32&heads=4&kv_heads=2&inner=64&vocabulary=97&context=24"


@pytest.mark.parametrize("kind", ["llama", "qwen", "gpt2"])
def test_a_prompt_at_once_and_token_by_token_agree(kind: str) -> None:
    torch.manual_seed(0)
    net = decoder.build(Shape(2, 32, 4, 4 if kind == "gpt2" else 2, 64, 97, 24, kind))
    other, ids = copy.deepcopy(net), torch.randint(97, (1, 9))
    with torch.no_grad():
        whole = net(ids, torch.tensor([0]))
        for place in range(9):
            last = other(ids[:, place : place + 1], torch.tensor([place]))
    torch.testing.assert_close(whole, last, rtol=1e-4, atol=1e-5)
    assert float(whole.std()) > 0.1


def test_gpt2_computes_what_transformers_does() -> None:
    package = import_transformers("gpt2", "nlp")
    torch.manual_seed(0)
    config = package.GPT2Config(
        vocab_size=90,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=24,
        initializer_range=0.3,
        attn_implementation="eager",
    )
    model = package.GPT2LMHeadModel(config).eval()
    net = decoder.build(Shape(2, 32, 4, 4, 128, 90, 24, "gpt2"))
    decoder.take_gpt2(net, model)
    ids = torch.randint(90, (1, 11))
    with torch.no_grad():
        wanted = model(ids).logits[:, -1]
        net(ids[:, :7], torch.tensor([0]))
        found = net(ids[:, 7:], torch.tensor([7]))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_sizes_follow_the_name() -> None:
    source = find_workload(f"llama?{SMALL}")
    built = source.build()
    assert source.context == 24 and built.model.shape.layers == 2  # type: ignore[union-attr]
    assert len(built.steps) == decoder.STEPS and built.dynamic_shapes is not None
    one = find_workload(f"qwen?{SMALL}&prompts=0").build()
    assert one.dynamic_shapes is None and one.inputs[0].shape == (1, 1)
    assert find_workload(f"llama?{SMALL}").identity != find_workload("llama").identity
    assert decoder_of("gpt2?layers=2") == "gpt2_decoder?layers=2" and decoder_of("bert_base") == "bert_base"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("llama?rows=2", "unknown size of llama"),
        ("llama?layers=two", "no whole number"),
        ("llama?layers=0", "at least 1"),
        ("llama?hidden=33", "even multiple of heads"),
        ("llama?context=4", "context must be at least 13"),
        ("bert_base?layers=2", "unknown size of bert_base"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(text: str, said: str) -> None:
    with pytest.raises((UsageError, CaptureError, CrossBackendError), match=said):
        find_workload(text).build()
