"""Check: a step of the compiler that breaks a program is caught behind it, and named."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable

import pytest
import torch

import atalla
from atalla import compiler, ir
from atalla.isa import Dtype, Layout, Op, Space
from atalla.passes.check import check_program
from atalla.passes.lower import lower
from atalla.passes.normalize import normalize
from atalla.passes.rules import all_rules
from tests.atalla.nets import NETS, some_quick

Break = Callable[[ir.Program], None]


def program(name: str = "residual") -> ir.Program:
    torch.manual_seed(0)
    module, inputs = NETS[name]()
    return lower(normalize(torch.export.export(module.eval(), inputs)), all_rules()).program


def swapped(made: ir.Program) -> None:
    made.instructions.reverse()


def dropped(made: ir.Program) -> None:
    del made.instructions[1]


def unwritten_output(made: ir.Program) -> None:
    made.instructions.pop()


def view_of_a_view(made: ir.Program) -> None:
    first = made.instructions[1].reads[0]
    between = first.view(first.shape, first.strides)
    made.instructions[1].sources = (
        dataclasses.replace(first, root=between), *made.instructions[1].sources[1:],
    )  # fmt: skip


def beyond_its_storage(made: ir.Program) -> None:
    first = made.instructions[1]
    assert first.dst is not None
    first.dst = first.dst.view(first.dst.shape, first.dst.strides, 1)


def written_constant(made: ir.Program) -> None:
    made.instructions[1].dst = made.instructions[1].sources[1]


def in_place(made: ir.Program) -> None:
    ew = next(one for one in made.instructions if one.op is Op.EW)
    ew.dst = ew.reads[0]


def another_shape(made: ir.Program) -> None:
    ew = next(one for one in made.instructions if one.op is Op.EW)
    assert ew.dst is not None
    ew.dst = ir.new_storage("other", Dtype.F32, (7, *ew.dst.shape[1:]))


def unknown_attribute(made: ir.Program) -> None:
    made.instructions[1].attributes = {**made.instructions[1].attributes, "speed": 3}


def too_few_sources(made: ir.Program) -> None:
    made.instructions[1].sources = made.instructions[1].sources[:1]


def packed_for_another(made: ir.Program) -> None:
    weight = made.instructions[1].sources[1]
    assert weight is not None
    weight.layout = Layout.DEPTHWISE


def constant_without_elements(made: ir.Program) -> None:
    weight = made.instructions[1].sources[1]
    assert weight is not None
    weight.storage.data = None


def moved_view(made: ir.Program) -> None:
    tensor = made.instructions[-2].reads[0]
    made.instructions[-2].sources = (
        dataclasses.replace(tensor, root=tensor.storage, space=Space.STATE), *made.instructions[-2].sources[1:],
    )  # fmt: skip


BREAKS: dict[Break, str] = {
    swapped: "read before it is written", dropped: "read before it is written", unwritten_output: "nothing writes it",
    view_of_a_view: "a view of a view", beyond_its_storage: "reaches out of", written_constant: "is written",
    in_place: "read where it is written", another_shape: "has not the shape", unknown_attribute: "attributes",
    too_few_sources: "1 sources", packed_for_another: "packed for another", constant_without_elements: "elements",
    moved_view: "is not where",
}  # fmt: skip


@pytest.mark.parametrize("name", some_quick())
def test_what_is_lowered_is_whole(name: str) -> None:
    check_program(program(name), "lower")


@pytest.mark.parametrize("damage", BREAKS, ids=lambda one: one.__name__)
def test_what_is_broken_is_found(damage: Break) -> None:
    made = program()
    damage(made)
    with pytest.raises(atalla.CompileError, match=f"step 'fuse' broke .*{BREAKS[damage]}"):
        check_program(made, "fuse")


@pytest.mark.parametrize("step", ["lower", "fuse", "pack", "resolve_symbols"])
def test_each_step_is_looked_at(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = getattr(compiler, step)

    def broken(*arguments: object, **named: object) -> object:
        result = done(*arguments, **named)
        made = result.program if step == "lower" else arguments[0]
        made.instructions.pop()
        return result

    monkeypatch.setattr(compiler, step, broken)
    module, inputs = NETS["mlp"]()
    exported = torch.export.export(module.eval(), inputs)
    with pytest.raises(atalla.CompileError, match=f"step '{step}' broke the program at output 0: nothing writes it"):
        atalla.compile(exported)


def test_the_bytes_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    done = compiler.encode
    monkeypatch.setattr(compiler, "encode", lambda *given: done(*given)[:-1])
    module, inputs = NETS["mlp"]()
    with pytest.raises(atalla.CompileError, match="step 'encode' made no sound blob: size"):
        atalla.compile(torch.export.export(module.eval(), inputs))


def test_a_program_is_not_changed_by_being_looked_at() -> None:
    made = program()
    before = [copy.copy(one.__dict__) for one in made.instructions]
    check_program(made, "lower")
    assert before == [one.__dict__ for one in made.instructions]
