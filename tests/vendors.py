"""Vendors: what makes their code quicker in the tests, where it does the same work again and again."""

from __future__ import annotations

import contextlib
import sys
import typing
from typing import Any


def quicken_torch() -> None:
    """Let torch's export look up once what it looks up thirty times for each program: a third of its time.

    It does nothing where torch was not imported, and leaves a torch of other names as it is. An operator that is
    registered later is found, as it is without this.
    """
    if "torch" in sys.modules:
        with contextlib.suppress(AttributeError, ImportError):
            _remember()


def _remember() -> None:
    import torch
    from torch._export import utils
    from torch.export import decomp_utils, exported_program

    # The subscripts of this one are remembered; those of collections.abc, which stand in a function that is called ten
    # thousand times for each program, are made anew each time.
    torch._ops.Callable = typing.Callable  # type: ignore[attr-defined]
    look_up, collect, seen = utils._materialize_cpp_cia_ops, utils._collect_all_valid_cia_ops, [0]

    def collect_new() -> set[Any]:
        number = len(torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd"))
        if number != seen[0]:
            look_up()
            seen[0] = number
        return collect()

    utils._collect_all_valid_cia_ops_for_aten_namespace()  # torch keeps these itself
    utils._materialize_cpp_cia_ops = lambda: None
    for module in (utils, decomp_utils, exported_program):
        module._collect_all_valid_cia_ops = collect_new  # type: ignore[attr-defined]
