"""Build hook: Atalla's C kernels are compiled into the wheel, or for an editable install beside their sources.

Where there is no C compiler, the wheel is pure: Atalla's reference runs blobs then, and says so.

With ``$ATALLA_MACHINE``, ``aarch64`` for example, and a cross compiler as ``$CC``, the wheel is for that processor.
With ``$ATALLA_KERNELS=apart`` an editable install leaves them to ``python -m atalla.build``, which may run meanwhile.
"""

from __future__ import annotations

import importlib
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags


class Kernels(BuildHookInterface):
    """Compiles the library with what ``python -m atalla.build`` uses."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the library; ``version`` is ``standard`` or ``editable``."""
        source = Path(self.root, "src")
        sys.path.insert(0, str(source))
        try:
            build, library = (importlib.import_module(f"atalla.{name}") for name in ("build", "library"))
        finally:
            sys.path.remove(str(source))
        if version == "editable":
            path = source / "atalla" / library.LIBRARY
            if os.environ.get("ATALLA_KERNELS") != "apart" and build.is_stale(path):
                path.unlink(missing_ok=True)
                self._build(build, path)
            return
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name, library.LIBRARY)
        if self._build(build, path):
            build_data["force_include"][str(path)] = f"atalla/{library.LIBRARY}"
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{_platform(_machine())}"

    def _build(self, build: Any, path: Path) -> bool:
        try:
            build.build(path, sets=build.sets_of(_machine()))
        except build.AtallaError as error:
            slow = "Atalla's C kernels are not built, and its blobs will run by the reference, slowly"
            self.app.display_warning(f"{slow}: {error}")
            return False
        return True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Delete what the wheel was made of."""
        if version == "standard":
            self._folder.cleanup()


def _machine() -> str:
    """Give the processor that is built for, as ``platform.machine`` names it."""
    return os.environ.get("ATALLA_MACHINE") or platform.machine()


def _platform(machine: str) -> str:
    """Give the platform's tag; on Linux the plain one, which promises nothing about other distributions."""
    here = next(tag for tag in platform_tags() if not tag.startswith(("manylinux", "musllinux")))
    return here.replace(platform.machine(), machine)
