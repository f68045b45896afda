"""Runs each conformance test for each chosen backend, and marks the failures that the backend's own file lists."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

import cross_backend as xb
from cross_backend.artifact import Artifact
from cross_backend.backend import Backend, Missing, Session, Unavailable
from cross_backend.errors import LowerError, UnsupportedError
from cross_backend.machine import Machine
from cross_backend.registry import find_backend, resolve
from cross_backend.verify.compare import precision_of
from tests.conftest import chosen_backends

KINDS = {
    "notimpl": "ours to do",
    "notyet": "theirs to do",
    "fails": "theirs to do, and no refusal: lowering fails",
    "never": "makes no sense",
}
COMPILED = ("torch.aot_inductor", "torch.compile")
"""What a C++ compiler makes, at 5 to 15 s a model, so that ``make test`` does it once, in another place."""
ONCE = ("test_leaves_the_callers_program_as_it_was",)
"""Tests that lower anew, and so are in ``make test`` for a few backends only."""
FEW = ("atalla", "executorch.xnnpack", "onnxruntime.cpu", "openvino", "torch.eager")
"""One of each vendor."""
DEAR = (
    "executorch.coreml",
    "executorch.portable",
    "executorch.vulkan",
    "iree.llvm_cpu",
    "iree.vulkan",
    "onnxruntime.genai",
)
"""Those whose tests take longer than all others': ``make test`` leaves them to ``make test-all``."""
MORE = ("cnn", "multi", "corners", "decoder", "dynamic", "ring")
"""Models of ``models`` that ``make test`` lowers for those few, and for others where it opens what was made."""
TOLERANCES = {"fp32": 1e-4, "fp16": 2e-2, "bf16": 1e-1, "int8": 3e-1}
"""Precision → largest error of an element here, as a share of the largest output."""
_KNOWN = Path(__file__).parent / "known"


@dataclass(frozen=True)
class Lowered:
    """A model, and the artifact that one backend made of it."""

    model: Any
    """``models.Model``."""
    artifact: Artifact


Lower = Callable[[str], Lowered]
Open = Callable[[str], Session]
Right = Callable[[Any, Sequence[Any]], None]


@cache
def _known(name: str) -> Any:
    """Import a backend's own list; None where it has none."""
    path = _KNOWN / f"{name.replace('.', '_')}.py"
    if not path.is_file():
        return None
    spec = importlib.util.spec_from_file_location(f"known_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def known_failures(name: str) -> dict[str, tuple[str, str]]:
    """Read which tests a backend fails, and why."""
    found: dict[str, tuple[str, str]] = getattr(_known(name), "KNOWN", {})
    return found


def refused_models(name: str) -> dict[str, tuple[str, str]]:
    """Read which models of ``models`` a backend refuses to lower, and why: tests with them end there."""
    found: dict[str, tuple[str, str]] = getattr(_known(name), "MODELS", {})
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend_name" not in metafunc.fixturenames:
        return
    names = chosen_backends(metafunc.config)
    if metafunc.config.getoption("--backends") is None:
        for fixture, kind in (("lowers_here", "lower"), ("runs_here", "run")):
            if fixture in metafunc.fixturenames:
                names = [name for name in names if expected_here(getattr(_missing(name), kind))]
        if "opens_here" in metafunc.fixturenames:  # what a toolchain runs is never opened in this process
            names = [name for name in names if resolve(name).python == sys.executable]
    metafunc.parametrize("backend_name", names, scope="session")


def expected_here(unavailable: Unavailable | None) -> bool:
    """Say whether a backend that was not named must work: the tests' environment holds all extras, nothing more.

    Where another system, a device or a toolchain is missing, only the reason and the remedy are tested.
    """
    return unavailable is None or unavailable.remedy.startswith("pip install")


def _missing(name: str) -> Missing:
    return find_backend(name).missing(Machine.here()) or Missing()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        call = getattr(item, "callspec", None)
        name = call.params.get("backend_name") if call else None
        files = {"test_backend.py", "test_state.py"}
        is_more = item.path.name in files and call is not None and call.params.get("name") in MORE
        is_once = isinstance(item, pytest.Function) and item.originalname in ONCE
        if name in COMPILED and (is_more or is_once or item.path.name == "test_state.py"):
            item.add_marker(pytest.mark.nightly)
        elif name in (*COMPILED, *DEAR) or ((is_more or is_once) and name not in FEW):
            item.add_marker(pytest.mark.slow)
        listed = known_failures(name).get(item.originalname) if name and isinstance(item, pytest.Function) else None
        if listed:
            item.add_marker(pytest.mark.xfail(strict=True, reason=": ".join(listed)))


@pytest.fixture(scope="session")
def backend(backend_name: str) -> Backend:
    """Give the backend under test."""
    return find_backend(backend_name)


@pytest.fixture(scope="session")
def lowers_here(backend_name: str) -> None:
    """Fail, never skip, where a backend that was asked for cannot lower."""
    unavailable = _missing(backend_name).lower
    if unavailable is not None:
        pytest.fail(f"{backend_name} cannot lower here: {unavailable}")


@pytest.fixture(scope="session")
def runs_here(backend_name: str) -> None:
    """Fail, never skip, where a backend that was asked for cannot run."""
    unavailable = _missing(backend_name).run
    if unavailable is not None:
        pytest.fail(f"{backend_name} cannot run here: {unavailable}")


@pytest.fixture(scope="session")
def opens_here(backend_name: str, runs_here: None) -> None:
    """Fail, never skip, where a backend that was asked for runs under another interpreter only."""
    if resolve(backend_name).python != sys.executable:
        pytest.fail(f"{backend_name} runs in a toolchain, so no session is opened in this process")


@pytest.fixture(scope="session")
def lowered(backend_name: str, lowers_here: None) -> Lower:
    """Give a function that lowers a model of ``models`` once."""
    from tests.conformance import models

    refused = refused_models(backend_name)

    @cache
    def lower(name: str) -> Lowered:
        model = models.build(name)
        args, kwargs = model.call(*model.inputs)
        program = xb.capture(model.module, args, model.dynamic_shapes, kwargs=kwargs)
        if name in refused:
            with pytest.raises(LowerError if refused[name][0] == "fails" else UnsupportedError) as caught:
                xb.lower(program, backend_name, name=name)
            assert "\n" not in str(caught.value)
            pytest.xfail(": ".join(refused[name]))
        return Lowered(model, xb.lower(program, backend_name, name=name))

    return lower


@pytest.fixture(scope="module")
def opened(lowered: Lower, opens_here: None) -> Iterator[Open]:
    """Give a function that opens the artifact of a model, and closes the one of another model that was open.

    Of each open session threads of some runtimes (IREE's with Mesa's driver) compute without an end.
    """
    with ExitStack() as stack:
        kept: dict[str, Session] = {}

        def load(name: str) -> Session:
            if name not in kept:
                stack.close()
                kept.clear()
                kept[name] = stack.enter_context(xb.load(lowered(name).artifact))
            return kept[name]

        yield load


@pytest.fixture(scope="session")
def right(backend_name: str) -> Right:
    """Give a function that compares outputs with what eager float32 gives, within this backend's own precision."""
    from tests.conformance import models

    return partial(models.assert_right, tolerance=TOLERANCES[precision_of(resolve(backend_name).options)])
