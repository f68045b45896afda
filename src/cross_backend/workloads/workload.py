"""What a workload is, and one that was named and not yet built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import torch

    from cross_backend.workloads.media import Media


@dataclass(frozen=True)
class Task:
    """What a trained model is for, with held-out data to score it on.

    Example:
        >>> import numpy as np
        >>> xb.Task("top-1 accuracy", np.ones((2, 4), np.float32), np.array([0, 1])).metric
        'top-1 accuracy'
    """

    metric: str
    """``top-1 accuracy``: the share of samples whose largest output is at the label's index, ``top-5 accuracy``: among
    the five largest; ``perplexity`` of a program with state that predicts the next token: exp of the mean negative
    log-likelihood of each token after those before it, smaller is better; or the name of ``measure``."""
    inputs: Any
    """Samples along the first axis; each is given to the model as a batch of one. A tuple of several such arrays where
    the model takes several inputs. For ``perplexity`` token ids, a sequence a row, each fed from the initial state."""
    labels: np.ndarray[Any, Any] | None = None
    """One class index a sample, or what the metric compares the outputs with; none for ``perplexity``."""
    measure: Callable[[Any, Any], float] | None = None
    """The user's own metric: of the outputs, all samples along the first axis (a list where there are several), and the
    labels; larger is better."""
    origin: str = ""
    """Digest of the file that the metric is from."""


@dataclass(frozen=True)
class Workload:
    """A model, and the inputs to capture it with.

    Example:
        >>> xb.Workload("net", model, (example,)).name
        'net'
    """

    name: str
    """Stem of its files."""
    model: torch.nn.Module | Path
    """A module in evaluation mode, or the path of a ``.pt2`` or ``.onnx`` file."""
    inputs: tuple[Any, ...] = ()
    """Positional example inputs, torch tensors in any structure; empty for files, which bring their own
    specification."""
    calibration: tuple[tuple[Any, ...], ...] = ()
    """Inputs for quantisers to observe; the example inputs serve where there are none."""
    task: Task | None = None
    """Task metric, where the model was trained for one."""
    labels: tuple[str, ...] = ()
    """Names of the classes, by index of the output; empty where there are none."""
    batch: int | None = None
    """Extent of the batch dimension that was asked for; as it came where None."""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Example inputs by name."""
    media: Media | None = None
    """What its inputs are made of, a picture, say, and what its outputs mean; None where that are tensors."""
    own: tuple[Path, ...] = ()
    """Files and folders with inputs of the user's own, which are verified beside the example inputs."""
    calibration_from: Path | None = None
    """File or folder with calibration inputs of the user's own, which stand for ``calibration``."""
    was_training: bool = False
    """Whether the module was in training mode when it was built; it is captured in evaluation mode."""
    dynamic_shapes: Any = None
    """Free extents of the inputs, as ``torch.export.export`` takes them; none where None."""
    steps: tuple[tuple[Any, ...], ...] = ()
    """Inputs of the calls after the example's, in order, of a model that remembers; made up where there are none."""


@dataclass(frozen=True)
class Source:
    """A workload that was named and not yet built."""

    text: str
    """What the user wrote."""
    name: str
    """Stem of its files."""
    weights: str | None
    """Checkpoint file or published weights name."""
    identity: str | None
    """What the built model depends on, without building it; None where only running the code shows it."""
    build: Callable[[], Workload]
    """Build it; imports torch."""
    batch: int | None = None
    """Extent of the batch dimension that was asked for; as it comes where None."""
    own: tuple[Path, ...] = ()
    """See ``Workload.own``."""
    calibration: Path | None = None
    """See ``Workload.calibration_from``."""
    task: str | None = None
    """``FILE.py:function`` that returns the task; None for the workload's own."""
    context: int | None = None
    """Positions of a decoder's caches; None where that is not known without building it."""
