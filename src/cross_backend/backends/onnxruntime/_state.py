"""State on ONNX Runtime: the next state that a call writes is what the next call reads, without a copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cross_backend.backend import Keeper
from cross_backend.backends.onnxruntime._values import Output, value_of
from cross_backend.tensors import Tensors, to_numpy

IN_PLACE = "cross_backend.in_place"
"""Metadata of a file: inputs that a node may overwrite with the output of its own, by their names, one a line."""
_OVERWRITES = {"ScatterND", "ScatterElements", "Scatter"}
"""Operators whose kernels write only what changes, where the memory of their first input and output is one."""


def mark_in_place(payload: Path) -> None:
    """Note in a file which of its inputs may share memory with the output that replaces them.

    Those are read by one node alone, which changes a few elements and whose result is an output of the file.
    """
    import onnx

    model = onnx.load(payload)
    readers: dict[str, list[Any]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    outputs = {value.name for value in model.graph.output}
    found = [
        value.name
        for value in model.graph.input
        if value.name not in outputs and len(nodes := readers.get(value.name, [])) == 1
        if nodes[0].op_type in _OVERWRITES and nodes[0].input[0] == value.name and nodes[0].output[0] in outputs
        if _has_no_reduction(nodes[0])
    ]
    if found:
        known = {one.key: one.value for one in model.metadata_props}
        onnx.helper.set_model_props(model, {**known, IN_PLACE: "\n".join(found)})
        onnx.save(model, payload)


def _has_no_reduction(node: Any) -> bool:
    return all(one.name != "reduction" or one.s == b"none" for one in node.attribute)


class Slots(Keeper):
    """Keeps the state in tensors of the runtime: one that is changed in place, or two that take turns."""

    def __init__(self, session: Any, initial: Sequence[Any], dtypes: Sequence[str], is_on_cpu: bool) -> None:
        """Make the tensors.

        Args:
            session: the vendor's.
            initial: NumPy arrays.
            dtypes: of all outputs of the file.
            is_on_cpu: whether the provider computes in the processor's memory; others copy what is bound.
        """
        self._session, self._initial = session, initial
        self._inputs = [one.name for one in session.get_inputs()]
        self._outputs = [one.name for one in session.get_outputs()]
        self._count = len(self._outputs) - len(initial)
        self._dtypes = dtypes[: self._count]
        names = self._inputs[-len(initial) :]
        marked = session.get_modelmeta().custom_metadata_map.get(IN_PLACE, "").split("\n")
        self._arrays = [[value.copy() for value in initial]]
        self._arrays.append(
            [one if name in marked else one.copy() for name, one in zip(names, self._arrays[0], strict=True)]
        )
        self._values = [[value_of(array) for array in arrays] for arrays in self._arrays]
        self._turn = 0
        """Which of the two holds the state."""
        self.moved_bytes = 0 if is_on_cpu else 2 * sum(value.nbytes for value in initial)

    def bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        import numpy as np

        given = [value_of(np.array(to_numpy(x), order="C")) for x in inputs]
        session, count, dtypes = self._session, self._count, self._dtypes
        bindings = [self._binding(given, turn) for turn in range(2)]

        def run() -> Tensors:
            binding = bindings[self._turn]
            session.run_with_iobinding(binding)
            self._turn ^= 1
            return [Output(value, dtype) for value, dtype in zip(binding.get_outputs()[:count], dtypes, strict=True)]

        return run

    def _binding(self, given: Sequence[Any], turn: int) -> Any:
        binding, count = self._session.io_binding(), self._count
        for name, value in zip(self._inputs, [*given, *self._values[turn]], strict=True):
            binding.bind_ortvalue_input(name, value)
        for name in self._outputs[:count]:
            binding.bind_output(name)
        for name, value in zip(self._outputs[count:], self._values[turn ^ 1], strict=True):
            binding.bind_ortvalue_output(name, value)
        return binding

    def reset(self) -> None:
        self.write(self._initial)

    def read(self) -> Sequence[Any]:
        return [array.copy() for array in self._arrays[self._turn]]

    def write(self, values: Sequence[Any]) -> None:
        for array, value in zip(self._arrays[self._turn], values, strict=True):
            array[...] = value
