"""The decoder's network: layers with static caches of keys and values, of which a call writes its own positions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import torch  # noqa: TID253  imported by what builds a decoder, and by nothing else
from torch import nn  # noqa: TID253
from torch.nn import functional as F  # noqa: N812, TID253

if TYPE_CHECKING:
    from cross_backend.workloads.decoder import Shape

HIDDEN = -1e4
"""Score of a position that is not there yet: its weight is exactly 0 in float32, and it is finite in float16."""
BASE = 10_000.0
"""Of the rotary angles (Su et al., RoFormer, 2021)."""


class RootMeanSquare(nn.Module):
    """RMSNorm: x / √(mean(x²) + ε), scaled (Zhang & Sennrich, 2019)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return it, of the same shape."""
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.weight


class DecoderLayer(nn.Module):
    """Attention over the caches, then the feed-forward part; each on a norm, each added to its input."""

    keys: torch.Tensor
    values: torch.Tensor
    heads: torch.Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape, is_gpt2 = shape, shape.kind == "gpt2"
        norm = nn.LayerNorm if is_gpt2 else RootMeanSquare
        self.before, self.between = norm(shape.hidden), norm(shape.hidden)
        own, shared = shape.hidden, shape.kv_heads * shape.width
        self.mixed = nn.Linear(shape.hidden, own + 2 * shared, bias=shape.kind != "llama")
        self.out = nn.Linear(own, shape.hidden, bias=is_gpt2)
        self.up = nn.Linear(shape.hidden, shape.inner, bias=is_gpt2)
        self.down = nn.Linear(shape.inner, shape.hidden, bias=is_gpt2)
        self.gate = None if is_gpt2 else nn.Linear(shape.hidden, shape.inner, bias=False)
        size = (shape.kv_heads, shape.context, shape.width)
        self.register_buffer("keys", torch.zeros(size))
        self.register_buffer("values", torch.zeros(size))
        self.register_buffer("heads", torch.arange(shape.kv_heads)[:, None])

    def forward(
        self, x: torch.Tensor, places: torch.Tensor, seen: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor] | None
    ) -> torch.Tensor:
        """Return the next states (tokens, hidden).

        Args:
            x: states (tokens, hidden).
            places: positions (tokens,), at which keys and values are kept.
            seen: which positions each token sees, (tokens, context).
            turn: cosines and sines (tokens, width / 2) of rotary positions; None where positions are learned.
        """
        x = x + self._attention(self.before(x), places, seen, turn)
        y = self.between(x)
        up = self.up(y)
        y = F.gelu(up, approximate="tanh") if self.gate is None else F.silu(self.gate(y)) * up
        return cast("torch.Tensor", x + self.down(y))

    def _attention(self, x: torch.Tensor, places: torch.Tensor, seen: torch.Tensor, turn: Any) -> torch.Tensor:
        shape, tokens = self.shape, x.shape[0]
        shared, group = shape.kv_heads, shape.heads // shape.kv_heads
        mixed, own, one = self.mixed(x), shape.hidden, shared * shape.width
        # Slices, no split: ExecuTorch's exporter fixes the free size of a tensor that it sees split.
        q, k, v = mixed[:, :own], mixed[:, own : own + one], mixed[:, own + one :]
        q = q.reshape(tokens, shape.heads, shape.width).transpose(0, 1)
        k = k.reshape(tokens, shared, shape.width).transpose(0, 1)
        v = v.reshape(tokens, shared, shape.width).transpose(0, 1)
        if turn is not None:
            q, k = turned(q, *turn), turned(k, *turn)
        # All leading dimensions are indexed, so that runtimes write these rows where they lie.
        where = (self.heads, places[None, :])
        self.keys.index_put_(where, k)
        self.values.index_put_(where, v)
        q = q.contiguous().view(shared, group * tokens, shape.width)
        scores = torch.matmul(q, self.keys.transpose(1, 2)) * (1 / math.sqrt(shape.width))
        scores = torch.where(seen.repeat(group, 1), scores, HIDDEN)
        mixed = torch.matmul(scores.softmax(-1), self.values)
        mixed = mixed.view(shared, group, tokens, shape.width).permute(2, 0, 1, 3).reshape(tokens, shape.hidden)
        return cast("torch.Tensor", self.out(mixed))


def turned(x: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    """Rotate the halves of each head by the angles of its position."""
    first, second = x.chunk(2, -1)
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines], -1)


class Decoder(nn.Module):
    """Token ids (1, tokens) and the position (1,) of the first one to the logits (1, vocabulary) of the next token."""

    cosines: torch.Tensor
    sines: torch.Tensor
    all_places: torch.Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape, is_gpt2 = shape, shape.kind == "gpt2"
        self.tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.places = nn.Embedding(shape.context, shape.hidden) if is_gpt2 else None
        self.layers = nn.ModuleList(DecoderLayer(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.hidden) if is_gpt2 else RootMeanSquare(shape.hidden)
        self.register_buffer("all_places", torch.arange(shape.context))
        angles = torch.outer(torch.arange(shape.context), BASE ** -(torch.arange(0, shape.width, 2) / shape.width))
        self.register_buffer("cosines", angles.cos())
        self.register_buffer("sines", angles.sin())
        nn.init.normal_(self.tokens.weight, std=1 / math.sqrt(shape.hidden))

    def forward(self, tokens: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        """Return the logits (1, vocabulary) after the last of these tokens."""
        places = start + torch.arange(tokens.shape[1], device=tokens.device)
        seen = self.all_places[None, :] <= places[:, None]
        x = self.tokens(tokens[0])
        if self.places is not None:
            x, turn = x + self.places(places), None
        else:
            turn = (self.cosines[places], self.sines[places])
        for layer in self.layers:
            x = layer(x, places, seen, turn)
        return F.linear(self.norm(x[-1:]), self.tokens.weight)
