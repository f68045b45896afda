"""Worker, the child's side: answers the requests of ``workers.Worker``, which starts it."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from cross_backend.artifact import Artifact
from cross_backend.backend import Options, Session
from cross_backend.bundle import find_artifact
from cross_backend.cache import Cache
from cross_backend.capture import Captured
from cross_backend.errors import CrossBackendError, LoadError, RunError, UnavailableError, one_line
from cross_backend.measure import latency
from cross_backend.registry import Resolved, resolve
from cross_backend.tensors import Tensors, load_tensors, random_inputs, save_tensors, to_numpy
from cross_backend.verify import compare_outputs


class _Server:
    """The operations; each takes JSON values and gives one."""

    def __init__(self) -> None:
        self._session: Session | None = None
        self._run: Callable[[], Tensors] | None = None
        self._sample: dict[str, Any] = {}

    def capture(self, model: str, weights: str | None, cache: str) -> dict[str, Any]:
        """Build and capture a workload into the cache."""
        from cross_backend.export import capture_workload

        captured = capture_workload(model, weights, Cache(Path(cache)))
        return {"folder": str(captured.folder)}

    def lower(self, folder: str, target: str, cache: str, *, bundled: bool = False) -> dict[str, Any]:
        """Lower a captured workload into the cache."""
        from cross_backend.lowering import lower

        done = lower(Captured.read(Path(folder)), resolve(target), Cache(Path(cache)), bundled=bundled)
        return {"manifest": str(done.artifact.manifest_path), "cached": done.cached}

    def open(self, manifest: str, target: str, threads: int | None) -> dict[str, Any]:
        """Open an artifact and bind its sample inputs, or random ones where it has none."""
        resolved, options = _resolve(target, threads)
        artifact = find_artifact(Path(manifest))
        self._sample = _sample(artifact)
        started = time.perf_counter()
        try:
            self._session = resolved.backend.load(artifact, options).__enter__()
        except CrossBackendError:
            raise
        except Exception as error:
            raise LoadError(f"{resolved.target.name} cannot load {artifact.payload}: {one_line(error)}") from error
        load_s = time.perf_counter() - started
        self._run = self._session.bind(self._sample["input"])
        return {"load_s": load_s}

    def profile(self, manifest: str, target: str, threads: int | None, runs: int) -> dict[str, Any]:
        """Run an artifact on its sample inputs with the runtime's profiler, in a session of its own."""
        resolved, options = _resolve(target, threads)
        artifact = find_artifact(Path(manifest))
        try:
            rows = resolved.backend.profile(artifact, options, _sample(artifact)["input"], runs)
        except CrossBackendError:
            raise
        except Exception as error:
            raise RunError(f"it failed while it was profiled: {one_line(error)}") from error
        return {"rows": [asdict(row) for row in rows]}

    def unbundle(self, bundled: str, target: str, folder: str) -> dict[str, Any]:
        """Take a bundled program apart into a folder."""
        artifact, cases = resolve(target).backend.read_bundled(Path(bundled), Path(folder))
        return {"manifest": str(artifact.manifest_path), "cases": [str(case) for case in cases]}

    def bind(self, inputs: str) -> dict[str, Any]:
        """Bind the user's own inputs (group ``input`` of a tensor file); there is nothing to verify against."""
        groups = load_tensors(Path(inputs))
        if "input" not in groups:
            raise RunError(f"{inputs} has no input_0, input_1, …; it holds {', '.join(groups) or 'nothing'}.")
        self._sample = groups
        self._run = self._opened().bind(self._sample["input"])
        return {}

    def run(self, outputs: str | None) -> dict[str, Any]:
        """Run once; write all outputs to a file, give the first few values of the first."""
        produced = [to_numpy(y) for y in self._produce()]
        if outputs is not None:
            save_tensors(Path(outputs), {"output": produced})
        return {"head": [float(v) for v in produced[0].reshape(-1)[:8]] if produced else []}

    def verify(self, tolerance: float) -> dict[str, Any]:
        """Run once on the sample and compare with what eager float32 gave."""
        outputs = [to_numpy(y) for y in self._produce()]
        expected = self._sample["expected"]
        head = [float(v) for v in outputs[0].reshape(-1)[:8]] if outputs else []
        return {"comparison": compare_outputs(expected, outputs, tolerance).to_json(), "head": head}

    def measure(self, samples: int, warmup: int, seconds: float) -> dict[str, Any]:
        """Time calls; see :func:`latency.sample`."""
        run = self._bound()
        try:
            taken = latency.sample(run, samples, warmup, seconds)
        except Exception as error:
            raise RunError(f"it failed while it was measured: {one_line(error)}") from error
        return {"ns": taken.ns, "switches": taken.involuntary_switches}

    def score(self, task: str) -> dict[str, Any]:
        """Give the share of task samples whose largest output is at the label."""
        groups = load_tensors(Path(task))
        session, right = self._opened(), 0
        samples, labels = groups["input"][0], groups["label"][0]
        for sample, label in zip(samples, labels, strict=True):
            outputs = session.bind([sample[None]])()
            right += int(to_numpy(outputs[0]).reshape(-1).argmax() == label)
        return {"value": right / len(labels)}

    def _opened(self) -> Session:
        if self._session is None:
            raise RunError("no artifact is open.")
        return self._session

    def _bound(self) -> Callable[[], Tensors]:
        if self._run is None:
            raise RunError("no artifact is open.")
        return self._run

    def _produce(self) -> Tensors:
        run = self._bound()
        try:
            return run()
        except CrossBackendError:
            raise
        except Exception as error:
            raise RunError(f"it failed: {one_line(error)}") from error


_OPERATIONS = ("bind", "capture", "lower", "measure", "open", "profile", "run", "score", "unbundle", "verify")


def _resolve(target: str, threads: int | None) -> tuple[Resolved, Options]:
    """Find a target; ``threads`` counts where it names no number of its own."""
    resolved = resolve(target)
    options = dict(resolved.options)
    if "threads" in options and options["threads"] is None:
        options["threads"] = threads
    return resolved, options


def _sample(artifact: Artifact) -> dict[str, Any]:
    """Give the sample's groups, or random inputs where there is none."""
    return load_tensors(artifact.sample_path) if artifact.sample_path else {"input": random_inputs(artifact.inputs)}


def _serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer until the parent is gone."""
    incoming: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        for line in requests:
            incoming.put(line)
        _die()  # the parent is gone: stop even in the middle of work

    threading.Thread(target=read, daemon=True).start()
    server = _Server()
    while True:
        request = json.loads(incoming.get())
        op = request.pop("op")
        try:
            if op not in _OPERATIONS:
                raise RunError(f"unknown operation {op!r}.")
            answer: dict[str, Any] = {"value": getattr(server, op)(**request)}
        except CrossBackendError as error:
            answer = {"error": {"type": type(error).__name__, "text": str(error)}}
            if isinstance(error, UnavailableError):
                answer["error"] |= {"reason": error.reason, "remedy": error.remedy}
        except OSError as error:  # a full disk, say: printing a traceback to the log would fail as well
            answer = {"error": {"type": "CrossBackendError", "text": one_line(error)}}
        except Exception as error:
            import traceback

            traceback.print_exc()
            answer = {"error": {"type": "CrossBackendError", "text": one_line(error)}}
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


def _die() -> None:
    """End this process and what it started."""
    if hasattr(os, "killpg") and os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def main() -> None:
    """Keep the pipes for the protocol and send whatever libraries print to the log."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in sys.argv[2:]:
        with contextlib.suppress(Exception):  # whoever needs it says what is wrong
            importlib.import_module(module)
    _serve(requests, answers)
