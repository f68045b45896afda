"""Decoders for runtimes of text: recognised in a captured program, with their weights by role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cross_backend.errors import UnsupportedError
from cross_backend.program.captured import OnnxProgram, Program
from cross_backend.program.state import name_of, value_of
from cross_backend.tensors import to_numpy
from cross_backend.workloads.decoder import PROMPT, Shape

if TYPE_CHECKING:
    import numpy as np
    from torch.export import ExportedProgram

    Array = np.ndarray[Any, Any]

NOT_ONNX = "it takes decoders that were captured from PyTorch only"
"""Why none takes an ONNX file."""
_SMALL = 1e-3
"""Literals below are the epsilons of norms; all others are compared."""
_PARTS = ("before", "mixed", "out", "between", "up", "down")
"""Parts of a layer that every kind has."""
_PLACED = {"device", "pin_memory"}
"""Arguments of operators that say where a tensor lies."""


@dataclass(frozen=True)
class Affine:
    """Weights of a linear layer or of a norm."""

    weight: Array
    """Linear: (outputs, inputs). Norm: (size,)."""
    bias: Array | None
    """(outputs,) or (size,); None where it has none."""


@dataclass(frozen=True)
class Layer:
    """Weights of a layer, each under the role that it has."""

    before: Affine
    """Norm before the attention."""
    mixed: Affine
    """Queries, keys and values, one below the other."""
    out: Affine
    """Output of the attention."""
    between: Affine
    """Norm before the feed-forward part."""
    up: Affine
    """Into the feed-forward part."""
    down: Affine
    """Out of it."""
    gate: Affine | None
    """None where the feed-forward part has no gate."""


@dataclass(frozen=True)
class DecoderWeights:
    """A decoder with static caches: sizes, constants and weights, all read from its program."""

    shape: Shape
    epsilon: float
    """Of all norms."""
    tokens: Array
    """Embeddings (vocabulary, hidden), which are the last matrix product's weights, too."""
    places: Array | None
    """Embeddings of learned positions (context, hidden); None where positions are rotary."""
    cosines: Array | None
    """Of the rotary angles, (context, width / 2); None where positions are learned."""
    sines: Array | None
    """As the cosines."""
    layers: tuple[Layer, ...]
    norm: Affine
    """After the last layer."""


def decoder_in(program: Program, title: str) -> DecoderWeights:
    """Recognise a decoder by its tensors and by all its operators.

    Args:
        program: captured; it is not changed.
        title: of the backend, for the error.

    Raises:
        UnsupportedError: the program is another one; the text says in what.
    """
    if isinstance(program, OnnxProgram):
        raise UnsupportedError(f"{title} cannot take ONNX files: {NOT_ONNX}.")
    try:
        return _decoder_in(program)
    except _OtherError as error:
        raise UnsupportedError(
            f"{title} takes decoders of the shapes of the models llama, qwen and gpt2_decoder only, and this program "
            f"{error}."
        ) from None


class _OtherError(Exception):
    """What a program has that no such decoder has, a clause."""


def _decoder_in(program: ExportedProgram) -> DecoderWeights:
    state = {name_of(name): to_numpy(value_of(program, name)) for name in (*program.state_dict, *program.constants)}
    shape = _shape_of(program, state)
    if shape is None:
        raise _OtherError("is none: it has other inputs or weights")
    epsilon = _compared(program, shape)
    for name, array in state.items():
        _check_buffer(name, array)

    def affine(name: str) -> Affine:
        return Affine(state[f"{name}.weight"], state.get(f"{name}.bias"))

    def layer(at: str) -> Layer:
        before, mixed, out, between, up, down = (affine(f"{at}.{part}") for part in _PARTS)
        gate = affine(f"{at}.gate") if f"{at}.gate.weight" in state else None
        return Layer(before, mixed, out, between, up, down, gate)

    is_rotary = "places.weight" not in state
    return DecoderWeights(
        shape,
        epsilon,
        state["tokens.weight"],
        state.get("places.weight"),
        state["cosines"] if is_rotary else None,
        state["sines"] if is_rotary else None,
        tuple(layer(f"layers.{index}") for index in range(shape.layers)),
        affine("norm"),
    )


def _shape_of(program: ExportedProgram, state: Mapping[str, Array]) -> Shape | None:
    """Return the sizes that a program's tensors have if it is a decoder; None where it cannot be one."""
    inputs = [node.meta["val"] for node in program.graph.nodes if node.name in program.graph_signature.user_inputs]
    wanted = ("tokens.weight", "layers.0.keys", "layers.0.up.weight")
    if any(name not in state for name in wanted) or [getattr(one, "ndim", None) for one in inputs] != [2, 1]:
        return None
    tokens, keys, up = (state[name].shape for name in wanted)
    if (len(tokens), len(keys), len(up)) != (2, 3, 2) or not all((*tokens, *keys, *up)):
        return None
    heads, left = divmod(tokens[1], keys[2])
    if left or heads % keys[0] or keys[2] % 2:
        return None
    kinds = {"gpt2": "places.weight", "qwen": "layers.0.mixed.bias"}
    return Shape(
        layers=sum(name.endswith(".keys") for name in state),
        hidden=tokens[1],
        heads=heads,
        kv_heads=keys[0],
        inner=up[0],
        vocabulary=tokens[0],
        context=keys[1],
        kind=next((kind for kind, name in kinds.items() if name in state), "llama"),
        prompts=int(not isinstance(inputs[0].shape[1], int)),
    )


def _compared(program: ExportedProgram, shape: Shape) -> float:
    """Compare a program with that of the decoder of these sizes, operator by operator; return its norms' epsilon.

    Raises:
        _OtherError: they differ.
    """
    import torch

    from cross_backend.program.capture import TRACING
    from cross_backend.workloads.decoder import build

    with TRACING, torch.device("meta"), torch.no_grad():
        inputs = (torch.zeros(1, PROMPT if shape.prompts else 1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64))
        free: Any = ({1: torch.export.Dim("tokens", min=1, max=shape.context)}, None) if shape.prompts else None
        own = torch.export.export(build(shape), inputs, dynamic_shapes=free)
    found, wanted = _tensors(program), _tensors(own)
    if found != wanted:
        names = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
        raise _OtherError(f"has another tensor {names[0]!r}")
    (steps, epsilons), (wanted_steps, _) = _operators(program), _operators(own)
    if steps != wanted_steps or len(epsilons) != 1:
        raise _OtherError("computes something else with weights of the same names")
    return epsilons.pop()


def _tensors(program: ExportedProgram) -> dict[str, str]:
    table = {**program.constants, **program.state_dict}
    return {name_of(name): f"{one.dtype}{list(one.shape)}" for name, one in table.items()}


def _operators(program: ExportedProgram) -> tuple[list[Any], set[float]]:
    """Return a program's operators with what they take, and the epsilons among that."""
    signature, epsilons = program.graph_signature, set()
    tensors = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    known: dict[Any, Any] = {}

    def plain(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return tuple(map(plain, value))
        if isinstance(value, float) and 0 < value < _SMALL:
            epsilons.add(value)
            return "epsilon"
        return known[value] if hasattr(value, "op") else str(value)

    steps = []
    for node in program.graph.nodes:
        if node.op == "placeholder":
            given = [str(name) for name in signature.user_inputs]
            name = name_of(tensors[node.name]) if node.name in tensors else given.index(node.name)
            known[node] = ("tensor", name, _extents(node) if name == 0 else "")
            continue
        named = sorted((key, plain(value)) for key, value in node.kwargs.items() if key not in _PLACED)
        steps.append((str(node.target), plain(node.args), tuple(named)))
        known[node] = ("step", len(steps))
    return steps, epsilons


def _extents(node: Any) -> str:
    """Return the type and shape of an input, whatever its free extents are called."""
    value = node.meta["val"]
    return f"{value.dtype}{[n if isinstance(n, int) else 'free' for n in value.shape]}"


def _check_buffer(name: str, array: Array) -> None:
    """Refuse what a call begins with: caches that are full, or other positions."""
    import numpy as np

    if name.endswith((".keys", ".values")) and array.any():
        raise _OtherError("begins with full caches")
    counts = name == "all_places" or name.endswith(".heads")
    if counts and not np.array_equal(array.reshape(-1), np.arange(array.size)):
        raise _OtherError(f"does not count from 0 in {name!r}")
