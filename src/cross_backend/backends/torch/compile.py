"""torch.compile: the captured program through TorchInductor, compiled when the artifact is opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from cross_backend.artifact import Artifact
from cross_backend.backend import Missing, Options, Session
from cross_backend.backends.torch._base import ProgramSession, TorchBackend, missing_compiler, script
from cross_backend.backends.torch._device import buffers_kept
from cross_backend.errors import LoadError, failing_as

if TYPE_CHECKING:
    from cross_backend.machine import Machine


class _CompiledSession(ProgramSession):
    def _load(self, path: Path) -> Callable[..., Any]:
        import torch

        function: Callable[..., Any] = torch.compile(super()._load(path), dynamic=False)
        return function

    def _open(self) -> None:
        """Compile here rather than in the first call, so that no instrument times the compiler."""
        from cross_backend.tensors import random_inputs

        super()._open()
        with failing_as(LoadError, "torch.compile failed"), buffers_kept(self._module):
            self._bind(random_inputs(self.inputs))()


@final
class TorchCompile(TorchBackend):
    """The exported graph through torch.compile (TorchInductor); compiled when the artifact is opened."""

    name = "torch.compile"
    title = "PyTorch compile"

    def reproduction(self, options: Options) -> Sequence[str]:
        return script(self.title, options, "torch.compile(program.module(), dynamic=False)")

    def missing(self, machine: Machine) -> Missing | None:
        return super().missing(machine) or Missing(run=missing_compiler()) or None

    def load(self, artifact: Artifact, options: Options) -> Session:
        return _CompiledSession(artifact, options)
