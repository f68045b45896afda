"""Saving a program leaves the caller's own as it is, also while it is being saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import cross_backend as xb
from cross_backend.program.pt2 import load_pt2, save_pt2


@pytest.mark.parametrize("examples", [False, True])
def test_the_callers_program_keeps_its_example_inputs(
    examples: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = xb.capture(torch.nn.Linear(4, 2), (torch.ones(1, 4),))
    meanwhile, save = [], torch.export.save

    def seen(saved: torch.export.ExportedProgram, file: Any) -> None:
        meanwhile.append(program.example_inputs)
        assert (saved.example_inputs is not None) == examples
        save(saved, file)

    monkeypatch.setattr(torch.export, "save", seen)
    save_pt2(program, tmp_path / "net.pt2", examples=examples)
    ((args, kwargs),) = meanwhile
    assert args[0].shape == (1, 4) and not kwargs
    x = torch.full((1, 4), 2.0)
    torch.testing.assert_close(load_pt2(tmp_path / "net.pt2").module()(x), program.module()(x))
