"""What every backend says about itself, and what it leaves behind when it lowers; seen from outside."""

from __future__ import annotations

import json
import sys
import typing
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import cross_backend as xb
from cross_backend.artifact import Artifact, digest_path, size_of
from cross_backend.backend import Backend, Feature, Option
from cross_backend.errors import UnavailableError, UnsupportedError, UsageError
from cross_backend.machine import Machine
from cross_backend.program.capture import digest_program
from cross_backend.registry import full_name, resolve, rows
from cross_backend.toolchains import TOOLCHAINS
from tests.conformance import test_session
from tests.conformance.conftest import KINDS, Lower, Right, expected_here, known_failures, refused_models
from tests.conformance.models import build
from tests.conftest import chosen_backends

ASK = """
import json, sys
from cross_backend.machine import Machine
from cross_backend.registry import find_backend
vendors = {"torch", "torchvision", "onnx", "onnxscript", "onnxruntime", "openvino", "executorch", "iree", "coremltools"}
vendors |= {"ncnn", "pnnx", "MNN", "_tools", "_mnncengine", "ai_edge_litert", "litert_torch", "jax"}
vendors |= {"gguf", "llama_cpp", "onnxruntime_genai"}
found = {}
for name in sys.argv[1:]:
    before = set(sys.modules)
    find_backend(name).missing(Machine.here())
    found[name] = sorted(vendors & (sys.modules.keys() - before))
print(json.dumps(found))
"""


def test_describes_itself(backend: Backend, backend_name: str) -> None:
    assert backend.name == backend_name
    assert all(full_name(alias) == backend_name for alias in rows()[backend_name].aliases)
    assert backend.title.strip() and backend.title != backend.name
    assert backend.suffix == "" or backend.suffix.startswith(".")
    assert getattr(type(backend), "__final__", False), "backends are final classes"
    assert backend.lifecycle.read(None).split()[0] in {"supported", "experimental", "deprecated", "removed"}
    assert backend.distributions, "the versions that took part in lowering are part of an artifact's identity"
    assert set(backend.limits) <= set(typing.get_args(Feature))
    assert all(reason.strip() for reason in backend.limits.values())
    assert not backend.otherwise or full_name(backend.otherwise) == backend.otherwise
    assert backend.foreign is None or backend.foreign.suffix == backend.suffix
    assert backend.bundled is None or backend.bundled.suffix not in {"", backend.suffix}


def test_known_failures_name_tests_and_say_why(backend_name: str) -> None:
    tests = {**globals(), **vars(test_session)}
    for name, (kind, reason) in known_failures(backend_name).items():
        assert callable(tests.get(name)), f"{name} is no test of this suite"
        assert kind in KINDS
        assert reason.strip()
    for name, (kind, reason) in refused_models(backend_name).items():
        build(name)
        assert kind in KINDS
        assert reason.strip()


def test_can_lower_here_or_says_what_mends_it(backend: Backend, request: pytest.FixtureRequest) -> None:
    missing = backend.missing(Machine.here())
    for unavailable in (missing.lower, missing.run) if missing else ():
        assert unavailable is None or (unavailable.reason.strip() and unavailable.remedy.strip())
    if request.config.getoption("--backends") or missing is None or expected_here(missing.lower):
        request.getfixturevalue("lowers_here")


def test_refuses_unknown_options(backend: Backend) -> None:
    with pytest.raises(UsageError, match="no_such_option") as caught:
        resolve(f"{backend.name}?no_such_option=1")
    assert all(key in str(caught.value) for key in backend.options)


def test_checks_option_values(backend: Backend) -> None:
    defaults = resolve(backend.name).options
    assert defaults == {key: option.default for key, option in backend.options.items()}
    for key, option in backend.options.items():
        assert isinstance(option, Option) and option.help.strip()
        assert option.default is None or not option.choices or option.default in option.choices
        with pytest.raises(UsageError, match=key):
            resolve(f"{backend.name}?{key}=-wrong-")
        good = option.choices[-1] if option.choices else "2"
        assert str(resolve(f"{backend.name}?{key}={good}").options[key]) == good


@pytest.fixture(scope="module")
def imported_when_asked(run_python: Callable[..., str], pytestconfig: pytest.Config) -> dict[str, list[str]]:
    """Give name → the vendors that it imports when it is asked what is missing; all are asked in one process."""
    found: dict[str, list[str]] = json.loads(run_python(ASK, *chosen_backends(pytestconfig)))
    return found


def test_can_be_asked_without_importing_its_vendor(
    backend_name: str, imported_when_asked: dict[str, list[str]]
) -> None:
    assert imported_when_asked[backend_name] == []


@pytest.mark.parametrize("name", ["mlp", "cnn", "multi", "corners", "dynamic"])
def test_lowers_to_a_payload_with_its_manifest(lowered: Lower, backend: Backend, name: str) -> None:
    if name == "dynamic" and "dynamic_shapes" in backend.limits:
        with pytest.raises(UnsupportedError, match="dynamic"):
            lowered(name)
        return
    artifact = lowered(name).artifact
    assert artifact.payload_path.suffix == backend.suffix
    assert artifact.payload_path.is_file() == bool(backend.suffix)
    assert artifact.size_bytes == size_of(artifact.payload_path) > 0
    assert artifact.sha256 == digest_path(artifact.payload_path)
    assert (artifact.target, artifact.workload) == (backend.name, name)
    took_part = dict(TOOLCHAINS[backend.toolchain].pins) if backend.toolchain else backend.distributions
    assert set(artifact.versions) == {"cross-backend", *took_part}
    assert artifact.export_s > 0
    assert Artifact.read(artifact.manifest_path) == _as_written(artifact, backend)
    artifact.check()


def _as_written(artifact: Artifact, backend: Backend) -> Artifact:
    """Give what a manifest in the cache says: a payload that several backends run names the one that wrote it."""
    return replace(artifact, target=backend.payload_of or artifact.target)


def test_specifies_its_inputs_and_outputs(lowered: Lower) -> None:
    artifact = lowered("multi").artifact
    assert [str(spec) for spec in artifact.inputs] == ["float32[2, 3]", "int64[2, 4]"]
    assert [str(spec) for spec in artifact.outputs] == ["float32[2, 5]", "int64[2]", "float32[2, 5]"]


@pytest.mark.parametrize("name", ["mlp", "cnn", "multi"])
def test_certifies_what_is_inside(lowered: Lower, name: str) -> None:
    placement = lowered(name).artifact.placement
    assert 0 < placement.coverage <= 1
    assert placement.inside
    assert all(row.count > 0 and row.name for row in (*placement.inside, *placement.left))
    assert (placement.coverage == 1) == (not placement.left)


@pytest.mark.parametrize("name", ["mlp", "cnn", "multi"])
def test_weighs_what_is_inside_by_its_work(lowered: Lower, name: str) -> None:
    """All of these have matrix products."""
    placement = lowered(name).artifact.placement
    if placement.flop_coverage is not None:
        assert 0 <= placement.flop_coverage <= 1
    if not placement.left:
        assert placement.flop_coverage == 1


@pytest.mark.parametrize("name", ["mlp", "cnn", "multi", "corners", "dynamic"])
def test_executorch_says_why_and_what_it_costs(lowered: Lower, backend: Backend, name: str) -> None:
    """Its files can be read back; those of other runtimes tell less."""
    if name == "dynamic" and "dynamic_shapes" in backend.limits:
        return  # that it says so is tested above
    artifact = lowered(name).artifact
    placement, told = artifact.placement, backend.suffix == ".pte"
    sizes = (placement.planned_bytes, placement.constant_bytes, placement.delegate_bytes)
    assert all(isinstance(size, int) for size in sizes) == told
    if not told:
        return
    assert all(row.why and row.flops is not None for row in placement.left)
    planned, constants, delegates = (size or 0 for size in sizes)
    assert planned >= 0 and 0 < constants + delegates < artifact.size_bytes
    assert (delegates > 0) == bool(placement.delegates)
    if name == "dynamic":
        assert placement.flop_coverage is None


def test_is_found_by_its_payload_and_by_its_manifest(lowered: Lower, backend: Backend, tmp_path: Path) -> None:
    made = lowered("mlp").artifact
    for artifact in (_as_written(made, backend), made.copy_to(tmp_path, "copy", made.target, "s.npz")):
        assert Artifact.read(artifact.manifest_path) == artifact
        assert Artifact.read(artifact.payload_path) == artifact


def test_leaves_the_callers_program_as_it_was(backend: Backend, lowers_here: None, tmp_path: Path) -> None:
    model = build("mlp")
    program = xb.capture(model.module, model.inputs)
    before = digest_program(program)
    if backend.toolchain is not None:  # its interpreter gets a copy
        xb.lower(program, backend.name, name="mlp")
        assert digest_program(program) == before
        return
    made = backend.lower(program, resolve(backend.name).options, tmp_path / "payload", [model.others])
    assert digest_program(program) == before
    assert made.payload == tmp_path / f"payload{backend.suffix}"
    assert list(tmp_path.iterdir()) == [made.payload], "nothing else is left behind"


def test_loads_here_or_says_why_not(lowered: Lower, backend: Backend) -> None:
    missing = backend.missing(Machine.here())
    if missing is None or missing.run is None:
        if resolve(backend.name).python != sys.executable:
            with pytest.raises(UnavailableError, match="cross-backend run"):
                xb.load(lowered("mlp").artifact)
            return
        assert isinstance(xb.load(lowered("mlp").artifact), xb.Session)
        return
    with pytest.raises(UnavailableError) as caught:
        xb.load(lowered("mlp").artifact)
    assert missing.run.reason in str(caught.value) and missing.run.remedy in str(caught.value)


@pytest.fixture(scope="session")
def onnx_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the small network as an ONNX file."""
    model = build("mlp")
    path = tmp_path_factory.mktemp("onnx") / "mlp.onnx"
    exported = torch.onnx.export(model.module, model.inputs, dynamo=True, verbose=False)
    assert exported is not None
    exported.save(path, external_data=False)
    return path


def test_takes_onnx_files_or_says_why_not(
    backend: Backend, lowers_here: None, onnx_file: Path, tmp_path: Path, right: Right
) -> None:
    program = xb.OnnxProgram(onnx_file)
    if "onnx_program" in backend.limits:
        with pytest.raises(UnsupportedError) as caught:
            xb.lower(program, backend.name, name="file")
        assert backend.limits["onnx_program"] in str(caught.value)
        with pytest.raises(UnsupportedError):
            backend.lower(program, resolve(backend.name).options, tmp_path / "payload", [])
        assert not list(tmp_path.iterdir())
        return
    model, artifact = build("mlp"), xb.lower(program, backend.name, name="file")
    assert artifact.target == backend.name
    missing = backend.missing(Machine.here())
    if (missing is not None and missing.run is not None) or resolve(backend.name).python != sys.executable:
        return  # that it says so is tested above
    with xb.load(artifact) as session:
        right(session(*model.others), model.expected(model.others))
