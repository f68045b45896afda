"""A transducer's decoder: its LSTM computes what torch's does, a blank says nothing, and sizes are checked."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cross_backend.errors import CaptureError, UsageError
from cross_backend.workloads import find_workload
from cross_backend.workloads._transducer_net import BLANK, TransducerDecoder
from cross_backend.workloads.transducer import STEPS, TransducerShape

SHAPE = TransducerShape(layers=2, hidden=12, frame=10, joint=8, vocabulary=30)
SMALL = "rnnt_decoder?layers=2&hidden=12&frame=10&joint=8&vocabulary=30"


@pytest.fixture
def net() -> TransducerDecoder:
    torch.manual_seed(0)
    return TransducerDecoder(SHAPE).eval()


def lstm_of(net: TransducerDecoder) -> torch.nn.LSTM:
    """Build torch's own LSTM with the same weights."""
    lstm = torch.nn.LSTM(SHAPE.hidden, SHAPE.hidden, SHAPE.layers)
    with torch.no_grad():
        for index, layer in enumerate(net.layers):
            getattr(lstm, f"weight_ih_l{index}").copy_(layer.given.weight)
            getattr(lstm, f"bias_ih_l{index}").copy_(layer.given.bias)
            getattr(lstm, f"weight_hh_l{index}").copy_(layer.kept.weight)
            getattr(lstm, f"bias_hh_l{index}").zero_()
    return lstm


def test_a_sequence_is_that_of_torchs_lstm(net: TransducerDecoder) -> None:
    tokens, frames = torch.randint(1, SHAPE.vocabulary, (7,)), torch.randn(7, 1, SHAPE.frame)
    with torch.no_grad():
        found = torch.cat([net(token.reshape(1, 1), frame) for token, frame in zip(tokens, frames, strict=True)])
        said, _ = lstm_of(net)(net.tokens(tokens))
        wanted = net.out((net.heard(frames[:, 0]) + net.said(said)).tanh())
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_blank_leaves_the_state(net: TransducerDecoder) -> None:
    frame, blank = torch.randn(1, SHAPE.frame), torch.tensor([[BLANK]])
    with torch.no_grad():
        first = net(torch.tensor([[5]]), frame)
        kept = [one.clone() for one in net.buffers()]
        again = net(blank, frame)
        assert all(torch.equal(one, other) for one, other in zip(kept, net.buffers(), strict=True))
        assert torch.equal(first, again) and not torch.equal(first, net(blank, 2 * frame))
        assert not torch.equal(first, net(torch.tensor([[5]]), frame)), "the same token once more changes the state"


def test_the_sample_has_tokens_and_blanks() -> None:
    built = find_workload(SMALL).build()
    assert len(built.steps) == STEPS and [tuple(x.shape) for x in built.inputs] == [(1, 1), (1, 10)]
    tokens = [int(call[0]) for call in (built.inputs, *built.steps)]
    assert tokens.count(BLANK) == 3 and tokens[0] != BLANK


def test_weights_are_a_checkpoint(net: TransducerDecoder, tmp_path: Path) -> None:
    torch.save(net.state_dict(), tmp_path / "weights.pt")
    built = find_workload(SMALL, str(tmp_path / "weights.pt")).build().model
    assert isinstance(built, TransducerDecoder) and torch.equal(built.out.weight, net.out.weight)
    with pytest.raises(CaptureError, match="do not fit"):
        find_workload("rnnt_decoder", str(tmp_path / "weights.pt")).build()


@pytest.mark.parametrize(("sizes", "said"), [("layers=0", "at least 1"), ("vocabulary=1", "vocabulary must be")])
def test_sizes_that_do_not_fit_are_refused(sizes: str, said: str) -> None:
    with pytest.raises((UsageError, CaptureError), match=said):
        find_workload(f"rnnt_decoder?{sizes}").build()
