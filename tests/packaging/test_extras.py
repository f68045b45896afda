"""Extras: each one that a message names exists, brings what the backend needs, and is pinned in constraints.txt."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from cross_backend import workloads
from cross_backend.backends import _packages
from cross_backend.machine import Machine
from cross_backend.registry import BACKENDS, find_backend

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
NAMED = re.compile(r"cross-backend\[([\w, -]+)\]")


def requirements(extra):
    """Give an extra's requirements, with the extras of our own that it names resolved."""
    found = []
    for text in EXTRAS[extra]:
        requirement = Requirement(text)
        if canonicalize_name(requirement.name) == "cross-backend":
            for inner in requirement.extras:
                found += requirements(inner)
        else:
            found.append(requirement)
    return found


def pins():
    """Read constraints.txt: canonical name → version."""
    found = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        text = line.partition("#")[0].strip()
        if text:
            requirement = Requirement(text)
            (specifier,) = requirement.specifier
            assert specifier.operator == "==" and "*" not in specifier.version, f"{text} is not an exact pin"
            assert canonicalize_name(requirement.name) not in found, f"{requirement.name} is pinned twice"
            found[canonicalize_name(requirement.name)] = specifier.version
    return found


@pytest.fixture
def nothing_installed(monkeypatch):
    """Make every distribution look absent."""
    monkeypatch.setattr(_packages, "version_of", lambda name: None)


@pytest.mark.parametrize("name", [name for name in BACKENDS if name != "null"])
def test_remedy_of_a_backend_brings_its_packages(name, nothing_installed):
    backend = find_backend(name)
    missing = backend.missing(Machine.here())
    assert missing is not None and missing.lower is not None, "it must notice that its packages are absent"
    if backend.toolchain is not None:
        assert "toolchain" in missing.lower.remedy
        return
    named = NAMED.search(missing.lower.remedy)
    assert named, missing.lower.remedy
    brought = set()
    for extra in named[1].split(","):
        assert extra.strip() in EXTRAS, f"{extra} is not an extra"
        brought |= {canonicalize_name(r.name) for r in requirements(extra.strip())}
    assert {canonicalize_name(d) for d in backend.distributions} <= brought


@pytest.mark.parametrize("name", workloads.WORKLOADS)
def test_remedy_of_a_model_brings_its_packages(name):
    row = workloads.WORKLOADS[name]
    for distribution, extra in row.requires:
        assert extra in EXTRAS
        assert canonicalize_name(distribution) in {canonicalize_name(r.name) for r in requirements(extra)}
    assert row.requires, "every model needs torch at least"


def test_every_extra_that_is_named_anywhere_exists():
    texts = [*ROOT.glob("src/**/*.py"), *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "pyproject.toml"]
    named = {}
    for path in texts:
        for group in NAMED.findall(path.read_text(encoding="utf-8")):
            named |= {extra.strip(): path for extra in group.split(",")}
    named.pop("…", None)
    assert {"executorch", "onnxruntime", "openvino", "torch", "vision"} <= set(named)
    assert set(named) <= set(EXTRAS), named


def test_all_is_all_but_the_tools_and_the_agpl():
    left_out = {"dev", "docs", "rtl", "yolo"}
    every = {canonicalize_name(r.name) for extra in EXTRAS if extra not in left_out for r in requirements(extra)}
    assert {canonicalize_name(r.name) for r in requirements("all")} == every


@pytest.mark.parametrize("extra", EXTRAS)
def test_every_distribution_of_an_extra_is_pinned_and_the_pin_fits(extra):
    pinned = pins()
    for requirement in requirements(extra):
        name = canonicalize_name(requirement.name)
        assert name in pinned, f"{name} of [{extra}] is not in constraints.txt"
        assert requirement.specifier.contains(pinned[name], prereleases=True), f"{requirement} excludes {pinned[name]}"


def test_plain_dependencies_are_pinned_and_the_pins_fit():
    pinned = pins()
    for requirement in map(Requirement, PROJECT["dependencies"]):
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)])


def test_pins_of_the_torch_family_belong_together():
    """torchvision and torch are built for each other; see shared facts and the head of constraints.txt."""
    pinned = pins()
    assert (pinned["torch"], pinned["torchvision"]) == ("2.13.0", "0.28.0")


def test_tools_hold_what_builds_the_wheel():
    """The wheel is built without isolation in the development environment."""
    system = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]
    tools = {canonicalize_name(r.name): r.specifier for r in requirements("dev")}
    pinned = pins()
    for requirement in map(Requirement, system["requires"]):
        name = canonicalize_name(requirement.name)
        assert name in tools, f"{name} is not in the extra dev"
        assert requirement.specifier.contains(pinned[name])
    assert "build" in tools


def test_python_versions_agree():
    minimum = SpecifierSet(PROJECT["requires-python"])
    named = re.findall(r"Programming Language :: Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.MULTILINE)
    assert named and all(minimum.contains(version) for version in named)
    assert not minimum.contains("3.10")
