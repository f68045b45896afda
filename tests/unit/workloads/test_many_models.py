"""Capture takes what torch exports: each family of torchvision, and small transformers.

Models have no weights here (the device ``meta``), so that many are captured in minutes: it is their structure, the
names of their arguments and what they return that capture has to take.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from atalla.torchvision import torchvision_models
from cross_backend.program.capture import capture
from cross_backend.program.flattening import flatten
from cross_backend.workloads._transformers import import_transformers

QUICK = ("lraspp_mobilenet_v3_large", "deeplabv3_mobilenet_v3_large", "mobilenet_v3_small", "s3d")
PICTURE, VIDEO = (1, 3, 224, 224), (1, 3, 16, 224, 224)
NO_PICTURE = {"googlenet": {"init_weights": False}, "inception_v3": {"init_weights": False}}


SLOW = (
    *("alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "googlenet", "inception_v3"),
    *("maxvit_t", "mnasnet0_5", "mobilenet_v2", "regnet_x_400mf", "regnet_y_400mf", "resnet18"),
    *("shufflenet_v2_x0_5", "squeezenet1_0", "swin_t", "swin_v2_t", "vgg11", "vit_b_16"),
    *("fcn_resnet50", "deeplabv3_resnet50", "mvit_v1_b", "r3d_18", "swin3d_t"),
)
"""The smallest of each further family."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(one, marks=pytest.mark.slow) for one in SLOW)])
def test_models_of_torchvision(name: str) -> None:
    models = torchvision_models()
    builder = models.get_model_builder(name)
    more: dict[str, Any] = {"weights_backbone": None} if "segmentation" in builder.__module__ else {}
    with torch.device("cpu" if name.startswith("regnet") else "meta"):  # RegNets need numbers to be built
        module = builder(weights=None, **more, **NO_PICTURE.get(name, {})).eval()
    shape = VIDEO if builder.__module__.startswith("torchvision.models.video") else PICTURE
    if name == "inception_v3":
        shape = (1, 3, 299, 299)
    device = next(module.parameters()).device
    program = flatten(capture(module, (torch.empty(shape, device=device),)))
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    outputs = [values[str(one)] for one in program.graph_signature.user_outputs]
    assert outputs and all(one.shape[0] == 1 for one in outputs)


SMALL: dict[str, int] = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 64,
    "n_embd": 16, "n_layer": 2, "n_head": 2, "num_key_value_heads": 2, "d_model": 16, "dim": 16, "n_heads": 2,
    "n_layers": 2, "hidden_dim": 32, "embedding_size": 16, "num_layers": 2, "ffn_dim": 32, "head_dim": 8,
    "num_attention_layers": 2, "moe_intermediate_size": 16, "num_local_experts": 2, "image_size": 32, "patch_size": 8,
}  # fmt: skip
TEXT = (
    *("albert", "bert", "bert-generation", "big_bird", "biogpt", "bloom", "camembert", "codegen", "cohere", "convbert"),
    *("ctrl", "data2vec-text", "deberta", "deberta-v2", "distilbert", "electra", "ernie", "esm", "falcon", "flaubert"),
    *("fnet", "funnel", "gemma", "gemma2", "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "gptj", "granite", "ibert"),
    *(
        "layoutlm",
        "llama",
        "longformer",
        "luke",
        "megatron-bert",
        "mistral",
        "mobilebert",
        "mpnet",
        "mpt",
        "nystromformer",
    ),
    *(
        "nystromformer",
        "olmo",
        "olmo2",
        "openai-gpt",
        "opt",
        "persimmon",
        "phi",
        "phi3",
        "qwen2",
        "qwen3",
        "rembert",
        "roberta",
    ),
    *(
        "roberta-prelayernorm",
        "roformer",
        "squeezebert",
        "stablelm",
        "starcoder2",
        "xglm",
        "xlm",
        "xlm-roberta",
        "xlnet",
    ),
    *("xlnet", "xmod", "yoso"),
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_small_transformers() -> None:
    """What torch.export takes, capture takes; most of sixty families are such."""
    transformers = import_transformers("bert_base", "nlp")
    taken, ours = [], []
    for kind in TEXT:
        try:
            config = transformers.AutoConfig.for_model(kind)
            for key, value in SMALL.items():
                if isinstance(getattr(config, key, None), int):
                    setattr(config, key, value)
            config.use_cache = False
            module = transformers.AutoModel.from_config(config).eval()
            tokens = torch.randint(3, 60, (1, 8))
            torch.export.export(module, (tokens,))
        except Exception:
            continue
        taken.append(kind)
        try:
            flatten(capture(module, (tokens,)))
        except Exception as error:
            ours.append(f"{kind}: {type(error).__name__}: {str(error)[:200]}")
    assert not ours, "\n".join(ours)
    assert len(taken) >= 40, taken
