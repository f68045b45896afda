"""State in OpenVINO: variables that its plugins keep in an infer request from call to call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cross_backend.backend import Keeper
from cross_backend.tensors import Tensors

_IN_PLACE = {"ScatterNDUpdate", "ScatterUpdate", "ScatterElementsUpdate"}
"""Operators that may write into the variable that they change."""


def stateful(model: Any, count: int) -> Any:
    """Return a model whose last inputs and outputs are variables: ``ReadValue`` and ``Assign`` instead of tensors."""
    from openvino.passes import MakeStateful, Manager

    inputs, outputs = len(model.inputs) - count, len(model.outputs) - count
    names = {}
    for i in range(count):
        if not _is_in_place(model, inputs + i, outputs + i):
            _shield(model.get_results()[outputs + i])
        names[_input(i)], taken, given = _output(i), model.inputs[inputs + i], model.outputs[outputs + i]
        taken.get_tensor().add_names({_input(i)})
        given.get_tensor().add_names({_output(i)})
    manager = Manager()
    manager.register_pass(MakeStateful(names))
    manager.run_passes(model)
    return model


def _is_in_place(model: Any, given: int, made: int) -> bool:
    """Whether one operator changes a few elements of a state that nothing else reads."""
    parameter = model.get_parameters()[given]
    producer = model.get_results()[made].input_value(0).get_node()
    readers = parameter.output(0).get_target_inputs()
    is_data = producer.get_type_name() in _IN_PLACE and producer.input_value(0).get_node() == parameter
    return is_data and len(readers) == 1


def _shield(result: Any) -> None:
    """Write a next state into memory of its own before it is assigned.

    The CPU plugin (2026.4) lets a ``Concat`` write straight into the variable of which it still reads.
    """
    import numpy as np
    from openvino import opset13

    own = opset13.power(result.input_value(0), opset13.constant(np.float32(1)))  # exact, NaN included
    result.input(0).replace_source_output(own.output(0))


def _input(index: int) -> str:
    return f"state {index}/"


def _output(index: int) -> str:
    return f"next {index}/"


class Variables(Keeper):
    """Keeps the state in one request, which all bound calls share."""

    def __init__(
        self,
        request: Any,
        initial: Sequence[Any],
        tensors: Callable[[Tensors], list[Any]],
        outputs: Callable[[Any], Callable[[], Tensors]],
    ) -> None:
        """Bring the variables to their initial values.

        Args:
            request: of a model of :func:`stateful`.
            initial: NumPy arrays.
            tensors: makes OpenVINO's tensors of inputs.
            outputs: makes the call that runs a request and returns its outputs.
        """
        self._request, self._initial, self._tensors = request, initial, tensors
        found = {state.name: state for state in request.query_state()}
        self._variables = [
            next(state for name, state in found.items() if _input(i) in name) for i in range(len(initial))
        ]
        self._call = outputs(request)
        self._bound: list[Any] = []
        self.reset()

    def bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        tensors, request, call = self._tensors(inputs), self._request, self._call

        def run() -> Tensors:
            if self._bound is not tensors:  # another bound call ran before
                for index, tensor in enumerate(tensors):
                    request.set_input_tensor(index, tensor)
                self._bound = tensors
            return call()

        return run

    def reset(self) -> None:
        self.write(self._initial)

    def read(self) -> Sequence[Any]:
        return [variable.state.data.copy() for variable in self._variables]

    def write(self, values: Sequence[Any]) -> None:
        from openvino import Tensor

        for variable, value in zip(self._variables, values, strict=True):
            variable.state = Tensor(value)
