"""Cache: published whole or not at all, by whoever comes first; scratch and old logs do not pile up."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cross_backend.artifact import Artifact
from cross_backend.bench.open_artifact import settled
from cross_backend.cache import IN_USE_S, KEEP_S, LIMIT_VARIABLE, Cache, key_of
from cross_backend.errors import UsageError

FILES = 20


def test_the_variable_says_where_it_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CROSS_BACKEND_CACHE", str(tmp_path / "here"))
    assert Cache().root == tmp_path / "here"
    monkeypatch.setenv("CROSS_BACKEND_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert Cache().root.name == "cross-backend"
    assert not Cache().root.exists(), "nothing is created before it is needed"


def test_what_was_published_is_found(cache: Cache) -> None:
    assert cache.find("kind", "key") is None
    with cache.scratch() as folder:
        (folder / "file").write_text("content")
        place = cache.publish(folder, "kind", "key")
    assert cache.find("kind", "key") == place
    assert (place / "file").read_text() == "content"
    assert not list((cache.root / "tmp").iterdir())


def test_what_was_not_published_is_gone(cache: Cache) -> None:
    with contextlib.suppress(ZeroDivisionError), cache.scratch() as folder:
        (folder / "half").write_text("x")
        _ = 1 / 0
    assert not list((cache.root / "tmp").iterdir())
    assert cache.find("kind", "key") is None


def test_the_first_to_publish_wins(cache: Cache) -> None:
    for text in ("first", "second"):
        with cache.scratch() as folder:
            (folder / "file").write_text(text)
            place = cache.publish(folder, "kind", "key")
        assert (place / "file").read_text() == "first"


def test_a_dropped_entry_can_be_published_again(cache: Cache) -> None:
    for text in ("damaged", "whole"):
        with cache.scratch() as folder:
            (folder / "file").write_text(text)
            place = cache.publish(folder, "kind", "key")
        assert (place / "file").read_text() == text
        if text == "damaged":
            cache.drop("kind", "key")
            assert cache.find("kind", "key") is None
    cache.drop("kind", "never there")


def test_a_file_in_the_way_is_an_error(cache: Cache) -> None:
    (cache.root / "kind").mkdir(parents=True)
    (cache.root / "kind" / "key").write_text("a file, not an entry")
    with cache.scratch() as folder, pytest.raises(OSError, match="key"):
        cache.publish(folder, "kind", "key")
    assert cache.find("kind", "key") is None


def _publish(root: str, key: str, number: int, start: float) -> None:
    cache = Cache(Path(root))
    with cache.scratch() as folder:
        for i in range(FILES):
            (folder / str(i)).write_text(str(number))
        time.sleep(max(0.0, start - time.time()))
        cache.publish(folder, "kind", key)


def test_concurrent_publishers_leave_one_whole_entry(cache: Cache) -> None:
    context = multiprocessing.get_context("spawn")
    start = time.time() + 1.0
    workers = [context.Process(target=_publish, args=(str(cache.root), "key", n, start)) for n in range(4)]
    for worker in workers:
        worker.start()
    seen = None
    deadline = time.time() + 60
    while any(worker.is_alive() for worker in workers) and time.time() < deadline:
        place = cache.find("kind", "key")
        if place is not None:  # what can be seen at all is whole, and never changes
            texts = {(place / str(i)).read_text() for i in range(FILES)}
            assert len(texts) == 1
            assert seen in (None, texts.copy().pop())
            seen = texts.pop()
    for worker in workers:
        worker.join(10)
    assert [worker.exitcode for worker in workers] == [0] * 4
    place = cache.find("kind", "key")
    assert place is not None
    assert len({(place / str(i)).read_text() for i in range(FILES)}) == 1
    assert not list((cache.root / "tmp").iterdir())


def test_old_logs_and_scratch_are_deleted(cache: Cache) -> None:
    old = time.time() - KEEP_S - 60
    log = cache.log("run")
    assert log == cache.root / "logs" / f"run-{os.getpid()}.log"
    stale, fresh = [], []
    for kind in ("logs", "tmp"):
        for age, rows in (("old", stale), ("new", fresh)):
            file, folder = cache.root / kind / f"{age}-file", cache.root / kind / f"{age}-folder"
            folder.mkdir(parents=True)
            (folder / "inner").write_text("x")
            file.write_text("x")
            rows += [file, folder]
    for path in stale:
        os.utime(path, (old, old))
    with cache.scratch() as folder:
        entry = cache.publish(folder, "artifacts", "key")
    os.utime(entry, (old, old))
    cache.log("run")
    assert not any(path.exists() for path in stale)
    assert all(path.exists() for path in (*fresh, entry))


def test_the_least_recently_used_are_deleted_above_the_limit(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    old, checked = time.time() - 10 * IN_USE_S, cache.root / "pruned"

    def publish(kind: str, key: str) -> Path:
        with cache.scratch() as folder:
            (folder / "file").write_bytes(bytes(1000))
            return cache.publish(folder, kind, key)

    monkeypatch.setenv(LIMIT_VARIABLE, str(3500 / 1e9))
    kinds = {"a": "artifacts", "b": "captures", "c": "artifacts", "d": "artifacts", "e": "measured"}
    places = {key: publish(kind, key) for key, kind in kinds.items()}
    for age, place in enumerate(places.values()):
        os.utime(place, (old + age, old + age))
    assert all(place.is_dir() for place in places.values()), "the size is not looked at more often than that"
    assert cache.size_bytes() == 4000
    assert cache.find("artifacts", "a") is not None, "which is a use"
    os.utime(checked, (old, old))
    places |= {key: publish("artifacts", key) for key in ("f", "g")}
    assert {key for key, place in places.items() if place.is_dir()} == {"a", "d", "e", "f", "g"}
    os.utime(checked, (old, old))
    monkeypatch.setenv(LIMIT_VARIABLE, "0")
    os.utime(places["f"], (old, old))
    assert (publish("artifacts", "f") / "file").is_file(), "publishing what is there is a use, too"
    assert {key for key, place in places.items() if place.is_dir()} == {"a", "e", "f", "g"}, (
        "in use, whatever the limit"
    )
    assert not list((cache.root / "tmp").iterdir())


def test_opening_an_artifact_is_a_use(cache: Cache, make_artifact: Callable[..., Artifact]) -> None:
    place = cache.root / "artifacts" / "key"
    made = make_artifact(folder=place)
    os.utime(place, (1e9, 1e9))
    settled(made, cache)
    assert place.stat().st_mtime > 1.5e9


@pytest.mark.parametrize("text", ["much", "-1", "nan"])
def test_a_limit_that_is_no_size(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT_VARIABLE, text)
    with pytest.raises(UsageError, match=rf"{LIMIT_VARIABLE} is '{text}'\. Give a size in GB"):
        Cache()


def test_a_key_depends_on_every_part_and_not_on_their_order() -> None:
    key = key_of({"a": 1, "b": ["x", None]})
    assert key == key_of({"b": ["x", None], "a": 1})
    others = [key_of(parts) for parts in ({"a": 2, "b": ["x", None]}, {"a": 1}, {"a": 1, "b": ["x"]}, {})]
    assert len({key, *others}) == 5
    assert len(key) == 32
