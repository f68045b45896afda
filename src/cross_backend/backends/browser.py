"""browser.*: an ONNX file in a real browser, by onnxruntime-web: as WebAssembly on the processor, or by WebGPU."""

from __future__ import annotations

import contextlib
import logging
import re
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, final

from cross_backend.artifact import Artifact
from cross_backend.backend import (
    THREADS,
    Backend,
    Calibration,
    CallElsewhere,
    Lowered,
    Missing,
    Options,
    Session,
    Unavailable,
)
from cross_backend.backends._onnx import REMEDY, SUFFIX, TO_LOWER, lower_to_onnx, operator_without_kernel
from cross_backend.backends._packages import absent_packages, at_once, missing_toolchain
from cross_backend.browser.page import Adapter, Page
from cross_backend.browser.process import find_browser
from cross_backend.errors import LoadError, RunError, UnavailableError, UnsupportedError
from cross_backend.program.captured import Program
from cross_backend.records import Execution
from cross_backend.tensors import BFLOAT16, Tensors, to_numpy

if TYPE_CHECKING:
    from cross_backend.machine import Machine

logger = logging.getLogger(__name__)

_REPORT = "VerifyEachNodeIsAssignedToAnEp]"
_PLACED = re.compile(rf"{re.escape(_REPORT)}\s+(All nodes|Node\(s\)) placed on \[(\w+)\]\. Number of nodes: (\d+)")
_NODE = re.compile(rf"{re.escape(_REPORT)}\s+(\w+) \(.*\)\s*$")
"""Lines of ONNX Runtime's log: a provider, and under it each of its nodes, by operator and its own name in brackets."""
_COPIES = {"MemcpyFromHost", "MemcpyToHost"}
"""Nodes that ONNX Runtime adds between providers; they belong to no model."""
_WEBGPU = "WebGpuExecutionProvider"
_SHORT = {"CPUExecutionProvider": "WebAssembly", "JsExecutionProvider": "JavaScript"}
_NO_BROWSER = Unavailable("needs Chromium, Chrome or Edge", "install one (Debian: apt-get install chromium)")


class BrowserBackend(Backend):
    """What both share; a subclass names the provider of onnxruntime-web."""

    provider: ClassVar[str]
    flags: ClassVar[tuple[str, ...]]
    """Of the browser's command line."""
    suffix = SUFFIX
    takes_state = "tensors"
    distributions = ("onnxruntime", *TO_LOWER)
    options = {"threads": THREADS}
    payload_of = "onnxruntime.cpu"
    runtime_files = "browser"

    def missing(self, machine: Machine) -> Missing | None:
        run = at_once([None if find_browser() else _NO_BROWSER, missing_toolchain("browser")])
        return Missing(absent_packages(TO_LOWER, "onnxruntime"), run) or None

    def lower(self, program: Program, options: Options, stem: Path, calibration: Calibration) -> Lowered:
        return lower_to_onnx(program, stem)

    def load(self, artifact: Artifact, options: Options) -> Session:
        if artifact.target.partition("?")[0] != self.name:  # a file of the cache, which says who wrote it
            artifact = replace(artifact, target=self.name)
        return BrowserSession(self, artifact, options)


@final
class Wasm(BrowserBackend):
    """WebAssembly with SIMD, and with threads where the page is isolated, as ours is."""

    name = "browser.wasm"
    title = "Browser (WebAssembly)"
    provider = "wasm"
    flags = ("--disable-gpu",)


@final
class WebGpu(BrowserBackend):
    """The browser's WebGPU; nodes that it does not take run as WebAssembly, and :meth:`execution` names them."""

    name = "browser.webgpu"
    title = "Browser (WebGPU)"
    provider = "webgpu"
    flags = ("--enable-unsafe-webgpu", "--ignore-gpu-blocklist")

    def execution(self, artifact: Artifact, options: Options, inputs: Tensors) -> Execution | None:
        with BrowserSession(self, artifact, options, with_log=True) as session:
            counted, adapter = placed(session.log), session.adapter
        assert adapter is not None, "a session without one does not open"
        here = sum(count for (where, _), count in counted.items() if where == _WEBGPU)
        elsewhere = [
            (f"{node} @ {_SHORT.get(where, where)}", n) for (where, node), n in counted.items() if where != _WEBGPU
        ]
        return Execution(
            device=f"WebGPU ({adapter.name})",
            nodes=here / counted.total() if counted else None,
            elsewhere=tuple(sorted(elsewhere, key=lambda row: (-row[1], row[0]))),
            precision="fp32",
            functional_only="a software graphics driver: a functional check" if adapter.is_software else None,
        )


class BrowserSession(Session):
    """An open model in a page of a browser of its own."""

    def __init__(
        self, backend: BrowserBackend, artifact: Artifact, options: Options, *, with_log: bool = False
    ) -> None:
        """Describe it; nothing is started. The log says where nodes run."""
        super().__init__(artifact, options)
        self._backend, self._with_log = backend, with_log
        self.log: tuple[str, ...] = ()
        """What the runtime printed while it opened the model."""
        self.adapter: Adapter | None = None
        """What the browser's WebGPU computes on."""

    def _open(self) -> None:
        for spec in (*self.inputs, *self.outputs):
            if spec.dtype == BFLOAT16:
                raise UnsupportedError(f"{spec.name!r} is {spec}, and JavaScript has no bfloat16. {REMEDY}")
        page = Page(self._backend.flags)
        try:
            self.adapter = page.adapter
            if self._backend.provider == "webgpu":
                self._check_adapter(page)
            payload, threads = self.artifact.payload_path, self.options["threads"]
            try:
                model = page.open(payload, self._backend.provider, threads, with_log=self._with_log)
            except LoadError as error:
                if lacking := operator_without_kernel(str(error)):
                    raise UnsupportedError(
                        f"onnxruntime-web has no kernel of {lacking} for the element types of this model. {REMEDY}"
                    ) from error
                raise LoadError(f"onnxruntime-web cannot load {payload.name}: {error}") from error
            self.log = model.log
        except BaseException:
            page.close()
            raise
        self._page = page

    def _check_adapter(self, page: Page) -> None:
        if page.adapter is None:
            raise UnavailableError(
                f"{self._backend.name} finds no graphics processor in {page.browser}, not even one in software",
                "install its driver",
            )
        if page.adapter.is_software:
            logger.warning("%s: the browser has no graphics processor, and software stands in for it", self.target)

    def _bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        import numpy as np

        arrays = [np.asarray(to_numpy(x), order="C") for x in inputs]  # which keeps a scalar without dimensions
        return _Call(self._page, self._page.bind(arrays), self.target)

    def _close(self) -> None:
        self._page.close()

    _page: Page


class _Call(CallElsewhere):
    """A bound call; the page lets its inputs go after this is gone."""

    def __init__(self, page: Page, key: int, target: str) -> None:
        self._page, self._key, self._target = page, key, target
        weakref.finalize(self, page.forgotten.append, key)

    def __call__(self) -> Tensors:
        with self._named():
            return self._page.run(self._key)

    def sample(self, calls: int, warm_up: int, seconds: float) -> list[int]:
        with self._named():
            return self._page.sample(self._key, calls, warm_up, seconds)

    def timed(self) -> tuple[Tensors, int]:
        with self._named():
            return self._page.timed(self._key)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except RunError as error:
            raise RunError(f"{self._target} failed: {error}") from error


def placed(log: Iterable[str]) -> Counter[tuple[str, str]]:
    """Return the nodes of each provider, from ONNX Runtime's log: (provider, operator) → count; copies are no nodes.

    Where one provider takes all it names none of them, and they are counted as ``all nodes``.
    """
    counted: Counter[tuple[str, str]] = Counter()
    provider = ""
    for line in log:
        if found := _PLACED.search(line):
            provider = found[2]
            if found[1] == "All nodes":
                counted[provider, "all nodes"] += int(found[3])
        elif provider and (node := _NODE.search(line)):
            if node[1] not in _COPIES:
                counted[provider, node[1]] += 1
        elif _REPORT not in line:
            provider = ""
    return counted
