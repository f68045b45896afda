"""Artifacts that hold code are opened only if they are trusted, which is by content."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import cross_backend as xb
from cross_backend import trust
from cross_backend.artifact import Artifact, digest_path
from cross_backend.cache import Cache
from cross_backend.errors import LoadError, UntrustedError
from tests.unit.trust.strangers import Spy, X, rewritten


@pytest.fixture
def stranger(saved: Path, spied: Path, tmp_path: Path) -> Artifact:
    """An artifact for torch as somebody else made it: its digests are right, and its payload holds a pickle."""
    made = xb.lower(xb.capture(nn.Linear(4, 3).eval(), (X,)), "torch", name="net", output_dir=tmp_path / "made")
    buffer = io.BytesIO()
    torch.save(((Spy(spied),), {}), buffer)
    rewritten(
        made.payload_path,
        tmp_path / "evil.pt2",
        lambda name, data: buffer.getvalue() if name.startswith("data/sample_inputs/") else data,
    ).replace(made.payload_path)
    artifact = replace(made, sha256=digest_path(made.payload_path), size_bytes=made.payload_path.stat().st_size)
    artifact.write_manifest()
    return artifact


def test_an_artifact_of_a_stranger_is_opened_only_when_it_is_trusted(stranger: Artifact, spied: Path) -> None:
    with pytest.raises(UntrustedError, match="--trust"):
        xb.load(stranger.payload_path)
    with pytest.raises(LoadError, match="which is code"):
        xb.load_best(stranger.folder)
    assert not spied.exists()
    with xb.load(stranger.payload_path, trust=True) as session:
        assert session(X).shape == (2, 3)
    assert spied.exists()
    with xb.load_best(stranger.folder) as session:  # it is remembered
        assert session(X).shape == (2, 3)


def test_trust_is_by_content(tmp_path: Path) -> None:
    cache, path = Cache(tmp_path / "cache"), tmp_path / "file"
    path.write_bytes(b"one")
    assert not trust.is_trusted(cache, path)
    trust.keep(cache, path)
    assert trust.is_trusted(cache, path)
    path.write_bytes(b"two")
    assert not trust.is_trusted(cache, path)
    assert not trust.is_trusted(cache, tmp_path / "missing")


def test_a_blob_that_calls_an_operator_of_others_is_code(tmp_path: Path) -> None:
    """Ours runs it, because it was made here; the same bytes on another machine do not."""

    class Twice(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return torch.ops.tests_trust.twice(x) + 1

    with torch.library._scoped_library("tests_trust", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        torch.library.register_fake("tests_trust::twice", torch.empty_like, lib=library)
        artifact = xb.lower(xb.capture(Twice().eval(), (X,)), "atalla", name="net", output_dir=tmp_path)
        with xb.load(artifact) as session:
            torch.testing.assert_close(session(X), X * 2 + 1)
        (Cache().root / "trusted" / artifact.sha256).unlink()
        with pytest.raises(UntrustedError, match=r"a call of tests_trust\.twice"):
            xb.load(artifact)
