"""Graphs: no text of a ``.pt2`` file's program is evaluated, and it calls only operators that are known."""

from __future__ import annotations

import contextlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from atalla.files.pt2 import allowed
from cross_backend.errors import UntrustedError
from cross_backend.program.pt2 import code_in_pt2, load_pt2
from tests.unit.trust.strangers import X, rewritten


def in_graph(edit: Callable[[Any], None]) -> Callable[[str, bytes], bytes]:
    def change(name: str, data: bytes) -> bytes:
        if name != "models/model.json":
            return data
        document = json.loads(data)
        edit(document)
        return json.dumps(document).encode()

    return change


def first_node(document: Any) -> Any:
    return document["graph_module"]["graph"]["nodes"][1]


EDITS: dict[str, Callable[[Any], None]] = {
    "an operator by any name": lambda d: first_node(d).update(target="torch.os.system"),
    "an operator of Python": lambda d: first_node(d).update(target="_operator.methodcaller"),
    "an operator that opens files": lambda d: first_node(d).update(target="torch.ops.aten.from_file.default"),
    "an operator of foreign memory": lambda d: first_node(d).update(
        target="torch.ops.inductor._reinterpret_tensor.default"
    ),
    "an extension": lambda d: first_node(d).update(target="#evil:op"),
    "a guard": lambda d: d.update(guards_code=["__import__('os').system('true')"]),
    "a guard with an attribute": lambda d: d.update(guards_code=["L['x'].__class__ == 3"]),
    "a name that is no text": lambda d: first_node(d).update(name={"as_string": "x): import os #"}),
    "a shape that is no text": lambda d: first_node(d)["outputs"].append({"expr_str": {"as_string": "print()"}}),
    "a name": lambda d: d["graph_module"]["graph"]["inputs"].append({"as_tensor": {"name": "x): import os #"}}),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_a_graph_that_would_run_code_is_refused(edit: Callable[[Any], None], saved: Path, tmp_path: Path) -> None:
    path = rewritten(saved, tmp_path / "evil.pt2", in_graph(edit))
    with pytest.raises(UntrustedError):
        load_pt2(path)


def test_a_shape_is_arithmetic(saved: Path, spied: Path, tmp_path: Path) -> None:
    """SymPy evaluates the text of a shape as Python."""
    evil = f"__import__('pathlib').Path({str(spied)!r}).touch()"

    def edit(name: str, data: bytes) -> bytes:
        assert name != "models/model.json" or b"Symbol('" in data
        return data.replace(
            json.dumps("Symbol('s77', positive=True, integer=True)").encode(), json.dumps(evil).encode()
        )

    import re

    symbol = re.search(r"Symbol\('(\w+)'", zipfile.ZipFile(saved).read("net/models/model.json").decode())
    assert symbol

    def edit_any(name: str, data: bytes) -> bytes:
        return data.replace(
            f"Symbol('{symbol[1]}', positive=True, integer=True)".encode(), json.dumps(evil)[1:-1].encode()
        )

    path = rewritten(saved, tmp_path / "evil.pt2", edit_any)
    with pytest.raises(UntrustedError, match="more than arithmetic"):
        load_pt2(path)
    assert not spied.exists()


def test_structures_name_no_classes(saved: Path, tmp_path: Path) -> None:
    def edit(name: str, data: bytes) -> bytes:
        return data.replace(b'\\"builtins.dict\\"', b'\\"collections.defaultdict\\"')

    with pytest.raises(UntrustedError, match="structure"):
        load_pt2(rewritten(saved, tmp_path / "evil.pt2", edit))


def test_operators() -> None:
    for name in (
        "torch.ops.aten.add.Tensor",
        "torch.ops.higher_order.cond",
        "_operator.getitem",
        "math.ceil",
        "torch.sym_max",
    ):
        assert allowed(name), name
    for name in (
        "torch.load",
        "torch.ops.load_library",
        "torch.hub.load.x",
        "os.system",
        "torch.ops.aten.set_.source_Storage",
        "",
    ):
        assert not allowed(name), name


@pytest.mark.parametrize(
    ("operator", "is_allowed"),
    [
        ("_unsafe_view.default", True),
        ("_unsafe_index.Tensor", False),
        ("_unsafe_masked_index.default", False),
        ("_unsafe_index_put.default", False),
        ("as_strided.default", False),
        ("as_strided_copy.default", False),
        ("as_strided_scatter.default", False),
    ],
)
def test_operators_that_compilers_do_not_check(operator: str, is_allowed: bool) -> None:
    assert allowed(f"torch.ops.aten.{operator}") is is_allowed


def test_a_decomposed_program_of_matrix_products_is_data(tmp_path: Path) -> None:
    class Product(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ x.transpose(1, 2)

    program = torch.export.export(Product(), (torch.ones(2, 3, 4),)).run_decompositions()
    program.example_inputs = None
    for node in program.graph.find_nodes(op="call_function", target=torch.ops.aten.view.default):
        node.target = torch.ops.aten._unsafe_view.default
    program.graph_module.recompile()
    torch.export.save(program, tmp_path / "core.pt2")
    assert code_in_pt2(tmp_path / "core.pt2") is None


def texts_of(value: Any) -> list[tuple[Any, Any]]:
    """Give every place of a JSON document that holds a text: the container and the key."""
    rows = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    found = [(value, key) for key, item in rows if isinstance(item, str)]
    return found + [place for _, item in rows for place in texts_of(item)]


@pytest.mark.slow
def test_no_text_of_a_graph_is_evaluated(saved: Path, spied: Path, tmp_path: Path) -> None:
    """Wherever code stands instead of what torch wrote, the file is refused, or opens and runs without running it."""
    touch = f"__import__('pathlib').Path({str(spied)!r}).touch()"
    attacks = (touch, f"x); {touch} #", "torch.os.abort", f"['x', {touch}]")
    with zipfile.ZipFile(saved) as archive:
        graph = json.loads(archive.read("net/models/model.json"))
    opened = 0
    for number, (container, key) in enumerate(texts_of(graph)):
        whole = container[key]
        container[key] = attacks[number % len(attacks)]
        data = json.dumps(graph).encode()
        path = rewritten(saved, tmp_path / "evil.pt2", lambda n, d, data=data: data if n == "models/model.json" else d)
        container[key] = whole
        with contextlib.suppress(Exception):
            module: Any = load_pt2(path).module()
            opened += 1
            module(X)
        assert not spied.exists(), (key, whole)
    assert opened, "texts that are only shown do no harm"
