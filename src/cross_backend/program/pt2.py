"""``.pt2`` files: saved without pickles; opened as a copy that was checked, or as a trusted file."""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import tempfile
from collections.abc import Iterator
from copy import copy as shallow_copy
from pathlib import Path
from typing import IO, TYPE_CHECKING

from atalla.files.archive import DAMAGE, IN_MEMORY_BYTES, rewritten
from atalla.files.pt2 import code_in
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

    with _openable(path) as (file, code):
        if code is not None:
            define_operators(file, path)  # that none here has them is the clearer reason
            raise trust.untrusted(path, code)
        try:
            try:
                return torch.export.load(_rewound(file))
            except Exception:
                if define_operators(_rewound(file), path):
                    return torch.export.load(_rewound(file))
                raise
        except CaptureError:
            raise
        except Exception as error:
            raise _damaged(path, error) from error


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

    saved = program
    if not examples:
        saved = shallow_copy(program)  # the caller's own stays as it is: other threads may use it
        saved.example_inputs = None
    buffer = io.BytesIO()
    torch.export.save(saved, buffer)
    path.write_bytes(buffer.getbuffer())
    trust.keep(Cache(), path)


def code_in_pt2(path: Path) -> str | None:
    """Return what in a ``.pt2`` file could run code when it is opened; None where nothing could, or it is trusted.

    Raises:
        CaptureError: damaged, or not made by torch.export.
    """
    with _openable(path) as (_, code):
        return code


@contextlib.contextmanager
def _openable(path: Path) -> Iterator[tuple[IO[bytes], str | None]]:
    """Yield what torch may open, and the code in it: a trusted file, else a copy of its members."""
    cache = Cache()
    with open_regular(path) as file, tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES) as copy:
        if trust.knows(cache, _copied(file, copy, path)):
            logging.getLogger("torch._export.serde.serialize").setLevel(logging.ERROR)  # garbled, of pickles
            yield copy, None
            return
        with contextlib.ExitStack() as stack:
            try:
                whole = stack.enter_context(rewritten(copy))
                code = code_in(whole)
            except (OSError, *DAMAGE) as error:
                raise _damaged(path, error) from error
            yield whole, code


def _copied(file: IO[bytes], copy: IO[bytes], path: Path) -> str:
    """Copy a file, so that nobody exchanges it after it was checked, and return the digest of the copy."""
    digest = hashlib.sha256()
    try:
        while piece := file.read(1 << 20):
            digest.update(piece)
            copy.write(piece)
    except OSError as error:
        raise CaptureError(f"{path} cannot be copied to {tempfile.gettempdir()} ({one_line(error)}).") from error
    copy.seek(0)
    return digest.hexdigest()


def _rewound(file: IO[bytes]) -> IO[bytes]:
    file.seek(0)
    return file


def _damaged(path: Path, error: Exception) -> CaptureError:
    return CaptureError(f"{path} is damaged or not a torch.export file ({one_line(error)}).")
