"""llama_text: what it is trained on, that training computes what the decoder computes, and what it learns."""

from __future__ import annotations

import platform
import sys

import numpy as np
import pytest
import torch

import cross_backend as xb
from cross_backend.errors import CrossBackendError
from cross_backend.instruments.perplexity import perplexity
from cross_backend.workloads import find_workload, llama_text
from cross_backend.workloads.decoder import Shape, build
from tests.unit.backends.tiny_decoders import program_of


def small() -> torch.nn.Module:
    torch.manual_seed(3)
    return build(Shape(2, 32, 4, 4, 64, 256, 64, "llama"))


def test_training_computes_what_the_decoder_does() -> None:
    net, ids = small(), torch.randint(256, (2, 11))
    with torch.no_grad():
        found = llama_text.all_logits(net, ids)
        for row in range(2):
            for place in range(11):
                logits = net(ids[row : row + 1, place : place + 1], torch.tensor([place]))
                torch.testing.assert_close(logits[0], found[row, place], rtol=1e-4, atol=1e-5)


def test_training_is_repeatable_and_leaves_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_text, "UPDATES", 3)
    monkeypatch.setattr(llama_text, "WINDOW", 32)
    ids = torch.randint(256, (2000,), generator=torch.Generator().manual_seed(0))
    before, found = torch.get_num_threads(), []
    for _ in range(2):
        net = small()
        llama_text.train(net, ids)
        found.append(net.state_dict())
    assert torch.get_num_threads() == before
    assert all(torch.equal(one, found[1][name]) for name, one in found[0].items())
    assert not torch.equal(found[0]["tokens.weight"], small().state_dict()["tokens.weight"])
    assert not found[0]["layers.0.keys"].any(), "training leaves the caches empty"


def test_another_python_has_another_text(monkeypatch: pytest.MonkeyPatch) -> None:
    identity = find_workload("llama_text").identity
    assert identity is not None and f"pydoc_data.topics of Python {platform.python_version()}" in identity
    assert "pydoc_data" not in (find_workload("llama").identity or "")
    monkeypatch.setattr(platform, "python_version", lambda: "3.99.0")
    assert find_workload("llama_text").identity != identity


def test_a_python_without_the_text_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(CrossBackendError, match="lacks pydoc_data") as caught:
        find_workload("llama_text").build()
    assert "\n" not in str(caught.value)


def test_weights_of_ones_own_need_no_training(tmp_path) -> None:  # type: ignore[no-untyped-def]
    net = build(Shape(2, 128, 4, 4, 256, 256, 32, "llama"))
    torch.save(net.state_dict(), tmp_path / "w.pt")
    built = find_workload("llama_text?context=32", str(tmp_path / "w.pt")).build()
    assert torch.equal(built.model.state_dict()["tokens.weight"], net.state_dict()["tokens.weight"])  # type: ignore[union-attr]
    assert built.task is not None and built.task.metric == "perplexity" and built.task.inputs.shape == (16, 32)
    text = built.media.pieces()  # type: ignore[union-attr]
    shown = "".join(map(text.take, built.task.inputs[0].tolist()))
    assert shown.isascii() and " " in shown, "tokens are the bytes of a text"
    assert len(built.calibration) == llama_text.CALIBRATION and built.inputs[0].shape == (1, 5)


@pytest.mark.nightly
def test_it_predicts_text_that_it_did_not_see() -> None:
    built = find_workload("llama_text").build()
    assert built.task is not None
    with xb.load(xb.lower(program_of(built), "torch.eager")) as session:
        assert perplexity(session, np.asarray(built.task.inputs)) <= 6
