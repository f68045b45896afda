"""The reference of a sequence: what the captured program generates, and every target's logits on the same tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.bench.reading import Reading
from cross_backend.bench.verification import outputs_on
from cross_backend.errors import CrossBackendError, one_line
from cross_backend.generation.encoding import read_memory
from cross_backend.generation.sequence import parts_of
from cross_backend.program.captured import Captured, OnnxProgram
from cross_backend.program.reference import run_eagerly
from cross_backend.tensors import load_tensors, save_tensors, to_numpy
from cross_backend.verify.compare import compare_further
from cross_backend.verify.further import STEP, KnownInput, further_groups, further_of
from cross_backend.worker.question import WRITTEN, Answering, Question

if TYPE_CHECKING:
    from cross_backend.bench.open_artifact import OpenArtifact


@dataclass(frozen=True)
class Teach(Question[list[int]]):
    """Generate with the captured program, greedily, and write inputs and logits of every call."""

    captured: Path
    """Folder of the capture."""
    prompt: list[int]
    new: int
    calls: Path = field(metadata=WRITTEN)
    """Receives the calls, in the form of a sample's steps; the memory, which is the same in all, is left out."""
    memory: Path | None = None
    """What the encoder left; None where the model has none."""

    def answer(self, _process: Answering) -> list[int]:
        """Return the tokens."""
        import torch

        captured = Captured.read(self.captured)
        program = captured.program()
        assert not isinstance(program, OnnxProgram), "an ONNX file has no state, and was refused"
        run = program.module()
        found: list[KnownInput] = []
        source = [torch.from_numpy(one) for one in read_memory(self.memory)]

        def feed(name: str, tokens: Sequence[int], start: int) -> int:
            logits: Any = None
            for ids, place in parts_of(captured.inputs, tokens, start):
                outputs = run_eagerly(run, [torch.from_numpy(ids), torch.from_numpy(place), *source])
                logits = to_numpy(outputs[0])
                found.append(KnownInput(name, [ids, place], [to_numpy(one).copy() for one in outputs]))
            return int(logits.argmax())

        tokens = [feed("the prompt", self.prompt, 0)]
        for place in range(1, self.new):
            start = len(self.prompt) + place - 1
            tokens.append(feed(f"token {place} of {self.new}", tokens[-1:], start))
        save_tensors(self.calls, further_groups(STEP, found))
        return tokens


@dataclass(frozen=True)
class SequenceVerdict:
    """How far a target's logits are right."""

    calls: int
    """Calls whose outputs are right, in order."""
    reason: str | None
    """Why the next one is wrong; None where all are right."""


@dataclass(frozen=True)
class JudgeSequence(Reading[SequenceVerdict]):
    """Feed the reference's tokens, whatever the target itself would choose, and compare the outputs of every call."""

    calls: Path
    precision: str
    memory: Path | None = None
    """What the reference's encoder left; None where the model has none."""

    def read(self, artifact: OpenArtifact) -> SequenceVerdict:
        """Return the verdict; the first call that parts is named. The state is reset before and after."""
        artifact.reset()
        right, source = 0, read_memory(self.memory)
        try:
            for known in further_of(STEP, load_tensors(self.calls)):
                call = replace(known, inputs=[*known.inputs, *source])
                reason = compare_further(artifact.sample, call, outputs_on(artifact, call), self.precision)
                if reason is not None:
                    return SequenceVerdict(right, reason)
                right += 1
        except CrossBackendError as error:
            return SequenceVerdict(right, one_line(error))
        finally:
            artifact.reset()
        return SequenceVerdict(right, None)
