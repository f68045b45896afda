"""Models: what a name on the command line means, and the program that ``torch.export`` makes of it."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.util
import io
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from atalla.cli import UsageError, check_file, one_line
from atalla.errors import CompileError
from atalla.files.archive import rewritten
from atalla.files.checkpoint import read_state
from atalla.files.pt2 import code_in
from atalla.torchvision import fill_zero_layers, mend_imports, settle_batch_norm, torchvision_models

if TYPE_CHECKING:
    import torch

SIZE = 224
"""Pixels a side where torchvision does not say."""
STATISTICS_BATCH = 4
"""Images that BatchNorm's statistics come from."""


def capture(
    text: str, weights: str | None, seed: int, *, trust: bool = False
) -> tuple[str, torch.export.ExportedProgram]:
    """Return a name for files, and the program.

    Args:
        text: ``file.pt2``, a classifier of torchvision, ``file.py:function`` or ``package.module:function``.
        weights: a checkpoint for the module; None for what the function returns, or seeded random ones.
        seed: of random weights and inputs.
        trust: whether to open a ``.pt2`` file that holds code.

    Raises:
        UsageError: it means nothing.
        CompileError: it cannot be built or captured.
    """
    import logging

    import torch

    logging.getLogger("torch").setLevel(logging.ERROR)  # what cannot be captured is told once, by the error
    if text.endswith(".pt2"):
        if weights is not None:
            raise UsageError(f"--weights does not go with {text}: the file holds its weights")
        return Path(text).stem, _read(Path(text), trust=trust)
    torch.manual_seed(seed)
    place, mark, function = text.rpartition(":")
    built = _call(place, function) if mark else _classifier(text, random=weights is None)
    name = f"{Path(place).stem if place.endswith('.py') else place}_{function}" if mark else text
    if isinstance(built, torch.export.ExportedProgram):
        if weights is not None:
            raise UsageError(f"--weights does not go with {text}, which returns a captured program")
        return name, built
    try:
        module, inputs = built
        module.eval()
    except (TypeError, ValueError, AttributeError) as error:
        raise CompileError(f"{text} must give (module, inputs), not {type(built).__name__}") from error
    if weights is not None:
        _load(module, weights)
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # torch prints the graph that it cannot export
            return name, torch.export.export(module, tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,))
    except Exception as error:
        raise CompileError(f"torch.export cannot capture {text}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Return the first line of what torch says at length, and the user's line where it names one."""
    text = str(error).strip() or type(error).__name__
    places = re.findall(r'File "([^"]+)", line (\d+), in ', text)
    return text.splitlines()[0] + (f" ({places[-1][0]}:{places[-1][1]})" if places else "")


def _read(path: Path, *, trust: bool) -> torch.export.ExportedProgram:
    import torch

    if not path.is_file():
        raise UsageError(f"{path} does not exist, or is not a file")
    try:
        importlib.import_module("torch.ao.quantization.fx._decomposed")  # operators of quantised programs
        with path.open("rb") as file:
            if trust:
                return torch.export.load(file)
            with rewritten(file) as copy:
                code = code_in(copy)
                if code is None:
                    copy.seek(0)
                    return torch.export.load(copy)
    except Exception as error:
        raise CompileError(f"{path} is no exported program: {one_line(error)}") from error
    raise CompileError(f"{path} holds {code}, which is code; if you trust its author, pass --trust")


def _call(place: str, function: str) -> Any:
    """Return what the user's function returns."""
    mend_imports()
    try:
        module = _module(place)
        found = getattr(module, function, None)
        if not callable(found):
            names = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
            raise UsageError(f"{place} has no function {function}{_near(function, names)}")
        return found()
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise CompileError(f"{place}:{function} failed: {type(error).__name__}: {one_line(error)}") from error


def _module(place: str) -> ModuleType:
    if not place.endswith(".py"):
        sys.path.insert(0, "")
        try:
            return importlib.import_module(place)
        except ModuleNotFoundError as error:
            raise UsageError(f"there is no module {error.name}") from error
    path = Path(place)
    if not path.is_file():
        raise UsageError(f"{path} does not exist")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None, "the suffix is that of Python files"
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _classifier(name: str, *, random: bool) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """Build one of torchvision's classifiers; random weights are made such that outputs say something."""
    import torch

    if importlib.util.find_spec("torchvision") is None:
        raise CompileError("this model needs torchvision: pip install 'cross-backend[vision]'")
    models = torchvision_models()
    names = models.list_models(module=models)
    if name not in names:
        own = "; a model of your own: file.py:function, package.module:function or file.pt2"
        raise UsageError(f"torchvision has no classifier {name!r}{_near(name, names)}{own}")
    published = next(iter(models.get_model_weights(name)))
    side = published.transforms.keywords.get("crop_size", SIZE)
    module = models.get_model(name, weights=None)
    if random:
        fill_zero_layers(module)
        settle_batch_norm(module, torch.randn(STATISTICS_BATCH, 3, side, side))
    return module, (torch.randn(1, 3, side, side),)


def _load(module: torch.nn.Module, path: str) -> None:
    check_file(Path(path))
    try:
        with Path(path).open("rb") as file:
            module.load_state_dict(read_state(file))
    except Exception as error:
        raise CompileError(f"the weights {path} do not fit: {one_line(error)}") from error


def _near(name: str, names: list[str]) -> str:
    found = difflib.get_close_matches(name, names, n=1)
    return f" (did you mean {found[0]}?)" if found else ""
