"""Encoder-decoders: two programs compute what transformers' one model does, and sizes and weights are checked."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from cross_backend.errors import CaptureError, CrossBackendError, UsageError
from cross_backend.workloads import decoder_of, encoder_of, find_workload
from cross_backend.workloads import encoder_decoder as pairs
from cross_backend.workloads._cross_net import causal_buckets
from cross_backend.workloads.encoder_decoder import CrossShape

T5 = "layers=2&hidden=32&heads=4&width=8&inner=48&vocabulary=90&context=24&source=12"
WHISPER = "layers=2&hidden=32&heads=4&inner=48&vocabulary=90&context=24&frames=40"
SHAPES = {
    "t5": CrossShape("t5", 2, 32, 4, 48, 90, 150, 12, width=8),
    "whisper": CrossShape("whisper", 2, 32, 4, 48, 90, 150, 40, width=8),
}
PROMPT, ALL = 130, 138
"""Tokens that go in at once, and all; the last distances are in T5's last bucket."""


def spread(kind: str) -> Any:
    """Build transformers' model with weights large enough for every part to matter."""
    torch.manual_seed(0)
    model = pairs.whole_model(kind, SHAPES[kind], None)
    if kind == "t5":
        torch.nn.init.normal_(model.shared.weight)
        return model
    for one in model.parameters():
        torch.nn.init.normal_(one, std=0.3 if one.ndim > 1 else 0.1)
    return model


@pytest.mark.parametrize("kind", SHAPES)
def test_both_programs_compute_what_transformers_does(kind: str) -> None:
    shape, model = SHAPES[kind], spread(kind)
    encoder, decoder = pairs.build_encoder(shape, model), pairs.build_decoder(shape, model)
    source, ids = pairs.source_of(shape), torch.randint(90, (1, ALL))
    with torch.no_grad():
        memory = encoder(source)
        found = [decoder(ids[:, :PROMPT], torch.tensor([0]), *memory)]
        found += [decoder(ids[:, at : at + 1], torch.tensor([at]), *memory) for at in range(PROMPT, ALL)]
        given = {"input_ids" if kind == "t5" else "input_features": source}
        wanted = model(**given, decoder_input_ids=ids).logits[0, PROMPT - 1 :]
    assert [tuple(one.shape) for one in memory] == [(2, 4, shape.places, 8)] * 2
    torch.testing.assert_close(torch.cat(found), wanted, rtol=1e-4, atol=1e-4)
    assert float(wanted.std()) > 0.1


@pytest.mark.parametrize("kind", SHAPES)
def test_keys_and_values_of_every_layer_matter(kind: str) -> None:
    shape, model = SHAPES[kind], spread(kind)
    decoder = pairs.build_decoder(shape, model)
    ids, start = torch.randint(90, (1, PROMPT)), torch.tensor([0])
    with torch.no_grad():
        memory = list(pairs.build_encoder(shape, model)(pairs.source_of(shape)))
        whole = copy.deepcopy(decoder)(ids, start, *memory)
        for part in range(2):
            for layer in range(shape.layers):
                other = [one.clone() for one in memory]
                other[part][layer] = other[part][layer].flip(1)
                found = copy.deepcopy(decoder)(ids, start, *other)
                assert float((found - whole).abs().max()) > 1e-4 * float(whole.abs().max())


def test_buckets_are_those_of_transformers() -> None:
    model = spread("t5")
    attention = model.decoder.block[0].layer[0].SelfAttention
    places = torch.arange(300)
    wanted = attention._relative_position_bucket(places[None] - places[:, None], bidirectional=False)
    assert torch.equal(causal_buckets(300), wanted)


@pytest.mark.parametrize(
    ("decoder", "sizes"), [("t5_decoder", T5), ("whisper_tiny_decoder", WHISPER), ("t5_decoder", f"{T5}&prompts=0")]
)
def test_the_sample_of_a_decoder_is_what_the_encoder_leaves_for_its_own(decoder: str, sizes: str) -> None:
    text = encoder_of(f"{decoder}?{sizes}")
    assert text is not None
    encoder, built = find_workload(text).build(), find_workload(f"{decoder}?{sizes}").build()
    assert isinstance(encoder.model, torch.nn.Module)
    with torch.no_grad():
        memory = encoder.model(*encoder.inputs)
    tokens, start, *given = built.inputs
    assert all(torch.equal(one, other) for one, other in zip(memory, given, strict=True))
    assert tokens.shape == (1, 1 if "prompts=0" in sizes else pairs.PROMPT) and start.tolist() == [0]
    assert (built.dynamic_shapes is None) == ("prompts=0" in sizes)
    assert [int(step[1]) for step in built.steps] == list(range(tokens.shape[1], pairs.PROMPT + pairs.STEPS))


@pytest.mark.parametrize(
    "text",
    [
        "t5_decoder?layers=3&hidden=64&heads=4&width=16&inner=256&vocabulary=300&source=30",
        "whisper_tiny_decoder?layers=4&hidden=96&heads=6&inner=384&vocabulary=300&frames=200",
    ],
)
def test_random_weights_do_not_repeat_one_token(text: str) -> None:
    built = find_workload(text).build()
    assert isinstance(built.model, torch.nn.Module)
    tokens, start, *memory = built.inputs
    chosen = []
    with torch.no_grad():
        for _ in range(16):
            found = int(built.model(tokens, start, *memory).argmax())
            start, tokens = start + tokens.shape[1], torch.tensor([[found]])
            chosen.append(found)
    assert len(set(chosen)) > 1


def test_names_lead_from_one_program_to_the_other() -> None:
    for name in ("t5", "t5_encoder", "t5_encoder_kv", "t5_decoder"):
        assert decoder_of(name) == "t5_decoder"
    assert decoder_of(f"whisper_base?{WHISPER}") == f"whisper_base_decoder?{WHISPER}"
    assert decoder_of("rnnt") == "rnnt", "it generates no text"
    assert encoder_of("whisper_small_decoder") == "whisper_small_encoder_kv"
    assert encoder_of("t5_decoder?context=64&source=9") == "t5_encoder_kv?source=9"
    assert encoder_of("gpt2_decoder") is None and encoder_of("mine.py:net") is None
    assert find_workload(f"t5_decoder?{T5}").context == 24


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("t5_decoder?layers=0", "at least 1"),
        ("t5_decoder?context=4", "context must be at least 7"),
        ("t5_encoder_kv?source=1", "at least 2 long"),
        ("t5_decoder?prompts=2", "prompts is 1"),
        ("whisper_tiny_decoder?hidden=33", "even and a multiple of heads"),
        ("whisper_tiny_encoder_kv?frames=41", "frames must be even"),
        ("whisper_tiny_decoder?context=449", "at most 448"),
        ("t5_encoder_kv?context=64", "unknown size of t5_encoder_kv"),
        ("whisper_tiny_decoder?source=40", "unknown size of whisper_tiny_decoder"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(text: str, said: str) -> None:
    with pytest.raises((UsageError, CaptureError, CrossBackendError), match=said):
        find_workload(text).build()


@pytest.mark.parametrize(("kind", "sizes"), [("t5", T5), ("whisper_tiny", WHISPER)])
def test_both_programs_take_the_same_published_weights(kind: str, sizes: str, tmp_path: Path) -> None:
    model = spread(kind.partition("_")[0])
    model.save_pretrained(tmp_path)
    name = f"{kind}_decoder?{sizes}"
    encoder = find_workload(encoder_of(name) or "", str(tmp_path)).build()
    decoder = find_workload(name, str(tmp_path)).build()
    assert isinstance(encoder.model, torch.nn.Module) and isinstance(decoder.model, torch.nn.Module)
    tokens, start, *_ = decoder.inputs
    with torch.no_grad():
        found = decoder.model(tokens, start, *encoder.model(*encoder.inputs))
        given = {"input_ids" if kind == "t5" else "input_features": encoder.inputs[0]}
        wanted = model(**given, decoder_input_ids=tokens).logits[:, -1]
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_weights_of_another_t5_are_refused(tmp_path: Path) -> None:
    model = spread("t5")
    config = copy.deepcopy(model.config)
    config.feed_forward_proj, config.is_gated_act, config.dense_act_fn = "gated-gelu", True, "gelu_new"
    type(model)(config).save_pretrained(tmp_path)
    with pytest.raises(CaptureError, match=r"T5 1\.1"):
        find_workload(f"t5_decoder?{T5}", str(tmp_path)).build()
