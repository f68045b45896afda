"""Page: one browser, one page, one model in it; what ``channel.js`` answers, as Python values."""

from __future__ import annotations

import collections
import contextlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from cross_backend.browser.channel import Channel
from cross_backend.browser.frames import pack, unpack
from cross_backend.browser.process import BrowserProcess
from cross_backend.errors import LoadError, RunError

if TYPE_CHECKING:
    import numpy as np

_START_S = 120.0
_VERSION = re.compile(r"(Edg|Chrome)/(\d+)")


@dataclass(frozen=True)
class Adapter:
    """What stands for the graphics processor in a browser."""

    name: str
    """Vendor and architecture, as the browser reports them."""
    is_software: bool
    """Whether the processor computes in its place."""


@dataclass(frozen=True)
class Model:
    """A model that is open in a page."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    threads: int
    """Of its WebAssembly; 1 where the page may have no more."""
    log: tuple[str, ...]
    """Lines that the runtime printed; empty where its log was not asked for."""


class Page:
    """A page in a browser of its own, which ends with ``close``."""

    def __init__(self, flags: Sequence[str] = ()) -> None:
        """Start the browser.

        Args:
            flags: of its command line, beside those that every page needs.

        Raises:
            LoadError: there is none, or it does not come up; the text has its last words.
        """
        self.forgotten: collections.deque[int] = collections.deque()
        """Keys of inputs that nobody will run again; the page lets them go with the next that it gets."""
        with contextlib.ExitStack() as stack:
            self._channel = stack.enter_context(Channel())
            process = stack.enter_context(BrowserProcess(self._channel.url, flags))
            try:
                self._channel.wait(lambda: process.is_running, _START_S)
            except LoadError as error:
                words = process.last_words()
                raise LoadError(f"{error}{': ' + words if words else ''}.") from error
            told = self._ask("hello")
            self._stack = stack.pop_all()
        self.pid = process.pid
        """The browser's process id."""
        found = _VERSION.search(told["agent"])
        self.browser = f"{'Edge' if found[1] == 'Edg' else 'Chromium'} {found[2]}" if found else "a browser"
        """Its kind and version."""
        self.is_isolated: bool = told["isIsolated"]
        """Whether it has threads, and a clock of 5 µs."""
        seen = told["adapter"]
        self.adapter = seen and Adapter(
            " ".join(filter(None, (seen["vendor"], seen["architecture"]))), seen["isSoftware"]
        )
        """What its WebGPU computes on; None where it has none."""

    def open(self, model: Path, provider: str, threads: int | None, *, with_log: bool = False) -> Model:
        """Open an ONNX file.

        Raises:
            LoadError: with the runtime's reason.
        """
        try:
            told = self._ask("open", model, provider=provider, threads=threads or 0, withLog=with_log)
        except RunError as error:
            raise LoadError(str(error)) from error
        return Model(tuple(told["inputs"]), tuple(told["outputs"]), int(told["threads"]), tuple(told["log"]))

    def bind(self, arrays: Sequence[np.ndarray[Any, Any]]) -> int:
        """Make the runtime's own tensors, and return the key by which they are run."""
        forget = [self.forgotten.popleft() for _ in range(len(self.forgotten))]
        return int(self._ask("bind", pack(arrays), forget=forget))

    def run(self, key: int) -> tuple[np.ndarray[Any, Any], ...]:
        """Run once on bound inputs; the arrays may not be written to."""
        return self.timed(key)[0]

    def timed(self, key: int) -> tuple[tuple[np.ndarray[Any, Any], ...], int]:
        """Run once, and return beside the outputs what the run took in the page, in nanoseconds."""
        *outputs, ms = unpack(self._channel.ask("run", key=key))
        return tuple(outputs), round(float(ms) * 1e6)

    def sample(self, key: int, calls: int, warm_up: int, seconds: float) -> list[int]:
        """Time calls one by one in the page; nanoseconds, in its clock's steps of 5 µs."""
        told = self._ask("sample", key=key, calls=calls, warmUp=warm_up, seconds=seconds)
        return [round(ms * 1e6) for ms in told]

    def _ask(self, command: str, offered: Path | bytes | None = None, **told: Any) -> Any:
        return json.loads(self._channel.ask(command, offered, **told))

    def close(self) -> None:
        """End the browser and the server."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
