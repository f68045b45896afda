"""Continuing a text: a prompt goes in, then token after token comes out, each when it is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from cross_backend.bench.reading import Reading
from cross_backend.errors import UsageError
from cross_backend.generation.sequence import check_generates, fed
from cross_backend.workloads.media import PromptMedia

if TYPE_CHECKING:
    from cross_backend.artifact import Artifact
    from cross_backend.bench.open_artifact import OpenArtifact
    from cross_backend.workloads.media import Media

NEW_TOKENS = 64
"""Tokens that are generated where nobody says how many."""


@dataclass(frozen=True)
class NextToken:
    """The likeliest next token."""

    index: int
    """In the vocabulary."""
    ns: int
    """Duration of the calls that led to it: of the prompt for the first token, of one token for each further one."""


@dataclass(frozen=True)
class Feed(Reading[NextToken]):
    """Feed tokens at a position, on the state that the calls before left; at position 0 on the initial state."""

    tokens: list[int]
    start: int

    def read(self, artifact: OpenArtifact) -> NextToken:
        """Return the likeliest next token (greedy decoding)."""
        if self.start == 0:
            artifact.reset()
        logits, ns = fed(artifact.session, self.tokens, self.start)
        return NextToken(int(logits.argmax()), ns)


class Takes(Protocol):
    """What has a program open: a bench, or one that is held for a while."""

    @property
    def take(self) -> Callable[[Reading[Any]], Any]:
        """Return what a reading finds."""


def continued(bench: Takes, prompt: Sequence[int], new: int, end: int | None = None) -> Iterator[NextToken]:
    """Yield up to ``new`` tokens after a prompt, each when it is there.

    Args:
        bench: with a program that generates; it keeps the state from token to token.
        prompt: token ids.
        new: most tokens.
        end: token that ends the text; it is the last one.

    Raises:
        RunError, WorkerError: a call fails; the text ends there, and no other target can go on with it.
    """
    tokens, start = list(prompt), 0
    for _ in range(new):
        found: NextToken = bench.take(Feed(tokens, start))
        yield found
        if found.index == end:
            return
        tokens, start = [found.index], start + len(tokens)


def prompts_of(artifact: Artifact, media: Media | None) -> PromptMedia:
    """Return how prompts of an artifact are read.

    Args:
        artifact: of a program that generates.
        media: what it says of its inputs; where that is nothing, prompts are token ids.

    Raises:
        UsageError: it does not generate, or has no state.
    """
    ids = check_generates(artifact.workload, artifact.inputs, artifact.outputs, artifact.state)
    if isinstance(media, PromptMedia):
        return media
    # No cache holds more positions than its largest extent.
    most = max(int(extent) for spec in artifact.state for extent in (*spec.shape, 1))
    return PromptMedia(tokens=most, ids=ids)


def room_for(media: PromptMedia, prompt: Sequence[int], asked: int | None) -> int:
    """Return how many tokens are generated after a prompt.

    Raises:
        UsageError: more are asked for than the caches hold.
    """
    room = media.tokens - len(prompt)
    if asked is None:
        return min(NEW_TOKENS, room)
    if asked > room:
        raise UsageError(
            f"the prompt's {len(prompt)} tokens and {asked} new ones are more than the {media.tokens} positions of the "
            f"model's caches. Ask for at most {room} new tokens, or export a larger context (MODEL?context=…)."
        )
    return asked
