"""Golden files: blobs that every later loader must load, list and run as the first did.

Each is ``NAME.atalla`` with ``NAME.txt``, its listing, and ``NAME.npz``, inputs and outputs of a run or several.

python -m tests.atalla.golden            write those of NETS that are not there yet
python -m tests.atalla.golden --listing  write the listings anew, after a change of the disassembler

A file that is there is never written again: what the blobs mean does not change. A new version adds new names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import nn

import atalla
from atalla.blob.disasm import disassemble
from atalla.passes import pack
from tests.atalla import bf16_programs, dynamic_nets, int8_nets, nets, test_state

FOLDER = Path(__file__).parent
Made = tuple[bytes, list[tuple[torch.Tensor, ...]], nn.Module]


def _plain(make: Callable[[], nets.Net]) -> Made:
    module, inputs = make()
    return atalla.compile(torch.export.export(module.eval(), inputs)).data, [inputs], module


def _small_image() -> nets.Net:
    return nn.Conv2d(32, 33, 3, padding=1), (torch.randn(1, 32, 7, 8),)


def _halved() -> Made:
    """Few channels, which the compiler would not multiply so."""
    module, x = nn.Conv2d(8, 9, 3, stride=2, padding=1), torch.randn(1, 8, 9, 7)
    with mock.patch.dict(pack.WINOGRAD_PAYS, {25: {1: 1}}):
        return _plain(lambda: (module, (x,)))


def _dynamic(make: Callable[[], dynamic_nets.Net], *others: tuple[tuple[int, ...], ...]) -> Made:
    module, inputs, sizes, _ = make()
    program = torch.export.export(module.eval(), inputs, dynamic_shapes=sizes)
    runs = [inputs, *(tuple(map(dynamic_nets.like, inputs, shapes)) for shapes in others)]
    return atalla.compile(program).data, runs, module


def _bf16() -> Made:
    module, inputs = bf16_programs.whole_numbers()
    return atalla.compile(torch.export.export(module, inputs), bf16=True).data, [inputs], module


def _kept(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> Made:
    module, runs = make().eval(), [(torch.randn(shape),) for _ in range(3)]
    return atalla.compile(torch.export.export(module, runs[0])).data, runs, module


NETS: dict[str, Callable[[], Made]] = {
    "v1_mlp": lambda: _plain(nets.mlp),
    "v1_residual": lambda: _plain(nets.residual),
    "v1_whole_numbers": lambda: _plain(nets.whole_numbers),
    "v1_fallback": lambda: _plain(nets.fallback),
    "v1_dynamic": lambda: _dynamic(dynamic_nets.causal, ((1, 1, 8), (1, 1)), ((3, 4, 8), (3, 4))),
    "v1_numbers": lambda: _dynamic(dynamic_nets.numbers, ((1, 4), (1, 4)), ((5, 10), (5, 4))),
    "v1_state": lambda: _kept(test_state.Cache, (1, 8)),
    "v1_1_warped": lambda: _plain(nets.warped),
    "v1_1_messages": lambda: _plain(nets.messages),
    "v1_2_int8": lambda: _plain(int8_nets.network),
    "v1_3_bf16": _bf16,
    "v1_4_means": lambda: _plain(int8_nets.gated),
    "v1_5_small_image": lambda: _plain(_small_image),
    "v1_6_halved": _halved,
    "v1_7_ring": lambda: _kept(test_state.Ring, (3, 4)),
}


def add(name: str) -> None:
    """Write a blob, its listing, and what eager gives."""
    torch.manual_seed(0)
    data, runs, module = NETS[name]()
    rows: dict[str, Any] = {}
    for run, inputs in enumerate(runs):
        with torch.no_grad():
            outputs = torch.utils._pytree.tree_leaves(module(*inputs))
        for kind, values in (("in", inputs), ("out", outputs)):
            rows |= {f"{run}_{kind}_{i}": np.asarray(value) for i, value in enumerate(values)}
    with (FOLDER / f"{name}.atalla").open("xb") as file:
        file.write(data)
    listing(name)
    np.savez_compressed(FOLDER / f"{name}.npz", **rows)


def listing(name: str) -> None:
    """Write the listing of a blob."""
    lines = disassemble((FOLDER / f"{name}.atalla").read_bytes())
    (FOLDER / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def names() -> list[str]:
    """Give the blobs that are there."""
    return sorted(path.stem for path in FOLDER.glob("*.atalla"))


def runs(name: str) -> Iterator[tuple[list[torch.Tensor], list[Any]]]:
    """Give inputs and outputs of each run."""
    with np.load(FOLDER / f"{name}.npz") as rows:
        count = 1 + max(int(key.partition("_")[0]) for key in rows.files)
        for run in range(count):
            inputs, outputs = (
                [rows[f"{run}_{kind}_{i}"] for i in range(sum(key.startswith(f"{run}_{kind}_") for key in rows.files))]
                for kind in ("in", "out")
            )
            yield [torch.from_numpy(one) for one in inputs], [torch.from_numpy(one) for one in outputs]


def main(arguments: list[str]) -> None:
    """Write what is asked for."""
    if arguments == ["--listing"]:
        for name in names():
            listing(name)
    elif arguments:
        sys.exit(f"not an argument: {' '.join(arguments)}; --listing, or none")
    else:
        for name in sorted(set(NETS) - set(names())):
            add(name)
