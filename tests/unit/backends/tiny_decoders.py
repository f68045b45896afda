"""Decoders of a few thousand weights, the calls of a sequence, and what eager float32 returns for them."""

from __future__ import annotations

import copy
from typing import Any

import torch

import cross_backend as xb
from cross_backend.workloads import Workload, decoder

KINDS = ("llama", "qwen", "gpt2")
CONTEXT, VOCABULARY = 24, 97
Call = tuple[torch.Tensor, torch.Tensor]


def tiny(kind: str, *, width: int = 16, prompts: int = 1) -> Workload:
    """Build two layers of four heads, of which Qwen's share two keys and values."""
    sizes = {"layers": 2, "hidden": 4 * width, "heads": 4, "inner": 48, "vocabulary": VOCABULARY, "context": CONTEXT}
    shared = {"kv_heads": 2} if kind == "qwen" else {}
    workload: Workload = getattr(decoder, kind)(**sizes, **shared, prompts=prompts)
    _disturb(workload.model)
    return workload


def _disturb(net: Any) -> None:
    """Give biases and norms values that a wrong order or a lost one shows."""
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        for name, one in net.named_parameters():
            if name.endswith("bias") or one.ndim == 1:
                one.add_(0.3 * torch.randn_like(one))


def program_of(workload: Workload) -> torch.export.ExportedProgram:
    """Capture it."""
    assert isinstance(workload.model, torch.nn.Module)
    return xb.capture(workload.model, workload.inputs, workload.dynamic_shapes)


def calls_of(workload: Workload) -> list[Call]:
    """Give the prompt, and the tokens after it."""
    return [workload.inputs, *workload.steps]  # type: ignore[list-item]


def logits_of(workload: Workload, calls: list[Call]) -> list[torch.Tensor]:
    """Give what a new copy of the network returns for calls in order."""
    net: Any = copy.deepcopy(workload.model)
    with torch.no_grad():
        return [net(*call).clone() for call in calls]


def others(calls: list[Call]) -> list[Call]:
    """Give the same calls with other tokens."""
    return [((ids * 7 + 3) % VOCABULARY, place) for ids, place in calls]
