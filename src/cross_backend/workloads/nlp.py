"""Text models of transformers on sequences of 128 tokens, mask-free, with seeded random weights or real ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cross_backend.workloads import Workload
from cross_backend.workloads._transformers import SEED, as_module, import_transformers, load_model
from cross_backend.workloads.media import TextMedia

if TYPE_CHECKING:
    import torch

TOKENS = 128
CALIBRATION = 4
"""Random sequences that quantisers observe."""
_BERT = {
    "bert_base": {},
    "bert_large": {
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
    },
}
_TEXT: dict[str, dict[str, Any]] = {
    "BertModel": {"padding": 0},
    "GPT2LMHeadModel": {"padding": 50256, "pads_before": True, "predicts": True, "has_bytes": True},
    "T5EncoderModel": {"padding": 0},
}
"""Model class → what fills a short text up, and where; GPT-2 has no padding: texts begin after its end-of-text."""
_HIDDEN = -1e4
"""Added to the scores of later tokens: their weight is exactly 0 in float32, and it is finite in float16."""


def bert(name: str, weights: str | None = None) -> Workload:
    """Build BERT; input (1, 128) token ids, outputs (1, 128, hidden) states and (1, hidden) pooled.

    All tokens count: there is no padding and no mask.
    """
    package = import_transformers(name, "nlp")
    return _build(name, package.BertModel, package.BertConfig(**_BERT[name]), weights, bert_module)


def bert_module(model: Any) -> torch.nn.Module:
    """Return a BertModel as a module of token ids."""
    import torch

    segments = torch.zeros((1, TOKENS), dtype=torch.int64)
    return as_module(model, _run_bert, positions=torch.arange(TOKENS)[None], segments=segments)


def _run_bert(net: Any, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    embedded = net.model.embeddings(input_ids=ids, token_type_ids=net.segments, position_ids=net.positions)
    states = net.model.encoder(embedded, attention_mask=None).last_hidden_state
    return states, net.model.pooler(states)


def gpt2(name: str = "gpt2", weights: str | None = None) -> Workload:
    """Build GPT-2's prefill; input (1, 128) token ids.

    Outputs: (1, 50257) logits of the next token, then keys and values (1, 12, 128, 64) of each of the 12 layers.
    """
    package = import_transformers(name, "nlp")
    return _build(name, package.GPT2LMHeadModel, package.GPT2Config(), weights, gpt2_module)


def gpt2_module(model: Any) -> torch.nn.Module:
    """Return a GPT2LMHeadModel as a module of token ids."""
    import torch

    later = torch.full((TOKENS, TOKENS), _HIDDEN).triu(1)[None, None]
    return as_module(model, _run_gpt2, positions=torch.arange(TOKENS)[None], later=later)


class _Kept:
    """Keeps each layer's keys and values: what a prefill is run for."""

    def __init__(self) -> None:
        self.tensors: list[torch.Tensor] = []

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:  # noqa: ARG002
        self.tensors += [keys, values]
        return keys, values


def _run_gpt2(net: Any, ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
    body, kept = net.model.transformer, _Kept()
    states = body.wte(ids) + body.wpe(net.positions)
    for block in body.h:
        states = block(states, kept, net.later)
    return net.model.lm_head(body.ln_f(states)[:, -1]), *kept.tensors


def t5_encoder(name: str = "t5_encoder", weights: str | None = None) -> Workload:
    """Build the encoder of T5-small; input (1, 128) token ids, output (1, 128, 512) states."""
    package = import_transformers(name, "nlp")
    return _build(name, package.T5EncoderModel, package.T5Config(), weights, t5_module)


def t5_module(model: Any) -> torch.nn.Module:
    """Return a T5EncoderModel as a module of token ids."""
    return as_module(model, _run_t5, buckets=t5_buckets(model.encoder, TOKENS))


def t5_buckets(stack: Any, tokens: int) -> torch.Tensor:
    """Return the bucket (tokens, tokens) of each distance, for T5's encoder.

    Distances fall into buckets by a truncated logarithm, in which runtimes differ at the edges: they are a constant.
    """
    import torch

    attention = stack.block[0].layer[0].SelfAttention
    distances = torch.arange(tokens)[None] - torch.arange(tokens)[:, None]
    buckets: torch.Tensor = attention._relative_position_bucket(  # noqa: SLF001
        distances,
        num_buckets=attention.relative_attention_num_buckets,
        max_distance=attention.relative_attention_max_distance,
    )
    return buckets


def _run_t5(net: Any, ids: torch.Tensor) -> torch.Tensor:
    return t5_states(net.model.encoder, net.buckets, ids)


def t5_states(stack: Any, buckets: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Return the states (1, tokens, hidden) of T5's encoder."""
    attention = stack.block[0].layer[0].SelfAttention
    bias = attention.relative_attention_bias(buckets).permute(2, 0, 1)[None]
    states = stack.embed_tokens(ids)
    for block in stack.block:
        states = block(states, position_bias=bias)[0]
    encoded: torch.Tensor = stack.final_layer_norm(states)
    return encoded


def _build(name: str, kind: Any, config: Any, weights: str | None, wrap: Any) -> Workload:
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model = load_model(name, kind, config, weights)
        texts = [(torch.randint(model.config.vocab_size, (1, TOKENS)),) for _ in range(1 + CALIBRATION)]
    media = TextMedia(tokens=TOKENS, ids=model.config.vocab_size, trained=weights is not None, **_TEXT[kind.__name__])
    return Workload(name, wrap(model), texts[0], tuple(texts[1:]), media=media)
