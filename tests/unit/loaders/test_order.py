"""The order in which loaders try artifacts: the platform's, or the one measured on such a device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cross_backend.machine import Machine
from tests.unit.loaders.bundles import NOT_HERE, Open, Opened, edit, evidence


def test_opens_the_first_that_works_and_keeps_the_reasons(open_with: Open, bundle: Path) -> None:
    assert open_with(bundle) == Opened("linear_regression_xnnpack", NOT_HERE)


def test_takes_the_platforms_order_or_else_the_bundles_own(open_with: Open, bundle: Path) -> None:
    assert open_with(bundle, "web") == Opened("linear_regression_portable", [])
    assert open_with(bundle, "embedded") == Opened("linear_regression_xnnpack", NOT_HERE)


PORTABLE_FIRST = ["portable", "xnnpack", "vulkan", "null"]
XNNPACK_FIRST = ["xnnpack", "portable", "vulkan", "null"]


@pytest.mark.parametrize(
    ("rows", "name", "why"),
    [
        ([("linux", PORTABLE_FIRST, {})], "portable", "measured on this processor ({cpu}), 2026-11-27"),
        (
            [("linux", XNNPACK_FIRST, {"cpu": "Other"}), ("linux", PORTABLE_FIRST, {"system": "windows"})],
            "portable",
            "measured on this processor ({cpu}), 2026-11-27",
        ),
        (
            [("linux", PORTABLE_FIRST, {"cpu": "Older"}), ("linux", XNNPACK_FIRST, {"cpu": "Newer"})],
            "portable",
            "measured on another device, {arch} (Older), 2026-11-27",
        ),
        ([("web", PORTABLE_FIRST, {})], "xnnpack", "no measurement of this device; the order of linux"),
        ([("linux", PORTABLE_FIRST, {"arch": "z80"})], "xnnpack", "no measurement of this device; the order of linux"),
        (
            [("linux", PORTABLE_FIRST, {"cpu": "Other", "system": "windows"})],
            "xnnpack",
            "no measurement of this device; the order of linux",
        ),
        ([], "xnnpack", "no measurement of this device; the order of linux"),
        (None, "xnnpack", "no measurement of this device; the order of linux"),
    ],
    ids=["same", "same-before-similar", "similar", "platform", "architecture", "system", "none", "old-bundle"],
)
def test_takes_the_order_measured_on_such_a_device(
    open_with: Open, bundle: Path, rows: list[tuple[str, list[str], dict[str, str]]] | None, name: str, why: str
) -> None:
    def put(manifest: dict[str, Any]) -> None:
        if rows is None:
            del manifest["evidence"]
        else:
            manifest["evidence"] = [evidence(platform, order, **machine) for platform, order, machine in rows]

    edit(bundle, put)
    opened, here = open_with(bundle), Machine.here()
    assert opened.name == f"linear_regression_{name}" and opened.why == why.format(cpu=here.cpu, arch=here.arch)


def test_a_bundle_without_an_order_for_the_platform_says_so(open_with: Open, bundle: Path) -> None:
    assert open_with(bundle, "embedded").why == "no measurement of this device; the bundle's own order"


@pytest.mark.parametrize("damage", [{"machine": None}, {"date": 3}, {"order": 7}, {"platform": None}], ids=str)
def test_damaged_evidence_is_one_error_or_none(open_with: Open, bundle: Path, damage: dict[str, Any]) -> None:
    edit(bundle, lambda manifest: manifest.update(evidence=[{**evidence("linux", PORTABLE_FIRST), **damage}]))
    opened = open_with(bundle)
    assert opened.name or (opened.error and "\n" not in opened.error)
