"""Explicit state: the program without state of its own computes the same, and nothing of the old one changes."""

from __future__ import annotations

import torch
from torch import nn

from cross_backend.program.capture import capture
from cross_backend.program.explicit import explicit
from cross_backend.program.state import state_of


class Both(nn.Module):
    """Two buffers that take turns, a constant one, and an output that is a state."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("first", torch.arange(3.0))
        self.register_buffer("fixed", torch.ones(3))
        self.register_buffer("second", -torch.arange(3.0))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first = self.first.clone()
        self.first.copy_(self.second + self.fixed)
        self.second.copy_(first)
        return x * self.first, self.second


def test_state_comes_last_among_inputs_and_outputs() -> None:
    program = capture(Both().eval(), (torch.ones(3),))
    pure = explicit(program)
    assert state_of(program) == ("first", "second") and state_of(pure) == ()
    assert list(pure.graph_signature.user_inputs) == ["x", "b_first", "b_second"]
    assert len(pure.graph_signature.user_outputs) == 4 and set(pure.state_dict) == {"fixed"}


def test_handing_the_state_on_gives_what_the_module_gives() -> None:
    module = Both().eval()
    program = capture(module, (torch.ones(3),))
    call = explicit(program).module()
    state = [torch.arange(3.0), -torch.arange(3.0)]
    for step in range(4):
        x = torch.full((3,), float(step + 1))
        with torch.no_grad():
            wanted = module(x)
        *outputs, first, second = call(x, *state)
        torch.testing.assert_close(outputs, [one.clone() for one in wanted])
        state = [first, second]
    torch.testing.assert_close(program.state_dict["first"], torch.arange(3.0))  # as it was captured


def test_a_program_without_state_is_itself() -> None:
    program = capture(nn.Linear(2, 2).eval(), (torch.ones(1, 2),))
    assert explicit(program) is program
