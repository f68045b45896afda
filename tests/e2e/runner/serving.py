"""Serving: the other side of ``cross_backend_runner --serve``, for tests."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Self

import numpy as np

MODULE = "cross_backend.bench.runner_bench"
Arrays = Sequence["np.ndarray[Any, Any]"]


class Serving:
    """One process; use it in ``with``, which ends it."""

    def __init__(self, program: Path, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [program, "--serve", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def questions(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin

    def said(self) -> bytes:
        """Give the next line that it writes; empty where it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def line(self, text: bytes) -> dict[str, Any]:
        """Send a line of whatever bytes, and give the answer."""
        self.questions.write(text + b"\n")
        self.questions.flush()
        answer = json.loads(self.said())
        assert isinstance(answer, dict) and len(answer) == 1, answer
        return answer

    def full(self, question: str, **arguments: Any) -> dict[str, Any]:
        """Ask, and give the answer or the error with its key."""
        return self.line(json.dumps({"question": f"{MODULE}:{question}", "arguments": arguments}).encode())

    def ask(self, question: str, **arguments: Any) -> Any:
        """Ask, and give the value."""
        answer = self.full(question, **arguments)
        assert "value" in answer, answer
        return answer["value"]

    def refused(self, question: str, **arguments: Any) -> dict[str, str]:
        """Ask, and give the error."""
        error: dict[str, str] = self.full(question, **arguments)["error"]
        return error

    def ends(self, timeout_s: float = 20) -> bytes:
        """Wait for its end, and give what it printed."""
        self.process.wait(timeout_s)
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


def raw(arrays: Arrays, folder: Path, name: str = "input") -> list[dict[str, Any]]:
    """Write tensors as files of plain bytes, and give what names them in a question."""
    rows = []
    for index, array in enumerate(arrays):
        path = folder / f"{name}_{index}.bin"
        path.write_bytes(np.ascontiguousarray(array).tobytes())
        rows.append({"path": str(path), "dtype": str(array.dtype), "shape": list(array.shape)})
    return rows


def read(rows: Sequence[dict[str, Any]]) -> list[np.ndarray[Any, Any]]:
    """Read the tensors that an answer names."""
    return [np.fromfile(row["path"], row["dtype"]).reshape(row["shape"]) for row in rows]


def subject(bundle: Path, name: str, arrays: Arrays, folder: Path) -> dict[str, Any]:
    """Give the arguments that open an artifact of a bundle."""
    manifest = json.loads((bundle / "manifest.json").read_text())
    row = next(one for one in manifest["artifacts"] if one["name"] == name)
    payload = bundle / row["path"]
    return {
        "payload": str(payload),
        "target": row["target"],
        "sha256": hashlib.sha256(payload.read_bytes()).hexdigest(),
        "threads": 1,
        "inputs": raw(arrays, folder),
    }
