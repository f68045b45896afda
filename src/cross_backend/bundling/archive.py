"""A bundle as one zip file: packed so that it depends on its content only, and unpacked without trust."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atalla.files import archive as zip_file
from cross_backend.artifact import DAMAGE, plain_name, read_versioned, size_in
from cross_backend.bundling.manifest import FORMAT, FURTHER, MANIFEST, SAMPLE, SAMPLE_GROUPS, TOKENIZER, VERSION
from cross_backend.errors import ArtifactError, one_line
from cross_backend.foreign_files import MAX_MANIFEST_BYTES, MAX_UNPACKED, open_member, open_zip

MAX_FILES = 10_000
"""Members of a zip file."""
MAX_DEPTH = 16
"""Folders in folders in a zip file."""
ZIP_DAMAGE = (*zip_file.DAMAGE, *DAMAGE)
"""What reading a zip file that is damaged, encrypted or none may raise."""


def unpack(path: Path, folder: Path) -> None:
    """Unpack what the manifest names, and not a byte more than it says; every other member is left alone."""
    try:
        with open_zip(path) as archive:
            _copy_member(archive, MANIFEST, folder, MAX_MANIFEST_BYTES)
            allowed = _allowed_bytes(read_versioned(folder / MANIFEST, FORMAT, VERSION))
            if sum(allowed.values()) > MAX_UNPACKED * path.stat().st_size + 2 * MAX_MANIFEST_BYTES:
                raise ValueError(f"it would unpack to {sum(allowed.values())} bytes, too many for a file of its size")
            members = [name for name in archive.namelist() if not name.endswith("/")]
            if len(members) > MAX_FILES:
                raise ValueError(f"it holds more than {MAX_FILES} files")
            for name in members:
                top = name.partition("/")[0]
                if top in allowed:
                    allowed[top] -= _copy_member(archive, name, folder, allowed[top])
    except ZIP_DAMAGE as error:
        raise ArtifactError(f"{path} is damaged or not a bundle ({one_line(error, 200)}).") from error


def _allowed_bytes(row: Mapping[str, Any]) -> dict[str, int]:
    """Return top-level file or folder → bytes that it may unpack to, by what the manifest says."""
    samples = [one for kind in (*SAMPLE_GROUPS, *FURTHER) for one in row["sample"].get(kind, ())]
    allowed = {SAMPLE: sum(size_in(one["offset"]) + size_in(one["size_bytes"]) for one in samples)}
    if row["labels"] is not None:
        allowed[plain_name(row["labels"]["path"])] = MAX_MANIFEST_BYTES
    if row.get("tokenizer") is not None:
        allowed[TOKENIZER] = MAX_MANIFEST_BYTES
    for artifact in row["artifacts"]:
        allowed[plain_name(artifact["path"])] = size_in(artifact["size_bytes"])
    return allowed


def _copy_member(archive: zipfile.ZipFile, name: str, folder: Path, limit: int) -> int:
    """Unpack one member under its own name, and return its size.

    Raises:
        ValueError: it is longer than ``limit`` bytes, packed in another way than zip files usually are, or its name
            leaves the folder or is nested too deep.
    """
    parts = [plain_name(part) for part in name.split("/")]
    if len(parts) > MAX_DEPTH:
        raise ValueError(f"it holds folders nested more than {MAX_DEPTH} deep")
    target = folder.joinpath(*parts)
    target.parent.mkdir(parents=True, exist_ok=True)
    size = 0
    with open_member(archive, archive.getinfo(name)) as source, target.open("wb") as file:
        while chunk := source.read(1 << 20):
            size += len(chunk)
            if size > limit:
                raise ValueError(f"{name} unpacks to more than {limit} bytes")
            file.write(chunk)
    return size


def pack(folder: Path, path: Path) -> None:
    """Write a zip file that depends on the folder's content only; payloads stay as they are, to be read in place."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for file in sorted(p for p in folder.rglob("*") if p.is_file()):
            info = zipfile.ZipInfo(file.relative_to(folder).as_posix(), date_time=(1980, 1, 1, 0, 0, 0))
            info.external_attr = 0o644 << 16
            with file.open("rb") as source, archive.open(info, "w", force_zip64=True) as target:
                shutil.copyfileobj(source, target)
