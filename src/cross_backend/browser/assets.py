"""Assets: the files that run a model in a browser, by the name under which a server offers them, and their headers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cross_backend.artifact import Artifact
from cross_backend.toolchains import FILES

RUNTIME = FILES["browser"]
"""The runtime; its files are there once it was added."""
_HERE = Path(__file__).parent
_OWN = ("ort_page.js", "ort_worker.js")
_CHANNEL = ("channel.html", "channel.js")
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".wasm": "application/wasm",
}
"""Ours, and not the system's table: Windows' registry may call scripts plain text, which no browser runs."""
UNKNOWN = "application/octet-stream"
ISOLATION: Mapping[str, str] = {
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of a page, and of its files, that may use threads and a clock of 5 µs."""
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; "
    "worker-src 'self' blob:; connect-src 'self'; img-src data:"
)
"""What such a page needs of its content policy: the runtime's threads begin with a script of the page's own."""


def model_files() -> dict[str, Path]:
    """Return ``ort_page.js`` and what it needs beside it: name → file; the runtime's only once it was added."""
    runtime = RUNTIME.files if RUNTIME.added else ()
    return {path.name: path for path in (*(_HERE / name for name in _OWN), *runtime)}


def model_of(artifact: Artifact) -> Path | None:
    """Return the file of an artifact that such a page can open, whole; None where it is another runtime's.

    Raises:
        ArtifactError: it is missing, or not what its manifest says.
    """
    if artifact.payload_path.suffix != ".onnx":
        return None
    artifact.check()
    return artifact.payload_path


def channel_files() -> dict[str, Path]:
    """Return the same with the page that a program drives; the empty name is the page itself."""
    page, script = (_HERE / name for name in _CHANNEL)
    return {**model_files(), "": page, script.name: script}


def content_type(path: Path) -> str:
    """Return a file's type, by its ending: those of ours, and a model is bytes."""
    return _TYPES.get(path.suffix, UNKNOWN)
