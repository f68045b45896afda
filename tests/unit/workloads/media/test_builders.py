"""Built-in models: the media that each builder says fit the inputs that it gives."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from cross_backend.tensors import TensorSpec
from cross_backend.workloads import find_workload
from cross_backend.workloads.media import fitted
from tests.unit.workloads.media.conftest import saved, wav

SOURCES = {
    "audio": wav(np.sin(np.arange(8000.0)), 16_000),
    "digit": saved(Image.radial_gradient("L")),
    "image": saved(Image.radial_gradient("L")),
    "numbers": b"1,2,3,4",
    "text": b"5 6 7",
}
SLOW = ("bert_base", "efficientnet_b1", "gpt2", "t5_encoder", "vit_b_16")
MODELS = {
    "linear_regression": ("numbers", True),
    "digits_cnn": ("digit", True),
    "mobilenet_v3_small": ("image", False),
    "whisper_tiny": ("audio", False),
    "efficientnet_b1": ("image", False),
    "vit_b_16": ("image", False),
    "bert_base": ("text", False),
    "gpt2": ("text", False),
    "t5_encoder": ("text", False),
}
"""Model → its kind, and whether it is trained without ``--weights``."""


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in MODELS])
def test_the_media_fit_the_models_inputs(name: str) -> None:
    import torch

    workload = find_workload(name).build()
    media = workload.media
    assert media is not None and (media.kind, media.trained) == MODELS[name]
    prepared = media.prepare(SOURCES[media.kind])
    inputs = fitted(prepared, [TensorSpec.of("", x) for x in workload.inputs])
    with torch.no_grad():
        outputs = workload.model(*map(torch.from_numpy, inputs))
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    shown = media.present([y.numpy() for y in outputs], prepared)
    assert shown.top or shown.numbers or shown.lengths or shown.tokens[0].length
    assert (getattr(media, "labels", None) or workload.labels) == workload.labels
