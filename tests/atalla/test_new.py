"""``atalla new``: what it writes works under another name, is a backend and a delegate, and passes its own tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from atalla.cli import main
from atalla.errors import AtallaError
from atalla.scaffold import write
from atalla.scaffold.names import NEEDED, TAKEN, why_not
from atalla.scaffold.renaming import TEMPLATE, sources
from cross_backend.registry import BACKENDS

ROOT = Path(__file__).parents[2]
NAME = "my_npu"
BACKENDS_OF_IT = (NAME, f"executorch.{NAME}")
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a package that the command wrote, in a folder whose path holds a space."""
    folder = tmp_path_factory.mktemp("some where")
    assert main(["new", NAME, "--dir", str(folder)]) == 0
    return folder / NAME


@pytest.fixture(scope="module")
def run(package: Path, kept_folder: Path, shared_folder: Path, popen: type[subprocess.Popen[Any]]) -> Run:
    """Give a function that runs a command beside the package, which is found in this interpreter's environment; ours
    is a fork.
    """
    site = os.pathsep.join(str(package / part) for part in ("src", "build/site"))
    variables = {
        **os.environ,
        "MY_NPU_CACHE": str(kept_folder / "my_npu"),
        "PYTHONPATH": os.pathsep.join((site, str(ROOT / "src"))),
    }

    def started(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        with (popen if words[1:3] == ("-m", "cross_backend") else subprocess.Popen)(
            words,
            cwd=package,
            env={**variables, **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            streams = process.communicate(timeout=1500)
        return subprocess.CompletedProcess(words, process.returncode, *streams)

    return started


@pytest.fixture(scope="module")
def make(run: Run) -> Callable[..., str]:
    """Give a function that makes a target of the package's Makefile in this environment, and gives what is printed."""

    def made(target: str, tests: str = "") -> str:
        words = (f"PYTHON={sys.executable}", "PIP_ARGS=--no-build-isolation", f"TEST={tests}")
        done = run("make", target, *words, PYTHONPATH=str(ROOT / "src"))
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return made


def test_a_chip_called_mychip_is_the_template(tmp_path: Path) -> None:
    assert main(["new", "mychip", "--dir", str(tmp_path)]) == 0
    written = {path.relative_to(tmp_path / "mychip") for path in (tmp_path / "mychip").rglob("*") if path.is_file()}
    assert written == {path.relative_to(TEMPLATE) for path in sources()}
    for name in written - {Path("Makefile")}:
        assert (tmp_path / "mychip" / name).read_bytes() == (TEMPLATE / name).read_bytes()


def test_nothing_of_the_templates_name_is_left(package: Path) -> None:
    files = [path for path in package.rglob("*") if path.is_file() and "build" not in path.relative_to(package).parts]
    assert len(files) == len(list(sources()))
    for path in files:
        text = f"{path.relative_to(package)} {path.read_text()}".lower()
        assert "mychip" not in text and "@cross_backend@" not in text and "@pip_args@" not in text, path
        if path.suffix in {".py", ".c", ".cpp", ".h"}:
            assert len(path.read_text().splitlines()) < 150, f"{path} is more than a newcomer reads at once"


@pytest.mark.slow
def test_its_tests_of_blobs_and_executors_pass_here(make: Callable[..., str]) -> None:
    assert " passed" in make("test", "tests/test_blob.py tests/test_compiler.py -k 'blob or bits'")


@pytest.mark.slow
def test_it_is_listed_and_compared(make: Callable[..., str], run: Run) -> None:
    make("build/site/.ready")
    listed = run(sys.executable, "-m", "cross_backend", "backends", "--json")
    rows = {row["name"]: row for row in json.loads(listed.stdout)["backends"]}
    assert [(rows[name]["lower"], rows[name]["run"]) for name in BACKENDS_OF_IT] == [(None, None)] * 2
    compare(run, BACKENDS_OF_IT)


@pytest.mark.slow
def test_its_simulator_is_compared_and_has_no_rank(make: Callable[..., str], run: Run) -> None:
    make("build/site/.ready")
    simulated = f"{NAME}?executor=simulator"
    results = compare(run, (NAME, simulated, "executorch.xnnpack"))
    assert "simulated" in json.dumps(results[simulated]) and "simulated" not in json.dumps(results[NAME])


def compare(run: Run, targets: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Compare them on the smallest model, and give each one's result, which is right."""
    quick = ("--seconds", "0.2", "--num-runs", "20", "--launches", "1", "--json")
    compared = run(
        sys.executable, "-m", "cross_backend", "compare", "linear_regression", "--backends", *targets, *quick
    )
    assert compared.returncode == 0, compared.stderr
    results = {one["target"]: one for one in _results(json.loads(compared.stdout))}
    assert {target: one["outcome"] for target, one in results.items()} == dict.fromkeys(targets, "OK")
    return results


def _results(document: Any) -> list[dict[str, Any]]:
    """Return every object of a document that has a target and an outcome."""
    if isinstance(document, dict):
        own = [document] if {"target", "outcome"} <= document.keys() else []
        return own + [one for part in document.values() for one in _results(part)]
    return [one for part in document for one in _results(part)] if isinstance(document, list) else []


@pytest.mark.nightly
@pytest.mark.timeout(1500)  # an environment with PyTorch in it
def test_a_fresh_environment_passes(tmp_path: Path, run: Run) -> None:
    assert main(["new", "fresh_npu", "--dir", str(tmp_path)]) == 0
    variables = {"PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])), "PYTHONPATH": ""}
    words = ("make", "-C", str(tmp_path / "fresh_npu"), "test", "TEST=", f"CROSS_BACKEND={ROOT}")
    done = run(*words, FRESH_NPU_CACHE=str(tmp_path / "cache"), **variables)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr


BAD = {
    "": "small letters",
    "My": "small letters",
    "a-b": "small letters",
    "_a": "small letters",
    "a__b": "small letters",
    "näpu": "small letters",
    "../npu": "small letters",
    "npu\x1b[31m": "small letters",
    "n" * 31: "more than 30",
    "lambda": "a word of Python",
    "match": "a word of Python",
    "json": "Python's own library",
    "xnnpack": "cross-backend has a backend",
    "pytest": "would need another one",
    "session": "means something else by Session",
    "build": "means something else by Build",
    "packaging": "is installed here",
}


@pytest.mark.parametrize("name", BAD)
def test_a_name_that_is_not_free_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", f"--dir={tmp_path}", name]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and said.err.isprintable() is False
    assert said.err.startswith("atalla new: ") and BAD[name] in said.err and "\x1b" not in said.err
    assert not list(tmp_path.iterdir())


def test_names_of_backends_are_known() -> None:
    """Atalla does not import cross_backend, so that it keeps a list."""
    parts = {part for name in BACKENDS for part in name.split(".")}
    aliases = {alias for row in BACKENDS.values() for alias in row.aliases}
    assert parts | aliases == TAKEN
    assert not TAKEN & NEEDED and why_not("mychip") is None


@pytest.mark.parametrize("name", ["con", "nul", "com1", "lpt9", "int", "main", "register", "namespace", "typeof"])
def test_names_that_windows_or_c_keep_for_themselves(name: str) -> None:
    assert why_not(name) is not None


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch, lambda path: path.symlink_to("nowhere")])
def test_nothing_is_written_over(
    make: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / NAME)
    assert main(["new", NAME, "--dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err.endswith(f"{NAME} is there already, and nothing is written over\n")
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_a_folder_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", NAME, "--dir", str(tmp_path / "no")]) == 1
    assert capsys.readouterr().err == f"atalla new: {tmp_path / 'no'} is no folder\n"


def test_what_fails_halfway_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = iter(range(7))

    def failing(text: str, _: object) -> str:
        if next(given, None) is None:
            raise AtallaError("the disk is full")
        return text

    monkeypatch.setattr(write, "renamed", failing)
    assert main(["new", NAME, "--dir", str(tmp_path)]) == 1
    assert not list(tmp_path.iterdir())


def test_json_lists_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", NAME, "--dir", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == 1 and document["folder"] == str(tmp_path / NAME)
    assert {"Makefile", "README.md", f"src/{NAME}/csrc/{NAME}.h", "tests/test_blob.py"} <= set(document["files"])


ORIGINS: Sequence[tuple[str, Callable[[Path], str | None], Callable[[Path], tuple[str, str]]]] = [
    ("an index", lambda _: None, lambda _: ("cross-backend==9.9", "")),
    ("a checkout", lambda path: path.as_uri(), lambda path: (str(path), f"-c '{path / 'constraints.txt'}'")),
    ("a wheel", lambda path: (path / "some.whl").as_uri(), lambda path: (str(path / "some.whl"), "")),
    ("what is gone", lambda path: (path / "gone").as_uri(), lambda _: ("cross-backend", "")),
    ("elsewhere", lambda _: "https://example.com/c.whl", lambda _: ("cross-backend", "")),
]


@pytest.mark.parametrize(("url", "remembered"), [row[1:] for row in ORIGINS], ids=[row[0] for row in ORIGINS])
def test_the_makefile_remembers_where_cross_backend_came_from(
    url: Callable[[Path], str | None],
    remembered: Callable[[Path], tuple[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    origin, site = tmp_path / "a #$ checkout", tmp_path / "site"
    info = site / "cross_backend-9.9.dist-info"
    for folder in (origin, info):
        folder.mkdir(parents=True)
    (origin / "constraints.txt").touch()
    (origin / "some.whl").touch()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cross-backend\nVersion: 9.9\n")
    if (text := url(origin)) is not None:
        (info / "direct_url.json").write_text(json.dumps({"url": text, "dir_info": {}}))
    monkeypatch.syspath_prepend(site)
    assert main(["new", NAME, "--dir", str(tmp_path)]) == 0
    (tmp_path / "show.mk").write_text(
        f"include {tmp_path / NAME / 'Makefile'}\n$(info $(CROSS_BACKEND))\n$(info $(PIP_ARGS))\nnothing: ;\n"
    )
    words = ["make", "-s", "-f", str(tmp_path / "show.mk"), "nothing"]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == list(remembered(origin))
