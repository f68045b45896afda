"""An emulated machine: qemu's user mode runs programs of another architecture on this one; it times nothing."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from cross_backend.errors import PlaceError
from cross_backend.places.address import Address
from cross_backend.places.place import Place
from cross_backend.worker.process import with_pipes


class EmulatedPlace(Place):
    """Programs of another architecture, on the files of this machine."""

    def __init__(self, address: Address) -> None:
        """Find the emulator and the C library of that architecture.

        Raises:
            PlaceError: one of them is missing; the text says the command.
        """
        super().__init__(str(address))
        architecture = address.host
        names = (f"qemu-{architecture}", f"qemu-{architecture}-static")
        emulator = next((found for name in names if (found := shutil.which(name))), None)
        if emulator is None:
            raise PlaceError(f"{self.name} needs qemu-{architecture}. Run: sudo apt-get install qemu-user")
        self._libraries = Path(f"/usr/{architecture}-linux-gnu")
        if not (self._libraries / "lib").is_dir():
            package = {"aarch64": "libc6-dev-arm64-cross"}.get(architecture, f"the C library for {architecture}")
            raise PlaceError(f"{self.name} needs the libraries of {architecture}. Run: sudo apt-get install {package}")
        self._emulator, self._architecture = emulator, architecture
        self._folder = Path(tempfile.mkdtemp(prefix="cb-"))
        (self._folder / "scratch").mkdir()
        self._trees = 0

    @property
    def scratch(self) -> str:  # noqa: D102  the declaration says it
        return str(self._folder / "scratch")

    @property
    def facts(self) -> Mapping[str, str]:  # noqa: D102
        return {"system": "Linux", "architecture": self._architecture, "emulated": "yes"}

    def start(  # noqa: D102
        self, log: Path, command: Sequence[str], variables: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        return with_pipes(log, [self._emulator, "-L", str(self._libraries), *command], variables)

    def push(self, files: Mapping[str, Path]) -> str:  # noqa: D102
        self._trees += 1
        folder = self._folder / f"{self._trees}"
        for name, path in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).symlink_to(path.resolve())
        return str(folder)

    def pull(self, there: str, here: Path, most_bytes: int) -> None:  # noqa: D102
        if Path(there).stat().st_size > most_bytes:
            raise PlaceError(f"{self.name} wrote more than {most_bytes:,} bytes.")
        shutil.copyfile(there, here)

    def lost(self) -> str | None:  # noqa: D102
        return None

    def close(self) -> None:  # noqa: D102
        shutil.rmtree(self._folder, ignore_errors=True)
