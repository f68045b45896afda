"""Loaders at work: those in C++ and Python open real bundles, and refuse what is damaged or wrong."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import runpy
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nlohmann_json
import numpy as np
import pytest
import torch

import cross_backend as xb
from cross_backend.bundle import write_bundle
from cross_backend.cache import Cache
from cross_backend.loaders import write_loaders
from cross_backend.lowering.lower import lower
from cross_backend.machine import Machine
from cross_backend.program.capture import write_program
from cross_backend.registry import resolve
from cross_backend.tensors import dtype_of
from tests import needs
from tests.compiled import compiled

PACKAGE = Path(importlib.util.find_spec("executorch").submodule_search_locations[0])  # type: ignore[union-attr,index]
LIBRARIES = ("executorch", "executorch_kernels_optimized", "executorch_backend_xnnpack", "executorch_threadpool")
COMPILE = (
    *("g++", "-std=c++17", "-Wall", "-Wextra", "-Werror"),
    # What the package's executorch-config.cmake gives to every program that links it.
    *("-DC10_USING_CUSTOM_GENERATED_MACROS", "-DET_EVENT_TRACER_ENABLED", "-DET_USE_THREADPOOL"),
    *("-isystem", f"{PACKAGE}/include", "-isystem", f"{PACKAGE}/include/executorch/runtime/core/portable_type/c10"),
    *("-isystem", f"{Path(nlohmann_json.__file__).parent}/include"),
)
VERSIONS = {name: importlib.metadata.version(name) for name in ("executorch", "nlohmann_json")}
LINK = (
    f"-L{PACKAGE}/lib",
    "-Wl,--no-as-needed",
    *(f"-l{x}" for x in LIBRARIES),
    f"-Wl,-rpath,{PACKAGE}/lib",
)
PROGRAM = """
#include <iostream>
#include "load_best.hpp"
int main(int, char** arguments) {
  if (arguments[1] == std::string("sha256")) {
    const std::string data{std::istreambuf_iterator<char>(std::cin), {}};
    unsigned char digest[32];
    cross_backend::detail::sha256(reinterpret_cast<const unsigned char*>(data.data()), data.size(), digest);
    std::cout.write(reinterpret_cast<const char*>(digest), sizeof digest);
    return 0;
  }
  try {
    const auto best = cross_backend::load_best(arguments[1], arguments[2], arguments[3] == std::string("verify"));
    std::cout << nlohmann::json{{"name", best.artifact.at("name")}, {"rejected", best.rejected}, {"why", best.why}};
  } catch (const std::exception& error) {
    std::cerr << "load_best: " << error.what() << "\\n";
    return 1;
  }
}
"""


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)


@dataclass(frozen=True)
class Opened:
    """What a loader said."""

    name: str | None
    rejected: list[str]
    error: str = ""
    why: str = field(default="", compare=False)


Open = Callable[..., Opened]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loaders")
    write_loaders("net", [], folder)
    return folder


def header_of(sources: Path) -> str:
    return (sources / "load_best.hpp").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def program(sources: Path) -> Path:
    """Compile a program around the C++ loader; any warning is an error."""
    needs.program("g++")
    files = {"load_best.hpp": header_of(sources), "main.cpp": PROGRAM}
    return compiled((*COMPILE, "main.cpp", "-o", "main", *LINK), files, VERSIONS) / "main"


@pytest.fixture(scope="module")
def module(sources: Path) -> Any:
    """Import the Python loader as a file, as an application would."""
    spec = importlib.util.spec_from_file_location("load_best", sources / "load_best.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["load_best"] = module  # dataclasses look their module up
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # executorch calls its runtime experimental
        spec.loader.exec_module(module)
    return module


@pytest.fixture(params=["C++", "Python"])
def open_with(request: pytest.FixtureRequest) -> Open:
    """Give a function that opens a bundle with one of the loaders that can run here."""
    if request.param == "C++":
        program = request.getfixturevalue("program")

        def open_in_cpp(bundle: Path, platform: str = "linux", verify: bool = True) -> Opened:
            done = run(program, bundle, platform, "verify" if verify else "trust")
            if done.returncode == 0:
                return Opened(**json.loads(done.stdout))
            assert done.returncode == 1, (done.returncode, done.stderr)
            return Opened(None, [], done.stderr.partition("load_best: ")[2].strip())

        return open_in_cpp
    module = request.getfixturevalue("module")

    def open_in_python(bundle: Path, platform: str = "linux", verify: bool = True) -> Opened:
        try:
            best = module.load_best(bundle, platform, verify)
        except module.BundleError as error:
            return Opened(None, [], str(error))
        return Opened(best.artifact["name"], best.rejected, why=best.why)

    return open_in_python


def write(captured: Any, targets: list[str], orders: dict[str, list[str]], parent: Path) -> Path:
    """Lower a captured program to several targets and bundle them."""
    rows = []
    for target in targets:
        resolved = resolve(target)
        artifact = lower(captured, resolved, Cache()).artifact
        rows.append((artifact, f"{captured.workload}_{resolved.stem}", resolved.backend.title, {"tolerance": 1e-4}))
    return write_bundle(captured, rows, orders, {}, parent)


@pytest.fixture(scope="module")
def made(linear: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = [f"linear_regression_{stem}" for stem in ("vulkan", "null", "xnnpack", "portable")]
    orders = {"linux": names, "web": names[:1:-1]}
    return write(linear, ["vulkan", "null", "xnnpack", "portable"], orders, tmp_path_factory.mktemp("bundles"))


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
def bundle(made: Path, tmp_path: Path) -> Path:
    """Copy the bundle, to be damaged."""
    return Path(shutil.copytree(made, tmp_path / "bundle"))


@pytest.fixture
def typed(made_of_many_types: Path, tmp_path: Path) -> Path:
    """Copy the bundle with outputs of many types, to be damaged."""
    return Path(shutil.copytree(made_of_many_types, tmp_path / "typed"))


def edit(bundle: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = bundle / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def expect(bundle: Path, index: int, change: Callable[[Any], None]) -> None:
    """Change what the bundle expects of one output; its digest is made to fit."""
    path = bundle / "sample" / f"expected_{index}.npy"
    tensor = np.load(path)
    change(tensor)
    np.save(path, tensor)

    def sign(manifest: dict[str, Any]) -> None:
        manifest["sample"]["expected"][index]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()

    edit(bundle, sign)


NOT_HERE = [
    "linear_regression_vulkan: this runtime does not hold VulkanBackend",
    "linear_regression_null: it needs the runtime null",
]


def test_opens_the_first_that_works_and_keeps_the_reasons(open_with: Open, bundle: Path) -> None:
    assert open_with(bundle) == Opened("linear_regression_xnnpack", NOT_HERE)


def test_takes_the_platforms_order_or_else_the_bundles_own(open_with: Open, bundle: Path) -> None:
    assert open_with(bundle, "web") == Opened("linear_regression_portable", [])
    assert open_with(bundle, "embedded") == Opened("linear_regression_xnnpack", NOT_HERE)


def evidence(platform: str, order: list[str], **machine: str) -> dict[str, Any]:
    """Give evidence in the manifest's form; of this machine, where nothing else is said of it."""
    here = Machine.here()
    return {
        "platform": platform,
        "machine": {"cpu": here.cpu, "arch": here.arch, "system": here.system, "digest": "0" * 16, **machine},
        "date": "2026-11-27T10:00:00Z",
        "order": [f"linear_regression_{stem}" for stem in order],
    }


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


def test_keys_that_a_loader_does_not_know_are_ignored(open_with: Open, bundle: Path) -> None:
    edit(bundle, lambda manifest: (manifest.update(new={}), manifest["artifacts"][2].update(new=[1])))  # type: ignore[func-returns-value]
    assert open_with(bundle).name == "linear_regression_xnnpack"


def test_the_python_loader_runs_what_it_opened(module: Any, bundle: Path) -> None:
    best = module.load_best(bundle, "linux")
    x = np.load(bundle / "sample" / "input_0.npy")
    for given in (x, x.tolist(), np.asfortranarray(x)):
        (y,) = best(np.asarray(given, np.float32))
        np.testing.assert_array_equal(best.forward(np.asarray(given, np.float32)), y)
        np.testing.assert_allclose(y, np.load(bundle / "sample" / "expected_0.npy"), rtol=1e-4)


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


def test_the_python_loader_shows_names_of_strangers_plainly(module: Any, bundle: Path) -> None:
    evil = "x\x1b[2J\r\u202e\x9b"

    def rename(row: dict[str, Any]) -> None:
        row["model"], row["orders"] = evil, {}
        for number, artifact in enumerate(row["artifacts"]):
            artifact.update(name=f"{number}{evil}", target=f"{evil}.x")

    edit(bundle, rename)
    with pytest.raises(module.BundleError) as refused:
        module.load_best(bundle)
    assert all(line.isprintable() for line in str(refused.value).split("\n")) and "\\x1b[2J" in str(refused.value)


def test_the_python_loader_waits_for_no_pipe(module: Any, bundle: Path) -> None:
    for file in ("linear_regression_xnnpack.pte", "linear_regression_portable.pte"):
        (bundle / file).unlink()
        os.mkfifo(bundle / file)
    with pytest.raises(module.BundleError, match=r"linear_regression_xnnpack\.pte is missing, or no file"):
        module.load_best(bundle)


@pytest.mark.usefixtures("module")
def test_the_python_loader_is_a_program_of_its_own(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Isolated, in the folder where the bundle carries it; the line it prints names artifact and reasons."""
    loader = bundle / "loaders" / "load_best.py"
    done = run(sys.executable, "-I", loader)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["linear_regression_xnnpack", *(f"  not {reason}" for reason in NOT_HERE)]
    monkeypatch.setattr(sys, "argv", [str(loader), str(bundle / "nowhere")])
    with pytest.raises(SystemExit) as ended:  # with a text the interpreter prints that, and its status is 1
        runpy.run_path(str(loader), run_name="__main__")
    assert str(ended.value.code).splitlines()[-1].startswith(f"load_best: {bundle / 'nowhere'} is no bundle")


@pytest.mark.parametrize("size", [0, 1, 55, 56, 63, 64, 65, 119, 120, 1_000_003])
def test_the_cpp_loader_digests_as_hashlib_does(program: Path, size: int) -> None:
    data = hashlib.shake_128(b"seed").digest(size)
    done = subprocess.run([program, "sha256"], input=data, capture_output=True, check=True)
    assert done.stdout == hashlib.sha256(data).digest()


def test_another_digest_can_be_given_to_the_cpp_loader(sources: Path) -> None:
    """One in hardware, for example."""
    needs.program("g++")
    hook = (
        "#include <cstddef>\nvoid mine(const unsigned char*, std::size_t, unsigned char*);\n"
        '#define CROSS_BACKEND_SHA256 mine\n#include "load_best.hpp"\n'
    )
    files = {"load_best.hpp": header_of(sources), "hook.cpp": hook}
    compiled((*COMPILE, "-fsyntax-only", "hook.cpp"), files, VERSIONS)


def test_the_compiler_finds_a_mistake(sources: Path) -> None:
    needs.program("g++")
    wrong = header_of(sources).replace("load_forward()", "load_forwards()")
    files = {"load_best.hpp": wrong, "main.cpp": PROGRAM}
    compiled((*COMPILE, "-fsyntax-only", "main.cpp"), files, VERSIONS, refused_for="load_forwards")
