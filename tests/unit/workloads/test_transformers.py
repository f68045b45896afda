"""Models of transformers: they compute what the package's own do, and weights that are not theirs are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from cross_backend.errors import CaptureError
from cross_backend.workloads import find_workload, nlp
from cross_backend.workloads._pretrained import load_pretrained
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


@pytest.mark.slow
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


@pytest.mark.slow
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
        ("damaged", r"weights .*folder cannot be read: model\.safetensors has a header of"),
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


@pytest.mark.slow
def test_weights_that_lack_a_part_are_refused(package: Any, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    package.T5EncoderModel(package.T5Config()).save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["encoder.final_layer_norm.weight"]
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(CaptureError, match=r"lack encoder\.final_layer_norm\.weight of t5_encoder"):
        find_workload("t5_encoder", str(tmp_path)).build()


def test_links_lead_to_where_the_hubs_client_keeps_files_and_nowhere_else(
    package: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights that the client has fetched are found by their name on the hub, without a network."""
    from huggingface_hub import constants

    place = tmp_path / "models--some--bert"
    snapshot, blobs = place / "snapshots" / ("0" * 40), place / "blobs"
    small(package, "bert").save_pretrained(blobs)
    snapshot.mkdir(parents=True)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("0" * 40)
    for name in ("config.json", "model.safetensors"):
        (snapshot / name).symlink_to(Path("..", "..", "blobs", name))
    (tmp_path / "folder").mkdir()
    for name in ("config.json", "model.safetensors"):
        (tmp_path / "folder" / name).symlink_to(blobs / name)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    model = small(package, "bert")
    for weights in (str(snapshot), "some/bert"):
        found = load_pretrained("small", package.BertModel, model.config, weights)
        assert all(torch.equal(x, y) for x, y in zip(found.parameters(), model.parameters(), strict=True))
    with pytest.raises(CaptureError, match=r"config\.json leads out of the folder"):
        load_pretrained("small", package.BertModel, model.config, str(tmp_path / "folder"))
    with pytest.raises(CaptureError, match="cannot get weights 'other/bert' for small here"):
        load_pretrained("small", package.BertModel, model.config, "other/bert")


def test_only_weights_are_read_of_a_folder(package: Any, tmp_path: Path) -> None:
    """Other files of it that the package obeys, quantisers, adapters and kernels, do nothing."""
    model = small(package, "bert")
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"quantization_config": {"quant_method": "gptq", "bits": 4}, "_attn_implementation": "some/kernel"}
    config |= {"num_labels": 10**9, "transformers_weights": "other.safetensors", "hidden_dropout_prob": 0.3}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "some/model"}')
    (tmp_path / "deep").mkdir()
    found = load_pretrained("small", package.BertModel, small(package, "bert").config, str(tmp_path))
    assert all(torch.equal(x, y) for x, y in zip(found.parameters(), model.parameters(), strict=True))
    assert (found.config.hidden_dropout_prob, found.config.num_labels) == (0.3, 2)
    before = find_workload("bert_base", str(tmp_path)).identity
    (tmp_path / "deep" / "file").write_text("not read")
    assert find_workload("bert_base", str(tmp_path)).identity == before
    (tmp_path / "config.json").write_text("{}")
    assert find_workload("bert_base", str(tmp_path)).identity != before


@pytest.mark.parametrize("key", ["num_hidden_layers", "vocab_size", "intermediate_size"])
def test_numbers_that_no_model_has_cost_nothing(package: Any, tmp_path: Path, key: str) -> None:
    model = small(package, "bert")
    model.save_pretrained(tmp_path)
    wrong = r"not of small: num_hidden_layers 1000000000|describes \d+,.* parameters; the files hold \d\d,\d+\."
    for number, message in ((10**9, wrong), (10**30, "no model has")):
        config = json.loads((tmp_path / "config.json").read_text()) | {key: number}
        (tmp_path / "config.json").write_text(json.dumps(config))
        before = psutil.Process().memory_info().rss
        with pytest.raises(CaptureError, match=message):
            load_pretrained("small", package.BertModel, model.config, str(tmp_path))
        assert psutil.Process().memory_info().rss - before < 64 << 20


def test_shards_and_pickles_are_read(package: Any, tmp_path: Path) -> None:
    model = small(package, "bert")
    model.save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    small(package, "bert").config.save_pretrained(tmp_path / "pickle")
    state = {f"bert.{key}": tensor.half() for key, tensor in model.state_dict().items()}
    torch.save(state, tmp_path / "pickle" / "pytorch_model.bin")
    for folder, exact in (("shards", True), ("pickle", False)):
        found = load_pretrained("small", package.BertModel, model.config, str(tmp_path / folder))
        for x, y in zip(found.parameters(), model.parameters(), strict=True):
            assert torch.equal(x, y if exact else y.half().float())


@pytest.mark.slow
def test_a_model_that_cannot_be_built_of_its_weights_is_one_line(package: Any, tmp_path: Path) -> None:
    """GPT-2's filling is a token that a small vocabulary lacks."""
    config = package.GPT2Config(vocab_size=90)
    package.GPT2LMHeadModel(config).save_pretrained(tmp_path)
    with pytest.raises(CaptureError, match="gpt2 cannot be built: ValueError"):
        find_workload("gpt2", str(tmp_path)).build()
