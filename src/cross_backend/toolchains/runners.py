"""Builds of the C++ runner for machines that have no Python, made here with the libraries that it needs there."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cross_backend.cache import key_of
from cross_backend.errors import CrossBackendError
from cross_backend.toolchains._steps import root, run_step

RUNNER = "cross_backend_runner"


@dataclass(frozen=True)
class RunnerBuild:
    """The C++ runner for machines of one architecture that have no Python, with the libraries that it needs."""

    architecture: str
    """As ``uname -m`` says it: ``aarch64``."""
    pins: tuple[tuple[str, str], ...]
    """The package whose libraries it is linked with."""
    why: str = "measures on machines that have no Python"
    system: ClassVar[str] = "Linux"
    """As the place names it."""

    @property
    def name(self) -> str:
        """What the user adds."""
        return f"runner-{self.architecture}"

    @property
    def folder(self) -> Path:
        """Where it lies; other sources or libraries, other folder."""
        sources = {name: file.read_bytes().hex() for name, file in _runner_sources().items()}
        return root() / f"{self.name}-{key_of({'pins': self.pins, 'sources': sources, 'recipe': 2})[:8]}"

    @property
    def files(self) -> dict[str, Path]:
        """Name → file, of all that goes to such a machine; they lie in one folder there."""
        return {path.name: path for path in sorted((self.folder / "out").iterdir())}

    @property
    def added(self) -> bool:
        """Whether it was built to the end."""
        return (self.folder / "ready").is_file() and (self.folder / "out" / RUNNER).is_file()

    def install(self, tell: Callable[[str], None]) -> None:
        """Fetch the libraries for that architecture with pip, and build the runner with a (cross) compiler."""
        native = platform.machine() == self.architecture
        compiler = shutil.which("g++" if native else f"{self.architecture}-linux-gnu-g++")
        if compiler is None:
            package = "g++" if native else f"g++-{self.architecture.replace('_', '-')}-linux-gnu"
            raise CrossBackendError(f"{self.name}: needs a C++ compiler; run: sudo apt-get install {package}")
        ((package, version),) = self.pins
        wheel = self.folder / "wheel"
        tell(f"[1/3] {self.name}: fetching {package} {version} for {self.architecture}")
        tag = [
            f"--python-version={sys.version_info.major}.{sys.version_info.minor}",
            "--only-binary=:all:",
            "--no-deps",
        ]
        where = [f"--platform=manylinux_2_28_{self.architecture}", "--dest", str(self.folder), "--quiet"]
        pip = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", *tag, *where]
        run_step(self.name, f"fetching {package} {version}", [*pip, f"{package}=={version}"])
        (archive,) = self.folder.glob("*.whl")
        shutil.unpack_archive(archive, wheel, "zip")
        archive.unlink()
        tell(f"[2/3] {self.name}: building the runner")
        system = [] if native else ["-DCMAKE_SYSTEM_NAME=Linux", f"-DCMAKE_SYSTEM_PROCESSOR={self.architecture}"]
        beside = "-DCMAKE_EXE_LINKER_FLAGS=-Wl,-rpath,'$ORIGIN'"
        package_files = wheel / package
        options = [*system, beside, f"-Dexecutorch_DIR={package_files}/share/cmake"]
        self._build(options, {"CXX": compiler, "CC": compiler.removesuffix("++") + "cc"})
        tell(f"[3/3] {self.name}: collecting its libraries")
        self._collect((package_files / "lib").glob("*.so*"))

    def _build(self, options: Sequence[str], variables: Mapping[str, str]) -> None:
        """Build the runner of a copy of its sources."""
        source = self.folder / "source"
        for name, path in _runner_sources().items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, source / name)
        build = ["bash", str(source / "runner" / "build.sh"), str(self.folder / "build"), *options]
        run_step(self.name, "building", build, variables={**variables, "PYTHON": sys.executable})

    def _collect(self, libraries: Iterable[Path]) -> None:
        """Keep the runner with its libraries; delete what they were made of."""
        parts, out = list(self.folder.iterdir()), self.folder / "out"
        out.mkdir()
        for path in (self.folder / "build" / RUNNER, *sorted(libraries)):
            shutil.copy(path, out)
        for part in parts:
            shutil.rmtree(part)


@dataclass(frozen=True)
class AndroidRunnerBuild(RunnerBuild):
    """The C++ runner for Android, of the user's NDK and an ExecuTorch that was built for Android."""

    why: str = "measures on Android phones"
    system: ClassVar[str] = "Android"

    @property
    def preset(self) -> str:
        """Name in ``runner/CMakePresets.json``."""
        return f"android-{_ANDROID_NAMES[self.architecture]}"

    @property
    def name(self) -> str:  # noqa: D102  the declaration says it
        return f"runner-{self.preset}"

    def install(self, tell: Callable[[str], None]) -> None:
        """Build the runner with the NDK's compiler."""
        ndk, executorch = self._find_ndk(), self._find_executorch()
        tell(f"[1/2] {self.name}: building the runner with {ndk.name}")
        self._build(["--preset", self.preset, f"-Dexecutorch_DIR={executorch}"], {"ANDROID_NDK": str(ndk)})
        tell(f"[2/2] {self.name}: collecting its files")
        self._collect(executorch.parents[1].glob("*.so"))  # beside lib/cmake/ExecuTorch

    def _find_ndk(self) -> Path:
        named = next((value for name in NDK_VARIABLES if (value := os.environ.get(name))), None)
        if named is None:
            raise CrossBackendError(
                f"{self.name}: needs Android's NDK. Get it from https://developer.android.com/ndk/downloads, unpack it "
                f"and set {NDK_VARIABLES[0]} to its folder."
            )
        if not (Path(named) / "build" / "cmake" / "android.toolchain.cmake").is_file():
            raise CrossBackendError(f"{self.name}: {named} is no NDK: it has no build/cmake/android.toolchain.cmake.")
        return Path(named).absolute()

    def _find_executorch(self) -> Path:
        named = os.environ.get(EXECUTORCH_ANDROID)
        if not named:
            raise CrossBackendError(
                f"{self.name}: needs an ExecuTorch built for {self.preset} with the same NDK "
                "(https://docs.pytorch.org/executorch/stable/using-executorch-android.html). Install it with "
                f"cmake --install and set {EXECUTORCH_ANDROID} to that folder."
            )
        found = Path(named).absolute() / "lib" / "cmake" / "ExecuTorch"
        if not (found / "executorch-config.cmake").is_file():
            raise CrossBackendError(
                f"{self.name}: {named} is no installed ExecuTorch: it has no "
                "lib/cmake/ExecuTorch/executorch-config.cmake. Run cmake --install."
            )
        return found


NDK_VARIABLES = ("ANDROID_NDK", "ANDROID_NDK_HOME")
"""Environment variables that name the NDK's folder."""
EXECUTORCH_ANDROID = "EXECUTORCH_ANDROID"
"""Environment variable that names the folder where an ExecuTorch for Android is installed."""
_ANDROID_NAMES = {"aarch64": "arm64", "x86_64": "x86_64"}


def _runner_sources() -> dict[str, Path]:
    """Return place in a checkout → file, of the runner and of Atalla's C sources, from a checkout or from a wheel."""
    package = Path(__file__).parents[1]
    runner = next(one for one in (package / "_runner", package.parents[1] / "runner") if one.is_dir())
    found = {"src/cross_backend/_version.py": package / "_version.py"}
    for place, folder in (("runner", runner), ("src/atalla/csrc", package.parent / "atalla" / "csrc")):
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder)
            if path.is_file() and inside.parts[0] != "build":
                found[f"{place}/{inside.as_posix()}"] = path
    return found


RUNNERS: dict[str, RunnerBuild] = {
    one.name: one
    for one in (
        RunnerBuild("aarch64", (("executorch", "1.5.1"),)),
        RunnerBuild("x86_64", (("executorch", "1.5.1"),)),
        AndroidRunnerBuild("aarch64", ()),
        AndroidRunnerBuild("x86_64", ()),
    )
}
