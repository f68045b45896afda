"""The reference: what the eager model computes on the sample and on probes, and what rounding does to it."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cross_backend.errors import CaptureError
from cross_backend.program.flops import count_accumulations
from cross_backend.program.hints import hints_of, shapes_of
from cross_backend.program.layout import row_major
from cross_backend.program.running import Conditions, run_disturbed, run_wide
from cross_backend.program.stability import JUMP_STEPS, noises_on, scales_of, stability_on, unstable
from cross_backend.program.state import name_of, state_of
from cross_backend.tensors import from_numpy, kind_of, to_numpy
from cross_backend.verify.deviation import agree
from cross_backend.verify.further import OWN, PROBE, STEP, KnownInput, further_groups
from cross_backend.verify.narrow import narrow_group
from cross_backend.verify.probes import ProbeInput, probes_of, resized, tamed
from cross_backend.verify.sample import make_sample
from cross_backend.workloads.user_code import with_place

if TYPE_CHECKING:
    import numpy as np
    from torch.export import ExportedProgram

    Arrays = Sequence[np.ndarray[Any, Any]]

EAGER = "eager float32"
STEPS = 3
"""Further calls of a program with state."""
MORE = 4
"""Further probes that are tried where a condition was not reached, and kept where they reach it."""
MOST_BYTES = 32 << 20
"""Of the inputs of all probes."""
FEW = ((20e6, 8), (200e6, 4), (2e9, 2))
"""Largest number of floating point operations → probes; programs of more get one."""


class Reference:
    """The eager model as a function of flat tensors, that begins each call in its initial state."""

    def __init__(self, module: Any, call: Callable[..., Any]) -> None:
        """Keep the module's state as it is now.

        Args:
            module: whose buffers a call may change.
            call: takes flat tensors and runs the module.
        """
        self.call = call
        parts = module.modules() if hasattr(module, "modules") else ()
        self._state = [
            (part, name, buffer, buffer.detach().clone(), buffer._version)  # noqa: SLF001  counts writes
            for part in parts
            for name, buffer in part.named_buffers(recurse=False)
        ]

    def __call__(self, *inputs: Any) -> Any:
        """Run once, from the initial state."""
        self.reset()
        return self.call(*inputs)

    def reset(self) -> None:
        """Go back to the initial state."""
        import torch

        with torch.no_grad():
            for part, name, buffer, kept, version in self._state:
                if getattr(part, name) is not buffer:
                    setattr(part, name, buffer)
                if buffer._version != version:  # noqa: SLF001
                    buffer.copy_(kept)


def reference_sample(
    program: ExportedProgram,
    name: str,
    leaves: Sequence[Any],
    expected: Any,
    reference: Reference,
    own: Sequence[ProbeInput] = (),
    steps: Sequence[Arrays] = (),
    flops: int | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the sample's groups and what they prove; the captured program must agree with the eager model.

    Args:
        program: flat, as it was captured.
        name: of the workload, for the reader.
        leaves: tensors of the sample.
        expected: what the model returns for them.
        reference: the eager model.
        own: the user's own inputs, which join the probes.
        steps: inputs of the calls after the sample's, of a program with state; made up where there are none.
        flops: floating point operations of a call, if they are known: large programs get fewer probes.

    Raises:
        CaptureError: it does not.
    """

    def tensors(arrays: Arrays) -> list[Any]:
        return [from_numpy(x) for x in arrays]

    def run(arrays: Arrays) -> list[Any]:
        return [to_numpy(y) for y in run_eagerly(reference, tensors(arrays))]

    inputs, wanted = [to_numpy(x) for x in leaves], [to_numpy(y) for y in expected]
    conditions = Conditions(program)
    runs = conditions.runs
    again = [outputs for seed in range(2) if (outputs := run_disturbed(runs, leaves, seed))]
    again += [outputs for outputs in [run_wide(runs, leaves)] if outputs]
    has_state = bool(state_of(program))
    jumps = [outputs for outputs in [run_disturbed(runs, leaves, 2, steps=JUMP_STEPS)] if outputs]
    groups = make_sample(inputs, wanted, run, again, count_accumulations(program), may_move=not has_state, jumps=jumps)
    groups["fixed"] = [_fixed(program)]
    tolerance = min(max(1e-4, 16 * float(groups["rounding"][0])), 1e-2)  # random numbers look like large rounding
    _check_same(name, wanted, conditions.run(tensors(inputs)), tolerance)
    if "input2" in groups:
        _check_same(name, groups["expected2"], conditions.run(tensors(groups["input2"])), tolerance)
    sampled = leaves, wanted, groups["scale"]
    if has_state:
        groups["narrow"] = narrow_group(*noises_on(runs, [sampled]))
        groups |= further_groups(STEP, _steps(inputs, reference, tensors, steps))
        names = [name_of(one) for one in state_of(program)]
        return groups, _proof(conditions, state=names)
    owned = _owned(name, groups, own, run, tensors, conditions)
    work = flops if flops is not None else 2.0 * sum(one.numel() for one in program.state_dict.values())
    kept, dropped = _probed(program, name, groups, run, tensors, conditions, work)
    further = [(tensors(one.inputs), one.expected, _scales(one, wanted)) for one in (*owned, *kept)]
    narrow, *noises = noises_on(runs, [sampled, *further])
    groups["narrow"] = narrow_group(narrow)
    known = [replace(one, narrow=row) for one, row in zip((*owned, *kept), noises, strict=True)]
    groups |= further_groups(OWN, known[: len(owned)]) | further_groups(PROBE, known[len(owned) :])
    given = [one.name for one in own]
    return groups, _proof(conditions, inputs=given, probes=[one.name for one in kept], dropped=dropped)


def _proof(conditions: Conditions, **found: Any) -> dict[str, Any]:
    missed = conditions.missed()
    reached = {"sides": conditions.count, "reached": conditions.count - len(missed), "missed": missed}
    return {"reference": EAGER, "state": [], "inputs": [], "probes": [], "dropped": {}, **found, **reached}


def _fixed(program: ExportedProgram) -> Any:
    """Return for each output whether it depends on no input: then it never changes, and need not."""
    import numpy as np

    names = {str(name) for name in program.graph_signature.user_inputs}
    state = set(state_of(program))
    moving: set[Any] = set()
    for node in program.graph.nodes:
        is_state = program.graph_signature.inputs_to_buffers.get(node.name) in state
        if node.name in names or is_state or moving.intersection(node.all_input_nodes):
            moving.add(node)
    (end,) = program.graph.find_nodes(op="output")
    outputs = end.args[0][len(end.args[0]) - len(program.graph_signature.user_outputs) :]
    return np.array([node not in moving for node in outputs])


def _steps(
    inputs: Arrays, reference: Reference, tensors: Callable[[Arrays], list[Any]], wanted: Sequence[Arrays]
) -> list[KnownInput]:
    """Return further calls in order, each on the state that the one before left; single whole numbers count on."""
    found: list[KnownInput] = []
    reference.reset()
    run_eagerly(reference.call, tensors(inputs))
    made = wanted or [[_at_step(x, step) for x in inputs] for step in range(1, STEPS + 1)]
    for step, given in enumerate(made, 1):
        try:
            outputs = [to_numpy(y) for y in run_eagerly(reference.call, tensors(given))]
        except CaptureError:
            if wanted:
                raise
            break
        found.append(KnownInput(f"call {step + 1}", given, outputs))
    reference.reset()
    return found


def _at_step(x: Any, step: int) -> Any:
    if kind_of(x) == "f":
        return (x * (1 - 0.25 * step)).astype(x.dtype)
    return (x + step).astype(x.dtype) if kind_of(x) in "iu" and x.size == 1 else x


def _candidates(program: ExportedProgram, inputs: Arrays) -> Iterator[ProbeInput]:
    probes = list(probes_of(inputs, hints_of(program)))
    yield from probes[:1]
    source = probes[0].inputs if probes else inputs
    for name, shapes in shapes_of(program):
        yield ProbeInput(name, resized(source, shapes))
    yield from probes[1:]


def _probed(
    program: ExportedProgram,
    name: str,
    groups: Mapping[str, Any],
    run: Callable[[Arrays], list[Any]],
    tensors: Callable[[Arrays], list[Any]],
    conditions: Conditions,
    work: float,
) -> tuple[list[KnownInput], dict[str, str]]:
    """Return the probes that work, with reference and rounding, and why others were dropped.

    The first on which rounding changes the outputs too much is tried again with smaller values.
    """
    most = next((count for limit, count in FEW if work <= limit), 1)
    kept: list[KnownInput] = []
    dropped: dict[str, str] = {}
    size, is_tamed = 0, False
    missed = len(conditions.missed())
    waiting = deque(itertools.islice(_candidates(program, groups["input"]), most + MORE))
    while waiting:
        probe = waiting.popleft()
        size += sum(x.nbytes for x in probe.inputs)
        if (len(kept) >= most and not missed) or (kept and size > MOST_BYTES):
            break
        try:
            outputs = run(probe.inputs)
            captured = conditions.run(tensors(probe.inputs))
        except Exception as error:
            dropped[probe.name] = f"the model fails on it ({with_place(error)[:200]})"
            continue
        found = stability_on(conditions.runs, groups["expected"], tensors(probe.inputs), outputs)
        if found.reason is not None:
            dropped[probe.name] = found.reason
            if not is_tamed:
                is_tamed = True
                waiting.extendleft(tamed(probe))
            continue
        _check_same(name, outputs, captured, min(max(1e-4, 16 * found.rounding), 1e-2))
        before, missed = missed, len(conditions.missed())
        if len(kept) < most or missed < before:
            row = KnownInput(probe.name, probe.inputs, outputs, found.rounding, found.scale, reaches=missed < before)
            kept.append(row)
    return kept, dropped


def _owned(
    name: str,
    groups: Mapping[str, Any],
    own: Sequence[ProbeInput],
    run: Callable[[Arrays], list[Any]],
    tensors: Callable[[Arrays], list[Any]],
    conditions: Conditions,
) -> list[KnownInput]:
    """Return the user's inputs with reference and rounding; what the model refuses is an error."""
    found: list[KnownInput] = []
    for one in own:
        try:
            outputs = run(one.inputs)
        except CaptureError as error:
            raise CaptureError(f"{one.name}: {error}") from error
        captured = conditions.run(tensors(one.inputs))
        stable = stability_on(conditions.runs, groups["expected"], tensors(one.inputs), outputs)
        _check_same(f"{name} ({one.name})", outputs, captured, min(max(1e-4, 16 * stable.rounding), 1e-2))
        rounding = min(stable.rounding, unstable(conditions.runs))
        found.append(KnownInput(one.name, one.inputs, outputs, rounding, stable.scale))
    return found


def _scales(known: KnownInput, first: Arrays) -> Arrays:
    """Return the scales by which targets are judged on an input; ``first``: reference outputs of the sample."""
    import numpy as np

    scales = scales_of(known.expected, first)
    return [np.maximum(*row) for row in zip(scales, known.scale, strict=True)] if known.scale else scales


def _check_same(name: str, expected: Arrays, captured: Arrays, tolerance: float) -> None:
    """Compare what the captured program computes with what the eager model does.

    Raises:
        CaptureError: they differ by more than rounding.
    """
    if not agree(expected, captured, tolerance):
        raise CaptureError(
            f"the captured {name} does not compute what the eager model does: it depends on more than "
            "its inputs (random numbers, a counter). Call .eval() and make it a pure function."
        )


def run_eagerly(module: Any, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Run a torch module on positional inputs without gradients and flatten its outputs.

    Raises:
        CaptureError: it fails, or returns something that is not a tensor.
    """
    import torch
    from torch.utils import _pytree

    try:
        with torch.no_grad():
            given = row_major(inputs)
            outputs = tuple(_pytree.tree_leaves(module(*given)))
    except CaptureError:
        raise
    except Exception as error:
        raise CaptureError(f"the model fails on its own example inputs: {with_place(error)}") from error
    for before, after in zip(_pytree.tree_leaves(inputs), _pytree.tree_leaves(given), strict=True):
        if isinstance(before, torch.Tensor) and not torch.equal(before.nan_to_num(), after.nan_to_num()):
            raise CaptureError("the model changes its inputs in place; make it a pure function.")
    for output in outputs:
        if not isinstance(output, torch.Tensor):
            raise CaptureError(
                f"the model returns a {type(output).__name__} among its outputs; only tensors can be shipped."
            )
    return outputs
