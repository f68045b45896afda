"""Models of transformers: they compute what the package's own do, and weights that are not theirs are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from cross_backend.errors import CaptureError
from cross_backend.workloads import find_workload, nlp
from cross_backend.workloads._transformers import import_transformers

IDS = torch.randint(90, (2, nlp.TOKENS), generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def package() -> Any:
    return import_transformers("bert_base", "nlp")


def small(package: Any, name: str) -> Any:
    """Build the same architecture with few and small layers, and weights large enough for attention to matter."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if name == "gpt2":
            config = package.GPT2Config(vocab_size=90, n_embd=32, n_layer=2, n_head=4, initializer_range=0.3)
            return package.GPT2LMHeadModel(config).eval()
        if name == "t5_encoder":
            config = package.T5Config(vocab_size=90, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
            return package.T5EncoderModel(config).eval()
        config = package.BertConfig(
            vocab_size=90,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            initializer_range=0.3,
        )
        return package.BertModel(config).eval()


def own(name: str, model: Any) -> list[torch.Tensor]:
    """Give what the package's own forward gives."""
    if name == "gpt2":
        given = model(IDS, use_cache=True)
        kept = [tensor for layer in given.past_key_values.layers for tensor in (layer.keys, layer.values)]
        return [given.logits[:, -1], *kept]
    if name == "t5_encoder":
        return [model(IDS).last_hidden_state]
    given = model(IDS)
    return [given.last_hidden_state, given.pooler_output]


@pytest.mark.parametrize(
    ("name", "wrap"), [("bert", nlp.bert_module), ("gpt2", nlp.gpt2_module), ("t5_encoder", nlp.t5_module)]
)
def test_the_plain_form_computes_what_the_packages_own_does(
    package: Any, name: str, wrap: Callable[[Any], torch.nn.Module]
) -> None:
    model = small(package, name)
    with torch.no_grad():
        wanted = own(name, model)
        model.set_attn_implementation("eager")
        got = wrap(model)(IDS)
    got = [got] if isinstance(got, torch.Tensor) else list(got)
    assert len(got) == len(wanted)
    for ours, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["whisper_tiny", "t5_encoder"])
def test_outputs_can_be_compared(name: str) -> None:
    """They are of unit scale, and another input gives others: what ignored it would be found out."""
    workload = find_workload(name).build()
    assert isinstance(workload.model, torch.nn.Module) and workload.calibration
    with torch.no_grad():
        first, second = (workload.model(*inputs) for inputs in (workload.inputs, workload.calibration[0]))
    assert 0.5 < float(first.std()) < 2
    assert float((first - second).std()) > 0.3 * float(first.std())
    again = find_workload(name).build()
    assert torch.equal(again.inputs[0], workload.inputs[0])
    with torch.no_grad():
        assert torch.equal(again.model(*again.inputs), first)  # type: ignore[operator]


def test_weights_come_from_a_folder_or_a_checkpoint(package: Any, tmp_path: Path) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        other = package.T5EncoderModel(package.T5Config()).eval()
    other.save_pretrained(tmp_path / "folder")
    torch.save(other.state_dict(), tmp_path / "weights.pt")
    for weights in ("folder", "weights.pt"):
        model = find_workload("t5_encoder", str(tmp_path / weights)).build().model
        assert isinstance(model, torch.nn.Module)
        found = model.model.state_dict()
        assert all(torch.equal(found[key], tensor) for key, tensor in other.state_dict().items())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("another kind", "are not of bert_base: model_type t5 instead of bert"),
        ("another size", "are not of bert_base: hidden_size 32 instead of 768"),
        ("damaged", "cannot get weights .*folder"),
        ("checkpoint of another", r"weights .*weights\.pt do not fit"),
    ],
)
def test_weights_of_another_model_are_refused(package: Any, tmp_path: Path, content: str, message: str) -> None:
    weights = tmp_path / "folder"
    if content == "another kind":
        small(package, "t5_encoder").save_pretrained(weights)
    elif content == "another size":
        small(package, "bert").save_pretrained(weights)
    elif content == "damaged":
        package.BertConfig().save_pretrained(weights)
        (weights / "model.safetensors").write_bytes(b"garbage")
    else:
        weights = tmp_path / "weights.pt"
        torch.save(torch.nn.Linear(2, 2).state_dict(), weights)
    with pytest.raises(CaptureError, match=message) as caught:
        find_workload("bert_base", str(weights)).build()
    assert "\n" not in str(caught.value)


def test_weights_that_lack_a_part_are_refused(package: Any, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    package.T5EncoderModel(package.T5Config()).save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["encoder.final_layer_norm.weight"]
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(CaptureError, match=r"lack encoder\.final_layer_norm\.weight of t5_encoder"):
        find_workload("t5_encoder", str(tmp_path)).build()
