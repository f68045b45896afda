"""Parts: what a part computes is what the whole computes there; bad cuts are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from cross_backend.errors import UnsupportedError
from cross_backend.localization.functional import functional
from cross_backend.localization.part import part, units
from cross_backend.program.capture import capture
from cross_backend.program.flattening import flatten


class Net(nn.Module):
    """Writes in place, splits, decides, and uses weights, buffers and a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 4)
        self.act = nn.Hardswish(inplace=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = F.relu6(self.act(self.norm(self.conv(x))), inplace=True)
        a, b = y.mean((2, 3)).split(4, 1)
        z = torch.cond(a.sum() > 0, lambda q: q * 2, lambda q: q + 1, (b,))
        return self.head(torch.cat([a, b], 1)) + torch.tensor([1.0, 2.0, 3.0, 4.0]), z


class Counts(nn.Module):
    """Has state."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return (x * 2 + self.count).relu()


def _program(module: nn.Module, *inputs: torch.Tensor) -> Any:
    return functional(flatten(capture(module, inputs)))


def _values(program: Any, *inputs: torch.Tensor) -> dict[str, Any]:
    found = {}

    class Noting(torch.fx.Interpreter):
        def run_node(self, n: Any) -> Any:
            found[n.name] = super().run_node(n)
            return found[n.name]

    state = {**program.state_dict, **program.constants}
    given = iter(inputs)
    leaves = [state[s.target] if s.target else next(given) for s in program.graph_signature.input_specs]
    with torch.no_grad():
        Noting(program.graph_module).run(*leaves)
    return found


def _run(made: Any, values: dict[str, Any]) -> list[torch.Tensor]:
    with torch.no_grad():
        found = made.program.module()(*(values[name] for name in made.inputs))
    return list(found) if isinstance(found, tuple) else [found]


@pytest.mark.parametrize("module", [Net(), Counts()], ids=["net", "state"])
def test_both_sides_of_every_cut_compute_what_the_whole_computes(module: nn.Module) -> None:
    x = torch.rand(2, 3, 8, 8)
    program = _program(module, x)
    values, pieces = _values(program, x), units(program)
    assert len(pieces) > 3
    for at in range(1, len(pieces)):
        for side in (pieces[:at], pieces[at:]):
            made = part(program, [name for names in side for name in names], values=values)
            assert made.program.example_inputs is not None
            for name, got in zip(made.outputs, _run(made, values), strict=True):
                torch.testing.assert_close(got, values[name], rtol=0, atol=0)


def test_operators_that_write_in_place_return_a_new_value_under_their_old_name() -> None:
    program = flatten(capture(Net(), (torch.rand(2, 3, 8, 8),)))
    made = part(program, ["hardswish_"])
    (node,) = (one for one in made.program.graph.nodes if one.op == "call_function")
    assert str(node.target) == "aten.hardswish.default"
    assert made.inputs == ("batch_norm",)
    assert made.outputs == ("hardswish_",)


def test_a_part_keeps_stack_traces_weights_and_the_graphs_of_a_condition() -> None:
    program = _program(Net(), torch.rand(2, 3, 8, 8))
    made = part(program, ["conv2d"])
    assert set(made.program.state_dict) == {"conv.weight", "conv.bias"}
    (node,) = (one for one in made.program.graph.nodes if one.name == "conv2d")
    assert "test_part.py" in node.meta["stack_trace"]
    assert part(program, ["cond"]).nodes == ("cond", "getitem_2")


def test_state_is_a_value_that_enters_and_leaves() -> None:
    program = _program(Counts(), torch.rand(2))
    names = [name for names in units(program) for name in names]
    made = part(program, names)
    assert made.inputs[0].startswith("b_")
    assert len(made.outputs) == 2
    assert not made.program.graph_signature.buffers_to_mutate


def test_values_of_several_dimensions_leave_as_rows_where_that_is_asked_for() -> None:
    x = torch.rand(2, 3, 8, 8)
    program = _program(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten()).eval(), x)
    values, names = _values(program, x), [name for unit in units(program) for name in unit]
    made = part(program, names, names, flat=True)
    assert made.outputs == ("conv2d", "relu", "flatten")
    conv, relu, flatten_ = _run(made, values)
    assert torch.equal(conv, values["conv2d"].flatten()) and torch.equal(relu, values["relu"].flatten())
    assert torch.equal(flatten_, values["flatten"])


def test_values_inside_of_a_part_leave_where_they_are_asked_for() -> None:
    program = _program(Net(), torch.rand(2, 3, 8, 8))
    names = ["conv2d", "batch_norm", "hardswish_"]
    assert part(program, names).outputs == ("hardswish_",)
    assert part(program, names, outputs=names).outputs == tuple(names)


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        (["conv2d", "hardswish_"], "batch_norm lies between"),
        (["nothing"], "no operator nothing"),
        ([], "no operator was named"),
    ],
)
def test_what_cannot_be_a_part_is_refused(nodes: list[str], why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        part(_program(Net(), torch.rand(2, 3, 8, 8)), nodes)


def test_free_extents_stay_free() -> None:
    program = flatten(capture(Net(), (torch.rand(2, 3, 8, 8),), ({0: torch.export.Dim("n", min=1, max=9)},)))
    made = part(program, ["conv2d"])
    (batch, *_) = next(n for n in made.program.graph.nodes if n.name == "x").meta["val"].shape
    assert not isinstance(batch, int)
    (found,) = made.program.module()(torch.rand(5, 3, 8, 8))
    assert found.shape[0] == 5
