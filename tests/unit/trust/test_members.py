"""Members of a ``.pt2`` file: pickles and libraries are never opened, and two readers see the same file."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import cross_backend as xb
from cross_backend import trust
from cross_backend.artifact import digest_path
from cross_backend.cache import Cache
from cross_backend.errors import CaptureError, LoadError, UntrustedError
from cross_backend.program.pt2 import code_in_pt2, load_pt2, save_pt2
from tests.two_archives import two_archives
from tests.unit.trust.strangers import Spy, X, kept, rewritten


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
