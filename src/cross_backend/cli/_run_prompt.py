"""``run --prompt``: verify a decoder, then continue a text, token after token, as they come."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from cross_backend.cli import print_json
from cross_backend.errors import CrossBackendError, RunError, UsageError, one_line

if TYPE_CHECKING:
    from cross_backend.artifact import Artifact
    from cross_backend.bench.bench import Bench
    from cross_backend.cli._run_steps import Work
    from cross_backend.generation.continuing import NextToken
    from cross_backend.registry import Resolved
    from cross_backend.workloads.media import PromptMedia

UNVERIFIED = "unverified: it has no sample to compare with"


class BrokenTextError(RunError):
    """A target failed in the middle of a text; no other one has the state with which to go on."""


@dataclass(frozen=True)
class Prompt:
    """A text that is to be continued."""

    media: PromptMedia
    text: str
    ids: list[int]
    new: int
    """Most tokens after it."""


def read_prompt(args: argparse.Namespace, artifact: Artifact) -> Prompt:
    """Read ``--prompt`` for an artifact; nothing is opened.

    Raises:
        UsageError: it does not generate, or the prompt is longer than its caches.
    """
    from cross_backend.generation.continuing import prompts_of, room_for
    from cross_backend.loading.media import media_of

    media = prompts_of(artifact, media_of(artifact, args.tokenizer))
    ids = media.encode(args.prompt)
    return Prompt(media, args.prompt, ids, room_for(media, ids, args.new_tokens))


def run_prompt(work: Work, artifact: Artifact, resolved: Resolved, bench: Bench, prompt: Prompt) -> None:
    """Verify what a bench has open on its sample, and continue a prompt.

    Raises:
        RunError: its outputs are wrong, or it fails.
        BrokenTextError: it fails after the first token.
    """
    from cross_backend.generation.continuing import continued
    from cross_backend.verify.compare import precision_of

    terminal, media = work.terminal, prompt.media
    if artifact.sample is not None:
        comparison = bench.verify(precision_of(resolved.options)).comparison
        if not comparison.verdict:
            raise RunError(f"its outputs are wrong: {comparison.why}")
    pieces = media.pieces()
    for index in prompt.ids:
        pieces.take(index)  # on which the spaces of the answer depend
    terminal.piece(prompt.text)
    tokens: list[NextToken] = []
    texts: list[str] = []
    began = perf_counter_ns()
    try:
        for token in continued(bench, prompt.ids, prompt.new, media.end):
            tokens.append(token)
            texts.append("" if token.index == media.end else pieces.take(token.index))
            terminal.piece(texts[-1])
    except CrossBackendError as error:
        if not tokens:
            raise
        raise BrokenTextError(
            f"{artifact.target} failed after {len(tokens)} tokens: {one_line(error)}. Run it again; no other backend "
            "can go on with this text."
        ) from error
    finally:
        terminal.piece("\n")
    _report(work, artifact, prompt, tokens, "".join(texts), perf_counter_ns() - began)


def _report(work: Work, artifact: Artifact, prompt: Prompt, tokens: list[NextToken], text: str, wall_ns: int) -> None:
    from cross_backend.report import figures

    args, terminal = work.args, work.terminal
    first_ns, rest = tokens[0].ns, [token.ns for token in tokens[1:]]
    per_s = 1e9 * len(rest) / sum(rest) if rest else None
    is_ended = tokens[-1].index == prompt.media.end
    if args.json:
        document: dict[str, Any] = {
            "schema": 1,
            "workload": artifact.workload,
            "target": artifact.target,
            "prompt": {"text": prompt.text, "tokens": prompt.ids},
            "text": text,
            "tokens": [token.index for token in tokens],
            "stopped": "end" if is_ended else "length",
            "first_token_ms": first_ns / 1e6,
            "decode_ms": [ns / 1e6 for ns in rest],
            "tokens_per_s": per_s,
            "wall_ms": wall_ns / 1e6,
            "verified": artifact.sample is not None,
        }
        print_json(document)
        return
    mark = "✅" if artifact.sample is not None else "⚠️"
    speed = f", then {per_s:,.0f} tokens/s" if per_s is not None else ""
    ended = ", to the end of the text" if is_ended else ""
    terminal.text(
        f"{mark} {artifact.workload} on {artifact.target}: {len(tokens)} tokens after {len(prompt.ids)}{ended}; "
        f"first token in {figures.duration(first_ns / 1e6)}{speed}"
    )
    if artifact.sample is None:
        terminal.text(f"   ⚠️ {UNVERIFIED}.")
    for caveat in prompt.media.caveats():
        terminal.text(f"   ⚠️ {caveat}")


def check_prompt(prompt: str | None, new_tokens: int | None, others: dict[str, object]) -> None:
    """Refuse options that do not go with ``--prompt``.

    Args:
        prompt: the text, or None.
        new_tokens: how many tokens are asked for, or None.
        others: option → its value.

    Raises:
        UsageError: as it says.
    """
    if prompt is None:
        if new_tokens is not None:
            raise UsageError("--new-tokens counts the tokens after a prompt. Add --prompt TEXT.")
        return
    given = [flag for flag, value in others.items() if value]
    if given:
        raise UsageError(f"--prompt does not go with {given[0]}. Leave one of them out.")
    if not prompt.strip():
        raise UsageError("--prompt is empty. Write the text that is to be continued.")
