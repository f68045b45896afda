"""An ONNX file as the search sees it: nodes in place of lines of Python, run without any optimisation."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.errors import CaptureError, UnsupportedError, failing_as
from cross_backend.localization.found import Suspect
from cross_backend.localization.whole import Values, Whole
from cross_backend.program.captured import OnnxProgram
from cross_backend.program.onnx_truth import runtime_of
from cross_backend.program.writing import write_part
from cross_backend.tensors import TensorSpec

if TYPE_CHECKING:
    from cross_backend.program.captured import Captured


class OnnxWhole(Whole):
    """A model of one file, its weights inside."""

    def __init__(self, path: Path) -> None:
        import onnx

        self.model = onnx.load(path)
        graph = self.model.graph
        self._weights = {one.name for one in graph.initializer}
        self._inputs = [one.name for one in graph.input if one.name not in self._weights]
        self.outputs = [one.name for one in graph.output]
        self._nodes = {next(name for name in node.output if name): node for node in graph.node}
        self.units = [tuple(name for name in node.output if name) for node in graph.node]

    def needs(self, unit: Sequence[str]) -> frozenset[str]:  # noqa: D102  the declaration says it
        return frozenset(_taken(self._nodes[unit[0]])) - self._weights

    def _run(self, nodes: Collection[str], given: Values, wanted: Sequence[str]) -> Values:
        """Run some nodes, every one as it stands in the file."""
        import numpy as np

        model = self._part(nodes, given, wanted)
        feed = {one.name: given[one.name] for one in model.graph.input}
        with failing_as(CaptureError, "the reference fails"):
            return dict(zip(wanted, map(np.asarray, runtime_of(model)(feed)), strict=True))

    def _part(self, nodes: Collection[str], given: Values, outputs: Sequence[str]) -> Any:
        """Return a model of some nodes; its inputs have the types and shapes of the values that are given."""
        import onnx

        made = onnx.ModelProto()
        made.CopyFrom(self.model)
        del made.graph.node[:], made.graph.input[:], made.graph.output[:], made.graph.value_info[:]
        chosen = [node for name, node in self._nodes.items() if name in set(nodes)]
        made.graph.node.extend(chosen)
        inside = {name for node in chosen for name in node.output}
        taken = dict.fromkeys(name for node in chosen for name in _taken(node))
        used = set(taken)
        for tensor in [one for one in made.graph.initializer if one.name not in used]:
            made.graph.initializer.remove(tensor)
        made.graph.input.extend(_value(name, given) for name in taken if name not in inside | self._weights)
        made.graph.output.extend(_value(name, given) for name in outputs)
        return made

    def values(self, inputs: Sequence[Any]) -> Values:  # noqa: D102
        given = dict(zip(self._inputs, inputs, strict=True))
        names = [name for unit in self.units for name in unit]
        return given | dict(self._run(list(self._nodes), given, names))

    def rounded(self, inputs: Sequence[Any]) -> Values:  # noqa: D102
        import numpy as np

        eps = np.finfo(np.float32).eps
        rng = np.random.default_rng(1)
        near = [
            (x * (1 + eps * rng.integers(-1, 2, x.shape))).astype(x.dtype) if x.dtype == np.float32 else x
            for x in inputs
        ]
        return self.values(near)

    def compute(self, wanted: Collection[str], given: Values) -> Values:  # noqa: D102
        found = {name: given[name] for name in wanted if name in given}
        missing = [name for name in wanted if name not in found]
        if not missing:
            return found
        makers = {name: unit for unit in self.units for name in unit}
        needed, waiting = set(), list(missing)
        while waiting:
            name = waiting.pop()
            if name in given or name not in makers or makers[name] in needed:
                continue
            needed.add(makers[name])
            waiting += self.needs(makers[name])
        return found | dict(self._run([unit[0] for unit in needed], given, missing))

    def write(  # noqa: D102
        self,
        name: str,
        nodes: Collection[str],
        given: Values,
        calibration: Sequence[Values],
        folder: Path,
        outputs: Collection[str] | None = None,
        *,
        flat: bool = False,  # noqa: ARG002  none of its compilers refuses several dimensions
    ) -> Captured:
        import onnx

        inside = set(nodes)
        outside = {one for unit in self.units if not inside & set(unit) for one in self.needs(unit)} | set(self.outputs)
        leaving = outside if outputs is None else set(outputs)
        ordered = [one for unit in self.units for one in unit if one in inside and one in leaving]
        if not ordered:
            raise UnsupportedError("nothing uses what these nodes return.")
        made = self._part(nodes, given, ordered)
        if not made.graph.input:
            raise UnsupportedError("these nodes take constants only.")
        entering = [one.name for one in made.graph.input]
        with failing_as(UnsupportedError, "onnx does not accept this part as a model"):
            onnx.checker.check_model(made)
        path = folder / "part.onnx"
        onnx.save(made, path)
        taken, left = ({one: given[one] for one in names} for names in (entering, ordered))
        return write_part(OnnxProgram(path), name, folder, taken, left, calibration)

    def suspect(self, unit: Sequence[str], given: Values) -> Suspect:  # noqa: D102
        import onnx

        node = self._nodes[unit[0]]
        weights = {one.name: one for one in self.model.graph.initializer}
        inputs = [str(TensorSpec.of(n, given[n])) if n in given else _shown(weights[n]) for n in node.input if n]
        outputs = [str(TensorSpec.of(n, given[n])) for n in unit if n in given]
        attributes = {one.name: onnx.helper.printable_attribute(one).partition(" = ")[2] for one in node.attribute}
        return Suspect(unit[0], node.op_type, None, tuple(inputs), tuple(outputs), attributes)

    def variants(self, unit: Sequence[str], given: Values) -> Sequence[tuple[str, Values]]:  # noqa: ARG002, D102
        return ()


def _taken(node: Any) -> list[str]:
    """Return what a node takes, and what the graphs inside of it take from around them."""
    import onnx

    found = [name for name in node.input if name]
    for attribute in node.attribute:
        graphs = [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else list(attribute.graphs)
        for graph in graphs:
            made = {name for one in graph.node for name in one.output}
            made |= {one.name for one in (*graph.initializer, *graph.input)}
            inner = [name for one in graph.node for name in _taken(one)] + [one.name for one in graph.output]
            found += [name for name in inner if name not in made]
    return found


def _value(name: str, given: Values) -> Any:
    import onnx

    if name not in given:
        return onnx.ValueInfoProto(name=name)
    kind = onnx.helper.np_dtype_to_tensor_dtype(given[name].dtype)
    return onnx.helper.make_tensor_value_info(name, kind, list(given[name].shape))


def _shown(tensor: Any) -> str:
    import onnx

    return f"{onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).name}{list(tensor.dims)}"
