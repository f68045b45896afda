"""Networks of encoder-decoders: what an encoder leaves for the decoder, and a decoder that reads it beside its caches.

The memory is the keys and values of every decoder layer's cross-attention. They depend on the source alone, so the
encoder's program computes them once for a sequence, and the decoder's program takes them as inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import torch  # noqa: TID253  imported by what builds a decoder, and by nothing else
from torch import nn  # noqa: TID253
from torch.nn import functional as F  # noqa: N812, TID253

from cross_backend.workloads._decoder_net import HIDDEN

if TYPE_CHECKING:
    from cross_backend.workloads.encoder_decoder import CrossShape

T5_EPSILON = 1e-6
"""Of T5's norms."""


class T5Norm(nn.Module):
    """RMSNorm as T5 computes it: x / √(mean(x²) + ε), scaled; no mean is taken off."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return it, of the same shape."""
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + T5_EPSILON) * self.weight


class EncoderMemory(nn.Module):
    """An encoder, then keys and values ``(layers, heads, n, width)`` of every decoder layer's cross-attention."""

    def __init__(self, shape: CrossShape, encoder: nn.Module, run: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.shape, self.encoder, self.run = shape, encoder, run
        size = shape.layers * shape.heads * shape.width
        self.keys = nn.Linear(shape.hidden, size, bias=False)
        self.values = nn.Linear(shape.hidden, size, bias=shape.kind == "whisper")

    def forward(self, source: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return keys and values for ids ``(1, n)`` or a spectrogram ``(1, bands, frames)``."""
        states = self.run(self, source)[0]
        return self._stacked(self.keys(states)), self._stacked(self.values(states))

    def _stacked(self, x: torch.Tensor) -> torch.Tensor:
        shape = self.shape
        return x.reshape(x.shape[0], shape.layers, shape.heads, shape.width).permute(1, 2, 0, 3)


class Attention(nn.Module):
    """Projections of one attention; keys and values of a cross-attention are the encoder's."""

    def __init__(self, shape: CrossShape, *, is_cross: bool) -> None:
        super().__init__()
        self.shape, has_bias = shape, shape.kind == "whisper"
        own = shape.heads * shape.width
        self.q = nn.Linear(shape.hidden, own, bias=has_bias)
        self.k = None if is_cross else nn.Linear(shape.hidden, own, bias=False)
        self.v = None if is_cross else nn.Linear(shape.hidden, own, bias=has_bias)
        self.out = nn.Linear(own, shape.hidden, bias=has_bias)

    def heads(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``(heads, tokens, width)`` of ``(tokens, heads × width)``."""
        return x.reshape(x.shape[0], self.shape.heads, self.shape.width).transpose(0, 1)

    def scores(self, x: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """Return the scores ``(heads, tokens, n)``; T5's are not scaled."""
        q = self.q(x)
        if self.shape.kind == "whisper":
            q = q * (1 / math.sqrt(self.shape.width))
        return torch.matmul(self.heads(q), keys.transpose(1, 2))

    def mixed(self, scores: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Return ``(tokens, hidden)`` of scores and values ``(heads, n, width)``."""
        found = torch.matmul(scores.softmax(-1), values).transpose(0, 1)
        return cast("torch.Tensor", self.out(found.reshape(found.shape[0], self.shape.heads * self.shape.width)))


class CrossLayer(nn.Module):
    """Attention over the caches, attention over the memory, then the feed-forward part; each added to its input."""

    keys: torch.Tensor
    values: torch.Tensor
    index: torch.Tensor

    def __init__(self, shape: CrossShape) -> None:
        super().__init__()
        is_t5 = shape.kind == "t5"
        norm = T5Norm if is_t5 else nn.LayerNorm
        self.before, self.across, self.between = (norm(shape.hidden) for _ in range(3))
        self.own, self.cross = Attention(shape, is_cross=False), Attention(shape, is_cross=True)
        self.up = nn.Linear(shape.hidden, shape.inner, bias=not is_t5)
        self.down = nn.Linear(shape.inner, shape.hidden, bias=not is_t5)
        self.activation = F.relu if is_t5 else F.gelu
        size = (shape.heads, shape.context, shape.width)
        self.register_buffer("keys", torch.zeros(size))
        self.register_buffer("values", torch.zeros(size))
        self.register_buffer("index", torch.arange(shape.heads)[:, None])

    def forward(
        self,
        x: torch.Tensor,
        places: torch.Tensor,
        seen: torch.Tensor,
        bias: torch.Tensor | None,
        memory: tuple[torch.Tensor, torch.Tensor],
    ) -> torch.Tensor:
        """Return the next states (tokens, hidden).

        Args:
            x: states (tokens, hidden).
            places: positions (tokens,), at which keys and values are kept.
            seen: which positions each token sees, (tokens, context).
            bias: added to the scores of the caches, (heads, tokens, context); None where positions are learned.
            memory: keys and values (heads, n, width) of this layer.
        """
        y = self.before(x)
        # All leading dimensions are indexed, so that runtimes write these rows where they lie.
        where = (self.index, places[None, :])
        self.keys.index_put_(where, self.own.heads(self.own.k(y)))  # type: ignore[misc]
        self.values.index_put_(where, self.own.heads(self.own.v(y)))  # type: ignore[misc]
        scores = self.own.scores(y, self.keys)
        if bias is not None:
            scores = scores + bias
        x = x + self.own.mixed(torch.where(seen, scores, HIDDEN), self.values)
        keys, values = memory
        x = x + self.cross.mixed(self.cross.scores(self.across(x), keys), values)
        return cast("torch.Tensor", x + self.down(self.activation(self.up(self.between(x)))))


class CrossDecoder(nn.Module):
    """Ids (1, tokens), the position (1,) of the first and a memory to the logits (1, vocabulary) of the next token."""

    all_places: torch.Tensor
    buckets: torch.Tensor

    def __init__(self, shape: CrossShape) -> None:
        super().__init__()
        self.shape, is_t5 = shape, shape.kind == "t5"
        self.tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.places = None if is_t5 else nn.Embedding(shape.context, shape.hidden)
        self.distances = nn.Embedding(BUCKETS, shape.heads) if is_t5 else None
        self.layers = nn.ModuleList(CrossLayer(shape) for _ in range(shape.layers))
        self.norm = T5Norm(shape.hidden) if is_t5 else nn.LayerNorm(shape.hidden)
        self.register_buffer("all_places", torch.arange(shape.context))
        if is_t5:
            self.register_buffer("buckets", causal_buckets(shape.context))

    def forward(
        self, tokens: torch.Tensor, start: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> torch.Tensor:
        """Return the logits (1, vocabulary) after the last of these tokens."""
        places = start + torch.arange(tokens.shape[1], device=tokens.device)
        seen = self.all_places[None, :] <= places[:, None]
        x, bias = self.tokens(tokens[0]), None
        if self.places is not None:
            x = x + self.places(places)
        if self.distances is not None:
            bias = self.distances(self.buckets[places]).permute(2, 0, 1)
        for index, layer in enumerate(self.layers):
            x = layer(x, places, seen, bias, (keys[index], values[index]))
        x = self.norm(x[-1:])
        if self.shape.kind == "t5":
            x = x * self.shape.hidden**-0.5
        return F.linear(x, self.tokens.weight)


BUCKETS, FAR = 32, 128
"""Buckets of distances, and the distance from which all fall into the last one, as in T5."""


def causal_buckets(context: int) -> torch.Tensor:
    """Return the bucket (context, context) of each position as seen from each position; later ones are in bucket 0.

    Half of the buckets are single distances, the others grow with the logarithm (Raffel et al., T5, 2020). Runtimes
    differ at the edges of a truncated logarithm, so the buckets are a constant.
    """
    exact = BUCKETS // 2
    of_distance = []
    for distance in range(context):
        grown = exact + int(math.log(max(distance, 1) / exact) / math.log(FAR / exact) * (BUCKETS - exact))
        of_distance.append(distance if distance < exact else min(grown, BUCKETS - 1))
    places = torch.arange(context, device="cpu")
    distances = (places[:, None] - places[None, :]).clamp(min=0)
    return torch.tensor(of_distance, device="cpu")[distances]
