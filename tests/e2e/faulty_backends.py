"""Backends that misbehave in one way each; the tests install them as a third party's package, by entry points."""

import contextlib
import copy
import ctypes
import os
import stat
import time
from pathlib import Path
from typing import ClassVar

import numpy as np

from cross_backend.backend import Backend, Lowered, Option, Session
from cross_backend.backends.torch.eager import TorchEager
from cross_backend.placement import Operators, Placement
from cross_backend.records import Execution
from cross_backend.tensors import load_tensors, to_numpy

FOREVER_S = 3600
CALLS_BEFORE_MEASURING = 60
"""Verification (1), warm-up (3) and calibration (at most 50) call less often than that."""


def leave_mark(name):
    """Write this process's id where the test looks for it, whole or not at all."""
    mark = Path(os.environ["FAULTY_MARKS"], f"{name}.pid")
    mark.with_suffix(".tmp").write_text(str(os.getpid()))
    mark.with_suffix(".tmp").replace(mark)


def segfault():
    """Read address 0."""
    ctypes.string_at(0)


class Right(Backend):
    """Gives the outputs that are expected, read from the sample; the others differ from it in one method."""

    name = "faulty.right"
    title = "Right"
    suffix = ".faulty"
    distributions = ()

    def missing(self, machine):
        return None

    def lower(self, program, options, stem, calibration):
        payload = stem.with_name(stem.name + self.suffix)
        payload.write_text(self.name)
        return Lowered(payload, Placement(inside=(Operators("made up", 1),)))

    def load(self, artifact, options):
        return Opened(artifact, options, self)

    def at_load(self):
        """Called when a session opens."""

    def at_close(self):
        """Called when a session closes."""

    def at_call(self, count, outputs):
        """Called by every call with how many came before; gives the outputs."""
        time.sleep(0.0002)
        return outputs


class Opened(Session):
    """A session that asks its backend."""

    def __init__(self, artifact, options, backend):
        super().__init__(artifact, options)
        self._backend = backend

    def _open(self):
        self._backend.at_load()
        self._sample = load_tensors(self.artifact.sample_path)
        self._count = 0

    def _bind(self, inputs):
        known = {name: f"{name}.expected" for name in self._sample if name.removeprefix("probe").isdecimal()}
        known["input2"] = "expected2"
        for name, outputs in known.items():
            given = self._sample.get(name, ())
            if len(given) and all(map(np.array_equal, map(to_numpy, inputs), given)):
                return lambda outputs=outputs: self._call(self._sample[outputs])
        return lambda: self._call(self._sample["expected"])

    def _close(self):
        self._backend.at_close()

    def _call(self, expected):
        self._count += 1
        return self._backend.at_call(self._count, expected)


class LowerSegfault(Right):
    name = "faulty.lower_segfault"

    def lower(self, program, options, stem, calibration):
        segfault()


class LowerRaises(Right):
    name = "faulty.lower_raises"

    def lower(self, program, options, stem, calibration):
        raise RuntimeError("the vendor's compiler is unhappy\nand says so in two lines")


class LowerHangs(Right):
    name = "faulty.lower_hangs"
    options: ClassVar = {"seat": Option("makes targets of it that differ", None)}

    def lower(self, program, options, stem, calibration):
        leave_mark("lower_hangs")
        time.sleep(FOREVER_S)


class LowerNothing(Right):
    name = "faulty.lower_nothing"

    def lower(self, program, options, stem, calibration):
        payload = super().lower(program, options, stem, calibration).payload
        return Lowered(payload, Placement(left=(Operators("aten::linear", 1),)))


class LowerExits(Right):
    name = "faulty.lower_exits"

    def lower(self, program, options, stem, calibration):
        raise SystemExit(3)


class LoadSegfault(Right):
    name = "faulty.load_segfault"

    def at_load(self):
        segfault()


class LoadRaises(Right):
    name = "faulty.load_raises"

    def at_load(self):
        raise ValueError("the vendor's runtime refuses it")


class LoadMoody(Right):
    """Loads as the file ``mood`` says, and well where there is none: a driver that can be broken and mended."""

    name = "faulty.load_moody"
    distributions = ("faulty",)

    def at_load(self):
        mood = Path(os.environ["FAULTY_MARKS"], "mood")
        if mood.exists() and mood.read_text() == "segfault":
            segfault()
        elif mood.exists():
            raise ValueError(mood.read_text())


class CallHangs(Right):
    name = "faulty.call_hangs"

    def at_call(self, count, outputs):
        time.sleep(FOREVER_S)


class CallRaises(Right):
    name = "faulty.call_raises"

    def at_call(self, count, outputs):
        raise ZeroDivisionError("the vendor's kernel divides by zero")


class CallSegfault(Right):
    name = "faulty.call_segfault"

    def at_call(self, count, outputs):
        segfault()


class MeasureRaises(Right):
    name = "faulty.measure_raises"

    def at_call(self, count, outputs):
        if count > CALLS_BEFORE_MEASURING:
            raise OSError("the device was unplugged")
        return super().at_call(count, outputs)


class GivesNan(Right):
    name = "faulty.gives_nan"

    def at_call(self, count, outputs):
        return [output * float("nan") for output in outputs]


class GivesWrong(Right):
    name = "faulty.gives_wrong"

    def at_call(self, count, outputs):
        return [output + 0.5 for output in outputs]


class GivesMoody(Right):
    """Wrong in every second call."""

    name = "faulty.gives_moody"

    def at_call(self, count, outputs):
        return [y + np.float32(count % 2) for y in outputs]


class GivesFused(Right):
    """Wrong where two operators stand in one program, whichever others do."""

    name = "faulty.gives_fused"

    def lower(self, program, options, stem, calibration):
        lowered = super().lower(program, options, stem, calibration)
        names = {str(node.target).split(".")[1] for node in program.graph.nodes if node.op == "call_function"}
        lowered.payload.write_text("fused" if {"linear", "sigmoid"} <= names else "plain")
        return lowered

    def load(self, artifact, options):
        self.is_fused = artifact.payload_path.read_text() == "fused"
        return super().load(artifact, options)

    def at_call(self, count, outputs):
        return [y + np.float32(self.is_fused) for y in outputs]


class GivesShape(Right):
    name = "faulty.gives_shape"

    def at_call(self, count, outputs):
        return [output.reshape(-1) for output in outputs]


class GivesFewer(Right):
    name = "faulty.gives_fewer"

    def at_call(self, count, outputs):
        return []


class WritesGarbage(Right):
    """Takes every pipe of the process for its own."""

    name = "faulty.writes_garbage"

    def at_call(self, count, outputs):
        for descriptor in range(3, 64):
            with contextlib.suppress(OSError):
                if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                    os.write(descriptor, b"[device 0] ready\n")
        return outputs


class Slow(Right):
    name = "faulty.slow"

    def at_call(self, count, outputs):
        if count == CALLS_BEFORE_MEASURING:
            leave_mark("slow")
        time.sleep(0.02)
        return outputs


leaked = []
"""What Leaks never gives back."""


class Leaks(Right):
    name = "faulty.leaks"

    def at_call(self, count, outputs):
        leaked.append(b"x" * 32_000_000)
        time.sleep(0.05)
        return outputs


class LoadsOnce(Right):
    """Opens once, and never again: what a second launch is for. It is slow, so that it gets no twin."""

    name = "faulty.loads_once"

    def at_load(self):
        with contextlib.suppress(FileExistsError):
            Path(os.environ["FAULTY_MARKS"], "loads_once.mark").touch(exist_ok=False)
            return
        raise ValueError("the licence was for one process")

    def at_call(self, count, outputs):
        time.sleep(0.002)
        return outputs


class CloseSegfault(Right):
    """Right until it is closed, which measuring its memory does."""

    name = "faulty.close_segfault"

    def at_close(self):
        segfault()


class Elsewhere(Right):
    """Runs, and hardly any of it where it was asked to."""

    name = "faulty.elsewhere"
    title = "Elsewhere"

    def execution(self, artifact, options, inputs):
        return Execution("GPU", nodes=0.0074, elsewhere=(("Conv on the CPU", 134),))


class Emulated(Right):
    """Right on an emulator."""

    name = "faulty.emulated"
    title = "Emulated"

    def execution(self, artifact, options, inputs):
        return Execution("NPU", nodes=1.0, functional_only="an emulator; its durations say nothing about an NPU")


class GivesHard(TorchEager):
    """Computes with PyTorch, and sigmoid as hardsigmoid, as an approximation that went too far."""

    name = "faulty.gives_hard"
    title = "Hard"

    def lower(self, program, options, stem, calibration):
        import torch

        made = copy.deepcopy(program)
        for node in made.graph.nodes:
            if node.target is torch.ops.aten.sigmoid.default:
                node.target = torch.ops.aten.hardsigmoid.default
        made.graph_module.recompile()
        return super().lower(made, options, stem, calibration)


class GivesClamped(TorchEager):
    """Computes with PyTorch, and sums only what is below 1000: random inputs do not show it."""

    name = "faulty.gives_clamped"
    title = "Clamped"

    def lower(self, program, options, stem, calibration):
        import torch

        made = copy.deepcopy(program)
        for node in list(made.graph.nodes):
            if node.target is torch.ops.aten.sum.dim_IntList:
                with made.graph.inserting_before(node):
                    clamp = made.graph.call_function(torch.ops.aten.clamp.default, (node.args[0], -1e3, 1e3))
                clamp.meta = dict(node.args[0].meta)
                node.args = (clamp, *node.args[1:])
        made.graph_module.recompile()
        return super().lower(made, options, stem, calibration)
