"""Dynamic shapes: one blob runs with every size in range, as eager does; both loaders specialise it alike."""

from __future__ import annotations

import functools
import random
import struct
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

import atalla
from atalla.blob.reader import parse
from atalla.blob.specialize import specialize
from atalla.blob.verify import verify
from atalla.blob.writer import join_sections
from atalla.isa import Dtype, NodeKind, Op, PatchKind, Space, Verdict
from atalla.isa.format import CALL, INSTRUCTION, NODE, NOTHING, OUTPUT, PATCH, SYMBOL, SYMBOLS, TENSOR
from atalla.run.kernels import OpenBlob
from atalla.run.runtime import MOST_SHAPES
from tests.atalla.dynamic_nets import DYNAMIC, like
from tests.atalla.test_verify import MUTATIONS, c, mutated, python, sections, signed

ISAS = pytest.mark.parametrize("isa", [None, "reference"])


@functools.cache
def program(name: str) -> tuple[nn.Module, Any, list[tuple[torch.Tensor, ...]]]:
    torch.manual_seed(0)
    module, inputs, sizes, others = DYNAMIC[name]()
    exported = torch.export.export(module.eval(), inputs, dynamic_shapes=sizes)
    return module, exported, [inputs, *(tuple(map(like, inputs, shapes)) for shapes in others)]


@functools.cache
def compiled(name: str) -> atalla.Compiled:
    return atalla.compile(program(name)[1])


def compare(loaded: atalla.Loaded, module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
    with torch.no_grad():
        wanted = pytree.tree_leaves(module(*inputs))
    found = loaded.run(inputs)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        if isinstance(other, torch.Tensor):
            assert one.shape == other.shape and one.stride() == other.stride()
        torch.testing.assert_close(one, other, rtol=2e-5, atol=2e-5)


@ISAS
@pytest.mark.parametrize("name", DYNAMIC)
def test_every_size_gives_what_eager_gives(name: str, isa: str | None) -> None:
    module, _, inputs = program(name)
    loaded = atalla.load(compiled(name).data, isa=isa)
    for one in (*inputs, inputs[0]):
        compare(loaded, module, one)


@ISAS
def test_sizes_that_a_program_does_not_take_are_refused(isa: str | None) -> None:
    loaded = atalla.load(compiled("numbers").data, isa=isa)
    for shapes, told in (
        (((9, 8), (9, 4)), r"^input 0 \(inputs_0\) has 9 in dim 0, which goes from 1 to 8$"),
        (((0, 8), (0, 4)), r"^input 0 \(inputs_0\) has 0 in dim 0, which goes from 1 to 8$"),
        (((2, 7), (2, 4)), r"^input 0 \(inputs_0\) has 7 in dim 1, which goes from 4 to 128 in steps of 2$"),
        (((2, 8), (3, 4)), r"^input 1 \(inputs_1\) has 3 in dim 0 instead of 2$"),
        (((2, 8), (2, 5)), r"^input 1 \(inputs_1\) has 5 in dim 1 instead of 4$"),
        (((2, 8, 1), (2, 4)), r"^input 0 \(inputs_0\) has 3 dims instead of 2$"),
    ):
        with pytest.raises(atalla.InputError, match=told):
            loaded.run([torch.zeros(shape) for shape in shapes])
    with pytest.raises(atalla.InputError, match=r"float64 instead of torch\.float32"):
        loaded.run([torch.zeros(2, 8), torch.zeros(2, 4, dtype=torch.float64)])
    compare(loaded, program("numbers")[0], program("numbers")[2][1])


def test_a_program_may_be_compiled_for_some_sizes_alone() -> None:
    module, exported, inputs = program("encoder")
    made = atalla.compile(exported, shapes=[(3, 1)])
    assert not parse(made.data).symbols and len(made.data) < len(compiled("encoder").data)
    loaded = atalla.load(made.data)
    compare(loaded, module, inputs[3])
    with pytest.raises(atalla.InputError, match=r"shape \[2, 9\] instead of \[3, 1\]"):
        loaded.run(inputs[0])
    for wrong in ([(9, 4)], [(3, 4, 1)], []):
        with pytest.raises(atalla.InputError):
            atalla.compile(exported, shapes=wrong)


def test_the_shapes_that_were_used_last_are_kept() -> None:
    module, _, _ = program("mlp")
    loaded = atalla.load(compiled("mlp").data)
    bound = loaded.bind((torch.ones(1, 7),))
    for rows in range(1, 9):
        compare(loaded, module, (torch.randn(rows, 7),))
    assert len(loaded._shaped) == MOST_SHAPES
    torch.testing.assert_close(bound()[0], module(torch.ones(1, 7)).detach())


def test_a_size_that_only_a_run_tells_is_refused() -> None:
    class Picks(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[x > 0] * 2

    with pytest.raises(atalla.CompileError, match="known only while the program runs"):
        atalla.compile(torch.export.export(Picks(), (torch.randn(5),)))


def test_what_the_program_asserts_of_sizes_holds() -> None:
    class Halves(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch._check(x.shape[0] % 2 == 0)
            return x.view(2, -1).sum(0)

    sizes = ({0: Dim.DYNAMIC},)
    exported = torch.export.export(
        Halves(), (torch.randn(6),), dynamic_shapes=sizes, prefer_deferred_runtime_asserts_over_guards=True
    )
    loaded = atalla.load(atalla.compile(exported).data)
    compare(loaded, Halves(), (torch.randn(10),))
    with pytest.raises(atalla.InputError):
        loaded.run((torch.randn(7),))


def verdicts(data: bytes, shapes: Sequence[Sequence[int]]) -> tuple[int, int]:
    """Give what becomes of a sound blob for these shapes, in Python and in C; −1 where inputs are refused."""
    try:
        found: int = Verdict.SOUND
        verify(specialize(parse(data), shapes))
    except atalla.BlobError as error:
        found = error.code
    except atalla.InputError:
        found = -1
    try:
        other: int = Verdict.SOUND
        OpenBlob(data).specialize(shapes)
    except atalla.BlobError as error:
        other = error.code
    except atalla.InputError:
        other = -1
    return found, other


@pytest.mark.timeout(300 + MUTATIONS)
@pytest.mark.parametrize("name", DYNAMIC)
def test_both_loaders_give_the_same_verdict(name: str) -> None:
    data, chance = compiled(name).data, random.Random(name)
    assert python(data) == c(data) == Verdict.SOUND
    shapes = [tuple(tuple(one.shape) for one in inputs) for inputs in program(name)[2]]
    seen = set()
    for _ in range(MUTATIONS):
        made = mutated(data, chance, (b"SYMS", b"SYMS", b"TENS", b"STAT"))
        verdict = python(made)
        assert verdict == c(made)
        seen.add(verdict)
        if verdict == Verdict.SOUND:
            first, second = verdicts(made, chance.choice(shapes))
            assert first == second
            seen.add(first)
    assert Verdict.SYMBOLS in seen and len(seen) > 3, "the mutations reach most checks"


def patches_of(data: bytes | bytearray) -> tuple[int, int]:
    """Give where the patches of SYMS begin, and how many there are."""
    at, _ = sections(data)[b"SYMS"]
    symbols, nodes, guards, patches = struct.unpack_from("<IIII", data, at)
    return at + 16 + 48 * symbols + 24 * nodes + 24 * guards, patches


def test_a_program_that_is_sound_for_its_example_alone_is_refused_for_others() -> None:
    """Without one of its patches the blob is what it was for the example, and for no other size."""
    data = compiled("mlp").data
    start, count = patches_of(data)
    rows = [data[start + 16 * i : start + 16 * i + 16] for i in range(count)]
    found = set()
    for gone in range(count):
        made = bytearray(data)
        made[start : start + 16 * count] = b"".join([*rows[:gone], *rows[gone + 1 :], bytes(16)])
        at, size = sections(made)[b"SYMS"]
        struct.pack_into("<I", made, at + 12, count - 1)
        for i in range(struct.unpack_from("<I", made, 16)[0]):  # the section is shorter
            row = 64 + 32 * i
            if made[row : row + 4] == b"SYMS":
                struct.pack_into("<Q", made, row + 16, size - 16)
        sound = signed(made)
        assert python(sound) == c(sound) == Verdict.SOUND
        assert verdicts(sound, [(3, 7)]) == (Verdict.SOUND, Verdict.SOUND)
        first, second = verdicts(sound, [(8, 7)])
        assert first == second != Verdict.SOUND
        found.add(first)
    assert {Verdict.OPERANDS, -1} <= found


@pytest.mark.parametrize("size", [5, 1 << 20, 1 << 30])
def test_a_size_that_becomes_the_number_of_a_call_is_refused(size: int) -> None:
    """Sound for its example, where it is call 0; whatever is looked up before it is proved anew is out of bounds."""

    def vector(space: Space, number: int) -> bytes:
        return TENSOR.pack(Dtype.F32, 1, space, 0, number, 0, 16, 0, 4, *[0] * 7, 1, *[0] * 7, 0, 0)

    name = b"aten.sort.default"
    sections_ = {
        b"STRT": struct.pack("<II", 1, len(name)) + name,
        b"OPER": struct.pack("<2I", 0, 1),
        b"TENS": vector(Space.INPUT, 0) + vector(Space.OUTPUT, 1),
        b"INSN": INSTRUCTION.pack(Op.CALL_HOST, 1, NOTHING, 0, 0, 1, 0, 0, 0)
        + INSTRUCTION.pack(Op.END, 0, NOTHING, 0, 0, 0, 0, 0, 0),
        b"ATTR": struct.pack("<q", 0),
        b"IOTB": struct.pack("<II", 1, 1) + OUTPUT.pack(0, 0, 0) + OUTPUT.pack(0, 1, 0),
        b"HOST": CALL.pack(0, 0, 1, 1),
        b"SYMS": SYMBOLS.pack(1, 1, 0, 1)
        + SYMBOL.pack(0, 0, 0, 1 << 40, 0, 0, 1, 4)  # dim 0 less 4
        + NODE.pack(NodeKind.SYMBOL, 0, 0, 0)
        + PATCH.pack(PatchKind.WORD, 0, 0, 0),
        b"CNST": b"",
    }
    blob = join_sections(sections_, 0, 0)
    assert python(blob) == c(blob) == 0
    for refused in (lambda: specialize(parse(blob), [(size,)]), lambda: OpenBlob(blob).specialize([(size,)])):
        with pytest.raises(atalla.AtallaError):
            refused()
