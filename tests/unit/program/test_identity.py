"""Identity: the digest of a capture follows all of its content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import cross_backend as xb
from cross_backend.errors import ArtifactError
from cross_backend.program.capture import digest_program
from cross_backend.program.captured import Captured
from cross_backend.program.pt2 import load_pt2
from tests.unit.program.nets import X, net, store


def test_digests_follow_content(tmp_path: Path) -> None:
    def digest(name: str, module: nn.Module, inputs: tuple[Any, ...] = (X,)) -> str:
        return store(module, inputs, tmp_path / name).digest

    same = digest("a", net())
    assert same == digest("b", net())
    others = {
        "weights": digest("c", net(seed=1)),
        "graph": digest("d", net(lambda m, x: m.linear(x) + 1)),
        "constant": digest("e", net(lambda m, x: m.linear(x) + 2)),
        "sample": digest("f", net(), (X * 2,)),
        "shape": digest("g", net(), (X[:1],)),
    }
    assert len({same, *others.values()}) == 1 + len(others)


def test_calibration_inputs_are_part_of_the_identity(tmp_path: Path) -> None:
    """What a quantiser observed shapes an int8 payload, so another calibration must not be served from the cache."""
    digests = [
        store(net(), (X,), tmp_path / str(scale), calibration=((X * scale,), (X + scale,))).digest for scale in (1, 2)
    ]
    assert digests[0] != digests[1]
    read = Captured.read(tmp_path / "1").calibration()
    assert [len(inputs) for inputs in read] == [1, 1]
    np.testing.assert_array_equal(read[1][0], (X + 1).numpy())


def test_a_programs_digest_survives_its_file(tmp_path: Path) -> None:
    program = xb.capture(net(), (X,))
    torch.export.save(program, tmp_path / "a.pt2")
    assert digest_program(load_pt2(tmp_path / "a.pt2")) == digest_program(program)


def test_labels_are_stored_beside_the_program_and_part_of_its_identity(tmp_path: Path) -> None:
    """Otherwise a model that was captured before would keep its old names."""
    plain = store(net(), (X,), tmp_path / "plain")
    cats, dogs = (store(net(), (X,), tmp_path / name, labels=(name, "ant")) for name in ("cat", "dog"))
    assert plain.labels_path is None
    assert cats.labels_path is not None and cats.labels_path.read_text() == "cat\nant\n"
    assert len({plain.digest, cats.digest, dogs.digest}) == 3
    cats.labels_path.write_text("changed")
    with pytest.raises(ArtifactError, match=r"labels\.txt is missing or damaged"):
        cats.check()


def branching(x: Any, factor: float, kind: str) -> Any:
    if kind == "cond":
        return torch.cond(x.sum() > 0, lambda x: x * factor, lambda x: x - 1.0, (x,))
    if kind == "while_loop":
        found = torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * factor), (torch.tensor(0), x))
        return found[1]
    if kind == "map":
        return torch._higher_order_ops.map(lambda row: row * factor, x)
    with torch.no_grad() if kind == "no_grad" else torch.autocast("cpu", torch.bfloat16):
        return (x * factor).float() + torch.mm(x, x.T).float().sum()


@pytest.mark.parametrize("kind", ["cond", "while_loop", "map", "no_grad", "autocast"])
def test_what_changes_inside_of_a_region_is_another_program(kind: str) -> None:
    """The text of the top graph is the same; the branch that was edited was served from the cache once."""
    programs = [
        torch.export.export(net(lambda m, x, f=factor: branching(x, f, kind)), (X,)) for factor in (2.0, 3.0, 2.0)
    ]
    digests = [digest_program(program) for program in programs]
    assert digests[0] == digests[2] != digests[1]
