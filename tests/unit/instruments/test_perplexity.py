"""Perplexity: teacher forced, the first token of a sequence is no prediction, and a sequence begins after a reset."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

import cross_backend as xb
from cross_backend.errors import RunError
from cross_backend.instruments.accuracy import Score, measured
from cross_backend.instruments.perplexity import Perplexity, perplexity
from cross_backend.names.task_metrics import drop
from tests.unit.backends.tiny_decoders import VOCABULARY, program_of, tiny

TEXTS = np.random.default_rng(0).integers(VOCABULARY, size=(3, 9))


def by_torch(net: Any, texts: np.ndarray[Any, Any]) -> float:
    """Give it by prompts of growing length, each from the beginning of its text on."""
    losses = []
    with torch.no_grad():
        for text in torch.from_numpy(texts)[:, None]:
            for size in range(1, text.shape[1]):
                logits = net(text[:, :size], torch.tensor([0]))
                losses.append(F.cross_entropy(logits.double(), text[:, size]))
    return math.exp(float(torch.stack(losses).mean()))


@pytest.mark.parametrize(("kind", "prompts"), [pytest.param("llama", 1, marks=pytest.mark.slow), ("gpt2", 0)])
def test_it_is_that_of_prompts_of_every_length(kind: str, prompts: int) -> None:
    workload = tiny(kind)
    with xb.load(xb.lower(program_of(tiny(kind, prompts=prompts)), "torch.eager")) as session:
        session(*tiny(kind, prompts=prompts).inputs)
        assert perplexity(session, TEXTS) == pytest.approx(by_torch(workload.model, TEXTS), rel=1e-5)


@pytest.mark.slow
def test_guessing_has_the_perplexity_of_the_vocabulary() -> None:
    workload = tiny("llama")
    workload.model.tokens.weight.data.zero_()  # type: ignore[union-attr,operator]
    with xb.load(xb.lower(program_of(workload), "torch.eager")) as session:
        assert perplexity(session, TEXTS) == pytest.approx(VOCABULARY)


@pytest.mark.slow
def test_logits_that_are_not_finite_have_none() -> None:
    workload = tiny("llama")
    workload.model.tokens.weight.data.fill_(math.inf)  # type: ignore[union-attr,operator]
    with (
        xb.load(xb.lower(program_of(workload), "torch.eager")) as session,
        pytest.raises(RunError, match="position 0 are not finite"),
    ):
        perplexity(session, TEXTS)


def test_the_metric_chooses_the_reading() -> None:
    task = Path("task.npz")
    assert measured("perplexity", task) == Perplexity(task)
    assert measured("top-5 accuracy", task) == Score(task, "top-5 accuracy")


def test_a_drop_is_points_or_a_relative_increase() -> None:
    assert drop("top-1 accuracy", 0.97, 0.98) == pytest.approx(0.01)
    assert drop("perplexity", 4.04, 4.0) == pytest.approx(0.01)
    assert drop("perplexity", 3.0, 4.0) < 0
