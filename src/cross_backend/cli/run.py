"""Run an artifact, or the best of a folder, in a worker: verified on its sample and timed, or on your inputs."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.cli import positive_float, positive_int, print_json
from cross_backend.cli._options import add_json, check_threads
from cross_backend.errors import CrossBackendError, RunError, UnavailableError, UsageError, one_line
from cross_backend.machine import Machine
from cross_backend.platforms import find_platform

if TYPE_CHECKING:
    from cross_backend.artifact import Artifact
    from cross_backend.records import Result


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "artifact",
        type=Path,
        metavar="ARTIFACT",
        help="payload, manifest, or a folder of artifacts to pick the best from",
    )
    parser.add_argument("--model", metavar="NAME", help="which model of a folder that holds several")
    parser.add_argument("--platform", metavar="NAME", help="whose order picks from a folder (default: this platform)")
    parser.add_argument(
        "--input",
        metavar="NUMBERS|FILE.npz",
        help="run once on these: numbers such as 1,2,3,4, or a file with input_0, input_1, …",
    )
    parser.add_argument("--output", type=Path, metavar="FILE.npz", help="write the outputs here")
    parser.add_argument(
        "--num-runs", type=positive_int, default=1000, metavar="N", help="most timed calls (default: 1000)"
    )
    parser.add_argument(
        "--seconds", type=positive_float, default=5.0, metavar="S", help="most seconds of timed calls (default: 5)"
    )
    parser.add_argument("--threads", type=positive_int, default=1, metavar="N", help="CPU threads (default: 1)")
    parser.add_argument(
        "--timeout", type=positive_float, default=600.0, metavar="SECONDS", help="longest answer (default: 600)"
    )
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Run; 0 if it ran and, on its sample, gave right outputs."""
    from cross_backend.cache import Cache
    from cross_backend.report.terminal import Terminal
    from cross_backend.trial import Settings

    check_threads(args.threads)
    find_platform(args.platform)
    if args.output is not None and not args.output.resolve().parent.is_dir():
        raise UsageError(f"{args.output}: its folder does not exist.")
    terminal = Terminal(quiet=args.json)
    settings = Settings(args.num_runs, args.seconds, args.threads, args.timeout)
    cache = Cache()
    candidates, rejected = _candidates(args)
    for artifact in candidates:
        try:
            with ExitStack() as stack:
                return _run(args, artifact, settings, cache, stack, terminal, last=artifact == candidates[-1])
        except UsageError:
            raise
        except CrossBackendError as error:
            if len(candidates) + len(rejected) == 1:
                raise
            rejected.append(f"{artifact.target}: {one_line(error)}")
            terminal.note(f"⚠️ {artifact.target} passed over: {one_line(error)}")
    raise RunError(f"nothing in {args.artifact} works here. {'; '.join(rejected)}")


def _candidates(args: argparse.Namespace) -> tuple[list[Artifact], list[str]]:
    from cross_backend.artifact import Artifact
    from cross_backend.selection import in_order

    if (args.artifact.is_dir() and not args.artifact.with_suffix(".json").is_file()) or str(args.artifact) in {
        ".",
        "..",
    }:
        found, rejected = in_order(args.artifact, args.platform, args.model)
        return found, [f"{row.target}: {row.reason}" for row in rejected]
    return [Artifact.read(args.artifact)], []


def _run(
    args: argparse.Namespace,
    artifact: Artifact,
    settings: Any,
    cache: Any,
    stack: ExitStack,
    terminal: Any,
    *,
    last: bool,
) -> int:
    from cross_backend.registry import missing_here
    from cross_backend.selection import resolve_artifact
    from cross_backend.trial import open_worker

    artifact.check()
    resolved = resolve_artifact(artifact)
    missing = missing_here(resolved.backend)
    if missing is not None and missing.run is not None:
        raise UnavailableError(f"{resolved.backend.name} {missing.run.reason}", missing.run.remedy)
    worker, load_s = open_worker(artifact.manifest_path, artifact.target, settings, cache, stack)
    if args.input is not None:
        return _run_inputs(args, artifact, worker, settings, stack, terminal)
    if artifact.sample is None:
        raise RunError(f"{artifact.name} has no sample to verify with; give --input.")
    from cross_backend.panel import measure_alone

    result = measure_alone(worker, artifact, resolved, settings, load_s)
    if result.outcome != "OK" and not last:  # the next candidate's document is the one
        raise RunError(f"{result.outcome}: {result.reason}")
    if args.output is not None:
        _write_outputs(worker, args.output, settings, stack)
    return _print(args, result, terminal)


def _run_inputs(
    args: argparse.Namespace, artifact: Artifact, worker: Any, settings: Any, stack: ExitStack, terminal: Any
) -> int:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    worker.call("bind", settings.timeout_s, inputs=str(_inputs_file(args.input, artifact, folder)))
    head = _write_outputs(worker, args.output, settings, stack)
    from cross_backend.records import finite

    if args.json:
        print_json(
            {"schema": 1, "workload": artifact.workload, "target": artifact.target, "output": [finite(v) for v in head]}
        )
    else:
        shown = ", ".join(f"{value:.6f}" for value in head)
        more = "" if args.output is None else f"; all outputs are in {args.output}"
        terminal.text(f"✅ {artifact.workload} on {artifact.target}: {shown}{more}")
    return 0


def _write_outputs(worker: Any, path: Path | None, settings: Any, stack: ExitStack) -> list[float]:
    if path is None:
        head: list[float] = worker.call("run", settings.timeout_s, outputs=None)["head"]
        return head
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    head = worker.call("run", settings.timeout_s, outputs=str(folder / "outputs.npz"))["head"]
    shutil.copyfile(folder / "outputs.npz", path)
    return head


def _inputs_file(text: str, artifact: Artifact, folder: Path) -> Path:
    """Give a tensor file for ``--input``: the user's own, or numbers shaped like the first input."""
    import numpy as np

    from cross_backend.tensors import save_tensors

    if Path(text).suffix == ".npz":
        if not Path(text).is_file():
            raise UsageError(f"{text} does not exist.")
        return Path(text)
    try:
        numbers = np.array([float(part) for part in text.split(",")])
    except ValueError:
        raise UsageError(f"--input takes numbers such as 1,2,3,4 or a .npz file, not {text!r}.") from None
    if len(artifact.inputs) != 1:
        raise UsageError(f"{artifact.name} has {len(artifact.inputs)} inputs; give them in a .npz file.")
    spec = artifact.inputs[0]
    shape = [n if isinstance(n, int) else 1 for n in spec.shape]
    if numbers.size != int(np.prod(shape)):
        raise UsageError(f"input {spec.name!r} is {spec}: {int(np.prod(shape))} numbers, not {numbers.size}.")
    path = folder / "inputs.npz"
    save_tensors(path, {"input": [numbers.reshape(shape).astype(spec.dtype)]})
    return path


def _print(args: argparse.Namespace, result: Result, terminal: Any) -> int:
    from cross_backend.records import Outcome
    from cross_backend.report import tables

    if args.json:
        print_json({"schema": 1, "machine": Machine.here().to_json(), "results": [result.to_json()]})
    elif result.latency_ms is not None and result.latency is not None and result.mean_ms is not None:
        latency = result.latency_ms
        terminal.text(
            f"✅ {result.workload} on {result.target}: outputs are right "
            f"(largest error {tables.error(result.comparison)} of the largest output)"
        )
        if result.sample_output:
            terminal.text(f"   output: {', '.join(f'{v:.6f}' for v in result.sample_output)}")
        terminal.text(
            f"   ⏱️ {tables.milliseconds(latency.value)} ms median ({tables.milliseconds(latency.low)} – "
            f"{tables.milliseconds(latency.high)}), {tables.milliseconds(result.mean_ms)} ms avg, "
            f"{len(result.latency.values)} runs, {args.threads} thread(s); loaded in {result.load_s or 0:.2f} s"
        )
    if result.outcome is not Outcome.OK:
        raise RunError(f"{result.workload} on {result.target}: {result.outcome}: {result.reason}")
    return 0
