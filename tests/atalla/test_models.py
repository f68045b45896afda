"""Models: real architectures at reduced size, random weights: no fallback, and what eager gives."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn

import atalla
from atalla.torchvision import make_importable
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


def segmentation(name: str) -> Callable[[], Net]:
    """Give one of torchvision's, of which the classes of each pixel are what counts."""

    def make() -> Net:
        make_importable()
        import torchvision.models.segmentation as library

        model = getattr(library, name)(weights=None, weights_backbone=None, num_classes=5)
        return Call(lambda m, x: m.model(x)["out"], model=settled(model)), (torch.randn(1, 3, 64, 96),)

    return make


def autoencoder() -> Net:
    """To an eighth of the size and back, by transposed convolutions."""
    sizes = (3, 16, 24, 32)
    down = [part for a, b in pairwise(sizes) for part in (nn.Conv2d(a, b, 3, 2, 1), nn.BatchNorm2d(b), nn.ReLU())]
    up = [
        part
        for a, b in pairwise(sizes[::-1])
        for part in (nn.ConvTranspose2d(a, b, 3, 2, 1, 1), nn.BatchNorm2d(b), nn.ReLU())
    ]
    return settled(nn.Sequential(*down, *up[:-2], nn.Sigmoid())), (torch.randn(1, 3, 48, 64),)


def pyramid() -> Net:
    """PSPNet's head: means of parts of several sizes, each brought back to the size of the image."""

    def forward(m: Call, x: torch.Tensor) -> torch.Tensor:
        y = m.stem(x)
        parts = [
            nn.functional.interpolate(part(y), y.shape[2:], mode="bilinear", align_corners=True) for part in m.parts
        ]
        return m.head(torch.cat([y, *parts], 1))

    parts = nn.ModuleList(nn.Sequential(nn.AdaptiveAvgPool2d(n), nn.Conv2d(16, 4, 1), nn.ReLU()) for n in (1, 2, 3, 6))
    stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU())
    return Call(forward, stem=stem, parts=parts, head=nn.Conv2d(32, 3, 1)), (torch.randn(1, 3, 41, 57),)


def style() -> Net:
    """A style net: instance norms, reflected edges, nearest pixels."""

    def block(inputs: int, outputs: int, stride: int = 1) -> nn.Module:
        return nn.Sequential(
            nn.ReflectionPad2d(1), nn.Conv2d(inputs, outputs, 3, stride),
            nn.InstanceNorm2d(outputs, affine=True), nn.ReLU(),
        )  # fmt: skip

    up = nn.Sequential(nn.Upsample(scale_factor=2), block(16, 8))
    return nn.Sequential(block(3, 8), block(8, 16, 2), block(16, 16), up, nn.Conv2d(8, 3, 1)), (
        torch.randn(1, 3, 32, 40),
    )


def volumes() -> Net:
    make_importable()
    from torchvision.models.video import r3d_18

    return settled(r3d_18(weights=None, num_classes=7)), (torch.randn(1, 3, 6, 32, 32),)


MODELS = {
    "autoencoder": autoencoder,
    "pyramid": pyramid,
    "style": style,
    "lraspp": segmentation("lraspp_mobilenet_v3_large"),
    "deeplabv3": segmentation("deeplabv3_mobilenet_v3_large"),
    "fcn": segmentation("fcn_resnet50"),
    "r3d_18": volumes,
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


FEW = ("t5", "autoencoder", "pyramid", "style")
"""Some of each kind; the others are slow."""


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
