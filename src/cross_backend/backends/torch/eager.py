"""torch.eager: the captured program run by torch itself, operator by operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from cross_backend.artifact import Artifact
from cross_backend.backend import Options, Recorded, Session
from cross_backend.backends.torch._base import ProgramSession, TorchBackend, script
from cross_backend.errors import UnsupportedError
from cross_backend.records import Timing
from cross_backend.tensors import Tensors


@final
class TorchEager(TorchBackend):
    """The exported graph, op by op; the plainest way to run it."""

    name = "torch.eager"
    title = "PyTorch eager"

    def reproduction(self, options: Options) -> Sequence[str]:
        return script(self.title, options, "program.module()")

    def load(self, artifact: Artifact, options: Options) -> Session:
        return ProgramSession(artifact, options)

    def record(self, artifact: Artifact, options: Options, inputs: Tensors, runs: int) -> Recorded:
        return self._recorded(artifact, options, inputs, runs)

    def record_calls(self, artifact: Artifact, options: Options, inputs: Tensors, runs: int) -> Recorded:
        if options["device"] != "cpu":
            raise UnsupportedError("a GPU's profile does not say which operator called a kernel")
        return self._recorded(artifact, options, inputs, runs, is_whole=True)

    def _recorded(
        self, artifact: Artifact, options: Options, inputs: Tensors, runs: int, *, is_whole: bool = False
    ) -> Recorded:
        """Record operators and what each calls in turn, or (``is_whole``) the outermost ones, with all they call."""
        if options["device"] == "mps":
            raise UnsupportedError("torch's profiler does not time Metal's kernels")
        from torch.profiler import ProfilerActivity
        from torch.profiler import profile as record

        of_gpu = options["device"] == "cuda"
        recorded = []
        with self.load(artifact, options) as session:
            run = session.bind(inputs)
            for _ in range(runs + 1):
                with record(activities=[ProfilerActivity.CUDA if of_gpu else ProfilerActivity.CPU]) as trace:
                    run()
                if is_whole:
                    outermost = [event for event in trace.events() if event.cpu_parent is None]
                    outermost.sort(key=lambda event: event.time_range.start)
                    recorded.append([Timing(e.name, "operator", 1, e.cpu_time_total / 1e3) for e in outermost])
                else:
                    recorded.append([_timing(event, of_gpu=of_gpu) for event in trace.key_averages()])
        return recorded[1:]


def _timing(event: Any, *, of_gpu: bool) -> Timing:
    """Return what the profiler recorded of one operator on the processor, or of one kernel on the GPU."""
    if of_gpu:
        return Timing(event.key, "operator", event.count, event.self_device_time_total / 1e3)
    return Timing(event.key, "operator", event.count, event.self_cpu_time_total / 1e3)
