"""Hints: thresholds solved backwards to the input, rows of tables, free extents; conditions and the sides reached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cross_backend.program.capture import capture
from cross_backend.program.flattening import flatten
from cross_backend.program.hints import hints_of, shapes_of
from cross_backend.program.running import Conditions, Runs, run_disturbed, run_wide
from cross_backend.program.state import state_of

X = torch.linspace(0.1, 1, 8).reshape(2, 4)


class Net(nn.Module):
    def __init__(self, run: Callable[..., Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.run, self.linear, self.table = run, nn.Linear(4, 4), nn.Embedding(9, 4)
        self.register_buffer("kept", torch.zeros(2, 4))
        self.register_buffer("position", torch.zeros(1, dtype=torch.int64))

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.run(self, *inputs)


def program(run: Callable[..., Any], *inputs: torch.Tensor, **more: Any) -> Any:
    return flatten(capture(Net(run), inputs or (X,), **more))


@pytest.mark.parametrize(
    ("run", "wanted"),
    [
        (lambda m, x: x.clamp(-6, 6), {-6.0, 6.0}),
        (lambda m, x: (x * 2 - 1).clamp(min=3), {2.0}),
        (lambda m, x: torch.relu(1 - x / 4), set()),  # 1 − x has the input second
        (lambda m, x: torch.relu(x / 4 + 1), {-4.0}),
        (lambda m, x: torch.where(-x > 0.5, x, x + 1), {-0.5}),
        (lambda m, x: torch.round(x.reshape(4, 2) * 4), {-0.375, -0.125, 0.125, 0.375, 0.625}),
        (lambda m, x: torch.relu(m.linear(x)), set()),
    ],
)
def test_thresholds_are_solved_where_that_is_easy(run: Callable[..., Any], wanted: set[float]) -> None:
    assert set(hints_of(program(run))[0].thresholds) == wanted


def test_the_rows_of_a_table_are_known() -> None:
    found = hints_of(program(lambda m, t: m.table(t.reshape(-1)), torch.tensor([[1, 2]])))
    assert found[0].rows == 9


def test_free_extents_are_tried_at_both_ends() -> None:
    shapes = {0: torch.export.Dim("n", min=2, max=40)}
    found = dict(shapes_of(program(lambda m, x: m.linear(x), dynamic_shapes=((shapes,),))))
    assert found["largest sizes"] == [(40, 4)] and found["middle sizes"] == [(21, 4)]
    assert not list(shapes_of(program(lambda m, x: m.linear(x))))


def test_sides_that_were_not_reached_are_named_with_their_line() -> None:
    made = program(
        lambda m, x: (torch.relu(x), x.clamp(-9, 0.5), torch.cond(x.sum() > 0, lambda x: x, lambda x: -x, (x,)))
    )
    conditions = Conditions(made)
    conditions.run([X])
    missed = conditions.missed()
    assert len(missed) == 4 and conditions.count == 10, missed
    assert any("relu" in one and "below 0" in one and "test_hints.py" in one for one in missed)
    conditions.run([-X * 100])
    assert conditions.missed() == []


def test_a_run_in_float64_and_disturbed_ones_show_the_rounding() -> None:
    made = program(lambda m, x: (x + 1e4) - 1e4)
    exact, (wide,) = X.numpy(), run_wide(Runs(made), [X])
    (first,), (second,) = (run_disturbed(Runs(made), [X], seed) for seed in range(2))
    assert np.abs(wide - exact).max() < 1e-6
    assert 1e-4 < np.abs(first - second).max() < 1e-2


@pytest.mark.parametrize(
    "normalise",
    [
        torch.nn.functional.instance_norm,
        lambda x: torch.nn.functional.group_norm(x, 4),
        lambda x: torch.nn.functional.layer_norm(x, (26, 26)),
    ],
)
def test_a_mean_is_rounded_where_nothing_else_is(normalise: Callable[[Any], Any]) -> None:
    """A normalisation of equal numbers shows only how their sum is rounded."""

    def rounding(x: torch.Tensor) -> float:
        (seen,) = run_disturbed(Runs(program(lambda _, x: normalise(x), x)), [x], 0) or [np.zeros(0)]
        return float(np.abs(seen - normalise(x).numpy()).max())

    one = torch.full((1, 4, 26, 26), 0.7)
    spread = torch.randn(1, 4, 26, 26, generator=torch.Generator().manual_seed(0))
    assert 5e-4 < rounding(one) < 5e-2
    assert rounding(spread) < 5e-6, "and is nothing beside ordinary data"


def test_state_is_what_a_node_writes_into() -> None:
    assert state_of(program(lambda m, x: m.kept.add_(x) + 0)) == ("kept",)
    assert state_of(program(lambda m, x: m.kept[:1].copy_(x[:1]) + x)) == ("kept",)
    assert state_of(program(lambda m, x: m.kept + x)) == ()
    made = program(lambda m, x: m.kept.add_(x) + 0)
    before = made.state_dict["kept"].clone()
    Runs(made).module()(X)
    assert torch.equal(made.state_dict["kept"], before), "a run leaves the program as it was"
