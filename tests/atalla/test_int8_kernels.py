"""Kernels of int8: every instruction set that this processor has gives the bits of the reference, whatever the form."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import atalla
from tests.atalla import int8_programs as programs
from tests.atalla.native import OF_NARROW_PRODUCTS, sets_here

Make = Callable[[int], programs.Given]
PRODUCTS, REST = programs.MAKERS[:2], programs.MAKERS[2:]


def agree(make: Make, seeds: range, isas: set[str]) -> None:
    """See that kernels of one thread and of several give the reference's bits."""
    for seed in seeds:
        blob, inputs, wanted = make(seed)
        for isa in sorted(isas):
            for threads in (1, 3):
                (found,) = atalla.load(blob, isa=isa, threads=threads).run(inputs)
                assert torch.equal(found, wanted), (make.__name__, seed, isa, threads)


@pytest.mark.parametrize("make", PRODUCTS)
def test_products_give_the_bits_of_the_reference(make: Make) -> None:
    agree(make, range(40), sets_here())


@pytest.mark.parametrize("make", REST)
def test_all_else_gives_the_bits_of_the_reference(make: Make) -> None:
    agree(make, range(20), sets_here() - OF_NARROW_PRODUCTS)


@pytest.mark.slow
@pytest.mark.parametrize("make", programs.MAKERS)
def test_many_forms_give_the_bits_of_the_reference(make: Make) -> None:
    agree(make, range(100, 600), sets_here())


def test_a_set_of_products_has_all_else_of_the_one_beneath() -> None:
    """The best set is chosen where none is named, and runs what it has no kernels of its own for."""
    blob, inputs, wanted = programs.chain(0)
    for isa in sorted(sets_here()):
        (found,) = atalla.load(blob, isa=isa).run(inputs)
        assert torch.equal(found, wanted)
