"""Models: real architectures at reduced size, random weights: no fallback, and what eager gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import atalla
from cross_backend.workloads._torchvision import make_importable
from tests.atalla.nets import Call, Net, settled

IDS = torch.arange(16).unsqueeze(0) * 7 % 100


def torchvision(name: str, size: int = 64) -> Callable[[], Net]:
    def make() -> Net:
        make_importable()
        import torchvision.models

        return settled(getattr(torchvision.models, name)(weights=None)), (torch.randn(1, 3, size, size),)

    return make


def vit() -> Net:
    make_importable()
    from torchvision.models import VisionTransformer

    model = VisionTransformer(32, 8, 2, 2, 32, 64)
    nn.init.normal_(model.heads.head.weight)
    return model, (torch.randn(1, 3, 32, 32),)


def transformers(name: str, call: Callable[..., Any], inputs: tuple[torch.Tensor, ...], **sizes: Any) -> Net:
    make_importable()
    import transformers as library

    config = getattr(library, name.removesuffix("Encoder").removesuffix("LMHead") + "Config")(**sizes)
    return Call(lambda m, *given: call(m.model, *given), model=getattr(library, f"{name}Model")(config)), inputs


def gpt2() -> Net:
    sizes = {"vocab_size": 100, "n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 2}
    ends = {"bos_token_id": 1, "eos_token_id": 2}
    return transformers("GPT2LMHead", lambda m, ids: m(ids, use_cache=False).logits, (IDS,), **sizes, **ends)


def t5() -> Net:
    sizes = {"vocab_size": 100, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    return transformers("T5Encoder", lambda m, ids: m(ids).last_hidden_state, (IDS,), **sizes)


def bert() -> Net:
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    mask = torch.tensor([[1] * 12 + [0] * 4])
    return transformers(
        "Bert", lambda m, ids, mask: m(ids, attention_mask=mask).last_hidden_state, (IDS, mask), vocab_size=100, **sizes
    )


def whisper() -> Net:
    sides = {
        f"{side}_{name}": size
        for side in ("encoder", "decoder")
        for name, size in {"layers": 2, "attention_heads": 2, "ffn_dim": 64}.items()
    }
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    return transformers(
        "Whisper", lambda m, x: m.encoder(x).last_hidden_state, (torch.randn(1, 20, 100),),
        vocab_size=100, d_model=32, num_mel_bins=20, max_source_positions=50, **sides, **tokens,
    )  # fmt: skip


MODELS = {
    "mobilenet_v2": torchvision("mobilenet_v2"),
    "mobilenet_v3_large": torchvision("mobilenet_v3_large"),
    "resnet101": torchvision("resnet101", 32),
    "efficientnet_b0": torchvision("efficientnet_b0"),
    "vit": vit,
    "gpt2": gpt2,
    "t5": t5,
    "bert": bert,
    "whisper": whisper,
}


FEW = ("mobilenet_v2", "t5")
"""One of each kind; the others are slow."""


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("name", [n if n in FEW else pytest.param(n, marks=pytest.mark.slow) for n in MODELS])
def test_models_compile_without_fallback_and_give_what_eager_gives(name: str) -> None:
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    model.eval()
    with torch.no_grad():
        wanted = model(*inputs)
    made = atalla.compile(torch.export.export(model, inputs, strict=False))
    assert not made.fallbacks
    (found,) = atalla.load(made.data).run(inputs)
    assert float((found - wanted).norm() / wanted.norm()) < 1e-5
