"""Driver: what is stored is never measured again, a panel always ends, and a crash costs no more than itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from cross_backend.artifact import Artifact
from cross_backend.cache import Cache
from cross_backend.comparison.settings import Settings
from cross_backend.errors import CrossBackendError
from cross_backend.exporting.export import Exported
from cross_backend.instruments.instrument import Instrument, Pass
from cross_backend.instruments.table import INSTRUMENTS, loop_s, with_further
from cross_backend.machine import Machine
from cross_backend.measurement import Measurement
from cross_backend.records import Further, Launch, Outcome, PanelKey, Result
from cross_backend.registry import resolve
from cross_backend.store import Store
from cross_backend.study import measuring
from cross_backend.study.driver import read, run
from cross_backend.study.kinds import versions_of
from cross_backend.study.measuring import MOST_RUNS, settings_of, take_further
from cross_backend.study.spec import StudySettings, StudySpec, WorkloadSpec
from cross_backend.study.watch import Watch
from cross_backend.toolchains import FILES, find_toolchain
from tests.unit.report.studies import panel

QUICK = StudySettings(seconds=0.1, launches=1, max_launches=1, instruments=(), timeout_s=60)
LATENCY = Measurement("latency", "ns", ((100.0, 101.0),) * 30, (30,))
LOUD = "import os\ndef model():\n    raise RuntimeError(f'no checkpoint, says process {os.getpid()}')\n"


@pytest.fixture
def broken(tmp_path: Path) -> StudySpec:
    """Ask for a model that cannot be built, and gives another reason every time."""
    (tmp_path / "loud.py").write_text(LOUD)
    workload = WorkloadSpec.find(f"{tmp_path / 'loud.py'}:model")
    return StudySpec("broken", (workload,), ("null", "mps"), (1, 2), settings=QUICK)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(str(tmp_path / "s.sqlite"))


def test_a_model_that_cannot_be_captured_gives_every_target_the_reason(
    broken: StudySpec, store: Store, cache: Cache
) -> None:
    told: list[str] = []
    with store:
        results = run(broken, store, cache, Watch(stored=lambda key, what: told.append(f"{key}: {what}")))
    assert results.finished and [found.batch for found in results.panels] == [1, 2]
    assert told == [f"loud_model, batch {batch}, 1 thread: launch 1" for batch in (1, 2)]
    for found in results.panels:
        assert [result.target for result in found.results] == ["null", "executorch.mps"]
        assert {result.outcome for result in found.results} == {Outcome.LOWER_FAIL}
        assert all("RuntimeError: no checkpoint" in (result.reason or "") for result in found.results)
        assert found.workload == found.results[0].workload == "loud_model"


def test_a_study_that_was_cut_off_goes_on_behind_what_is_stored(broken: StudySpec, store: Store, cache: Cache) -> None:
    """The first panel's launch is stored, and its end is not; its reason would be another one now."""

    def cut(key: PanelKey, what: str) -> None:
        raise KeyboardInterrupt

    with store:
        with pytest.raises(KeyboardInterrupt):
            run(broken, store, cache, Watch(stored=cut))
        key = broken.panels()[0].key
        before = store.launches(1, key)
        assert len(before) == 1 and store.finished_panels(1) == set() and not read(store, 1).finished
        left: list[int] = []
        results = run(broken, store, cache, Watch(begin=lambda indices, _: left.extend(indices)))
        assert left == [0, 1] and store.launches(1, key) == before
        assert results.finished and len(results.panels) == 2
        run(broken, store, cache)
        assert [row.finished is not None for row in store.studies()] == [True, True], "a finished one is begun anew"


HELPED = "import torch, helped\ndef model():\n    return torch.nn.Threshold(0.0, helped.factor), torch.ones(1, 3)\n"


def test_launches_of_two_models_are_never_joined(store: Store, cache: Cache, tmp_path: Path) -> None:
    """The study's own text is the same; a module that the model imports changed while the study was cut off."""
    (tmp_path / "helping.py").write_text(HELPED)
    (tmp_path / "helped.py").write_text("factor = 1.0\n")
    workload = WorkloadSpec.find(f"{tmp_path / 'helping.py'}:model")
    study = StudySpec("helped", (workload,), ("torch",), (1,), settings=replace(QUICK, launches=2, max_launches=2))

    def cut(key: PanelKey, what: str) -> None:
        raise KeyboardInterrupt

    with store:
        with pytest.raises(KeyboardInterrupt):
            run(study, store, cache, Watch(stored=cut))
        key = study.panels()[0].key
        before = store.launches(1, key)
        assert len(before) == 1 and before[0].program
        (tmp_path / "helped.py").write_text("factor = 2.00\n")  # of another size: bytecode of this second is stale
        with pytest.raises(CrossBackendError, match="the model changed since"):
            run(study, store, cache)
        assert store.launches(1, key) == before
        (tmp_path / "helped.py").write_text("factor = 1.0\n")
        results = run(study, store, cache)
        assert results.finished and {launch.program for launch in store.launches(1, key)} == {before[0].program}


def test_a_capture_that_fails_later_takes_nothing_from_what_is_stored(
    broken: StudySpec, store: Store, cache: Cache
) -> None:
    """The model was captured when its launches were stored: what is in the way now is no verdict on it."""
    study = replace(broken, settings=replace(QUICK, launches=3, max_launches=3))
    spec = study.panels()[0]
    good = Launch(tuple(Result("loud_model", text, text, Outcome.OK, latency=LATENCY) for text in spec.targets))
    with store:
        row = store.begin(study.name, study.to_json(), study.digest, Machine.here(), versions_of(study.targets))
        store.keep_launch(row.id, spec.key, 0, good)
        with pytest.raises(CrossBackendError, match="no checkpoint"):
            run(study, store, cache)
        assert store.launches(row.id, spec.key) == [good]
        assert store.finished_panels(row.id) == set()


def test_what_cannot_be_lowered_again_has_no_further_figures(cache: Cache) -> None:
    row = Exported("null", Outcome.LOWER_FAIL, "the compiler was killed", resolve("null"))
    found = take_further(row, ["memory", "throughput"], Settings(), cache, batch=1, task=None)
    assert found.absent == dict.fromkeys(("memory", "throughput"), "the compiler was killed") == found.failures


@pytest.mark.parametrize(("call_s", "seconds"), [(1e-6, 0.5), (5e-4, 1.0), (0.1, 2.0)])
def test_a_closed_loop_lasts_no_longer_than_it_tells_something(call_s: float, seconds: float) -> None:
    assert loop_s(call_s) == pytest.approx(seconds)


def test_the_throughput_of_a_tiny_program_takes_a_second_and_not_four(
    make_artifact: Callable[..., Artifact], cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, float] = {}

    for name in ("throughput", "energy"):

        def note(state: Pass, name: str = name) -> None:
            asked[name] = state.seconds

        monkeypatch.setitem(cast("dict[str, Instrument]", INSTRUMENTS), name, replace(INSTRUMENTS[name], take=note))
    row = Exported("torch", Outcome.OK, None, resolve("torch"), make_artifact(target="torch.eager"))
    monkeypatch.setattr(measuring, "open_again", lambda *_arguments, **_named: None)
    take_further(row, ["throughput", "energy"], Settings(), cache, batch=1, task=None, call_s=5e-6)
    assert asked == {"throughput": 0.5, "energy": 2.0}


def test_settings_are_those_of_the_study() -> None:
    workload = WorkloadSpec.find("linear_regression")
    asked = replace(QUICK, margin=0.02, seed=7, launches=3, max_launches=9, memory_limit=10**9, min_on_device=0.5)
    study = StudySpec("s", (workload,), ("null", "cpu"), settings=asked)
    assert settings_of(study.settings, 2) == Settings(MOST_RUNS, 0.1, 2, 60, 7, 3, 9, 0.02, 0.5, 10**9)
    assert {"cross-backend", "numpy", "onnxruntime"} <= versions_of(study.targets).keys()


def test_further_measurements_are_added_to_their_result() -> None:
    before = panel(targets=2)
    more = Further(
        measurements=(Measurement("power", "W", ((3.0,),)),),
        absent={"energy": "no counter"},
        task={"top-1 accuracy": 0.9},
        notes={"power": "of all"},
        failures={"memory": "was killed by SIGSEGV"},
    )
    after = with_further(before, {1: more})
    assert after.results[0] == before.results[0]
    old, new = before.results[1], after.results[1]
    assert new.measurements == (*old.measurements, *more.measurements)
    assert new.absent == {**old.absent, "energy": "no counter"} and new.task == {"top-1 accuracy": 0.9}
    assert new.notes == {"power": "of all"} and new.failures == more.failures
    assert new.warnings == ("memory: its process failed: was killed by SIGSEGV",)
    assert (new.outcome, new.rank, new.latency) == (old.outcome, old.rank, old.latency), "its latency stands"


def test_a_target_that_is_wrong_in_a_further_process_gives_no_figure(
    make_artifact: Callable[..., Artifact], cache: Cache
) -> None:
    row = Exported("null", Outcome.OK, None, resolve("null"), make_artifact())
    found = take_further(row, ["throughput", "memory"], Settings(timeout_s=60), cache, batch=1, task=None)
    assert found.measurements == () and list(found.failures) == list(found.absent) == ["memory", "throughput"]
    assert all("wrong outputs in another process" in reason for reason in found.failures.values())


def test_versions_name_the_pin_of_a_runtime_that_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CROSS_BACKEND_TOOLCHAINS", str(tmp_path))
    specs = StudySpec("s", (WorkloadSpec("linear_regression", "linear"),), targets=("browser.wasm",)).panels()
    ((name, pin),) = FILES["browser"].pins
    assert f"{name} (browser)" not in versions_of(specs[0].targets)
    for path in (*FILES["browser"].files, FILES["browser"].folder / "ready"):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert versions_of(specs[0].targets)[f"{name} (browser)"] == pin


def test_versions_name_the_pins_of_a_toolchain_that_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CROSS_BACKEND_TOOLCHAINS", str(tmp_path))
    specs = StudySpec(
        "s", (WorkloadSpec("linear_regression", "linear"),), targets=("cpu", "onnxruntime.openvino")
    ).panels()
    pins = {f"{name} (onnxruntime_openvino)": pin for name, pin in find_toolchain("onnxruntime_openvino").pins}
    assert not pins.keys() & versions_of(specs[0].targets).keys(), "nothing is installed there"
    folder = find_toolchain("onnxruntime_openvino").folder
    (folder / "bin").mkdir(parents=True)
    (folder / "ready").touch()
    assert not pins.keys() & versions_of(specs[0].targets).keys(), "the Python that it was made of is gone"
    (folder / "bin" / "python").touch()
    found = versions_of(specs[0].targets)
    assert pins.items() <= found.items() and {"cross-backend", "onnxruntime"} <= found.keys()
