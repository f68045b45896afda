"""Remembered: verdicts and latencies of this machine; forgotten when anything that they depend on changes."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cross_backend.cache import Cache
from cross_backend.machine import Machine
from cross_backend.measurement import Interval
from cross_backend.remembered import DATE, MachineRanks, Measured, Memory, Remembered, Verdict

VERSIONS = {"cross-backend": "0.1.0", "executorch": "1.5.1"}
FAST = Measured(1, 0.25, 0.2, 0.3, 1, "0123456789abcdef", "A processor")
SLOW = dataclasses.replace(FAST, rank=2, median_ms=4.0)


@pytest.fixture
def memory(cache: Cache) -> Memory:
    return Memory(cache)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Give a function that changes something about the machine."""

    def move(**changes: object) -> None:
        other = dataclasses.replace(Machine.here(), **changes)  # type: ignore[arg-type]
        monkeypatch.setattr(Machine, "here", lambda: other)

    return move


@pytest.mark.parametrize("verdict", Verdict)
def test_a_verdict_is_remembered_by_who_comes_later(verdict: Verdict, cache: Cache) -> None:
    found = Remembered(verdict, "" if verdict is Verdict.RIGHT else "the driver says no: ä")
    Memory(cache).keep_verdict("digest", VERSIONS, found)
    assert Memory(Cache(cache.root)).verdict("digest", dict(reversed(VERSIONS.items()))) == found


def test_nothing_is_known_at_first(memory: Memory) -> None:
    assert memory.verdict("digest", VERSIONS) is None
    assert memory.measured("program") == {}


def test_the_last_verdict_counts(memory: Memory) -> None:
    memory.keep_verdict("digest", VERSIONS, Remembered(Verdict.CRASHED, "SIGSEGV"))
    memory.keep_verdict("digest", VERSIONS, Remembered(Verdict.RIGHT))
    assert memory.verdict("digest", VERSIONS) == Remembered(Verdict.RIGHT)


@pytest.mark.parametrize(
    ("artifact", "versions"),
    [
        ("digesT", VERSIONS),
        ("digest", {**VERSIONS, "executorch": "1.5.2"}),
        ("digest", {**VERSIONS, "torch": "2.13.0"}),
        ("digest", {"cross-backend": "0.1.0"}),
        ("digest", {}),
    ],
)
def test_another_file_or_version_starts_afresh(artifact: str, versions: dict[str, str], memory: Memory) -> None:
    memory.keep_verdict("digest", VERSIONS, Remembered(Verdict.RIGHT))
    assert memory.verdict(artifact, versions) is None
    assert memory.verdict("digest", VERSIONS) is not None


@pytest.mark.parametrize(
    "changes", [{"cpu": "Another"}, {"isa": ()}, {"memory_bytes": 1}, {"release": "99"}, {"python": "3.99"}], ids=str
)
def test_another_machine_starts_afresh(
    changes: dict[str, object], memory: Memory, elsewhere: Callable[..., None]
) -> None:
    memory.keep_verdict("digest", VERSIONS, Remembered(Verdict.RIGHT))
    memory.keep_measured("program", {"a": FAST})
    elsewhere(**changes)
    assert memory.verdict("digest", VERSIONS) is None and memory.measured("program") == {}


def test_a_comparison_replaces_the_one_before(memory: Memory) -> None:
    memory.keep_measured("program", {"a": FAST, "b": SLOW})
    memory.keep_measured("other", {"a": SLOW})
    assert memory.measured("program") == {"a": FAST, "b": SLOW}
    memory.keep_measured("program", {"b": FAST})
    assert memory.measured("program") == {"b": FAST}, "ranks of two comparisons cannot be mixed"
    assert memory.measured("other") == {"a": SLOW}


def other_machine(**changes: object) -> Machine:
    return dataclasses.replace(Machine.here(), **{"cpu": "Another", **changes})  # type: ignore[arg-type]


def test_what_other_machines_measured_is_listed_newest_first(memory: Memory, cache: Cache) -> None:
    memory.keep_measured("program", {"a": FAST, "b": SLOW}, date="2026-11-25T10:00:00Z")
    there = other_machine(arch="arm64")
    Memory(cache, there).keep_measured("program", {"b": FAST}, "ssh://pi", "2026-11-27T10:00:00Z")
    Memory(cache, other_machine(cpu="Third")).keep_measured("other", {"b": FAST})
    far, near = memory.everywhere("program")
    assert far == MachineRanks("program", there.identity, "ssh://pi", "2026-11-27T10:00:00Z", {"b": FAST})
    assert (near.machine, near.place, dict(near.targets)) == (Machine.here().identity, "local", {"a": FAST, "b": SLOW})
    assert memory.ranks("program") == near and Memory(cache, there).ranks("program") == far
    assert memory.everywhere("program that nobody measured") == []


def test_ratio_and_date_are_kept(memory: Memory) -> None:
    row = dataclasses.replace(SLOW, ratio=Interval(1.5, 1.4, 1.6))
    memory.keep_measured("program", {"a": FAST, "b": row})
    (found,) = memory.everywhere("program")
    assert found.targets["b"].ratio == Interval(1.5, 1.4, 1.6) and DATE.fullmatch(found.date)


def test_a_file_of_an_older_version_is_read_and_dated_by_its_file(memory: Memory, cache: Cache) -> None:
    memory.keep_measured("program", {"a": FAST})
    (path,) = cache.root.glob("measured/*.json")
    old = {key: value for key, value in dataclasses.asdict(FAST).items() if key != "ratio"}
    path.write_text(json.dumps({"a": old}))
    os.utime(path, (1_700_000_000, 1_700_000_000))
    assert memory.measured("program") == {"a": FAST}
    (found,) = memory.everywhere("program")
    assert (found.date, found.machine, found.place) == ("2023-11-14T22:13:20Z", Machine.here().identity, "local")
    there = Memory(cache, other_machine())
    assert there.everywhere("program") == [], "an old file says neither program nor machine"


@pytest.mark.parametrize(
    ("key", "value"),
    [("date", "yesterday"), ("machine", None), ("place", None), ("targets", [3]), ("program", "other")],
)
def test_a_damaged_file_of_another_machine_is_forgotten(key: str, value: object, memory: Memory, cache: Cache) -> None:
    Memory(cache, other_machine()).keep_measured("program", {"b": FAST})
    (path,) = cache.root.glob("measured/*.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    assert [one for one in memory.everywhere("program") if one.place != "None"] == []


DAMAGED = [
    "", "{", "[]", "null", "7", "\0\1\2", "[" * 100_000, '{"verdict": 3, "reason": ""}', '{"verdict": "right"}',
    '{"verdict": ["right"], "reason": ""}', '{"a": 3}', '{"a": []}', '{"a": {}}', '{"a": {"rank": 1}}',
    '{"a": {"rank": NaN, "median_ms": 1, "low_ms": 1, "high_ms": 1, "threads": 1, "machine": "", "cpu": ""}}',
    '{"a": {"rank": 1e999, "median_ms": 1, "low_ms": 1, "high_ms": 1, "threads": 1, "machine": "", "cpu": ""}}',
    '{"a": {"rank": "best", "median_ms": 1, "low_ms": 1, "high_ms": 1, "threads": 1, "machine": "", "cpu": ""}}',
    '{"a": {"rank": null, "median_ms": 1, "low_ms": 1, "high_ms": 1, "threads": 1, "machine": "", "cpu": ""}}',
]  # fmt: skip


@pytest.mark.parametrize("text", DAMAGED, ids=lambda text: text[:30])
def test_a_damaged_file_is_forgotten_and_written_again(text: str, memory: Memory, cache: Cache) -> None:
    memory.keep_verdict("digest", VERSIONS, Remembered(Verdict.RIGHT))
    memory.keep_measured("program", {"a": FAST})
    files = [*cache.root.glob("verdicts/*"), *cache.root.glob("measured/*")]
    assert len(files) == 2
    for path in files:
        path.write_text(text)
    assert memory.verdict("digest", VERSIONS) is None and memory.measured("program") == {}
    memory.keep_verdict("digest", VERSIONS, Remembered(Verdict.WRONG, "NaN"))
    memory.keep_measured("program", {"a": SLOW})
    assert memory.verdict("digest", VERSIONS) == Remembered(Verdict.WRONG, "NaN")
    assert memory.measured("program") == {"a": SLOW}


def test_a_cache_that_cannot_be_written_remembers_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    memory = Memory(Cache(tmp_path / "file" / "cache"))
    memory.keep_verdict("digest", VERSIONS, Remembered(Verdict.RIGHT))
    memory.keep_measured("program", {"a": FAST})
    assert memory.verdict("digest", VERSIONS) is None and memory.measured("program") == {}


def test_deleting_the_files_only_forgets(memory: Memory, cache: Cache) -> None:
    memory.keep_verdict("digest", VERSIONS, Remembered(Verdict.RIGHT))
    (path,) = cache.root.glob("verdicts/*.json")
    path.unlink()
    assert memory.verdict("digest", VERSIONS) is None
    assert not list((cache.root / "tmp").iterdir()), "no scratch is left"


def _write(root: Path, letter: str) -> None:
    memory = Memory(Cache(root))
    for _ in range(200):
        memory.keep_verdict("digest", VERSIONS, Remembered(Verdict.FAILED, letter * 5000))


def test_writers_at_once_leave_one_whole_verdict(cache: Cache) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(cache.root, letter)) for letter in "ab"]
    for writer in writers:
        writer.start()
    seen = set()
    while any(writer.is_alive() for writer in writers):
        seen.add(Memory(cache).verdict("digest", VERSIONS))
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    seen.add(Memory(cache).verdict("digest", VERSIONS))
    assert seen - {None} <= {Remembered(Verdict.FAILED, letter * 5000) for letter in "ab"} and len(seen) > 1
    assert len(list(cache.root.glob("verdicts/*"))) == 1
