"""Damaged bundles: a payload falls back to the next one, a manifest is one error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.loaders.bundles import NOT_HERE, Open, edit


def test_a_damaged_payload_is_refused_before_the_runtime_sees_it(open_with: Open, bundle: Path) -> None:
    (bundle / "linear_regression_xnnpack.pte").write_bytes(b"\xff" * 2048)  # on these, the package's runtime aborts
    opened = open_with(bundle)
    assert opened.name == "linear_regression_portable"
    assert opened.rejected == [
        *NOT_HERE,
        "linear_regression_xnnpack: linear_regression_xnnpack.pte is damaged: its SHA-256 is not the manifest's",
    ]


def test_a_flipped_bit_is_found_in_any_place(open_with: Open, bundle: Path) -> None:
    path = bundle / "linear_regression_xnnpack.pte"
    whole = path.read_bytes()
    for place in (0, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert open_with(bundle).name == "linear_regression_portable"


def test_a_missing_payload_falls_back(open_with: Open, bundle: Path) -> None:
    (bundle / "linear_regression_xnnpack.pte").unlink()
    opened = open_with(bundle)
    assert opened.name == "linear_regression_portable"
    assert "linear_regression_xnnpack.pte" in opened.rejected[-1]


def test_if_none_works_every_reason_is_told(open_with: Open, bundle: Path) -> None:
    (bundle / "linear_regression_xnnpack.pte").unlink()
    (bundle / "linear_regression_portable.pte").write_bytes(b"")
    first, *reasons = open_with(bundle).error.splitlines()
    assert first == "no artifact of linear_regression works here:"
    assert [reason.strip().partition(":")[0] for reason in reasons] == [
        f"linear_regression_{stem}" for stem in ("vulkan", "null", "xnnpack", "portable")
    ]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda manifest: manifest.update(version=2), "this loader reads bundles of version 1, not 2"),
        (lambda manifest: manifest.update(format="cross-backend-artifact"), "this loader reads bundles"),
        (lambda manifest: manifest.pop("artifacts"), "artifacts"),
        (lambda manifest: manifest["sample"]["inputs"][0].update(sha256="0" * 64), "input_0.npy is damaged"),
        (lambda manifest: manifest["sample"]["inputs"][0].update(shape=[1, 400]), ""),
        (lambda manifest: manifest["sample"]["inputs"][0].update(dtype="complex9"), "complex9"),
    ],
    ids=["version", "format", "no-artifacts", "sample", "shape", "type"],
)
def test_a_damaged_manifest_is_one_error(
    open_with: Open, bundle: Path, change: Callable[[dict[str, Any]], None], reason: str
) -> None:
    edit(bundle, change)
    opened = open_with(bundle)
    assert opened.name is None and opened.error and reason in opened.error and "\n" not in opened.error


def test_what_is_no_bundle_is_one_error(open_with: Open, tmp_path: Path) -> None:
    assert "manifest.json" in open_with(tmp_path).error
    (tmp_path / "manifest.json").write_text('{"format": "cross-ba')
    assert open_with(tmp_path).error


def test_keys_that_a_loader_does_not_know_are_ignored(open_with: Open, bundle: Path) -> None:
    edit(bundle, lambda manifest: (manifest.update(new={}), manifest["artifacts"][2].update(new=[1])))  # type: ignore[func-returns-value]
    assert open_with(bundle).name == "linear_regression_xnnpack"
