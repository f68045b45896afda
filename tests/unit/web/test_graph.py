"""An artifact's graph: read from a program's JSON, placed by the certificate, folded, laid out, drawn."""

from __future__ import annotations

import json
import re
import zipfile
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cross_backend.cache import Cache
from cross_backend.exporting.operations import BESIDE, INSIDE, LEFT, operations, parsed, placed
from cross_backend.placement import Operators
from cross_backend.web.graphing import MOST_BOXES, graph
from cross_backend.web.layering import GAP, HEIGHT, LANE, WIDTH, laid_out

MEAN = "m.py:9 forward: return x.mean()"


def node(name: str, *inputs: str, module: str = "", line: int = 1, source: str = "y = f(x)") -> dict[str, Any]:
    """Return a node as torch.export writes it."""
    about = {
        "stack_trace": f'File "/home/me/m.py", line {line}, in forward\n    {source}',
        "nn_module_stack": f"L__self__,,Net;L__self__x,{module},Part",
    }
    taken = [{"name": "self", "arg": {"as_tensor": {"name": one}}} for one in inputs[:1]]
    taken += [{"name": "others", "arg": {"as_tensors": [{"name": one} for one in inputs[1:]]}}]
    operator = re.sub(r"_\d+$", "", name)
    made = [{"as_tensor": {"name": name}}]
    return {
        "target": f"torch.ops.aten.{operator}.default",
        "inputs": taken,
        "outputs": made,
        "metadata": about,
        "name": name,
    }


NODES = [
    node("conv2d", "x", "p_weight", module="a.0"),
    node("relu_", "conv2d", module="a.1", line=2),
    node("hardsigmoid", "relu_", module="b.gate", line=5),
    node("mul", "hardsigmoid", "relu_", module="b.gate", line=5),
    node("mean", "mul", module="", line=9, source="return x.mean()"),
]


def test_a_program_is_read_without_torch(tmp_path: Path) -> None:
    folder = tmp_path / "captures" / "one"
    folder.mkdir(parents=True)
    (folder / "capture.json").write_text(json.dumps({"digest": "d", "program_name": "program.pt2"}))
    with zipfile.ZipFile(folder / "program.pt2", "w") as archive:
        archive.writestr("archive/models/model.json", json.dumps({"graph_module": {"graph": {"nodes": NODES}}}))
    artifact: Any = SimpleNamespace(program="d", placement=SimpleNamespace(left=()))
    found = operations(artifact, Cache(tmp_path))
    assert [one.feeds_on for one in found] == [(), (0,), (1,), (1, 2), (3,)]
    assert [one.operator for one in found] == ["conv2d", "relu_", "hardsigmoid", "mul", "mean"]
    assert (found[1].module, found[1].line) == ("a.1", "m.py:2 forward: y = f(x)")
    artifact.program = "another"
    assert operations(artifact, Cache(tmp_path)) == ()
    artifact.program = "d"
    (folder / "program.pt2").write_bytes(b"damaged")
    assert operations(artifact, Cache(tmp_path)) == ()


def test_what_was_left_is_found_by_operator_and_line() -> None:
    """What a compiler made of a line's operations is told beside them, not of one of them."""
    copies = Operators("dim_order_ops::_to_copy.out", 2, "a strange type", 0, ("m.py:5 forward: y = f(x)",))
    found = placed(parsed(NODES), [Operators("aten::mean.out", 1, "its axes", 7, (MEAN,)), copies])
    assert [one.place for one in found] == [INSIDE, INSIDE, BESIDE, BESIDE, LEFT]
    assert found[4].why == "its axes" and found[2].why.endswith("of its source line is not delegated: a strange type")
    # one operation stands alone in its line, so it is the one, whatever it was made into
    decomposed = placed(parsed(NODES), [Operators("aten::sum.out", 1, "its axes", 7, (MEAN,))])
    assert decomposed[4].place == LEFT
    without_lines = placed(parsed(NODES), [Operators("aten::relu.out", 1)])
    assert [one.place for one in without_lines] == [INSIDE, LEFT, INSIDE, INSIDE, INSIDE]


def chain(count: int) -> list[dict[str, Any]]:
    nodes = [
        node(f"conv2d_{at}", f"conv2d_{at - 1}", module=f"block{at // 40}.layer{at // 4}.{at}") for at in range(count)
    ]
    nodes[count // 2] = node(
        f"sort_{count // 2}", f"conv2d_{count // 2 - 1}", line=3, module=f"block1.layer15.{count // 2}"
    )
    return nodes


def test_a_large_program_is_folded_and_each_box_opens() -> None:
    found = placed(parsed(chain(120)), [Operators("aten::sort.out", 1, "no kernel", 0, ("m.py:3 forward: y = f(x)",))])
    folded = graph(found, ())
    assert folded is not None and folded.is_folded and len(folded.runs) <= MOST_BOXES
    assert [one for run in folded.runs for one in run.operations] == list(found)
    assert [len(run.operations) for run in folded.runs if run.place == LEFT] == [1]
    boxes, whole = folded.picture.count("<rect"), graph(found, None)
    assert whole is not None and boxes == len(folded.runs) and whole.picture.count("<rect") == 120
    at = next(run for run in folded.runs if len(run.operations) > 1)
    opened = graph(found, [at.number])
    assert opened is not None and opened.picture.count("<rect") == boxes - 1 + len(at.operations)
    assert f'href="?open={at.number}#graph"' in folded.picture
    assert graph((), None) is None


@pytest.mark.parametrize(
    "feeds_on",
    [
        [[], [0], [1], [0, 2]],
        [[], [], [0, 1], [2], [2], [2], [3, 4, 5], [0, 6]],
        [[0] if at else [] for at in range(9)],
    ],
)
def test_boxes_are_apart_and_arrows_go_down(feeds_on: list[list[int]]) -> None:
    layout = laid_out(feeds_on)
    for (x, y), (u, v) in combinations(layout.boxes, 2):
        assert y != v or abs(x - u) >= WIDTH + GAP - 1e-6
    assert all(0 <= x <= layout.width - WIDTH + 1e-6 and 0 <= y <= layout.height - HEIGHT for x, y in layout.boxes)
    ends = [(start, box) for box, before in enumerate(feeds_on) for start in before]
    assert len(layout.arrows) == len(ends)
    for (start, box), points in zip(ends, layout.arrows, strict=True):
        (x, y), (u, v) = layout.boxes[start], layout.boxes[box]
        assert points[0] == pytest.approx((x + WIDTH / 2, y + HEIGHT)) and points[-1] == pytest.approx(
            (u + WIDTH / 2, v)
        )
        assert [y for _, y in points] == sorted(y for _, y in points)
        for at, way in points[1:-1]:  # past the boxes of a layer
            assert all(
                abs(at - (x + WIDTH / 2)) >= (WIDTH + LANE) / 2 for x, y in layout.boxes if y <= way <= y + HEIGHT
            )
