"""A byte-level Llama-shaped decoder trained in seconds on Python's language reference; held-out perplexity is its task.

The text is what ``help()`` prints of the language (``pydoc_data.topics``), which every Python has. A token is a byte.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from cross_backend.errors import UsageError
from cross_backend.names.task_metrics import PERPLEXITY
from cross_backend.workloads import WORKLOADS, Task, Workload, load_checkpoint
from cross_backend.workloads.decoder import PROMPT, SEED, STEPS, Shape, build, calls_of
from cross_backend.workloads.media import PromptMedia
from cross_backend.workloads.media.text import BYTES

if TYPE_CHECKING:
    import torch
    from torch import nn

LAYERS, HIDDEN, HEADS, INNER = 2, 128, 4, 256
HELD_OUT = 0.1
"""Share of the text, its end, that training does not see."""
WINDOW = 256
"""Tokens of a training window, and at most of one of the task."""
WINDOWS = 16
"""Held-out windows of the task, evenly spaced."""
UPDATES, BATCH = 240, 8
RATE, WARM_UP = 6e-3, 15
"""Largest learning rate, after so many updates; then it falls along a cosine to a twentieth."""
CALIBRATION, OBSERVED = 32, 64
"""Pieces of the training text that quantisers observe, and the tokens of one."""


def llama_text(name: str = "llama_text", weights: str | None = None, **sizes: int) -> Workload:
    """Train on nine tenths of the text; inputs (1, tokens) bytes and the (1,) position of the first; output (1, 256).

    Tokens are the bytes in GPT-2's order, so that a prompt is a text.
    """
    import torch

    known = {**WORKLOADS["llama_text"].options, **sizes}
    shape = Shape(LAYERS, HIDDEN, HEADS, HEADS, INNER, len(BYTES), known["context"], "llama", known["prompts"])
    shape.check(name)
    ids = _ids()
    seen, held_out = ids.split([len(ids) - int(HELD_OUT * len(ids)), int(HELD_OUT * len(ids))])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        net = build(shape)
        if weights is None:
            train(net, seen)
        else:
            load_checkpoint(net, weights)
    inputs, steps, free = calls_of(shape, held_out[None, : PROMPT + STEPS])
    most = min(WINDOW, shape.context)
    pieces = spread(seen, CALIBRATION, min(OBSERVED, most) if shape.prompts else 1)
    calibration = tuple((piece[None], torch.tensor([0])) for piece in pieces)
    windows = spread(held_out, WINDOWS, most).numpy()
    media = PromptMedia(tokens=shape.context, ids=shape.vocabulary, has_bytes=True)
    return Workload(
        name, net, inputs, calibration, Task(PERPLEXITY, windows), media=media, dynamic_shapes=free, steps=steps
    )


def _ids() -> torch.Tensor:
    """Return the text's tokens.

    Raises:
        UsageError: this Python has no such text.
    """
    import torch

    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise UsageError("this Python lacks pydoc_data, whose text llama_text is trained on.") from error
    text = "\n\n".join(str(topics[key]) for key in sorted(topics)).encode()
    places = torch.tensor([BYTES.index(byte) for byte in range(len(BYTES))])
    return places[torch.frombuffer(bytearray(text), dtype=torch.uint8).long()]


def spread(ids: torch.Tensor, count: int, size: int) -> torch.Tensor:
    """Return pieces of a text, evenly spaced from its beginning to its end: (count, size)."""
    import torch

    starts = torch.linspace(0, len(ids) - size, count).long()
    return ids[starts[:, None] + torch.arange(size)]


def train(net: nn.Module, ids: torch.Tensor) -> None:
    """Minimise the cross entropy of the next token with AdamW, in place."""
    import torch
    from torch.nn import functional as F  # noqa: N812

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the same sums on every machine, and threads would only wait for each other
    optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, betas=(0.9, 0.95), weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, _share)
    try:
        for _ in range(UPDATES):
            starts = torch.randint(len(ids) - WINDOW, (BATCH, 1))
            windows = ids[starts + torch.arange(WINDOW + 1)]
            logits = all_logits(net, windows[:, :-1])
            optimizer.zero_grad()
            F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten()).backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    finally:
        torch.set_num_threads(threads)


def all_logits(net: Any, tokens: torch.Tensor) -> torch.Tensor:
    """Return what a decoder returns after each token of many sequences at once, without its caches.

    Args:
        net: Llama-shaped, as many key and value heads as heads.
        tokens: (sequences, tokens), each from its beginning on.

    Returns:
        (sequences, tokens, vocabulary).
    """
    from torch.nn import functional as F  # noqa: N812

    from cross_backend.workloads._decoder_net import turned

    (rows, length), shape = tokens.shape, net.shape
    turn = net.cosines[:length], net.sines[:length]
    x = net.tokens(tokens)
    for layer in net.layers:
        mixed = layer.mixed(layer.before(x)).view(rows, length, 3, shape.heads, shape.width)
        q, k, v = mixed.permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(turned(q, *turn), turned(k, *turn), v, is_causal=True)
        x = x + layer.out(found.transpose(1, 2).reshape(rows, length, shape.hidden))
        y = layer.between(x)
        x = x + layer.down(F.silu(layer.gate(y)) * layer.up(y))
    return F.linear(net.norm(x), net.tokens.weight)


def _share(update: int) -> float:
    """Return the learning rate of an update as a share of the largest."""
    warm = min(1.0, (update + 1) / WARM_UP)
    return warm * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * update / UPDATES)))
