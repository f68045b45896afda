"""Hostile files of each kind that a stranger hands over, ten thousand in ``make test-all``."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cross_backend.artifact import Artifact
from cross_backend.backends.executorch._bundled import read_bundled
from cross_backend.bundling import find_artifact, open_bundle
from cross_backend.bundling.write import write_bundle
from cross_backend.cache import Cache
from cross_backend.cli import print_json
from cross_backend.cli.inspect import _inspect_bundle, _print
from cross_backend.loading.order import in_order
from cross_backend.program.captured import Captured
from cross_backend.program.onnx_file import read_onnx
from cross_backend.report import html, markdown
from cross_backend.report.printed import print_study
from cross_backend.report.terminal import Terminal
from cross_backend.store import Store
from cross_backend.study.driver import read
from cross_backend.study.reports import named_places
from cross_backend.study.yaml_file import read_study
from cross_backend.tensors import load_tensors
from tests.unit.backends.test_bundled import fold
from tests.unit.hostile import makers
from tests.unit.hostile.conftest import SLOW, Survive
from tests.unit.store.conftest import PANEL, VERSIONS, further, launch
from tests.unit.test_foreign_text import is_clean

MPS = Path(__file__).parents[2] / "data" / "linear_regression_mps.pte"
SPEC = {
    "schema": 1, "name": "quick", "workloads": [{"model": "linear_regression", "name": "net", "weights": None,
    "content": None, "batch_sizes": []}], "targets": ["cpu"], "batch_sizes": [1], "precisions": [], "threads": [1],
    "settings": {}, "output": {},
}  # fmt: skip


def test_manifests(count: int, make_artifact: Callable[..., Artifact], survive: Survive, tmp_path: Path) -> None:
    sound = make_artifact(folder=tmp_path / "sound")

    def read_one(path: Path) -> None:
        for file in sound.folder.iterdir():
            if file.name != path.name:
                shutil.copy(file, path.parent)
        in_order(path.parent, None, None, Cache(path.parent))
        artifact = find_artifact(path)
        _print(artifact)
        print_json(artifact.to_json())
        artifact.check()
        load_tensors(artifact.sample_path or path)

    assert survive(makers.manifest(sound.manifest_path), read_one, count) > count / 4


def test_zip_files(
    count: int, linear: Captured, make_artifact: Callable[..., Artifact], survive: Survive, tmp_path: Path
) -> None:
    made = write_bundle(
        linear, [(make_artifact(folder=tmp_path / "a"), "one", "One", {"tolerance": 1e-4})], {}, {}, tmp_path
    )
    shutil.rmtree(made / "loaders")

    def read_one(path: Path) -> None:
        bundle = open_bundle(path, Cache(path.parent / "cache"))
        _inspect_bundle(bundle, as_json=False)
        _inspect_bundle(bundle, as_json=True)
        load_tensors(bundle.folder / "sample")

    count = min(count, SLOW)
    assert survive(makers.archive(made), read_one, count) > count / 4


def test_tensor_files(count: int, survive: Survive) -> None:
    assert survive(makers.tensors(), load_tensors, count) > count / 2


def test_onnx_files(count: int, survive: Survive) -> None:
    def read_one(path: Path) -> None:
        found = read_onnx(path, path.with_name("copy.onnx"))
        Terminal().table(("name", "what"), [(one.name, str(one)) for one in (*found.inputs, *found.outputs)])

    assert survive(makers.onnx_model(), read_one, count) > count / 4


@pytest.mark.parametrize("sound", [MPS.read_bytes(), fold(2)], ids=["pte", "bpte"])
def test_programs(sound: bytes, count: int, survive: Survive) -> None:
    def read_one(path: Path) -> None:
        read_bundled(path, path.parent)

    assert survive(makers.program(sound), read_one, count) > count / 4


def test_studies(count: int, survive: Survive) -> None:
    def read_one(path: Path) -> None:
        study = read_study(path)
        study.panels()
        named_places(study.output.reports, path.parent)

    assert survive(makers.study(), read_one, count) > count / 4


@pytest.fixture
def stored(tmp_path: Path, machine: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    path = tmp_path / "sound.sqlite"
    with Store.open(str(path)) as store:
        study = store.begin("quick", SPEC, "d" * 64, machine, VERSIONS)  # type: ignore[arg-type]
        store.keep_launch(study.id, PANEL, 0, launch(samples=40, rounds=4))
        store.keep_instruments(study.id, PANEL, 0, further())
        store.finish_panel(study.id, PANEL)
    yield path
    assert not (tmp_path / "data").exists()


def test_databases(count: int, stored: Path, survive: Survive) -> None:
    turn = itertools.count()

    def read_one(path: Path) -> None:
        with Store.open(str(path), create=False) as store:
            for row in store.studies():
                results = read(store, row.id)
                print_study(Terminal(), results)
                assert is_clean(markdown.text(results))
                if next(turn) % 20 == 0:  # a page takes longer than all the rest
                    html.write(results, path.with_name("r.html"))
                    assert is_clean(path.with_name("r.html").read_text())

    count = min(count, SLOW)
    assert survive(makers.database(stored), read_one, count) > count / 4
