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
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, TypeVar

from cross_backend import trust
from cross_backend.artifact import Artifact
from cross_backend.backend import Options, Session
from cross_backend.bundle import find_artifact
from cross_backend.cache import Cache
from cross_backend.capture import Captured
from cross_backend.errors import CrossBackendError, LoadError, RunError, UnavailableError, one_line
from cross_backend.measure import accuracy, cold_start, latency, memory, open_loop, throughput
from cross_backend.registry import Resolved, resolve, rows
from cross_backend.tensors import Tensors, load_tensors, random_inputs, save_tensors, to_numpy
from cross_backend.verify import compare_outputs

Taken = TypeVar("Taken")


class _Server:
    """The operations; each takes JSON values and gives one."""

    def __init__(self, began_ns: int) -> None:
        self._began_ns, self._is_cold = began_ns, True
        self._load: Callable[[], Session] | None = None
        self._session: Session | None = None
        self._run: Callable[[], Tensors] | None = None
        self._sample: dict[str, Any] = {}
        self._baseline_bytes = 0
        self._was_called = False

    def capture(self, model: str, weights: str | None, cache: str, batch: int | None = None) -> dict[str, Any]:
        """Build and capture a workload into the cache."""
        from cross_backend.export import capture_workload

        captured = capture_workload(model, weights, Cache(Path(cache)), batch)
        return {"folder": str(captured.folder)}

    def write_onnx(self, model: str, weights: str | None, path: str, cache: str) -> dict[str, Any]:
        """Write a workload as one ONNX file of any batch size."""
        from cross_backend.free_batch import write_onnx

        return {"size_bytes": write_onnx(model, weights, Path(path), Cache(Path(cache)))}

    def lower(self, folder: str, target: str, cache: str, *, bundled: bool = False) -> dict[str, Any]:
        """Lower a captured workload into the cache."""
        from cross_backend.lowering import lower

        done = lower(Captured.read(Path(folder)), resolve(target), Cache(Path(cache)), bundled=bundled)
        return {"manifest": str(done.artifact.manifest_path), "cached": done.cached}

    def open(self, manifest: str, target: str, threads: int | None) -> dict[str, Any]:
        """Open an artifact and bind its sample inputs, or random ones where it has none; time every step."""
        cold, self._is_cold = self._is_cold, False
        rows()  # finding out which backends there are is our cost, and no part of the import

        def import_all() -> tuple[Resolved, Options]:
            found = _resolve(target, threads)
            cold_start.import_modules(found[0].backend.runtime_modules)
            return found

        def load() -> Session:
            return _load(resolved, artifact, options)

        (resolved, options), import_ns = cold_start.timed(import_all)
        artifact = _artifact(manifest, resolved)
        sample = _sample(artifact)
        baseline_bytes = memory.begin()
        session, load_ns = cold_start.timed(load)
        run, bind_ns = cold_start.timed(lambda: session.bind(sample["input"]))
        self._load, self._session, self._run, self._sample = load, session, run, sample
        self._baseline_bytes, self._was_called = baseline_bytes, False
        times = {"began_ns": self._began_ns, "import_ns": import_ns, "load_ns": load_ns, "bind_ns": bind_ns}
        return {"load_s": load_ns / 1e9, "cold": cold, **times}

    def describe(self, payload: str, target: str) -> dict[str, Any]:
        """Return what a payload that no manifest describes takes, and which target runs it."""
        artifact = resolve(target).backend.describe(Path(payload))
        return {"target": artifact.target, "inputs": [spec.to_json() for spec in artifact.inputs]}

    def open_foreign(self, payload: str, target: str, threads: int | None) -> dict[str, Any]:
        """Open a payload that no manifest describes, and bind random inputs."""
        resolved, options = _resolve(target, threads)
        artifact = resolved.backend.describe(Path(payload))
        self._load = lambda: _load(resolved, artifact, options)
        self._session, self._sample = self._load(), {"input": random_inputs(artifact.inputs)}
        self._run = self._session.bind(self._sample["input"])
        return {}

    def profile(self, manifest: str, target: str, threads: int | None, runs: int) -> dict[str, Any]:
        """Run an artifact on its sample inputs with the runtime's profiler, in a session of its own."""
        resolved, options = _resolve(target, threads)
        artifact = _artifact(manifest, resolved)
        try:
            timings = resolved.backend.profile(artifact, options, _sample(artifact)["input"], runs)
        except CrossBackendError:
            raise
        except Exception as error:
            raise RunError(f"it failed while it was profiled: {one_line(error)}") from error
        return {"rows": [asdict(timing) for timing in timings]}

    def execution(self, manifest: str, target: str, threads: int | None) -> dict[str, Any]:
        """Return where an artifact's work really runs, found in a session of its own."""
        resolved, options = _resolve(target, threads)
        artifact = _artifact(manifest, resolved)
        found = _measured(lambda: resolved.backend.execution(artifact, options, _sample(artifact)["input"]))
        return {"execution": found.to_json() if found else None}

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
        """Run once; write all outputs to a file, return the first few values of the first."""
        produced = [to_numpy(y) for y in self._produce()]
        if outputs is not None:
            save_tensors(Path(outputs), {"output": produced})
        return {"head": _head(produced)}

    def verify(self, precision: str) -> dict[str, Any]:
        """Run on the sample's inputs and compare with what eager float32 gave; time the call where it is the first."""
        first = self._session is not None and not self._was_called
        produced, ns = cold_start.timed(self._produce)
        outputs = [[to_numpy(y).copy() for y in produced]]
        if "input2" in self._sample:
            outputs.append([to_numpy(y).copy() for y in _called(self._opened().bind(self._sample["input2"]))])
            self._run = self._opened().bind(self._sample["input"])
        head = _head(outputs[0])
        comparison = compare_outputs(self._sample, outputs, precision).to_json()
        return {"comparison": comparison, "head": head, "first_ns": ns if first else None}

    def measure(self, samples: int, warmup: int, seconds: float) -> dict[str, Any]:
        """Time calls; see :func:`latency.sample`."""
        run = self._bound()
        taken = _measured(lambda: latency.sample(run, samples, warmup, seconds))
        return {"ns": taken.ns, "switches": taken.involuntary_switches}

    def score(self, task: str) -> dict[str, Any]:
        """Return the task metric on held-out samples; see :func:`accuracy.score`."""
        groups = load_tensors(Path(task))
        session = self._opened()
        return {"value": _measured(lambda: accuracy.score(session, groups["input"][0], groups["label"][0]))}

    def throughput(self, streams: int, seconds: float, windows: int) -> dict[str, Any]:
        """Call in a closed loop, every stream in a session of its own; see :func:`throughput.closed_loop`."""
        runs, load = [self._bound()], self._load
        assert load is not None
        with contextlib.ExitStack() as stack:
            for _ in range(streams - 1):
                session = load()
                stack.push(session)
                runs.append(session.bind(self._sample["input"]))
            counted = _measured(lambda: throughput.closed_loop(runs, seconds, windows))
        return asdict(counted)

    def open_loop(self, rate_per_s: float, seconds: float, seed: int) -> dict[str, Any]:
        """Serve requests that arrive when they will; see :mod:`open_loop`."""
        run, arrivals = self._bound(), open_loop.arrivals_ns(rate_per_s, seconds, seed)
        served = _measured(lambda: open_loop.serve(run, arrivals, rate_per_s))
        windows = open_loop.by_window(served.ns, arrivals)
        return {"ns": windows, "offered": served.offered, "busy": served.busy, "saturated": served.saturated}

    def memory(self) -> dict[str, Any]:
        """Return bytes at the peak, by share, and retained after closing; the next operation opens again."""
        session = self._opened()
        figures = {"peak_rss": memory.peak_rss_bytes(), "pss": memory.pss_bytes()}
        self._run = self._session = None
        session.__exit__(None, None, None)
        del session
        memory.give_back_freed()
        return {**figures, "retained": memory.rss_bytes() - self._baseline_bytes}

    def _opened(self) -> Session:
        """Return the open session, opened again where the memory was measured."""
        if self._load is None:
            raise RunError("no artifact is open.")
        if self._session is None:
            self._session = self._load()
        return self._session

    def _bound(self) -> Callable[[], Tensors]:
        """Return the bound call; whoever asks for it will call it."""
        self._was_called = True
        session = self._opened()
        if self._run is None:
            self._run = session.bind(self._sample["input"])
        return self._run

    def _produce(self) -> Tensors:
        return _called(self._bound())


_OPERATIONS = (
    "bind", "capture", "describe", "execution", "lower", "measure", "memory", "open", "open_foreign", "open_loop",
    "profile", "run", "score", "throughput", "unbundle", "verify", "write_onnx",
)  # fmt: skip


def _called(run: Callable[[], Tensors]) -> Tensors:
    """Call; whatever the runtime raises becomes one of our errors."""
    try:
        return run()
    except CrossBackendError:
        raise
    except Exception as error:
        raise RunError(f"it failed: {one_line(error)}") from error


def _head(outputs: Sequence[Any]) -> list[float]:
    """Return the first few values of the first output; of complex ones the real parts."""
    return [float(v.real) for v in outputs[0].reshape(-1)[:8]] if outputs else []


def _resolve(target: str, threads: int | None) -> tuple[Resolved, Options]:
    """Find a target; ``threads`` counts where it names no number of its own."""
    resolved = resolve(target)
    options = dict(resolved.options)
    if "threads" in options and options["threads"] is None:
        options["threads"] = threads
    return resolved, options


def _artifact(manifest: str, resolved: Resolved) -> Artifact:
    """Read an artifact; one that holds code from elsewhere is refused."""
    artifact = find_artifact(Path(manifest))
    code = resolved.backend.code_in(artifact)
    if code is not None:
        trust.require(Cache(), artifact.payload_path, code)
    return artifact


def _load(resolved: Resolved, artifact: Artifact, options: Options) -> Session:
    """Open a session."""
    try:
        return resolved.backend.load(artifact, options).__enter__()
    except CrossBackendError:
        raise
    except Exception as error:
        raise LoadError(f"{resolved.target.name} cannot load {artifact.payload}: {one_line(error)}") from error


def _measured(instrument: Callable[[], Taken]) -> Taken:
    """Do what an instrument does; whatever the runtime raises becomes one of our errors."""
    try:
        return instrument()
    except CrossBackendError:
        raise
    except Exception as error:
        raise RunError(f"it failed while it was measured: {one_line(error)}") from error


def _sample(artifact: Artifact) -> dict[str, Any]:
    """Return the sample's groups, or random inputs where there is none."""
    return load_tensors(artifact.sample_path) if artifact.sample_path else {"input": random_inputs(artifact.inputs)}


def _serve(requests: IO[bytes], answers: IO[bytes], began_ns: int) -> None:
    """Answer until the parent is gone."""
    incoming: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        for line in requests:
            incoming.put(line)
        _die()  # the parent is gone: stop even in the middle of work

    threading.Thread(target=read, daemon=True).start()
    server = _Server(began_ns)
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
    began_ns = cold_start.clock_ns()
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
    _serve(requests, answers, began_ns)
