"""Platforms: every row has a known fallback and says why; lookup by name, alias and this computer."""

from __future__ import annotations

import pytest

from cross_backend.errors import UsageError
from cross_backend.names.platforms import ALIASES, PLATFORMS, Platform, find_platform
from cross_backend.registry import rows


@pytest.mark.parametrize("platform", PLATFORMS.values(), ids=PLATFORMS.keys())
def test_each_has_an_order_that_ends_in_a_fallback(platform: Platform) -> None:
    assert platform.backends[-1] == "executorch.portable"
    assert len(set(platform.backends)) == len(platform.backends)
    assert platform.title and platform.why.endswith(".")


def test_the_table_is_sorted_and_keyed_by_name() -> None:
    assert list(PLATFORMS) == sorted(PLATFORMS)
    assert all(key == platform.name for key, platform in PLATFORMS.items())


def test_desktop_platforms_name_every_backend_that_runs_on_them() -> None:
    named = {name for platform in PLATFORMS.values() for name in platform.backends}
    for name in ("onnxruntime.cpu", "openvino", "torch.eager", "executorch.xnnpack"):
        assert name in rows()
        assert name in named


@pytest.mark.parametrize(
    ("system", "name"), [("linux", "linux"), ("darwin", "macos"), ("win32", "windows"), ("freebsd14", "linux")]
)
def test_without_a_name_it_is_this_computers(monkeypatch: pytest.MonkeyPatch, system: str, name: str) -> None:
    monkeypatch.setattr("sys.platform", system)
    assert find_platform().name == name


def test_aliases_lead_to_rows() -> None:
    for alias, name in ALIASES.items():
        assert find_platform(alias) is PLATFORMS[name]


def test_an_unknown_platform_is_told_the_choices() -> None:
    with pytest.raises(UsageError, match=r"'andriod'.*Did you mean 'android'.*ios"):
        find_platform("andriod")


def test_a_list_is_no_platform() -> None:
    with pytest.raises(UsageError, match=r"platform: one name is expected, such as 'android', not \['cpu'\]"):
        find_platform(["cpu"])  # type: ignore[arg-type]
