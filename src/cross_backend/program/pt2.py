"""``.pt2`` files: saved without pickles, and opened only if that runs nothing, or the file is trusted."""

from __future__ import annotations

import io
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from cross_backend import trust
from cross_backend.cache import Cache
from cross_backend.errors import CaptureError, one_line
from cross_backend.foreign_files import open_regular
from cross_backend.program.foreign_operators import define_operators

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def load_pt2(path: Path) -> ExportedProgram:
    """Load a ``.pt2`` file.

    Raises:
        CaptureError: damaged, not made by torch.export, or in need of operators that are not here.
        UntrustedError: opening it would run code, and it was neither made here nor trusted.
    """
    import torch

    code = code_in_pt2(path)
    if code is not None:
        define_operators(path)  # that none here has them is the clearer reason
        trust.require(Cache(), path, code)
        logging.getLogger("torch._export.serde.serialize").setLevel(logging.ERROR)  # its warning of pickles is garbled
    try:
        try:
            return torch.export.load(path)
        except Exception:
            if define_operators(path):
                return torch.export.load(path)
            raise
    except CaptureError:
        raise
    except Exception as error:
        raise CaptureError(f"{path} is damaged or not a torch.export file ({one_line(error)}).") from error


def save_pt2(program: ExportedProgram, path: Path, *, examples: bool = False) -> None:
    """Save a program.

    Args:
        program: what to save.
        path: of the file.
        examples: whether with its example inputs, which torch pickles; a sample file has them otherwise.

    Raises:
        OSError: it cannot be written; where a disk is full, torch's own writer would abort the process.
    """
    import torch

    given = program.example_inputs
    program.example_inputs = given if examples else None
    try:
        buffer = io.BytesIO()
        torch.export.save(program, buffer)
    finally:
        program.example_inputs = given
    path.write_bytes(buffer.getbuffer())
    if code_in_pt2(path) is not None:  # a constant that is no plain tensor, say
        trust.keep(Cache(), path)


def code_in_pt2(path: Path) -> str | None:
    """Return what in a ``.pt2`` file could run code when it is opened; None where nothing could.

    Raises:
        CaptureError: damaged, or not made by torch.export.
    """
    from atalla.pt2_file import code_in

    try:
        with open_regular(path) as file:
            return code_in(file)
    except (OSError, ValueError) as error:
        raise CaptureError(f"{path} is damaged or not a torch.export file ({one_line(error)}).") from error
