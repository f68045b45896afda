"""The loader in Kotlin at work: compiled by Kotlin's own compiler, and run on a JVM.

Android's classes and ExecuTorch's are stand-ins (``tests/kotlin``): a program gives the numbers that lie beside it. The
manifest, its digests and its sample are real.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cross_backend.loaders import write_loaders
from tests import needs, surroundings
from tests.runtimes import bring
from tests.surroundings import digest_of
from tests.unit.loaders.bundles import edit, evidence, expect

STUBS = surroundings.ROOT / "tests" / "kotlin"
TEMPLATES = surroundings.ROOT / "src" / "cross_backend" / "loaders"
NAMES = [f"linear_regression_{stem}" for stem in ("vulkan", "null", "xnnpack", "portable")]
VULKAN, NULL, XNNPACK, PORTABLE = NAMES
HELD = "XnnpackBackend,CoreMLBackend"
NOT_HERE = [
    f"rejected {VULKAN}: this runtime does not hold VulkanBackend",
    f"rejected {NULL}: it needs the runtime null",
]

Open = Callable[..., list[str]]
pytestmark = pytest.mark.slow


def java(*words: object) -> subprocess.CompletedProcess[str]:
    command = [needs.program("java"), "-Xshare:auto", "-XX:TieredStopAtLevel=1", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)


def compiled(sources: list[Path], classes: Path) -> subprocess.CompletedProcess[str]:
    """Compile with any warning as an error."""
    jars = bring("kotlin")
    return java(
        *("-Xmx1g", "-cp", f"{jars}/*", "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler", "-Werror"),
        *("-no-stdlib", "-no-reflect", "-cp", jars / "kotlin-stdlib.jar", "-d", classes, *sources),
    )


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loaders")
    write_loaders("linear_regression", [], folder)
    return folder / "LoadBest.kt"


@pytest.fixture(scope="module")
def program(loader: Path) -> str:
    """Compile a program around the loader, once for all runs of the same sources; give its class path."""
    needs.program("java")
    needs.program("npm")
    sources = [*STUBS.glob("*.kt"), *TEMPLATES.rglob("*"), surroundings.ROOT / "tests" / "runtimes.py"]
    classes = surroundings.KEPT / f"kotlin-{digest_of(path for path in sources if path.is_file())}"
    classes.mkdir(parents=True, exist_ok=True)
    with (classes / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (classes / "MainKt.class").exists():
            done = compiled([loader, *STUBS.glob("*.kt")], classes)
            assert done.returncode == 0, done.stderr
    return f"{classes}:{bring('kotlin') / 'kotlin-stdlib.jar'}"


@pytest.fixture
def bundle(made: Path, tmp_path: Path) -> Path:
    """Copy the bundle; every program of ExecuTorch's gives what is expected."""
    folder = Path(shutil.copytree(made, tmp_path / "bundle"))
    for name in (VULKAN, XNNPACK, PORTABLE):
        gives(folder, name, expected(folder))
    return folder


def expected(bundle: Path) -> list[float]:
    return [float(value) for value in np.load(bundle / "sample" / "expected_0.npy").reshape(-1)]


def gives(bundle: Path, name: str, numbers: list[float] | None) -> None:
    """Say what a program gives: numbers, none because it fails, or it cannot even be loaded."""
    file = bundle / f"{name}.pte.gives"
    if numbers is None:
        file.unlink()
    else:
        file.write_text(" ".join(map(repr, numbers)).replace("nan", "NaN"))


@pytest.fixture
def open_bundle(program: str) -> Open:
    """Give a function that opens a bundle; it gives what was said, a line each."""

    def run(
        bundle: Path,
        platform: str = "linux",
        how: str = "verify",
        status: int = 0,
        held: str = HELD,
        device: dict[str, object] | None = None,
    ) -> list[str]:
        about = [f"-D{key}={value}" for key, value in (device or {}).items()]
        more = [] if device is None else ["why"]
        done = java(f"-Dbackends={held}", *about, "-cp", program, "MainKt", bundle, platform, how, *more)
        assert (done.returncode, done.stderr) == (status, ""), done
        return done.stdout.splitlines()

    return run


def test_opens_the_first_that_works_and_keeps_the_reasons(open_bundle: Open, bundle: Path) -> None:
    ran = [f"forward {XNNPACK}.pte 1.0 2.0 3.0 4.0"]
    assert open_bundle(bundle) == [*ran, *NOT_HERE, f"opened {XNNPACK}"]
    held = open_bundle(bundle, held="VulkanBackend")
    assert held == [f"forward {VULKAN}.pte 1.0 2.0 3.0 4.0", f"opened {VULKAN}"]


def test_takes_the_platforms_order_or_else_the_bundles_own(open_bundle: Open, bundle: Path) -> None:
    assert open_bundle(bundle, "web")[-1] == f"opened {PORTABLE}"
    assert open_bundle(bundle, "toaster")[-3:] == [*NOT_HERE, f"opened {XNNPACK}"]


@pytest.mark.parametrize(
    ("device", "name", "why"),
    [
        ({}, PORTABLE, "measured on this processor (SM8650), 2026-11-27"),
        ({"soc": "Other"}, XNNPACK, "measured on another device, arm64 (Tensor G4), 2026-11-27"),
        (
            {"soc": "Other", "sdk": 30, "hardware": "SM8650"},
            PORTABLE,
            "measured on this processor (SM8650), 2026-11-27",
        ),
        ({"abi": "x86_64"}, XNNPACK, "no measurement of this device; the order of linux"),
    ],
    ids=["same", "similar", "before-Android-12", "architecture"],
)
def test_takes_the_order_measured_on_such_a_device(
    device: dict[str, object], name: str, why: str, open_bundle: Open, bundle: Path
) -> None:
    def put(manifest: dict[str, Any]) -> None:
        phone = {"arch": "arm64", "system": "android"}
        manifest["evidence"] = [
            evidence("linux", ["xnnpack", "portable", "vulkan", "null"], cpu="Tensor G4", **phone),
            evidence("linux", ["portable", "xnnpack", "vulkan", "null"], cpu="SM8650", **phone),
        ]

    edit(bundle, put)
    said = open_bundle(bundle, device=device)
    assert said[-2:] == [f"why {why}", f"opened {name}"]


def test_without_verifying_nothing_is_run(open_bundle: Open, bundle: Path) -> None:
    gives(bundle, XNNPACK, [7.0])
    assert open_bundle(bundle, how="trust") == [*NOT_HERE, f"opened {XNNPACK}"]


@pytest.mark.parametrize(
    ("numbers", "reason"),
    [
        ([7.0], "an output is 7.0 instead of 2.71822"),
        ([float("nan")], "an output is NaN instead of 2.71822"),
        ([1.0, 2.0], "an output has another type or shape than expected"),
        ([], "it failed"),
        (None, "it cannot be loaded"),
    ],
)
def test_what_is_wrong_falls_back_and_is_closed(
    numbers: list[float] | None, reason: str, open_bundle: Open, bundle: Path
) -> None:
    gives(bundle, XNNPACK, numbers)
    said = open_bundle(bundle)
    assert said[-1] == f"opened {PORTABLE}"
    assert said[-2].startswith(f"rejected {XNNPACK}: {reason}")
    assert said.count(f"destroy {XNNPACK}.pte") == 1, "what was opened is closed"
    assert f"destroy {PORTABLE}.pte" not in said


def test_a_model_with_state_is_opened_again_after_it_was_verified(open_bundle: Open, bundle: Path) -> None:
    edit(bundle, lambda manifest: manifest.update(state=manifest["inputs"]))
    said = open_bundle(bundle)
    assert said[-1] == f"opened {XNNPACK}" and said.count(f"destroy {XNNPACK}.pte") == 1
    assert said[0].startswith(f"forward {XNNPACK}.pte")


def test_a_small_error_is_none(open_bundle: Open, bundle: Path) -> None:
    (value,) = expected(bundle)
    gives(bundle, XNNPACK, [value * (1 + 1e-5)])
    assert open_bundle(bundle)[-1] == f"opened {XNNPACK}"

    def strict(manifest: dict[str, Any]) -> None:
        for artifact in manifest["artifacts"]:
            artifact["mean_tolerance"] = 1e-7

    edit(bundle, strict)
    said = open_bundle(bundle)
    assert f"rejected {XNNPACK}: its outputs are off by too much in the mean" in said
    assert said[-1] == f"opened {PORTABLE}"


def test_a_flipped_bit_never_reaches_the_runtime(open_bundle: Open, bundle: Path) -> None:
    data = bytearray((bundle / f"{XNNPACK}.pte").read_bytes())
    data[len(data) // 2] ^= 1
    (bundle / f"{XNNPACK}.pte").write_bytes(data)
    said = open_bundle(bundle)
    assert f"rejected {XNNPACK}: {XNNPACK}.pte is damaged: its SHA-256 is not the manifest's" in said
    assert not any(line.startswith(f"forward {XNNPACK}") for line in said)


def test_if_none_works_every_reason_is_told(open_bundle: Open, bundle: Path) -> None:
    expect(bundle, 0, lambda tensor: tensor.fill(3))
    said = open_bundle(bundle, status=1)
    assert "error no artifact of linear_regression works here:" in said
    reasons = [line.strip().partition(":")[0] for line in said if line.startswith("  ")]
    assert reasons == NAMES


def test_a_newer_version_is_refused(open_bundle: Open, bundle: Path) -> None:
    edit(bundle, lambda manifest: manifest.update(version=2))
    assert open_bundle(bundle, status=1) == ["error this loader reads bundles of version 1, not 2"]


def test_assets_are_unpacked_once(program: str, made: Path, tmp_path: Path) -> None:
    assets = tmp_path / "app" / "assets" / "net"
    shutil.copytree(made, assets)

    def unpack() -> Path:
        done = java("-cp", program, "MainKt", "unpack", tmp_path / "app", "net")
        assert (done.returncode, done.stderr) == (0, ""), done
        return Path(done.stdout.strip().removeprefix("unpacked "))

    folder = unpack()
    assert folder == tmp_path / "app" / "files" / "net"
    files = sorted(path.relative_to(assets) for path in assets.rglob("*") if path.is_file())
    assert sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file()) == files
    assert all((folder / file).read_bytes() == (assets / file).read_bytes() for file in files)
    (folder / "kept").touch()
    assert (unpack() / "kept").exists(), "the same bundle is not copied again"
    manifest = json.loads((assets / "manifest.json").read_text())
    (assets / "manifest.json").write_text(json.dumps({**manifest, "made": "anew"}))
    assert not (unpack() / "kept").exists(), "another bundle replaces all of it"


def test_the_compiler_finds_a_mistake(loader: Path, program: str, tmp_path: Path) -> None:
    broken = loader.read_text(encoding="utf-8").replace("module.forward(", "module.forwards(")
    (tmp_path / "LoadBest.kt").write_text(broken, encoding="utf-8")
    done = compiled([tmp_path / "LoadBest.kt", *STUBS.glob("*.kt")], tmp_path / "classes")
    assert done.returncode == 1 and "forwards" in done.stderr
