"""Trust: a file of a stranger runs nothing, ours needs no pickle, and what is code is opened only if it is trusted."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import cross_backend as xb
from atalla.pt2_file import allowed
from cross_backend import trust
from cross_backend.artifact import Artifact, digest_path
from cross_backend.cache import Cache
from cross_backend.errors import CaptureError, LoadError, UntrustedError
from cross_backend.program.pt2 import code_in_pt2, load_pt2, save_pt2
from tests.two_archives import two_archives

X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Net(nn.Module):
    """Weights, a branch and a free extent."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> Any:
        y = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
        return {"y": self.linear(y), "n": x.shape[0] * 2 + x.sum()}


class Spy:
    """What a stranger pickles: unpickling it writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pt2") / "net.pt2"
    program = torch.export.export(Net(), (X,), dynamic_shapes=({0: torch.export.Dim("n", min=2, max=64)},))
    torch.export.save(program, path)
    return path


@pytest.fixture
def spied(tmp_path: Path) -> Path:
    return tmp_path / "it-ran"


def rewritten(source: Path, path: Path, change: Callable[[str, bytes], bytes | None], **more: bytes) -> Path:
    """Copy a ``.pt2`` file member by member; ``more`` are further ones, by their names with ``__`` for a slash."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as new:
        root = old.namelist()[0].partition("/")[0]
        for name in old.namelist():
            data = change(name.partition("/")[2], old.read(name))
            if data is not None:
                new.writestr(name, data)
        for name, data in more.items():
            new.writestr(f"{root}/{name.replace('__', '/')}", data)
    return path


def in_graph(edit: Callable[[Any], None]) -> Callable[[str, bytes], bytes]:
    def change(name: str, data: bytes) -> bytes:
        if name != "models/model.json":
            return data
        document = json.loads(data)
        edit(document)
        return json.dumps(document).encode()

    return change


def kept(name: str, data: bytes) -> bytes:
    return data


def first_node(document: Any) -> Any:
    return document["graph_module"]["graph"]["nodes"][1]


def test_what_torch_saves_of_plain_tensors_is_data(saved: Path, tmp_path: Path) -> None:
    assert code_in_pt2(saved) is None
    program = load_pt2(saved)
    save_pt2(program, tmp_path / "own.pt2")
    with zipfile.ZipFile(tmp_path / "own.pt2") as archive:
        assert not any(archive.getinfo(n).file_size for n in archive.namelist() if "sample_inputs" in n)
    assert code_in_pt2(tmp_path / "own.pt2") is None
    assert program.example_inputs is not None, "the caller's program keeps its own"


@pytest.mark.parametrize(
    "place", ["data/sample_inputs/model.pt", "data/weights/weight_0", "data/constants/opaque_obj_0"]
)
def test_a_pickle_of_a_stranger_is_never_opened(place: str, saved: Path, spied: Path, tmp_path: Path) -> None:
    """torch unpickles sample inputs, and whatever the tables of weights and constants call a pickle."""
    buffer = io.BytesIO()
    torch.save(((Spy(spied),), {}), buffer)
    evil = pickle.dumps(Spy(spied)) if "opaque" in place else buffer.getvalue()

    def change(name: str, data: bytes) -> bytes:
        if name == place:
            return evil
        if name.endswith("_config.json"):
            document = json.loads(data)
            if "weight_0" in place and "linear.weight" in document["config"]:
                document["config"]["linear.weight"]["use_pickle"] = True
            if "opaque" in place and "constants" in name:
                document["config"]["c"] = {
                    "path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None
                }  # fmt: skip
            return json.dumps(document).encode()
        return data

    path = rewritten(
        saved, tmp_path / "evil.pt2", change, **({place.replace("/", "__"): evil} if "opaque" in place else {})
    )
    with pytest.raises(UntrustedError, match="--trust"):
        load_pt2(path)
    assert not spied.exists()
    trust.keep(Cache(), path)
    with contextlib.suppress(CaptureError):  # it runs now; not each of them is a program
        load_pt2(path)
    assert spied.exists(), "this is what would have happened"


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


@pytest.mark.parametrize("name", ["data__aotinductor__model__x.so", "data__weights__model.pt", "code.py"])
def test_members_that_torch_would_run_or_that_nobody_knows(name: str, saved: Path, tmp_path: Path) -> None:
    path = rewritten(saved, tmp_path / "evil.pt2", kept, **{name: b"x"})
    with pytest.raises(UntrustedError):
        load_pt2(path)


@pytest.fixture
def two_faced(saved: Path, spied: Path, tmp_path: Path) -> Path:
    """A file that is sound for Python's reader, and holds a pickle for torch's."""
    buffer = io.BytesIO()
    torch.save(((Spy(spied), "x" * 5000), {}), buffer)
    shown = rewritten(saved, tmp_path / "shown.pt2", kept)
    hidden = rewritten(
        saved,
        tmp_path / "hidden.pt2",
        lambda name, data: buffer.getvalue() if name.startswith("data/sample_inputs/") else data,
    )
    path = tmp_path / "two.pt2"
    path.write_bytes(two_archives(shown.read_bytes(), hidden.read_bytes()))
    return path


def test_a_file_that_is_two_archives_is_refused_at_every_door(
    two_faced: Path, spied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from atalla.cli import main as atalla
    from cross_backend.cli import main

    made = xb.lower(xb.capture(nn.Linear(4, 3).eval(), (X,)), "torch", name="net", output_dir=tmp_path / "made")
    shutil.copy(two_faced, made.payload_path)
    digest, size = digest_path(made.payload_path), made.payload_path.stat().st_size
    replace(made, sha256=digest, size_bytes=size).write_manifest()
    for run, arguments in (
        (main, ["export", str(two_faced), "--backends", "torch", "--output-dir", str(tmp_path / "out")]),
        (main, ["run", str(made.payload_path)]),
        (atalla, ["compile", str(two_faced), "-o", str(tmp_path / "x.atalla")]),
    ):
        assert run(arguments) == 1, arguments
        shown = capsys.readouterr()
        assert "table of contents does not end" in shown.err + shown.out, (arguments, shown)
    with pytest.raises(LoadError, match="table of contents does not end"):
        xb.load_best(made.folder)
    with pytest.raises(CaptureError, match="table of contents does not end"):
        load_pt2(two_faced)
    assert not spied.exists()
    torch.export.load(two_faced)
    assert spied.exists(), "this is what would have happened"


def test_files_that_two_readers_may_read_differently_are_damaged(saved: Path, tmp_path: Path) -> None:
    double = tmp_path / "double.pt2"
    shutil.copy(saved, double)
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(double, "a") as archive:
        archive.writestr("net/models/model.json", "{}")
    packed = tmp_path / "packed.pt2"
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    roots = rewritten(saved, tmp_path / "roots.pt2", kept)
    with zipfile.ZipFile(roots, "a") as archive:
        archive.writestr("other/models/model.json", "{}")
    for path in (double, packed, roots):
        with pytest.raises(CaptureError, match="damaged"):
            load_pt2(path)


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


# --- artifacts -----------------------------------------------------------------------------------------------------


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


@pytest.fixture
def stranger(saved: Path, spied: Path, tmp_path: Path) -> Artifact:
    """An artifact for torch as somebody else made it: its digests are right, and its payload holds a pickle."""
    made = xb.lower(xb.capture(nn.Linear(4, 3).eval(), (X,)), "torch", name="net", output_dir=tmp_path / "made")
    buffer = io.BytesIO()
    torch.save(((Spy(spied),), {}), buffer)
    rewritten(
        made.payload_path,
        tmp_path / "evil.pt2",
        lambda name, data: buffer.getvalue() if name.startswith("data/sample_inputs/") else data,
    ).replace(made.payload_path)
    artifact = replace(made, sha256=digest_path(made.payload_path), size_bytes=made.payload_path.stat().st_size)
    artifact.write_manifest()
    return artifact


def test_an_artifact_of_a_stranger_is_opened_only_when_it_is_trusted(stranger: Artifact, spied: Path) -> None:
    with pytest.raises(UntrustedError, match="--trust"):
        xb.load(stranger.payload_path)
    with pytest.raises(LoadError, match="which is code"):
        xb.load_best(stranger.folder)
    assert not spied.exists()
    with xb.load(stranger.payload_path, trust=True) as session:
        assert session(X).shape == (2, 3)
    assert spied.exists()
    with xb.load_best(stranger.folder) as session:  # it is remembered
        assert session(X).shape == (2, 3)


def test_trust_is_by_content(tmp_path: Path) -> None:
    cache, path = Cache(tmp_path / "cache"), tmp_path / "file"
    path.write_bytes(b"one")
    assert not trust.is_trusted(cache, path)
    trust.keep(cache, path)
    assert trust.is_trusted(cache, path)
    path.write_bytes(b"two")
    assert not trust.is_trusted(cache, path)
    assert not trust.is_trusted(cache, tmp_path / "missing")


# --- every text of a graph -----------------------------------------------------------------------------------------


def texts_of(value: Any) -> list[tuple[Any, Any]]:
    """Give every place of a JSON document that holds a text: the container and the key."""
    rows = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    found = [(value, key) for key, item in rows if isinstance(item, str)]
    return found + [place for _, item in rows for place in texts_of(item)]


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


def test_a_blob_that_calls_an_operator_of_others_is_code(tmp_path: Path) -> None:
    """Ours runs it, because it was made here; the same bytes on another machine do not."""

    class Twice(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return torch.ops.tests_trust.twice(x) + 1

    with torch.library._scoped_library("tests_trust", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        torch.library.register_fake("tests_trust::twice", torch.empty_like, lib=library)
        artifact = xb.lower(xb.capture(Twice().eval(), (X,)), "atalla", name="net", output_dir=tmp_path)
        with xb.load(artifact) as session:
            torch.testing.assert_close(session(X), X * 2 + 1)
        (Cache().root / "trusted" / artifact.sha256).unlink()
        with pytest.raises(UntrustedError, match=r"a call of tests_trust\.twice"):
            xb.load(artifact)
