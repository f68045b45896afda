"""Types of the public API, as a user's mypy --strict sees them; ``make check`` reads this file, nothing runs it."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, assert_type

import torch
from torch.export import ExportedProgram

import cross_backend as xb
from cross_backend.api.bundle import Bundled
from cross_backend.api.export import Explanation
from cross_backend.exporting.export import Exported
from cross_backend.localization.found import KeptOut, Localized
from cross_backend.report.picture import Picture
from cross_backend.study.runner import Results
from cross_backend.study.spec import StudySpec
from cross_backend.tuning.tuned import Tried, Tuned


def capturing(model: torch.nn.Module, example: torch.Tensor) -> None:
    program = xb.capture(model, (example,), dynamic_shapes=None, kwargs={"mask": example})
    assert_type(program, ExportedProgram)
    assert_type(xb.OnnxProgram(Path("net.onnx")).path, Path)
    assert_type(xb.__version__, str)


def lowering(program: ExportedProgram | xb.OnnxProgram) -> None:
    artifact = xb.lower(program, "xnnpack", name="net", output_dir="models")
    assert_type(artifact, xb.Artifact)
    assert_type(artifact.payload_path, Path)
    assert_type(artifact.size_bytes, int)
    assert_type(artifact.placement, xb.Placement)
    assert_type(artifact.placement.coverage, float)
    assert_type(artifact.placement.delegates, Mapping[str, int])


def loading(artifact: xb.Artifact, path: Path) -> None:
    with xb.load(artifact) as session, xb.load_best(path, platform="ios") as best:
        assert_type(session, xb.Session)
        assert_type(best.target, str)
        assert_type([one.reason for one in best.rejected], list[str])
        run = session.bind(())
        assert_type(run, Callable[[], Sequence[Any]])


def comparing(model: torch.nn.Module, example: torch.Tensor) -> None:
    panel = xb.compare(
        model,
        ["torch", xb.Target("xnnpack")],
        (example,),
        seconds=1.0,
        threads=1,
        num_runs=100,
        margin=0.01,
        launches=2,
        timeout_s=60,
        seed=1,
        on="local",
    )
    assert_type(panel, xb.Panel)
    assert_type(panel.ranked, list[xb.Result])
    assert_type(panel.results[0].outcome, xb.Outcome)
    assert_type(panel.found_from, float | None)
    assert_type(xb.compare("resnet50", platform="linux", batch=4, inputs=["photo.jpg"]), xb.Panel)
    assert_type(xb.compare(Path("net.onnx")), xb.Panel)
    assert_type(xb.localize(model, (example,), backend="openvino", threads=2, reproducer="report"), Localized)
    assert_type(xb.keep_out(model, (example,), backend="openvino", nodes=["linear"]), KeptOut)


def converting(panel: xb.Panel, results: Results) -> None:
    for held in (panel, results):
        assert_type(held.to_dict(), dict[str, Any])
    assert_type(panel.plot("ratio"), Picture)
    assert_type(panel.plot().save("net.svg"), Path)


def exporting(model: torch.nn.Module, example: torch.Tensor, program: ExportedProgram) -> None:
    rows = xb.export(model, ["all"], (example,), output_dir="models", precision="int8")
    assert_type(rows, list[Exported])
    assert_type(rows[0].artifact, xb.Artifact | None)
    found = xb.explain(program, backend="vulkan", against="xnnpack")
    assert_type(found, Explanation)
    assert_type(found.placement, xb.Placement)
    packed = xb.bundle("mobilenet_v3_small", platform=["android", "ios"], zipped=True)
    assert_type(packed, Bundled)
    assert_type(packed.path, Path)


def tuning(program: ExportedProgram) -> None:
    tuned = xb.tune(program, max_drop=0.005, max_size="20MB", precisions=["int8"], threads=[1, 2])
    assert_type(tuned, Tuned)
    assert_type(tuned.winner, Tried | None)


def studying(model: torch.nn.Module) -> None:
    results = xb.ComparisonRunner(model=model, backends=["cpu"], batch_sizes=[1, 4]).run()
    assert_type(results, Results)
    assert_type(results.panels, tuple[xb.Panel, ...])
    assert_type(results.generate_report("report.html"), Path)
    study = xb.Study.load({"workloads": ["digits_cnn"], "targets": ["cpu"]})
    assert_type(study.spec, StudySpec)
    assert_type(study.run(), Results)
    assert_type(study.results(), Results)
    assert_type(xb.Study.load("nightly.yaml", db="s.sqlite"), xb.Study)


def naming(model: torch.nn.Module, example: torch.Tensor, backend: xb.Backend, task: xb.Task) -> None:
    target = xb.Target.parse("xnnpack?precision=int8")
    assert_type(target, xb.Target)
    assert_type(target.options, Mapping[str, str])
    assert_type(backend.precisions, tuple[str, ...])
    assert_type(xb.Workload("net", model, (example,), task=task).task, xb.Task | None)
    assert_type(task.metric, str)
    assert_type(xb.Outcome("OK"), xb.Outcome)
    assert_type(str(xb.CrossBackendError("failed")), str)
