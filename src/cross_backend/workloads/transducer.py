"""A recurrent transducer's decoder (RNN-T, Graves, 2012): one call takes the last token and one frame of an encoder.

The prediction network is an LSTM, whose states a call changes; the joiner adds the frame and returns the next token's
logits. Greedy decoding of speech is a call a frame, and one more for every token that is said.
"""

from __future__ import annotations

from dataclasses import dataclass

from cross_backend.errors import UsageError
from cross_backend.workloads import WORKLOADS, Workload, load_checkpoint

SEED = 0
STEPS = 8
"""Calls after the first, on which a capture is verified; some of their tokens are blanks."""


@dataclass(frozen=True)
class TransducerShape:
    """Sizes of a transducer's decoder."""

    layers: int
    """Of the LSTM."""
    hidden: int
    """Width of the tokens and of the LSTM."""
    frame: int
    """Numbers of a frame of the encoder."""
    joint: int
    """Width of the joiner."""
    vocabulary: int
    """Tokens; the first is the blank."""

    def check(self, name: str) -> None:
        """Refuse sizes that do not fit each other.

        Raises:
            UsageError: names what does not fit.
        """
        if min(self.layers, self.hidden, self.frame, self.joint) < 1:
            raise UsageError(f"{name}: every size must be at least 1.")
        if self.vocabulary <= 1:
            raise UsageError(f"{name}: vocabulary must be at least 2: the blank and a token.")


def rnnt_decoder(name: str = "rnnt_decoder", weights: str | None = None, **sizes: int) -> Workload:
    """Build the prediction network and joiner; inputs the (1, 1) last token and a frame (1, 512); output (1, 1024)."""
    import torch

    from cross_backend.workloads._transducer_net import BLANK, TransducerDecoder

    shape = TransducerShape(**{**WORKLOADS["rnnt_decoder"].options, **sizes})
    shape.check(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        net = TransducerDecoder(shape).eval()
        tokens = torch.randint(BLANK + 1, shape.vocabulary, (1 + STEPS,))
        frames = torch.randn(1 + STEPS, 1, shape.frame)
    tokens[2::3] = BLANK
    if weights is not None:
        load_checkpoint(net, weights)
    calls = [(token.reshape(1, 1), frame) for token, frame in zip(tokens, frames, strict=True)]
    return Workload(name, net, calls[0], calibration=tuple(calls), steps=tuple(calls[1:]))
