"""Hostile profiles, checkpoints, models of transformers, hardware, toolchains: ten thousand in ``make test-all``."""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import os
import tempfile
from pathlib import Path

import pytest
import torch
from executorch.devtools.etdump import serialize

from atalla.cli import say
from atalla.device.hardware import read_hardware
from atalla.report.page import hardware_line
from cross_backend.backend.profiles import typical
from cross_backend.backends.executorch._profile import read_etdump
from cross_backend.cli import toolchain
from cross_backend.registry import find_backend, missing_here
from cross_backend.report.terminal import Terminal
from cross_backend.toolchains import TOOLCHAINS, VARIABLE, Toolchain, add, remove
from cross_backend.workloads import load_checkpoint
from cross_backend.workloads._pretrained import load_pretrained
from cross_backend.workloads._transformers import import_transformers
from tests.unit.hostile import further, pretrained
from tests.unit.hostile.conftest import SLOW, Survive
from tests.unit.workloads.test_transformers import small


def test_profiles(count: int, survive: Survive, monkeypatch: pytest.MonkeyPatch) -> None:
    make, convert = further.etdump(), serialize._convert_from_flatcc
    monkeypatch.setattr(
        serialize, "_convert_from_flatcc", lambda data, *more: data if data[:1] == b"{" else convert(data, *more)
    )

    def read_one(path: Path) -> None:
        monkeypatch.setattr(tempfile, "tempdir", str(path.parent))
        rows = typical(read_etdump(path, "XnnpackBackend")[1:])
        Terminal().table(("name", "kind", "ms"), [(row.name, row.kind, f"{row.ms:.3f}") for row in rows])

    assert survive(make, read_one, count) > count / 4


def test_checkpoints(count: int, survive: Survive) -> None:
    make = further.checkpoint()

    def read_one(path: Path) -> None:
        module = torch.nn.Linear(4, 1)
        load_checkpoint(module, str(path))
        assert {name: x.shape for name, x in module.named_parameters()} == {"weight": (1, 4), "bias": (1,)}

    assert survive(make, read_one, count) > count / 2
    assert further.RANG == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bert", "t5_encoder"])
def test_folders_of_transformers(count: int, survive: Survive, tmp_path: Path, kind: str) -> None:
    package = import_transformers("bert_base", "nlp")
    model = small(package, kind)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_bytes(b"kept")

    def read_one(path: Path) -> None:
        found = load_pretrained("small", type(model), copy.deepcopy(model.config), str(path))
        parameters = dict(found.named_parameters())
        assert parameters.keys() >= dict(model.named_parameters()).keys()
        assert all(x.dtype == torch.float32 and x.numel() < 1 << 20 for x in parameters.values())

    assert survive(pretrained.Folders(model, outside), read_one, min(count, SLOW)) > count / 4
    assert further.RANG == []


def test_hardware(count: int, survive: Survive) -> None:
    def read_one(path: Path) -> None:
        found = read_hardware(path)
        say(hardware_line(found))
        print(json.dumps(found.document()))
        found.structure()

    assert survive(further.hardware(), read_one, count) > count / 3


def test_toolchains(count: int, survive: Survive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain, outside = TOOLCHAINS["mps"], tmp_path / "outside"
    turns = itertools.count()
    outside.mkdir()
    (outside / "kept").write_text("kept")
    (outside / "ready").touch()

    def install(self: Toolchain, tell: object) -> None:
        self.python.parent.mkdir(parents=True)
        self.python.touch()

    monkeypatch.setattr(Toolchain, "install", install)

    def read_one(path: Path) -> None:
        turn = next(turns)
        monkeypatch.setenv(VARIABLE, str(path))
        missing_here(find_backend("mps"))
        if turn % 20 == 0:  # a table takes longer than all the rest
            toolchain.main(argparse.Namespace(action="list", names=["mps", "browser"], json=False))
        toolchain.main(argparse.Namespace(action="list", names=["mps", "browser"], json=True))
        if turn % 2:
            remove(chain)
        else:
            add(chain, print)
            assert chain.added
        assert chain.added or not os.path.lexists(chain.folder)
        assert {one.name: one.read_text() for one in outside.iterdir()} == {"kept": "kept", "ready": ""}

    make = further.toolchain_folder(chain.folder.name, outside)
    assert survive(make, read_one, min(count, SLOW)) == 0, "whatever lies there can be deleted"
