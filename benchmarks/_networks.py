"""Networks of others that Atalla was not made for, with seeded random weights: each function is a workload."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Workload = tuple["torch.nn.Module", tuple["torch.Tensor", ...]]


def _torchvision(name: str, size: int = 224, **options: Any) -> Workload:
    import torch
    import torchvision

    torch.manual_seed(0)
    return torchvision.models.get_model(name, weights=None, **options).eval(), (torch.randn(1, 3, size, size),)


def _hidden(model: torch.nn.Module) -> torch.nn.Module:
    """Return the same with token numbers alone, and its last hidden states alone."""
    import torch

    class Hidden(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, tokens: torch.Tensor) -> Any:
            return self.model(tokens, return_dict=False)[0]

    return Hidden().eval()


def _transformers(kind: str, length: int = 64, **settings: Any) -> Workload:
    import torch
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(attn_implementation="eager", use_cache=False, **settings)
    model = getattr(transformers, f"{kind}Model")(config)
    return _hidden(model), (torch.randint(0, config.vocab_size, (1, length)),)


def resnet18() -> Workload:
    """He et al. (2015)."""
    return _torchvision("resnet18")


def resnext50() -> Workload:
    """Grouped convolutions."""
    return _torchvision("resnext50_32x4d")


def densenet121() -> Workload:
    """Batch norms in front of convolutions, and concatenations."""
    return _torchvision("densenet121")


def squeezenet() -> Workload:
    """Iandola et al. (2016)."""
    return _torchvision("squeezenet1_1")


def shufflenet() -> Workload:
    """Channels that are shuffled."""
    return _torchvision("shufflenet_v2_x1_0")


def mnasnet() -> Workload:
    """Tan et al. (2018)."""
    return _torchvision("mnasnet1_0")


def regnet_x() -> Workload:
    """Grouped convolutions of few channels."""
    return _torchvision("regnet_x_800mf")


def regnet_y() -> Workload:
    """The same with squeeze and excitation."""
    return _torchvision("regnet_y_400mf")


def googlenet() -> Workload:
    """Branches of several filters."""
    return _torchvision("googlenet", init_weights=False, aux_logits=False, transform_input=False)


def inception() -> Workload:
    """Filters of 1 × 7 and 7 × 1."""
    return _torchvision("inception_v3", 299, init_weights=False, aux_logits=False, transform_input=False)


def vgg11() -> Workload:
    """Large products of one row."""
    return _torchvision("vgg11")


def alexnet() -> Workload:
    """Filters of 11 × 11 and 5 × 5."""
    return _torchvision("alexnet")


def convnext() -> Workload:
    """Depthwise filters of 7 × 7 and layer norms."""
    return _torchvision("convnext_tiny")


def swin() -> Workload:
    """Attention in windows."""
    return _torchvision("swin_t")


def efficientnet_v2() -> Workload:
    """Tan & Le (2021)."""
    return _torchvision("efficientnet_v2_s")


def segmentation() -> Workload:
    """Lite R-ASPP: a picture of classes, resized."""
    import torch

    model, inputs = _torchvision("lraspp_mobilenet_v3_large", weights_backbone=None)

    class Picture(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, image: torch.Tensor) -> Any:
            return self.model(image)["out"]

    return Picture().eval(), inputs


def autoencoder() -> Workload:
    """Convolutions down, transposed convolutions up."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    widths = (3, 32, 64, 128)
    down = [nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.ReLU()) for a, b in itertools.pairwise(widths)]
    up = [
        nn.Sequential(nn.ConvTranspose2d(b, a, 4, 2, 1), nn.ReLU() if a > widths[0] else nn.Sigmoid())
        for a, b in reversed(list(itertools.pairwise(widths)))
    ]
    return nn.Sequential(*down, *up).eval(), (torch.randn(1, 3, 128, 128),)


def distilbert() -> Workload:
    """Sanh et al. (2019)."""
    return _transformers("DistilBert")


def opt_narrow() -> Workload:
    """A language model of width 128."""
    sizes: dict[str, Any] = {"hidden_size": 128, "num_hidden_layers": 4, "ffn_dim": 512, "num_attention_heads": 4}
    return _transformers("OPT", word_embed_proj_dim=128, vocab_size=2048, **sizes)


def gpt_neo_narrow() -> Workload:
    """The same with attention in windows."""
    sizes: dict[str, Any] = {
        "hidden_size": 128,
        "num_layers": 4,
        "attention_types": [[["global", "local"], 2]],
        "num_heads": 4,
    }
    return _transformers("GPTNeo", vocab_size=2048, window_size=32, **sizes)


def llama_narrow() -> Workload:
    """Root-mean-square norms, gated products and rotated positions."""
    sizes: dict[str, Any] = {
        "hidden_size": 128,
        "num_hidden_layers": 4,
        "intermediate_size": 344,
        "num_attention_heads": 4,
    }
    return _transformers("Llama", vocab_size=2048, num_key_value_heads=4, **sizes)


def electra() -> Workload:
    """Clark et al. (2020), small: embeddings of another width."""
    sizes: dict[str, Any] = {
        "embedding_size": 128,
        "hidden_size": 256,
        "num_hidden_layers": 12,
        "intermediate_size": 1024,
    }
    return _transformers("Electra", num_attention_heads=4, **sizes)
