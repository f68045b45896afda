"""The command: what it needs, what it refuses, and that it ends and leaves nothing behind."""

import signal
import urllib.request

import pytest

from cross_backend.web.guard import TOKEN_HEADER


def address(streams):
    """Give where the command says that it listens; None while it has not said so."""
    out = streams()[0]
    return out.split()[1] if "Ctrl-C" in out else None


def test_it_serves_until_it_is_interrupted_and_takes_its_workers_along(
    start, streams, until, workers, all_gone, linear, tmp_path
):
    process = start("serve", linear, "--port", "0", "--no-open", "--db", tmp_path / "none.sqlite")
    where = until(lambda: address(streams), "it listens", of=process)
    assert where.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(f"{where}healthz") as answer:
        assert b'"ok"' in answer.read()
    with urllib.request.urlopen(f"{where}results") as answer:
        assert b"No study is stored yet" in answer.read()
    with urllib.request.urlopen(f"{where}api/models") as answer:
        key = answer.read().decode().partition('"artifact":"')[2].partition('"')[0]
    with urllib.request.urlopen(f"{where}api/token") as answer:
        token = answer.read().decode().partition('":"')[2].partition('"')[0]
    asked = urllib.request.Request(f"{where}api/run?artifact={key}", b"1,2,3,4", {TOKEN_HEADER: token})
    with urllib.request.urlopen(asked) as answer:
        assert b'"outcome":"OK"' in answer.read()
    started = workers(process)
    assert len(started) == 1
    process.send_signal(signal.SIGINT)
    assert process.wait(60) in {0, 130}
    until(lambda: all_gone(started), "the worker is gone", seconds=30)
    assert "Traceback" not in streams()[1] and not (tmp_path / "none.sqlite").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--host", "0.0.0.0"), ("--token",)),
        (("--token", "short"), ("8 characters",)),
        (("--port", "70000"), ("70000",)),
        (("no/such/folder",), ("no/such/folder", "does not exist")),
        (("--db", "mysql://somewhere"), ("mysql",)),
    ],
)
def test_what_cannot_be_is_told_in_one_line(cli, usage_error, arguments, words):
    usage_error(cli("serve", "--no-open", *arguments), *words)


def test_a_port_that_is_taken_is_told(cli, usage_error, linear, served):
    usage_error(cli("serve", linear, "--no-open", "--port", served.port), str(served.port), "--port")


def test_without_its_packages_it_says_what_brings_them(cli, complaint, tmp_path):
    script = (
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'starlette' else find(name, *rest)\n"
        "from cross_backend.cli import main; raise SystemExit(main(['serve', '--no-open']))"
    )
    complaint(cli(before=("-c", script)), 1, "starlette", "pip install 'cross-backend[web]'")
