"""executorch.portable: ExecuTorch's plain reference kernels; they run everywhere, far slower than XNNPACK on CNNs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from cross_backend.backend import Options
from cross_backend.backends.executorch._pte import ExecuTorchBackend


@final
class Portable(ExecuTorchBackend):
    """No delegate: every operator is a kernel call."""

    name = "executorch.portable"
    title = "Portable (Reference)"

    def partitioners(self, program: Any, options: Options) -> Sequence[Any]:
        return ()
