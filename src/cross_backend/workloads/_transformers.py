"""Models of transformers: imported beside any torchvision, configured in code, with random weights or real ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atalla.torchvision import make_importable
from cross_backend.errors import UnavailableError, one_line
from cross_backend.workloads import load_checkpoint
from cross_backend.workloads._pretrained import load_pretrained

if TYPE_CHECKING:
    import torch

SEED = 0


def import_transformers(name: str, extra: str) -> Any:
    """Import the package, which imports torchvision where that is installed.

    Raises:
        UnavailableError: it does not import.
    """
    make_importable()
    try:
        import transformers
    except ImportError as error:
        remedy = f"pip install 'cross-backend[{extra}]'"
        raise UnavailableError(f"{name} needs transformers, which fails here: {one_line(error)}", remedy) from error
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


def load_model(name: str, kind: Any, config: Any, weights: str | None, whole: tuple[Any, str] | None = None) -> Any:
    """Build a model in evaluation mode, its attention written out in plain operators.

    Fused attention is what compilers differ most in; the plain form is taken by all.

    Args:
        name: of the workload, for messages.
        kind: a model class of transformers.
        config: its configuration, which real weights must fit.
        weights: None for seeded random ones, a checkpoint file of exactly this module, or a folder or a name on the
            hub, as ``from_pretrained`` takes it.
        whole: class and attribute of the model that published weights are of, where ``kind`` is a part of it.

    Raises:
        CaptureError: the weights are not there, or are not this model's.
    """
    config._attn_implementation = "eager"  # noqa: SLF001  not every class takes it as an argument
    if weights is not None and not Path(weights).is_file():
        model = load_pretrained(name, whole[0] if whole else kind, config, weights)
        return getattr(model, whole[1]).eval() if whole else model.eval()
    model = kind(config)
    if weights is not None:
        load_checkpoint(model, weights)
    return model.eval()


def copy_weights(pairs: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Copy the second tensor of each pair into the first."""
    import torch

    with torch.no_grad():
        for own, other in pairs:
            own.copy_(other)


def as_module(model: Any, run: Callable[..., Any], **constants: torch.Tensor) -> torch.nn.Module:
    """Return a module of tensors in and tensors out.

    Args:
        model: what holds the weights.
        run: called with the module, which has ``model`` and the constants as attributes, and the inputs.
        constants: tensors that become buffers.
    """
    import torch

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            for key, tensor in constants.items():
                self.register_buffer(key, tensor)

        def forward(self, inputs: torch.Tensor) -> Any:
            return run(self, inputs)

    return Network().eval()
