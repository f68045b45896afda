"""Backends: cross-backend finds both by the entry points, and what it lowers and runs with them is right."""

from __future__ import annotations

import json
import subprocess
import sys

import cross_backend as xb
import nets
import numpy as np
import pytest
from cross_backend.errors import LoadError, LowerError

from mychip.backend import Mychip

OURS = ("mychip", "executorch.mychip")


def artifact(name: str, target: str):
    module, inputs = {**nets.runs(), **nets.mixed()}[name]
    return xb.lower(xb.capture(module, inputs), target, name=name)


def test_both_are_listed_and_ready() -> None:
    words = [sys.executable, "-m", "cross_backend", "backends", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    rows = {row["name"]: row for row in json.loads(done.stdout)["backends"]}
    for name in OURS:
        assert rows[name]["lower"] is None and rows[name]["run"] is None, rows[name]


@pytest.mark.parametrize("target", [*OURS, "mychip?executor=simulator"])
def test_right_in_cross_backend(target: str) -> None:
    net = nets.runs()["mlp"]
    made = artifact("mlp", target)
    assert made.placement.coverage == 1.0
    assert sum(row.count for row in made.placement.inside) == 3
    with xb.load(made) as session:
        np.testing.assert_allclose(session(*net[1]).numpy(), nets.eager(net)[0].numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", OURS)
def test_a_bound_call_has_its_own_copy_of_the_inputs(target: str) -> None:
    net = nets.runs()["mlp"]
    given = net[1][0].clone().numpy()
    with xb.load(artifact("mlp", target)) as session:
        call = session.bind([given])
        given[:] = 0
        np.testing.assert_allclose(np.asarray(call()[0]), nets.eager(net)[0].numpy(), rtol=1e-5, atol=1e-5)


def test_cycles_are_told_as_an_estimate() -> None:
    assert artifact("mlp", "mychip").estimate["cycles"] > 100


def test_what_the_chip_lacks_is_refused_with_the_reason() -> None:
    with pytest.raises(LowerError, match="aten::_softmax: The chip has no instruction for it"):
        artifact("softmax", "mychip")


def test_what_the_chip_lacks_is_left_to_executorch_with_the_reason() -> None:
    placement = artifact("softmax", "executorch.mychip").placement
    assert placement.delegates == {"MychipBackend": 2}
    (left,) = placement.left
    assert "softmax" in left.name and left.why == "The chip has no instruction for it."


def test_a_damaged_payload_is_refused() -> None:
    made = artifact("linear", "mychip")
    made.payload_path.write_bytes(b"MYCHIP__" + bytes(40))
    session = Mychip().load(made, {"executor": "kernels"})
    with pytest.raises(LoadError, match="made for another version"), session:
        pass
