"""Lowering: cached by content, certified, and nothing is left behind by what fails."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

import cross_backend as xb
from cross_backend.artifact import Artifact
from cross_backend.backend import (
    Backend,
    BundledPrograms,
    Calibration,
    Lowered,
    Missing,
    Option,
    Options,
    Session,
    Unavailable,
)
from cross_backend.cache import Cache
from cross_backend.errors import CaptureError, LowerError, UnavailableError, UnsupportedError
from cross_backend.exporting.export import ExportSettings, export
from cross_backend.lowering import lower as lowering
from cross_backend.lowering.lower import KIND, artifact_key, find, lower
from cross_backend.machine import Machine
from cross_backend.names.target import Target
from cross_backend.placement import Operators, Placement
from cross_backend.program.captured import Captured
from cross_backend.program.writing import write_program
from cross_backend.records import Outcome
from cross_backend.registry import Resolved, resolve
from cross_backend.report.placement import facts

NUMBERS = itertools.count()


def _bundle(artifact: Artifact, path: Path) -> None:
    path.write_bytes(artifact.payload_path.read_bytes() + b" and a sample")


def _unbundle(path: Path, folder: Path) -> tuple[Artifact, tuple[Path, ...]]:
    raise NotImplementedError


class _Own(Backend):
    """Writes another payload each time; behaves as the test says."""

    name, title, suffix, distributions = "own", "Own", ".own", ()
    options: ClassVar[Mapping[str, Option]] = {
        "precision": Option("lowering", "fp32", ("fp32", "int8")),
        "threads": Option("loading", None, at="load"),
    }

    bundled: ClassVar[BundledPrograms | None] = BundledPrograms(".own2", lambda _: False, _bundle, _unbundle)

    def __init__(
        self, during: Callable[[], Any] = lambda: None, inside: int = 1, unavailable: Unavailable | None = None
    ) -> None:
        self.during, self.inside, self.unavailable, self.calls = during, inside, unavailable, 0

    def missing(self, machine: Machine) -> Missing | None:
        return Missing(lower=self.unavailable) if self.unavailable else None

    def lower(self, program: Any, options: Options, stem: Path, calibration: Calibration) -> Lowered:
        self.calls += 1
        payload = stem.with_suffix(self.suffix)
        payload.write_text(f"{next(NUMBERS)}")
        self.during()
        return Lowered(payload, Placement(inside=(Operators("x", self.inside),) * min(self.inside, 1)))

    def load(self, artifact: Artifact, options: Options) -> Session:
        raise NotImplementedError


def resolved(backend: Backend, **options: str) -> Resolved:
    return Resolved(Target("own", options), backend, backend.parse_options(options))


def left_in(cache: Cache) -> list[Path]:
    """Give what lies in the cache: entries and scratch."""
    return [path for kind in (KIND, "tmp") for path in (cache.root / kind).glob("*")]


def test_the_second_time_is_served_from_the_cache(linear: Captured, cache: Cache) -> None:
    backend = _Own()
    first = lower(linear, resolved(backend), cache)
    second = lower(linear, resolved(backend), cache)
    assert (first.cached, second.cached, backend.calls) == (False, True, 1)
    assert first.artifact == second.artifact
    first.artifact.check()
    assert first.artifact.program == linear.digest
    assert (first.artifact.inputs, first.artifact.outputs) == (linear.inputs, linear.outputs)
    assert first.artifact.sample_path is not None
    assert first.artifact.sample_path.read_bytes() == linear.sample_path.read_bytes()


def test_a_bundled_program_is_another_artifact_of_the_same_payload(linear: Captured, cache: Cache) -> None:
    backend = _Own()
    bundled = lower(linear, resolved(backend), cache, bundled=True)
    plain = lower(linear, resolved(backend), cache)
    assert (bundled.cached, plain.cached, backend.calls) == (False, True, 1)
    assert plain.artifact.bundled is None
    assert bundled.artifact.sha256 == plain.artifact.sha256
    assert bundled.artifact.bundled_path is not None
    assert bundled.artifact.bundled_path.read_bytes() == plain.artifact.payload_path.read_bytes() + b" and a sample"
    again = lower(linear, resolved(backend), cache, bundled=True)
    assert (again.cached, again.artifact) == (True, bundled.artifact)
    bundled.artifact.bundled_path.write_bytes(b"damaged")
    assert find(linear, resolved(backend), cache, bundled=True) is None, "it is dropped and made again"
    assert find(linear, resolved(backend), cache) == plain.artifact
    assert not lower(linear, resolved(backend), cache, bundled=True).cached


def test_a_bundled_program_that_cannot_be_written_leaves_the_payload(
    linear: Captured, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = _Own()
    plain = lower(linear, resolved(backend), cache).artifact

    def fail(artifact: Artifact, path: Path) -> None:
        path.write_text("half of it")
        raise LowerError("cannot bundle")

    monkeypatch.setattr(_Own, "bundled", BundledPrograms(".own2", lambda _: False, fail, _unbundle))
    with pytest.raises(LowerError, match="cannot bundle"):
        lower(linear, resolved(backend), cache, bundled=True)
    assert left_in(cache) == [plain.folder]


@pytest.mark.parametrize("damage", ["payload", "sample", "manifest", "gone"])
def test_a_damaged_entry_is_dropped_and_done_again(damage: str, linear: Captured, cache: Cache) -> None:
    backend = _Own()
    made = lower(linear, resolved(backend), cache).artifact
    path = {"payload": made.payload_path, "sample": made.sample_path, "gone": made.payload_path}.get(damage)
    path = path or made.manifest_path
    path.unlink() if damage == "gone" else path.write_bytes(b"\0" + path.read_bytes()[1:])
    assert find(linear, resolved(backend), cache) is None
    again = lower(linear, resolved(backend), cache)
    assert (again.cached, backend.calls) == (False, 2)
    again.artifact.check()


def test_options_of_lowering_are_another_artifact_and_those_of_loading_are_not(linear: Captured, cache: Cache) -> None:
    backend = _Own()
    plain = lower(linear, resolved(backend), cache)
    assert lower(linear, resolved(backend, threads="2"), cache).artifact == plain.artifact
    other = lower(linear, resolved(backend, precision="int8", threads="2"), cache)
    assert not other.cached
    assert other.artifact.target == "own?precision=int8"
    assert backend.calls == 2


def test_the_key_depends_on_what_the_payload_depends_on(linear: Captured) -> None:
    torch_like = resolve("torch.eager")
    keys = {
        artifact_key(linear, torch_like),
        artifact_key(replace(linear, digest="other"), torch_like),
        artifact_key(linear, resolve("torch.aot_inductor")),
        artifact_key(linear, resolve("vulkan")),
        artifact_key(linear, resolve("vulkan?precision=fp16")),
    }
    assert len(keys) == 5
    assert artifact_key(replace(linear, workload="other name"), torch_like) in keys


def test_the_key_depends_on_the_versions_of_what_lowers(linear: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    before = artifact_key(linear, resolve("cpu"))
    installed = lowering.version_of
    for name in resolve("cpu").backend.distributions:
        monkeypatch.setattr(lowering, "version_of", lambda one, n=name: "0.0" if one == n else installed(one))
        assert artifact_key(linear, resolve("cpu")) != before, name
    monkeypatch.setattr(lowering, "version_of", installed)
    assert artifact_key(linear, resolve("cpu")) == before


def test_a_cached_artifact_carries_the_name_it_is_asked_for(linear: Captured, cache: Cache) -> None:
    backend = _Own()
    lower(linear, resolved(backend), cache)
    assert lower(replace(linear, workload="renamed"), resolved(backend), cache).artifact.workload == "renamed"


def test_whoever_loses_the_race_gets_the_winners_artifact(linear: Captured, cache: Cache) -> None:
    """Two processes lower the same; payloads need not be equal byte for byte, so the manifest must be the winner's."""
    winner = resolved(_Own())
    loser = lower(linear, resolved(_Own(during=lambda: lower(linear, winner, cache))), cache)
    loser.artifact.check()
    assert loser.artifact == Artifact.read(loser.artifact.manifest_path)


@pytest.mark.parametrize("error", [ValueError("vendor\nsays no"), LowerError("no"), OSError(28, "No space left")])
def test_a_failure_leaves_nothing_and_is_not_remembered(error: Exception, linear: Captured, cache: Cache) -> None:
    def fail() -> None:
        raise error

    expected = LowerError if isinstance(error, ValueError) else type(error)
    with pytest.raises(expected) as caught:
        lower(linear, resolved(_Own(during=fail)), cache)
    assert not left_in(cache)
    if isinstance(error, ValueError):
        assert str(caught.value) == "own failed: ValueError: vendor"
    assert not lower(linear, resolved(_Own()), cache).cached


def test_a_payload_without_the_backends_work_is_no_artifact(linear: Captured, cache: Cache) -> None:
    with pytest.raises(UnsupportedError, match=r"finds no work in this program: its outputs are empty, constant or"):
        lower(linear, resolved(_Own(inside=0)), cache)
    assert not left_in(cache)


@pytest.mark.parametrize(("why", "kind"), [("dtype not supported", UnsupportedError), (None, LowerError)])
def test_a_program_of_which_all_is_refused_is_unsupported(
    why: str | None, kind: type[Exception], linear: Captured, cache: Cache
) -> None:
    """A compiler that takes nothing and does not say why has failed."""

    class Refuses(_Own):
        def lower(self, program: Any, options: Options, stem: Path, calibration: Calibration) -> Lowered:
            lowered = super().lower(program, options, stem, calibration)
            return replace(lowered, placement=Placement(inside=(), left=(Operators("mm", 1, why),)))

    with pytest.raises(kind, match="delegates 0 of 1 operators"):
        lower(linear, resolved(Refuses()), cache)


def test_the_work_that_was_left_is_weighed_against_the_programs(linear: Captured, cache: Cache) -> None:
    class Half(_Own):
        def lower(self, program: Any, options: Options, stem: Path, calibration: Calibration) -> Lowered:
            lowered = super().lower(program, options, stem, calibration)
            return replace(lowered, placement=replace(lowered.placement, left=(Operators("mm", 1, "no", 2),)))

    assert linear.flops == 2 * 4, "four features, one output"
    assert lower(linear, resolved(Half()), cache).artifact.placement.flop_coverage == 0.75
    other = replace(linear, digest="other", flops=None)
    assert lower(other, resolved(Half()), cache).artifact.placement.flop_coverage is None


def test_what_is_missing_is_told_before_anything_is_done(linear: Captured, cache: Cache) -> None:
    backend = _Own(unavailable=Unavailable("needs x", "pip install x"))
    with pytest.raises(UnavailableError, match="own needs x; pip install x"):
        lower(linear, resolved(backend), cache)
    assert backend.calls == 0
    assert not left_in(cache)


class _Sums(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.cumsum(dim=1)


class _InPlace(torch.nn.Module):
    """Its input goes through an activation in place, as many published models do."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x.relu_())


def test_xnnpack_refuses_a_model_of_which_it_takes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Cache
) -> None:
    monkeypatch.setenv("CROSS_BACKEND_CACHE", str(cache.root))
    program = xb.capture(_Sums(), (torch.randn(2, 4),))
    told = r"XNNPACK \(CPU\) delegates 0 of 1 operators \(aten::cumsum\.out: not in its table of operators\)\. No file"
    with pytest.raises(UnsupportedError, match=told) as caught:
        xb.lower(program, "xnnpack", name="sums", output_dir=tmp_path / "out")
    assert "executorch.portable" in str(caught.value)
    assert not (tmp_path / "out").exists()
    assert not left_in(cache)
    made = xb.lower(program, "portable", name="sums", output_dir=tmp_path / "out")
    with xb.load(made) as session:
        assert session(torch.tensor([[1.0, 2, 3, 4]] * 2)).tolist() == [[1, 3, 6, 10]] * 2


class _Volume(torch.nn.Module):
    """XNNPACK takes the second layer, and ExecuTorch has no kernel for the first."""

    def __init__(self) -> None:
        super().__init__()
        self.pool, self.linear = torch.nn.AvgPool3d(2), torch.nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.pool(x).flatten(1))


def test_a_file_that_no_runtime_can_run_is_refused_by_an_export_and_explained(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Cache
) -> None:
    """Once it failed after seconds, while it was loaded, with the advice to use kernels that do not exist."""
    monkeypatch.setenv("CROSS_BACKEND_CACHE", str(cache.root))
    program = xb.capture(_Volume(), (torch.randn(1, 1, 4, 4, 4),))
    kept = xb.lower(program, "xnnpack", name="volume")
    assert kept.placement.without_kernel == ("aten::avg_pool3d.out",)
    with cache.scratch() as folder:
        captured = write_program(program, "volume", folder)
        _, rows = export(captured, ["xnnpack", "portable"], ExportSettings(cache, output_dir=tmp_path / "out"))
        _, explained = export(captured, ["xnnpack"], ExportSettings(cache, only_explained=True))
    for row in rows:
        assert row.outcome is Outcome.UNSUPPORTED and row.artifact is None and row.reason is not None
        assert "leaves aten::avg_pool3d.out to a runtime that has no kernel for it. Use a backend of" in row.reason
    assert not (tmp_path / "out").exists() and explained[0].artifact is not None
    assert ("runs nowhere", "no runtime has a kernel for aten::avg_pool3d.out") in facts(kept.placement)


def test_xnnpack_says_what_it_left_and_why(tmp_path: Path) -> None:
    class Mixed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x).cumsum(dim=1)

    placement = xb.lower(xb.capture(Mixed(), (torch.randn(2, 8),)), "xnnpack", name="mixed").placement
    assert placement.delegates == {"XnnpackBackend": 1}
    (left,) = placement.left
    assert (left.name, left.count, left.why) == ("aten::cumsum.out", 1, "not in its table of operators")
    (line,) = left.lines
    assert re.fullmatch(r"test_lowering\.py:\d+ forward: return self\.linear\(x\)\.cumsum\(dim=1\)", line)
    assert 0 < placement.coverage < 1 == placement.flop_coverage, "a sum has no matrix product"


def test_a_model_that_changes_its_input_gives_what_it_promises_or_is_refused(tmp_path: Path) -> None:
    """Compilers add the changed input to the outputs; a session must not."""
    module, x = _InPlace().eval(), torch.linspace(-1, 1, 8).reshape(2, 4)
    try:
        artifact = xb.lower(xb.capture(module, (x.clone(),)), "portable", name="inplace")
    except (CaptureError, LowerError):
        return
    with xb.load(artifact) as session, torch.no_grad():
        assert len(session.outputs) == len(session.bind((x,))())
        torch.testing.assert_close(session(x), module(x.clone()))


@pytest.mark.parametrize("target", ["torch.eager", "torch.compile", "torch.aot_inductor", "portable", "xnnpack"])
def test_an_onnx_program_is_refused_by_those_that_cannot_read_it(
    target: str, linear: Captured, cache: Cache, tmp_path: Path
) -> None:
    (tmp_path / "program.onnx").write_bytes(b"never read")
    onnx = replace(linear, folder=tmp_path, program_name="program.onnx")
    found = resolve(target)
    with pytest.raises(UnsupportedError) as caught:
        lower(onnx, found, cache)
    assert found.backend.limits["onnx_program"] in str(caught.value)
    assert found.backend.name in str(caught.value) and onnx.workload in str(caught.value)
    assert not left_in(cache)


def test_two_captures_of_one_program_share_an_artifact(cache: Cache, tmp_path: Path) -> None:
    backend, captures = _Own(), []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        program = xb.capture(torch.nn.ReLU(), (torch.arange(4.0),))
        captures.append(write_program(program, name, tmp_path / name))
    assert [lower(captured, resolved(backend), cache).cached for captured in captures] == [False, True]


def test_a_compiler_does_not_silence_the_callers_warnings(cache: Cache, tmp_path: Path) -> None:
    """OpenVINO leaves the root logger at ERROR when a conversion fails."""

    class Spectrum(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.eigvals(x).abs()

    captured = write_program(xb.capture(Spectrum().eval(), (torch.eye(3),)), "spectrum", tmp_path)
    before = logging.getLogger().level
    with pytest.raises(LowerError):
        lower(captured, resolve("openvino"), cache)
    assert logging.getLogger().level == before
