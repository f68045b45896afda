"""The built-in workloads: reproducible, documented figures, references that are not vacuous."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch

from atalla.torchvision import torchvision_models
from cross_backend.errors import CaptureError, UsageError
from cross_backend.workloads import Workload, find_workload


def build(name: str) -> Workload:
    return find_workload(name).build()


def digest(model: torch.nn.Module) -> str:
    found = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        found.update(name.encode() + tensor.numpy().tobytes())
    return found.hexdigest()


@pytest.mark.parametrize("name", ["linear_regression", "digits_cnn"])
def test_two_builds_are_equal_and_leave_the_seed_alone(name: str) -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, second = build(name), build(name)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert digest(first.model) == digest(second.model)  # type: ignore[arg-type]
    assert all(torch.equal(a, b) for a, b in zip(first.inputs, second.inputs, strict=True))
    assert first.name == name


def test_published_weights_that_do_not_exist_name_those_that_do() -> None:
    with pytest.raises(UsageError, match=r"'FOO_V1'.*Choices: DEFAULT, IMAGENET1K_V1\. .*checkpoint file"):
        find_workload("mobilenet_v3_small", "FOO_V1").build()
    with pytest.raises(CaptureError, match=r"FOO_V1 do not exist.*no published ones"):
        find_workload("linear_regression", "FOO_V1").build()


def test_linear_regression_gives_its_documented_output() -> None:
    workload = build("linear_regression")
    assert workload.inputs[0].tolist() == [[1, 2, 3, 4]]
    with torch.no_grad():
        output = workload.model(*workload.inputs)  # type: ignore[operator]
    assert output.shape == (1, 1)
    assert f"{output.item():.4f}" == "2.7182"


def test_the_digits_are_learnt() -> None:
    workload = build("digits_cnn")
    assert workload.task is not None and workload.task.metric == "top-1 accuracy"
    assert workload.task.inputs.shape == (360, 1, 8, 8)
    assert workload.task.inputs.min() >= 0 and workload.task.inputs.max() <= 1
    with torch.no_grad():
        scores = workload.model(torch.from_numpy(workload.task.inputs))  # type: ignore[operator]
    accuracy = float((scores.argmax(dim=1).numpy() == workload.task.labels).mean())
    assert accuracy > 0.97
    assert len(set(workload.task.labels.tolist())) == 10


@pytest.mark.parametrize("name", ["mobilenet_v3_small", "mobilenet_v2"])
def test_a_seeded_classifier_gives_outputs_that_can_be_compared(name: str) -> None:
    """With BatchNorm's first statistics the logits of a random MobileNetV3 are near 1e-9."""
    workload = build(name)
    with torch.no_grad():
        output = workload.model(*workload.inputs)  # type: ignore[operator]
        other = workload.model(torch.randn_like(workload.inputs[0]))  # type: ignore[operator]
    assert output.shape == (1, 1000)
    assert 1e-2 < float(output.abs().max()) < 1e3
    assert float((output - other).abs().max()) > 1e-2 * float(output.abs().max()), "the input matters"


def test_torchvision_imports_beside_cpu_torch() -> None:
    assert torchvision_models() is torchvision_models()
    assert hasattr(torch.ops.torchvision, "nms")
    assert np.isfinite(torchvision_models().resnet18(weights=None).fc.weight.detach().numpy()).all()
