"""Parcels: entries of a cache on their way to another machine: files by digest, each of which travels once."""

from __future__ import annotations

import hashlib
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cross_backend.cache import Cache
from cross_backend.errors import ArtifactError, PlaceError, one_line


@dataclass(frozen=True)
class Parcel:
    """An entry of a cache without its bytes."""

    kind: str
    key: str
    files: Mapping[str, str]
    """Path in the entry, with slashes → SHA-256."""


class ParcelShelf(ABC):
    """Where the bytes of parcels lie, by digest."""

    @abstractmethod
    def put(self, digest: str, file: Path) -> None:
        """Take a file in, unless it is there."""

    @abstractmethod
    def get(self, digest: str, file: Path) -> None:
        """Write what has a digest to a file."""


class Carried(ParcelShelf):
    """Bytes that travel with their parcels, through Ray's object store."""

    def __init__(self, blobs: dict[str, bytes] | None = None) -> None:
        self.blobs = {} if blobs is None else blobs

    def put(self, digest: str, file: Path) -> None:  # noqa: D102  the declaration says it
        self.blobs.setdefault(digest, file.read_bytes())

    def get(self, digest: str, file: Path) -> None:  # noqa: D102
        file.write_bytes(self.blobs[digest])


class SharedFolder(ParcelShelf):
    """A folder that all machines reach: ``file:///mnt/cache``, ``s3://bucket/cache``, ``gs://bucket/cache``."""

    def __init__(self, url: str) -> None:
        """Open it.

        Raises:
            PlaceError: no package reads such an address.
        """
        self.url = url
        with self._explained("opened"):
            import fsspec

            self._files, root = fsspec.core.url_to_fs(url)
            self._root = PurePosixPath(root)

    def check(self) -> None:
        """See whether it can be written and read.

        Raises:
            PlaceError: it is full, read-only or not there.
        """
        probe = b"cross-backend"
        with self._explained("written"):
            self._write(hashlib.sha256(probe).hexdigest(), probe)

    def put(self, digest: str, file: Path) -> None:  # noqa: D102
        with self._explained("written"):
            if not self._files.exists(self._path(digest)):
                self._write(digest, file.read_bytes())

    def get(self, digest: str, file: Path) -> None:  # noqa: D102
        with self._explained("read"):
            data = self._files.cat_file(self._path(digest))
        file.write_bytes(data)

    def _write(self, digest: str, data: bytes) -> None:
        """Write beside, then move: a reader never sees half a file."""
        path = self._path(digest)
        self._files.makedirs(str(PurePosixPath(path).parent), exist_ok=True)
        part = f"{path}.{hashlib.sha256(repr((digest, id(data))).encode()).hexdigest()[:8]}.part"
        try:
            self._files.pipe_file(part, data)
            self._files.mv(part, path)
        except BaseException:
            if self._files.exists(part):
                self._files.rm(part)
            raise

    def _path(self, digest: str) -> str:
        return str(self._root / digest[:2] / digest)

    def _explained(self, doing: str) -> _Explained:
        return _Explained(self.url, doing)


@dataclass
class _Explained:
    """Raises what a file system raises as one line of ours."""

    url: str
    doing: str

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Raise it."""
        if isinstance(error, Exception):
            remedy = "Free some space, give yourself the right to write, or leave --shared-cache out"
            if isinstance(error, ImportError):
                remedy = "Install the package on every node, or leave --shared-cache out"
            raise PlaceError(
                f"the shared cache {self.url} cannot be {self.doing} ({one_line(error)}). {remedy}: then artifacts "
                "travel through Ray's object store."
            ) from error


def pack(cache: Cache, entries: Sequence[tuple[str, str]], shelf: ParcelShelf) -> tuple[Parcel, ...]:
    """Put the files of cache entries (kind, key) on a shelf, and return what they are made of."""
    found = []
    for kind, key in dict.fromkeys(entries):
        folder = cache.root / kind / key
        files = {}
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            files[path.relative_to(folder).as_posix()] = digest
            shelf.put(digest, path)
        found.append(Parcel(kind, key, files))
    return tuple(found)


def missing(cache: Cache, parcels: Sequence[Parcel]) -> list[Parcel]:
    """Return the parcels that a cache does not hold."""
    return [one for one in parcels if cache.find(one.kind, one.key) is None]


def unpack(cache: Cache, parcels: Sequence[Parcel], shelf: ParcelShelf) -> None:
    """Publish parcels in a cache, each whole or not at all.

    Raises:
        ArtifactError: the bytes are not those that were packed.
    """
    for parcel in parcels:
        with cache.scratch() as scratch:
            folder = scratch / "entry"
            folder.mkdir()
            for name, digest in parcel.files.items():
                path = folder / name
                if not path.resolve().is_relative_to(folder.resolve()):
                    raise ArtifactError(f"a parcel names a file outside of itself: {name!r}.")
                path.parent.mkdir(parents=True, exist_ok=True)
                shelf.get(digest, path)
                with path.open("rb") as file:
                    if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                        raise ArtifactError(f"{name} of {parcel.kind} {parcel.key} was changed on its way.")
            cache.publish(folder, parcel.kind, parcel.key)
        shutil.rmtree(scratch, ignore_errors=True)
