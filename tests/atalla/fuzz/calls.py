"""Fuzz, calls of the host: operators of the list and others, with arguments that fit or do not; both loaders, each run.

python -m tests.atalla.fuzz.calls COUNT [SEED]

prints how many ran to the end and how many a loader refused; a crash ends the process, and its last line on standard
error is the call.
"""

from __future__ import annotations

import contextlib
import json
import random
import resource
import sys
from typing import Any

import torch

import atalla
from atalla import hosted
from atalla.isa import Dtype, Verdict
from tests.atalla.calls import SHAPE, X, blob
from tests.atalla.test_verify import c, python

MEMORY = 6 << 30
"""Bytes of address space: an operator may ask for as much as it likes."""
LARGEST = 1 << 12
"""Numbers of arguments: with larger ones operators compute for as long as they are told to."""
WORDS = ("mean", "sum", "reflect", "none", "tanh", "U", "ij", "ij,jk->ik", "valid", "left", "floor", "x")


def call(chance: random.Random, schemas: dict[str, Any]) -> tuple[str, Any]:
    """Return an operator and arguments that are near to what it takes."""
    name = chance.choice(sorted(hosted.hosted()))
    if chance.random() < 0.15:
        name = chance.choice(sorted(schemas))
    elif chance.random() < 0.1:
        place = chance.randrange(len(name))
        name = name[:place] + chance.choice("abc._\x1b ") + name[place + 1 :]
    schema = schemas.get(name)
    given = {
        one.name: value(chance, str(one.type), one.name)
        for one in (schema.arguments if schema else ())
        if not one.has_default_value() or chance.random() < 0.4
    }
    positional = [given.pop("self")] if "self" in given else []
    return name, [positional, given, *([[0]] if chance.random() < 0.7 else [])]


def value(chance: random.Random, kind: str, name: str) -> Any:
    """Return an argument."""
    if chance.random() < 0.03:
        return chance.choice([None, "", {}, [], {"tensor": 3}, {"torch": "load"}, -1, {"device": "meta"}])
    if kind.startswith("Optional["):
        return None if chance.random() < 0.5 else value(chance, kind[9:-1], name)
    if kind.startswith("List["):
        return [value(chance, kind[5:-1], name) for _ in range(chance.choice((0, 1, 1, 2, 2, 3, 4)))]
    if kind == "int" and name == "dtype":
        return {"torch": chance.choice(("float32", "int64", "bool", "complex64", "qint8"))}
    plain: dict[str, Any] = {
        "Tensor": X,
        "int": chance.choice((0, 0, 1, 1, 2, 3, 4, -1, -2, 12, LARGEST, -(2**63))),
        "bool": chance.random() < 0.5,
        "float": {"float": chance.choice((0.0, 1.0, -1.0, 0.5, float("inf"), float("nan"))).hex()},
        "number": chance.choice((0, 1, -1, 2, {"float": (0.5).hex()}, {"float": "nan"})),
        "Device": {"device": "cpu"},
        "str": chance.choice(WORDS),
    }
    return plain.get(kind)


def main(count: int, seed: int) -> None:
    """Make so many blobs, and run those that are sound."""
    chance, schemas, ran, refused = random.Random(seed), hosted.schemas(), 0, 0
    x = torch.arange(-3.0, 9.0).view(SHAPE)
    for _ in range(count):
        name, arguments = call(chance, schemas)
        shape = chance.choice((SHAPE, SHAPE, (3,), (), (4, 3)))
        data = blob(name, arguments, (chance.choice((Dtype.F32, Dtype.F32, Dtype.I64, Dtype.BOOL)), shape))
        print(name, json.dumps(arguments), file=sys.stderr, flush=True)
        verdict = python(data)
        assert verdict == c(data) == (Verdict.HOST if hosted.foreign([name]) else Verdict.SOUND)
        if verdict:
            refused += 1
            continue
        for isa in (None, "reference"):
            with contextlib.suppress(atalla.KernelError):
                atalla.load(data, isa=isa).run((x,))
                ran += 1
    print(ran, refused)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    torch.set_num_threads(1)
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
