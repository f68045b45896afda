"""Layouts: a session takes tensors of any strides, whatever layout its program or its file was made with."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import cross_backend as xb
from cross_backend.artifact import digest_path
from cross_backend.backends.executorch._bundled import input_orders
from cross_backend.errors import LoadError
from cross_backend.registry import find_backend, resolve

LAST = torch.channels_last


@pytest.fixture(scope="module")
def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Conv2d(3, 8, 3).to(memory_format=LAST).eval()


@pytest.fixture(scope="module")
def theirs(network: torch.nn.Module) -> torch.export.ExportedProgram:
    """Export as others do: with strides that the graph keeps."""
    return torch.export.export(network, (torch.randn(1, 3, 9, 9).to(memory_format=LAST),))


@pytest.fixture(scope="module")
def foreign(theirs: torch.export.ExportedProgram, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of ExecuTorch's own that wants its input channels last."""
    from executorch.exir import to_edge

    path: Path = tmp_path_factory.mktemp("foreign") / "last.pte"
    path.write_bytes(to_edge(theirs).to_executorch().buffer)
    return path


@pytest.mark.parametrize("target", ["xnnpack", "portable", "cpu", "openvino", "atalla", "torch"])
def test_a_program_that_was_exported_channels_last_takes_any_layout(
    target: str, network: torch.nn.Module, theirs: torch.export.ExportedProgram
) -> None:
    x = torch.randn(1, 3, 9, 9)
    want = network(x).detach()
    with xb.load(xb.lower(theirs, target, name="last")) as session:
        for given in (x, x.to(memory_format=LAST), x.transpose(2, 3).contiguous().transpose(2, 3)):
            torch.testing.assert_close(session(given), want, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(session(x.to(memory_format=LAST).numpy()), want.numpy(), rtol=1e-4, atol=1e-5)


def test_a_file_that_wants_its_input_channels_last_gets_it_so(network: torch.nn.Module, foreign: Path) -> None:
    assert input_orders(foreign.read_bytes()) == [(0, 2, 3, 1)]
    kind = find_backend("executorch.portable").foreign
    assert kind is not None
    artifact, resolved = kind.describe(foreign), resolve("executorch.portable")
    x = torch.randn(1, 3, 9, 9)
    with resolved.backend.load(artifact, resolved.options) as session:
        for given in (x, x.to(memory_format=LAST)):
            torch.testing.assert_close(session(given), network(x).detach(), rtol=1e-4, atol=1e-5)


def test_damage_to_what_a_file_says_of_its_layout_is_one_line(foreign: Path, tmp_path: Path) -> None:
    """The parser never reads past the file, and never lets anything else out."""
    whole = foreign.read_bytes()
    damaged = whole.replace(struct.pack("<I4B", 4, 0, 2, 3, 1), struct.pack("<I4B", 4, 3, 2, 3, 1))
    with pytest.raises(ValueError, match="is no order of dimensions"):
        input_orders(damaged)
    for size in range(0, 300, 7):
        with pytest.raises((ValueError, IndexError, struct.error)):
            input_orders(whole[:size])
    path = tmp_path / "last.pte"
    path.write_bytes(damaged)
    kind, resolved = find_backend("executorch.portable").foreign, resolve("executorch.portable")
    assert kind is not None
    artifact = replace(kind.describe(foreign), folder=tmp_path, sha256=digest_path(path))
    with pytest.raises(LoadError) as caught, resolved.backend.load(artifact, resolved.options):
        pass
    assert "\n" not in str(caught.value)
