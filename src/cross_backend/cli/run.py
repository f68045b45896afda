"""Run an artifact, or the best of a folder, in a worker: verified and timed, on your inputs, or to continue a text."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from cross_backend.cli import positive_int
from cross_backend.cli._options import add_json, add_measuring, add_place, add_timeout, add_trust, check_threads
from cross_backend.cli._run_bundled import is_bundled, run_bundled
from cross_backend.cli._run_given import Given, foreign_reader, run_foreign, run_given
from cross_backend.cli._run_prompt import BrokenTextError, check_prompt, read_prompt, run_prompt
from cross_backend.cli._run_steps import Work, finish, run_once
from cross_backend.errors import CrossBackendError, RunError, UsageError, one_line
from cross_backend.names.platforms import find_platform
from cross_backend.places.address import parse

if TYPE_CHECKING:
    from cross_backend.artifact import Artifact
    from cross_backend.records import Result


NOT_WITH_PROMPT = ("input", "output", "profile", "bundled_program")
"""Options that measure or run one call."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "artifact",
        type=Path,
        metavar="ARTIFACT",
        help="payload, manifest, or a bundle or folder of artifacts to pick the best from",
    )
    parser.add_argument("--model", metavar="NAME", help="which model of a folder that holds several")
    parser.add_argument("--platform", metavar="NAME", help="whose order picks from a folder (default: this platform)")
    parser.add_argument(
        "--input",
        metavar="NUMBERS|FILE",
        help="run once on these: numbers such as 1,2,3,4, a .npz file with input_0, input_1, …, a picture, a text, "
        "or a .wav file",
    )
    parser.add_argument(
        "--prompt",
        metavar="TEXT",
        help="continue this text, token after token, with a model that generates; token ids such as '5 17 4' where it "
        "has no tokenizer",
    )
    parser.add_argument(
        "--new-tokens",
        type=positive_int,
        metavar="N",
        help="most tokens after the prompt (default: 64, or as many as its caches hold)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="write the outputs here, as .npz; with .png the --input picture with the boxes that a detector found",
    )
    parser.add_argument(
        "--tokenizer",
        type=Path,
        metavar="FILE.json",
        help="the tokenizer.json of the model's weights, for a text (default: the one beside the artifact)",
    )
    parser.add_argument(
        "--profile",
        action="store_true",
        help="show the time of every iteration, and what each operator takes by the runtime's own profiler",
    )
    parser.add_argument(
        "--bundled-program",
        "--bundled_program",
        action="store_true",
        help="load inputs and expected outputs from the file, one of ExecuTorch's bundled programs (.bpte)",
    )
    add_place(parser)
    add_measuring(parser)
    add_timeout(parser, 600.0)
    add_trust(parser)
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Run; 0 if it ran and, on its sample, gave right outputs."""
    from cross_backend.cache import Cache
    from cross_backend.comparison.settings import Settings
    from cross_backend.comparison.sites import site_at
    from cross_backend.report.terminal import Terminal

    address = parse(args.on)
    if address.kind == "local":
        check_threads(args.threads)
    find_platform(args.platform)
    if args.output is not None and not args.output.resolve().parent.is_dir():
        raise UsageError(f"{args.output}: its folder does not exist.")
    _check_combination(args)
    settings, cache = Settings(args.num_runs, args.seconds, args.threads, args.timeout), Cache()
    with site_at(address, cache, args.via) as site:
        work = Work(args, settings, cache, Terminal(quiet=args.json), site)
        if args.bundled_program:
            return run_bundled(work)
        reader = foreign_reader(args.artifact)
        if reader is not None and args.prompt is not None:
            raise UsageError(f"{args.artifact.name} has no manifest that describes its state; --prompt needs one.")
        return run_foreign(work, reader) if reader is not None else _run_first(work)


def _run_first(work: Work) -> int:
    """Run the first artifact that works."""
    args, terminal = work.args, work.terminal
    candidates, rejected = _candidates(work)
    alone = len(candidates) + len(rejected) == 1
    for artifact in candidates:
        try:
            result = _run(work, artifact, last=artifact == candidates[-1])
        except (UsageError, BrokenTextError):
            raise
        except CrossBackendError as error:
            if alone:
                raise
            rejected.append(f"{artifact.target}: {one_line(error)}")
            terminal.note(f"⚠️ {artifact.target} passed over: {one_line(error)}")
            continue
        failed = finish(work, artifact, result) if result else None
        if failed is None:
            return 0
        if alone or (result and result.outcome == "OK"):  # it works here, and only its profile failed
            raise failed
        rejected.append(f"{artifact.target}: {one_line(failed)}")
    raise RunError(f"nothing in {args.artifact} works here. {'; '.join(rejected)}")


def _check_combination(args: argparse.Namespace) -> None:
    """Refuse what does not go together.

    Raises:
        UsageError: as it says.
    """
    if args.input is not None and args.profile:
        raise UsageError("--profile measures on the sample, and --input runs your own inputs once; give one of them.")
    if args.tokenizer is not None and args.input is None and args.prompt is None:
        raise UsageError("--tokenizer makes token ids of a text; give the text with --input or --prompt.")
    others = {f"--{name.replace('_', '-')}": getattr(args, name) for name in NOT_WITH_PROMPT}
    check_prompt(args.prompt, args.new_tokens, others)
    if args.bundled_program:
        given = [f"--{name}" for name in ("input", "model", "platform") if getattr(args, name) is not None]
        if given:
            raise UsageError(f"--bundled-program takes all from the file; {given[0]} does not go with it.")
    elif is_bundled(args.artifact):
        raise UsageError(f"{args.artifact} is a bundled program; add --bundled-program.")


def _candidates(work: Work) -> tuple[list[Artifact], list[str]]:
    from cross_backend.bundling import find_artifact, is_bundle, is_payload
    from cross_backend.loading.order import in_order

    args, path = work.args, work.args.artifact
    if is_bundle(path) or (path.is_dir() and not is_payload(path)):
        found = in_order(path, args.platform, args.model, work.cache, work.site.machine)
        return found.artifacts, [f"{row.target}: {row.reason}" for row in found.rejected]
    return [find_artifact(path)], []


def _run(work: Work, artifact: Artifact, *, last: bool) -> Result | None:
    """Open in a worker, verify and measure; None where the user's own inputs were run and printed instead."""
    from cross_backend.bench.open_artifact import check_code
    from cross_backend.comparison.benches import open_bench
    from cross_backend.comparison.panel import measure_alone
    from cross_backend.loading.load import resolve_artifact
    from cross_backend.loading.media import media_of

    args, settings, cache = work.args, work.settings, work.cache
    artifact.check()
    resolved = work.site.check_runs(resolve_artifact(artifact))
    check_code(artifact, resolved, cache, trust=args.trust)
    prompt = None if args.prompt is None else read_prompt(args, artifact)
    with ExitStack() as stack:
        bench, opened = open_bench(artifact.payload_path, artifact.target, settings, cache, stack, work.site)
        if prompt is not None:
            run_prompt(work, artifact, resolved, bench, prompt)
            return None
        if args.input is not None or artifact.sample is None:
            media = media_of(artifact, args.tokenizer)
            unverified = artifact.sample is None
            given = Given(artifact.name, artifact.workload, artifact.target, artifact.inputs, unverified, media)
            run_given(args, given, bench, work.terminal)
            return None
        result = measure_alone(bench, artifact, resolved, settings, opened, cache)
        if result.outcome != "OK" and not last:  # the next candidate's document is the one
            raise RunError(f"{result.outcome}: {result.reason}")
        if args.output is not None:
            run_once(bench, args.output)
    return result
