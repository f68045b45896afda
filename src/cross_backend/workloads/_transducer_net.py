"""A transducer's prediction network and joiner: what was said until now as state, and one frame of the encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch  # noqa: TID253  imported by what builds a transducer, and by nothing else
from torch import nn  # noqa: TID253

if TYPE_CHECKING:
    from cross_backend.workloads.transducer import TransducerShape

BLANK = 0
"""Token that says nothing."""


class KeptLSTM(nn.Module):
    """One LSTM layer for one step, whose hidden and cell state stay from call to call (Hochreiter & Schmidhuber)."""

    hidden: torch.Tensor
    cell: torch.Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.given, self.kept = nn.Linear(size, 4 * size), nn.Linear(size, 4 * size, bias=False)
        self.register_buffer("hidden", torch.zeros(1, size))
        self.register_buffer("cell", torch.zeros(1, size))

    def forward(self, x: torch.Tensor, stays: torch.Tensor) -> torch.Tensor:
        """Return the hidden state (1, size).

        Args:
            x: input (1, size).
            stays: whether the state stays as it was, (1, 1).
        """
        size = x.shape[1]
        gates = self.given(x) + self.kept(self.hidden)
        into, forget = gates[:, :size].sigmoid(), gates[:, size : 2 * size].sigmoid()
        new, out = gates[:, 2 * size : 3 * size].tanh(), gates[:, 3 * size :].sigmoid()
        cell = forget * self.cell + into * new
        hidden = torch.where(stays, self.hidden, out * cell.tanh())
        self.cell.copy_(torch.where(stays, self.cell, cell))
        self.hidden.copy_(hidden)
        return hidden


class TransducerDecoder(nn.Module):
    """The last token (1, 1) and a frame (1, frame) to the logits (1, vocabulary) of the next token.

    A blank leaves the state as it was, so that greedy decoding feeds whatever token came last.
    """

    def __init__(self, shape: TransducerShape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(KeptLSTM(shape.hidden) for _ in range(shape.layers))
        self.heard = nn.Linear(shape.frame, shape.joint)
        self.said = nn.Linear(shape.hidden, shape.joint, bias=False)
        self.out = nn.Linear(shape.joint, shape.vocabulary)

    def forward(self, token: torch.Tensor, frame: torch.Tensor) -> torch.Tensor:
        """Return the logits (1, vocabulary) of the next token."""
        stays = token == BLANK
        x = self.tokens(token[0])
        for layer in self.layers:
            x = layer(x, stays)
        logits: torch.Tensor = self.out((self.heard(frame) + self.said(x)).tanh())
        return logits
