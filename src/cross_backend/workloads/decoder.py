"""Decoders that remember: GPT-2, and Llama- and Qwen-shaped ones of any size, with caches of keys and values as state.

One program does both: a prompt goes in at once (prefill), then token after token (decode). Each call takes the tokens
and the position of the first one, writes their keys and values into the caches, and returns the next token's logits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cross_backend.errors import UsageError
from cross_backend.workloads import WORKLOADS, Workload, load_checkpoint
from cross_backend.workloads.media import PromptMedia

if TYPE_CHECKING:
    import torch

SEED = 0
PROMPT, STEPS = 5, 8
"""Tokens of the prompt, and tokens after it, on which a capture is verified."""


@dataclass(frozen=True)
class Shape:
    """Sizes of a decoder."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    inner: int
    """Width of the feed-forward part."""
    vocabulary: int
    context: int
    """Positions of the caches."""
    kind: str
    """``gpt2``: learned positions, LayerNorm, GELU, biases; ``llama``: rotary positions, RMSNorm, SiLU gate;
    ``qwen``: ``llama`` with biases of queries, keys and values."""
    prompts: int = 1
    """1 where a call takes any number of tokens, 0 where it takes one."""

    @property
    def width(self) -> int:
        """Numbers of a head."""
        return self.hidden // self.heads

    def check(self, name: str) -> None:
        """Refuse sizes that do not fit each other.

        Raises:
            UsageError: names what does not fit.
        """
        if min(self.layers, self.hidden, self.heads, self.kv_heads, self.inner, self.vocabulary) < 1:
            raise UsageError(f"{name}: every size must be at least 1.")
        if self.hidden % (2 * self.heads) or self.heads % self.kv_heads:
            raise UsageError(f"{name}: hidden must be an even multiple of heads, and heads a multiple of kv_heads.")
        if self.context < PROMPT + STEPS:
            raise UsageError(f"{name}: context must be at least {PROMPT + STEPS}.")
        if self.prompts not in (0, 1):
            raise UsageError(f"{name}: prompts is 1 (any number of tokens a call) or 0 (one).")


def llama(name: str = "llama", weights: str | None = None, **sizes: int) -> Workload:
    """Build a Llama-shaped decoder; inputs (1, tokens) ids and the (1,) position of the first; output (1, ids)."""
    known = WORKLOADS["llama"].options
    shared = {"kv_heads": sizes.get("heads", known["kv_heads"])}
    return _workload(name, Shape(**{**known, **shared, **sizes}, kind="llama"), weights)


def qwen(name: str = "qwen", weights: str | None = None, **sizes: int) -> Workload:
    """Build a Qwen-shaped decoder: as ``llama``, with shared key and value heads, and biases."""
    return _workload(name, Shape(**{**WORKLOADS["qwen"].options, **sizes}, kind="qwen"), weights)


def gpt2(name: str = "gpt2_decoder", weights: str | None = None, **sizes: int) -> Workload:
    """Build GPT-2 as a decoder with caches; published weights are those of ``gpt2``."""
    known = WORKLOADS["gpt2_decoder"].options
    shared = {"kv_heads": sizes.get("heads", known["kv_heads"])}
    return _workload(name, Shape(**{**known, **shared, **sizes}, kind="gpt2"), weights)


def _workload(name: str, shape: Shape, weights: str | None) -> Workload:
    import torch

    shape.check(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        net = build(shape)
        ids = torch.randint(shape.vocabulary, (1, PROMPT + STEPS))
    if weights is not None:
        _load(net, name, shape, weights)
    inputs, steps, free = calls_of(shape, ids)
    media = media_of(shape, trained=weights is not None)
    return Workload(name, net, inputs, calibration=(inputs,), steps=steps, dynamic_shapes=free, media=media)


def calls_of(shape: Shape, ids: torch.Tensor) -> tuple[tuple[Any, ...], tuple[tuple[Any, ...], ...], Any]:
    """Return the inputs of the first call, those of each further one, and the free extents of a decoder's inputs.

    Args:
        shape: of the decoder.
        ids: tokens of all calls, (1, :data:`PROMPT` + :data:`STEPS`).
    """
    import torch

    first = PROMPT if shape.prompts else 1
    steps = tuple((ids[:, at : at + 1], torch.tensor([at])) for at in range(first, PROMPT + STEPS))
    free = ({1: torch.export.Dim("tokens", min=1, max=shape.context)}, None) if shape.prompts else None
    return (ids[:, :first], torch.tensor([0])), steps, free


def media_of(shape: Shape, *, trained: bool) -> PromptMedia:
    """Return what a decoder's texts are made of."""
    is_whole = shape.kind == "gpt2" and shape.vocabulary == WORKLOADS["gpt2_decoder"].options["vocabulary"]
    return PromptMedia(
        tokens=shape.context,
        ids=shape.vocabulary,
        has_bytes=is_whole,
        end=shape.vocabulary - 1 if is_whole else None,
        trained=trained,
    )


def _load(net: torch.nn.Module, name: str, shape: Shape, weights: str) -> None:
    from pathlib import Path

    if shape.kind != "gpt2" or Path(weights).is_file():
        load_checkpoint(net, weights)
        return
    from cross_backend.workloads._transformers import import_transformers, load_model

    package = import_transformers(name, "nlp")
    config = package.GPT2Config(
        n_layer=shape.layers, n_embd=shape.hidden, n_head=shape.heads, vocab_size=shape.vocabulary
    )
    take_gpt2(net, load_model(name, package.GPT2LMHeadModel, config, weights))


def take_gpt2(net: Any, model: Any) -> None:
    """Copy the weights of transformers' GPT-2 into a decoder of its shape."""
    from cross_backend.workloads._transformers import copy_weights

    body = model.transformer
    pairs = [(net.tokens.weight, body.wte.weight), (net.places.weight, body.wpe.weight[: net.places.num_embeddings])]
    pairs += [(net.norm.weight, body.ln_f.weight), (net.norm.bias, body.ln_f.bias)]
    for mine, theirs in zip(net.layers, body.h, strict=True):
        attention = theirs.attn
        pairs += [(mine.mixed.weight, attention.c_attn.weight.T), (mine.mixed.bias, attention.c_attn.bias)]
        pairs += [(mine.out.weight, attention.c_proj.weight.T), (mine.out.bias, attention.c_proj.bias)]
        pairs += [(mine.up.weight, theirs.mlp.c_fc.weight.T), (mine.up.bias, theirs.mlp.c_fc.bias)]
        pairs += [(mine.down.weight, theirs.mlp.c_proj.weight.T), (mine.down.bias, theirs.mlp.c_proj.bias)]
        for own, other in ((mine.before, theirs.ln_1), (mine.between, theirs.ln_2)):
            pairs += [(own.weight, other.weight), (own.bias, other.bias)]
    copy_weights(pairs)


def build(shape: Shape) -> torch.nn.Module:
    """Return a decoder in evaluation mode with weights of the generator's current state."""
    from cross_backend.workloads._decoder_net import Decoder

    return Decoder(shape).eval()
