"""Outputs are compared element by element: every type, shape and structure, and what is wrong in one."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cross_backend as xb
from cross_backend.program.writing import write_program
from cross_backend.tensors import dtype_of
from tests.unit.loaders.bundles import Open, Opened, edit, expect, write


class Net(torch.nn.Module):
    """Outputs of three types; one of them with NaN and infinities where that is right."""

    def forward(
        self, batch: dict[str, torch.Tensor], *, of: tuple[list[torch.Tensor], int]
    ) -> tuple[torch.Tensor, dict[str, Any], list[Any]]:
        chosen = batch["x"][of[0][0]]
        return chosen.log(), {"tens": (chosen * of[1]).to(torch.int64), "none": None}, [chosen > 0]


@pytest.fixture(scope="module")
def made_of_many_types(tmp_path_factory: pytest.TempPathFactory) -> Path:
    x = torch.tensor([[-1.0, 0.0, 2.5], [0.5, -0.25, 8.0], [1.0, 3.0, -9.0]])
    program = xb.capture(Net(), ({"x": x},), kwargs={"of": ([torch.tensor([2, 0])], 10)})
    captured = write_program(program, "net", tmp_path_factory.mktemp("captured"))
    return write(captured, ["portable"], {}, tmp_path_factory.mktemp("bundles"))


@pytest.fixture
def typed(made_of_many_types: Path, tmp_path: Path) -> Path:
    """Copy the bundle with outputs of many types, to be damaged."""
    return Path(shutil.copytree(made_of_many_types, tmp_path / "typed"))


def test_wrong_numbers_are_refused(open_with: Open, bundle: Path) -> None:
    expect(bundle, 0, lambda tensor: tensor.__imul__(1.01))
    assert open_with(bundle).error.count("off by") == 2
    assert open_with(bundle, verify=False).name == "linear_regression_xnnpack"

    def forgive(manifest: dict[str, Any]) -> None:
        for row in manifest["artifacts"]:
            row["tolerance"] = 0.02

    edit(bundle, forgive)
    assert open_with(bundle).name == "linear_regression_xnnpack"


def test_several_inputs_and_outputs_of_every_kind(open_with: Open, typed: Path) -> None:
    assert np.isnan(np.load(typed / "sample" / "expected_0.npy")).any()
    assert open_with(typed) == Opened("net_portable", [])


@pytest.mark.parametrize(
    ("index", "change"),
    [
        (0, lambda tensor: tensor.__setitem__((0, 0), tensor[0, 0] + 1)),
        (0, lambda tensor: tensor.__setitem__(np.isnan(tensor), 0)),
        (0, lambda tensor: tensor.__setitem__((0, 0), np.nan)),
        (0, lambda tensor: tensor.__setitem__((0, 0), np.inf)),
        (1, lambda tensor: tensor.__setitem__((0, 0), tensor[0, 0] + 1)),
        (2, lambda tensor: tensor.__setitem__((0, 0), not tensor[0, 0])),
    ],
    ids=["number", "NaN-expected-no-more", "NaN-expected", "infinity-expected", "integer", "boolean"],
)
def test_one_wrong_element_is_enough(open_with: Open, typed: Path, index: int, change: Callable[[Any], None]) -> None:
    expect(typed, index, change)
    edit(typed, lambda manifest: manifest["artifacts"][0].update(tolerance=0.3))
    opened = open_with(typed)
    assert opened.name is None and "net_portable: " in opened.error and "output" in opened.error


def test_shapes_types_and_counts_of_outputs_are_compared(open_with: Open, typed: Path) -> None:
    edit(typed, lambda manifest: manifest["sample"]["expected"][1].update(shape=[3, 2]))
    assert "type" in open_with(typed).error
    edit(typed, lambda manifest: manifest["sample"]["expected"][1].update(shape=[2, 3], dtype="float64"))
    assert "type" in open_with(typed).error
    edit(typed, lambda manifest: manifest["sample"]["expected"].pop())
    assert "outputs" in open_with(typed).error


class Narrow(torch.nn.Module):
    def forward(
        self, x: torch.Tensor, pixels: torch.Tensor, one: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return x * one.bfloat16(), pixels.float() / 255, (pixels + 1).to(torch.int8)


@pytest.fixture(scope="module")
def made_of_narrow_types(tmp_path_factory: pytest.TempPathFactory) -> Path:
    inputs = (torch.randn(2, 3).bfloat16(), torch.arange(6, dtype=torch.uint8), torch.tensor(1.5))
    captured = write_program(xb.capture(Narrow(), inputs), "narrow", tmp_path_factory.mktemp("captured"))
    return write(captured, ["portable"], {}, tmp_path_factory.mktemp("bundles"))


def test_bfloat16_bytes_and_a_scalar_are_read_and_compared(
    open_with: Open, made_of_narrow_types: Path, tmp_path: Path
) -> None:
    bundle = Path(shutil.copytree(made_of_narrow_types, tmp_path / "narrow"))
    types = [row["dtype"] for row in json.loads((bundle / "manifest.json").read_text())["inputs"]]
    assert types == ["bfloat16", "uint8", "float32"]
    assert open_with(bundle) == Opened("narrow_portable", [])
    path = bundle / "sample" / "expected_0.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 0x80  # the last number's sign
    path.write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    edit(bundle, lambda manifest: manifest["sample"]["expected"][0].update(sha256=digest))
    opened = open_with(bundle)
    assert opened.name is None and "off by" in opened.error


def test_the_python_loader_takes_and_gives_bfloat16(
    module: Any, made_of_narrow_types: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = module.load_best(made_of_narrow_types, "linux")
    x = np.arange(6).reshape(3, 2).T.astype(dtype_of("bfloat16"))
    halves, shares, _ = best(x, np.full(6, 51, np.uint8), np.float32(2))
    assert halves.dtype == x.dtype and halves.astype(float).tolist() == [[0, 4, 8], [2, 6, 10]]
    np.testing.assert_allclose(shares, 0.2, rtol=1e-6)
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(module.BundleError, match="pip install ml_dtypes"):
        module.load_best(made_of_narrow_types, "linux")


def test_the_python_loader_takes_and_gives_the_models_own_structure(module: Any, typed: Path) -> None:
    best = module.load_best(typed, "linux")
    x, rows = (np.load(typed / "sample" / f"input_{i}.npy") for i in range(2))
    log, tens, positive = (np.load(typed / "sample" / f"expected_{i}.npy") for i in range(3))
    for of in (([rows], 10), ((rows,), None)):
        got = best.forward({"x": x}, of=of)
        np.testing.assert_allclose(got[0], log, rtol=1e-4)
        assert isinstance(got, tuple) and list(got[1]) == ["tens", "none"] and got[1]["none"] is None
        np.testing.assert_array_equal(got[1]["tens"], tens)
        np.testing.assert_array_equal(got[2][0], positive)
    np.testing.assert_array_equal(best(x, rows)[2], positive)
    with pytest.raises(TypeError, match="the model takes batch, of"):
        best.forward({"x": x}, rows=rows)
