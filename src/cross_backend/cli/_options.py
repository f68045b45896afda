"""Options and progress that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cross_backend.cli import positive_float, positive_int
from cross_backend.errors import UsageError
from cross_backend.machine import Machine
from cross_backend.names.precisions import MEANINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cross_backend.exporting.export import Exported
    from cross_backend.report.terminal import Terminal
    from cross_backend.study.spec import StudySpec


def add_model(parser: argparse.ArgumentParser, *, nargs: str | None = None) -> None:
    """Declare what is captured: one model, or as many as ``nargs`` says."""
    parser.add_argument(
        "models" if nargs else "model",
        metavar="MODEL",
        nargs=nargs,
        help="a built-in model (see 'cross-backend models'), path/to/file.py:function, file.pt2 or file.onnx",
    )
    parser.add_argument(
        "--weights",
        metavar="FILE|NAME",
        help="checkpoint file, or published weights: IMAGENET1K_V1 (torchvision), bert-base-uncased or a folder "
        "(transformers)",
    )
    add_trust(parser)


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Declare inputs of the user's own."""
    parser.add_argument(
        "--inputs",
        nargs="+",
        type=Path,
        default=[],
        metavar="PATH",
        help="verify on your own inputs, too: .npz files (input_0, input_1, …), pictures and other files that the "
        "model reads, and folders of them. Bundles hold them with --ship-inputs only",
    )
    add_calibration(parser)


def add_calibration(parser: argparse.ArgumentParser) -> None:
    """Declare on what quantisers observe the ranges of activations."""
    parser.add_argument(
        "--calibration",
        type=Path,
        metavar="PATH",
        help="calibration inputs of int8, in place of the model's own: an .npz file (input_0 may hold many rows) "
        "or a folder of files. Of more than 128, a seeded choice",
    )


def add_task(parser: argparse.ArgumentParser) -> None:
    """Declare a task of the user's own."""
    parser.add_argument(
        "--task",
        metavar="FILE.py:FUNC",
        help="your model's task: a function that returns (samples, labels) or (samples, labels, metric). The metric is "
        "'top-1 accuracy' (the default), 'top-5 accuracy' or a function of outputs and labels; larger is better. "
        "Of a decoder with state (tokens, None, 'perplexity'); smaller is better",
    )


def add_places(parser: argparse.ArgumentParser, default: Sequence[str] | None = ("local",)) -> None:
    """Declare on which machines it runs."""
    told = "the study file's places" if default is None else "local"
    parser.add_argument(
        "--on",
        nargs="+",
        default=default,
        metavar="PLACE",
        help=f"machines that measure: local, ssh://USER@HOST:PORT, adb:SERIAL, qemu:aarch64 (default: {told})",
    )
    add_via(parser)


def add_via(parser: argparse.ArgumentParser) -> None:
    """Declare what measures on another machine."""
    parser.add_argument(
        "--via",
        choices=("python", "runner"),
        metavar="WHAT",
        help="measure on another machine with python or the C++ runner (default: Python where it is there)",
    )


def add_place(parser: argparse.ArgumentParser) -> None:
    """Declare on which machine it runs."""
    parser.add_argument(
        "--on",
        default="local",
        metavar="PLACE",
        help="the machine: local, ssh://USER@HOST:PORT, adb:SERIAL, qemu:aarch64 (default: local)",
    )
    add_via(parser)


def add_targets(parser: argparse.ArgumentParser) -> None:
    """Declare to what it is lowered."""
    parser.add_argument(
        "--backends",
        nargs="+",
        metavar="TARGET",
        help="backends with options: xnnpack, cpu, 'openvino?precision=bf16', …; 'all' for every one",
    )
    parser.add_argument(
        "--platform", metavar="NAME", help="use this platform's backends, in its order: ios, android, linux, …"
    )


def add_quality(parser: argparse.ArgumentParser) -> None:
    """Declare what an artifact must be."""
    parser.add_argument(
        "--precision",
        choices=tuple(MEANINGS),
        metavar="TYPE",
        help=f"{', '.join(MEANINGS)}: precision of every backend that names none itself; one that does not have it "
        "is UNSUPPORTED, with the reason",
    )
    parser.add_argument(
        "--min-coverage",
        type=share,
        default=0.0,
        metavar="SHARE",
        help="fail a backend that executes less than this share, 0.9 or 90%%, of operators or FLOPs itself",
    )


def add_measuring(parser: argparse.ArgumentParser) -> None:
    """Declare how long is measured, and with how many threads."""
    parser.add_argument(
        "--num-runs",
        "--num_runs",
        type=positive_int,
        default=1000,
        metavar="N",
        help="maximum number of timed calls (default: 1000)",
    )
    parser.add_argument(
        "--seconds",
        type=positive_float,
        default=5.0,
        metavar="S",
        help="most seconds of timed calls; six calls at least (default: 5)",
    )
    parser.add_argument(
        "--threads", type=positive_int, default=1, metavar="N", help="CPU threads of each target (default: 1)"
    )


def add_timeout(parser: argparse.ArgumentParser, default_s: float = 1800.0) -> None:
    """Declare ``--timeout``."""
    parser.add_argument(
        "--timeout",
        type=positive_float,
        metavar="SECONDS",
        default=default_s,
        help=f"longest lowering or answer (default: {default_s:g})",
    )


def add_launcher(parser: argparse.ArgumentParser) -> None:
    """Declare who measures a study, and how a cluster is found."""
    parser.add_argument(
        "--launcher",
        choices=("here", "ray"),
        default="here",
        metavar="WHO",
        help="here: this machine, or those of --on; ray: the machines of a Ray cluster (default: here)",
    )
    parser.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="head of the Ray cluster (default: RAY_ADDRESS, or the one of this machine)",
    )
    parser.add_argument(
        "--shared-cache",
        metavar="URL",
        help="folder that all nodes reach, through which artifacts travel: file:///mnt/x, s3://x, gs://x "
        "(default: Ray's object store)",
    )
    parser.add_argument(
        "--max-noise",
        type=share,
        default=0.2,
        metavar="20%",
        help="noise floor from which on a machine of the cluster is set aside after three panels (default: 20%%)",
    )


def check_launcher(args: argparse.Namespace, study: StudySpec) -> None:
    """Refuse options and keys that do not fit the launcher.

    Raises:
        UsageError: as it says.
    """
    if args.launcher == "ray":
        if study.places != ("local",) or args.via:
            raise UsageError("places and --via are not for --launcher ray: name a place in machines: {name, place}.")
        if args.pause:
            raise UsageError("--pause is for --launcher here.")
        return
    given = [name for name in ("address", "shared_cache") if getattr(args, name) is not None]
    if given:
        raise UsageError(f"--{given[0].replace('_', '-')} goes with --launcher ray.")
    if study.machines and not args.dry_run:
        raise UsageError("the study names machines: of a cluster. Add --launcher ray, or --on local to measure here.")


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Declare ``--trust``."""
    parser.add_argument(
        "--trust",
        action="store_true",
        help="open what holds code (pickles, compiled libraries) although it was not made on this machine; remembered",
    )


def trust_files(args: argparse.Namespace, models: Sequence[str]) -> None:
    """Trust the files among the models, by their digests, where that was asked for."""
    from cross_backend.cache import Cache
    from cross_backend.trust import keep

    for path in map(Path, models if args.trust else ()):
        if path.suffix == ".pt2" and path.is_file():
            keep(Cache(), path)


def add_batch(parser: argparse.ArgumentParser) -> None:
    """Declare ``--batch``."""
    parser.add_argument(
        "--batch",
        type=positive_int,
        metavar="N",
        help="batch size (default: 1; a .pt2 or .onnx file keeps its own, or a free one)",
    )


def add_work(parser: argparse.ArgumentParser) -> None:
    """Declare how the work is done."""
    parser.add_argument(
        "--jobs",
        type=positive_int,
        metavar="N",
        help="most worker processes (default: one per processor); never more than the memory holds",
    )
    add_timeout(parser)
    parser.add_argument("--strict", action="store_true", help="exit with status 1 if any target fails")
    add_json(parser)


def add_json(parser: argparse.ArgumentParser) -> None:
    """Declare ``--json``."""
    parser.add_argument("--json", action="store_true", help="print one JSON document on standard output")


def share(text: str) -> float:
    """Parse a number from 0 to 1, or a percentage such as 90%."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share from 0 to 1")
    return value


def size(text: str) -> int:
    """Parse a size in bytes: ``20MB``, ``512 KiB`` or a whole number."""
    from cross_backend.study.fields import size as reader

    try:
        return reader(1)(text)
    except UsageError:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is not a size such as 20MB") from None


def margin(text: str) -> float:
    """Parse how precise ratios shall be: ``1%`` or ``0.01``."""
    from cross_backend.study.fields import MARGIN

    try:
        return MARGIN(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error).rstrip(".")) from None


def check_threads(threads: int) -> None:
    """Refuse more threads than there are processors.

    Raises:
        UsageError: as it says.
    """
    usable = Machine.here().usable_cpus
    if threads > usable:
        raise UsageError(f"--threads {threads}: this process may use {usable} processor(s).")


def chosen_targets(args: argparse.Namespace, default: tuple[str, ...] | None) -> list[str]:
    """Return the targets of ``--backends`` or ``--platform``.

    Raises:
        UsageError: both or neither are given and there is no default, an unknown platform, or one that is no target.
    """
    from cross_backend.names.platforms import PLATFORMS, find_platform
    from cross_backend.registry import check_targets, expand_all

    if args.backends and args.platform:
        raise UsageError("give --backends or --platform, not both.")
    if args.platform:
        return list(find_platform(args.platform).backends)
    if args.backends:
        targets = expand_all(args.backends)
        check_targets(targets)
        return targets
    if default is None:
        raise UsageError(f"say where to: --backends TARGET… or --platform {'|'.join(PLATFORMS)}.")
    return list(default)


@contextmanager
def export_progress(terminal: Terminal) -> Iterator[Callable[[str, str, Exported | None], None]]:
    """Return an observer of exports that shows a line per target."""
    from cross_backend.exporting.export import lines

    with terminal.progress() as show:
        yield lines(show)
