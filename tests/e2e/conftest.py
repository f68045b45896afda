"""What the end-to-end tests share: the real command in a process of its own, and artifacts that it exported."""

import contextlib
import fcntl
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import psutil
import pytest

from tests.browser import chromium, visits
from tests.ssh_server import server

BEFORE_MAIN = {"PYTHONUTF8", "PYTHONIOENCODING", "LC_ALL", "LANG", "LD_LIBRARY_PATH", "LD_PRELOAD"}
"""Environment variables that are read before the command's first line."""
COMMAND = [sys.executable, "-m", "cross_backend"]
TARGETS = ("xnnpack", "portable", "cpu", "openvino", "torch")


def variables(cache=None, **extra):
    """Give this process's environment without what would change how the command prints."""
    kept = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "FORCE_COLOR", "COLUMNS"}}
    if cache is not None:
        kept["CROSS_BACKEND_CACHE"] = str(cache)
    if "PYTHONPATH" in kept and "PYTHONPATH" in extra:
        extra["PYTHONPATH"] += os.pathsep + kept["PYTHONPATH"]
    return {**kept, "PYTHONUTF8": "1", **extra}


@pytest.fixture(scope="session")
def cli(popen):
    """Run the command to its end: ``cli("export", "x", cache=…, cwd=…, NAME="variable")`` gives the streams as text.

    It is forked; but a new process where something comes before its ``main``. ``max_file_bytes`` does what a full disk
    does, where nothing can be mounted: no file of the command may grow beyond that.
    """

    def run(
        *args,
        cache=None,
        cwd=None,
        timeout=300,
        before=(),
        preexec=None,
        max_file_bytes=None,
        stdout=subprocess.PIPE,
        **extra,
    ):
        limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (max_file_bytes, max_file_bytes))
        if max_file_bytes is not None:
            extra["PYTHONDONTWRITEBYTECODE"] = "1"  # as tests.unit.conftest.room
        is_script = before[:1] == ("-c",)  # which a fork runs, too
        is_fresh = (before and not is_script) or preexec or extra.keys() & BEFORE_MAIN
        process = (subprocess.Popen if is_fresh else popen)(
            [sys.executable, *before, "-m", "cross_backend", *map(str, args)],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=cwd,
            env=variables(cache, **extra),
            preexec_fn=preexec if max_file_bytes is None else limit,
        )
        try:
            streams = process.communicate(timeout=timeout)
        finally:
            process.kill()
            process.wait()
        return subprocess.CompletedProcess(process.args, process.returncode, *streams)

    return run


class Started(psutil.Process):
    """A command that runs; what psutil says of a process, and how it ended."""

    returncode = None

    def poll(self):
        with contextlib.suppress(psutil.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout=None):
        self.returncode = super().wait(timeout)
        return self.returncode


@pytest.fixture
def start(popen, tmp_path):
    """Start the command and give its process; whatever is left of it is killed afterwards."""
    started = []

    def begin(*args, cache=None, cwd=None, **extra):
        with (tmp_path / "stdout").open("wb") as out, (tmp_path / "stderr").open("wb") as err:
            process = popen(
                [*COMMAND, *map(str, args)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=cwd,
                env=variables(cache, **extra),
            )
        started.append((process, Started(process.pid)))
        return started[-1][1]

    yield begin
    for process, seen in started:
        family = [seen]
        if seen.is_running():
            family += seen.children(recursive=True)
        for member in family:
            if member.is_running():
                member.kill()
        process.wait()


@pytest.fixture
def streams(tmp_path):
    """Give what the process of ``start`` has written: (stdout, stderr)."""
    return lambda: tuple((tmp_path / name).read_text(encoding="utf-8") for name in ("stdout", "stderr"))


@pytest.fixture(scope="session")
def until():
    """Wait until a question is answered with something true, or a process ``of`` ends; give the answer."""

    def wait(question, what, seconds=120.0, of=None):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            over = of is not None and of.poll() is not None
            answer = question()
            if answer:
                return answer
            assert not over, f"the command ended with status {of.returncode} before {what}"
            time.sleep(0.02)
        raise AssertionError(f"waited {seconds:.0f} s in vain until {what}")

    return wait


@pytest.fixture(scope="session")
def workers():
    """Give a process's living worker processes, oldest first."""

    def find(process):
        found = []
        for child in process.children():
            try:
                # The command starts each in a group of its own, and nothing else so.
                if os.getpgid(child.pid) == child.pid and child.status() != psutil.STATUS_ZOMBIE:
                    found.append(child)
            except (psutil.NoSuchProcess, ProcessLookupError):
                continue
        return sorted(found, key=lambda child: (child.create_time(), child.pid))

    return find


@pytest.fixture(scope="session")
def all_gone():
    """Say whether none of these processes runs any more."""

    def gone(processes):
        for process in processes:
            try:
                if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                    return False
            except psutil.NoSuchProcess:
                continue
        return True

    return gone


@pytest.fixture(scope="session")
def complaint():
    """Check that a command ended with one clear line and nothing else than progress; give the line."""

    def check(result, status, *words):
        assert result.returncode == status, (result.returncode, result.stdout, result.stderr)
        return find(result.stderr, words)

    def find(stderr, words):
        assert "Traceback" not in stderr and "Exception ignored" not in stderr, stderr
        lines = [line for line in stderr.splitlines() if line.startswith("cross-backend")]
        assert len(lines) == 1, stderr
        assert stderr.rstrip("\n").endswith(lines[0]), f"something follows the complaint: {stderr}"
        assert len(lines[0]) <= 2500
        for word in words:
            assert word in lines[0], f"{word!r} is not in: {lines[0]}"
        return lines[0]

    return check


@pytest.fixture(scope="session")
def usage_error(complaint):
    """Check for wrong usage: status 2, and the complaint is all that is printed."""

    def check(result, *words):
        line = complaint(result, 2, *words)
        assert result.stdout == ""
        assert result.stderr == line + "\n"
        return line

    return check


@pytest.fixture(scope="session")
def document():
    """Read the one JSON document that is all of a command's standard output."""

    def read(result, status=0):
        assert result.returncode == status, (result.returncode, result.stdout, result.stderr)
        return json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))

    return read


@pytest.fixture(scope="session")
def plain():
    """Check that a text has no control codes and no emoji."""

    def check(text):
        assert "\x1b" not in text, text
        assert "\r" not in text, text
        pictures = re.findall("[\U0001f000-\U0001faff\u2600-\u27bf\u23e9-\u23ff\u2b50\ufe0f]", text)
        assert not pictures, pictures

    return check


@pytest.fixture(scope="session")
def linear(cli, shared_folder, tmp_path_factory):
    """``linear_regression`` as exported for five targets, once for all processes of pytest-xdist; not to be changed."""
    folder = shared_folder / "linear"
    with (shared_folder / "linear.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            partial = tmp_path_factory.mktemp("partial")
            result = cli("export", "linear_regression", "--backends", *TARGETS, "--strict", "--output-dir", partial)
            assert result.returncode == 0, result.stderr + result.stdout
            partial.rename(folder)
    return folder


@pytest.fixture
def damaged(linear, tmp_path):
    """A copy of those artifacts that a test may damage."""
    return Path(shutil.copytree(linear, tmp_path / "artifacts"))


@pytest.fixture(scope="session")
def faulty(tmp_path_factory):
    """Install the backends of ``faulty_backends.py`` as a third party would; give the environment that finds them."""
    site = tmp_path_factory.mktemp("site")
    source = Path(__file__).with_name("faulty_backends.py")
    shutil.copyfile(source, site / "faulty_backends.py")
    names = re.findall(r'^    name = "(\w+\.(\w+))"$', source.read_text(), re.MULTILINE)
    info = site / "faulty-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1.0\n")
    rows = [f"{name} = faulty_backends:{short.title().replace('_', '')}" for name, short in names]
    (info / "entry_points.txt").write_text("\n".join(["[cross_backend.backends]", *rows]) + "\n")
    return {"PYTHONPATH": str(site)}


@pytest.fixture(scope="session")
def write_study():
    """Give a function that writes a study file whose panels take seconds; other settings replace the short ones."""

    def write(path, workloads, targets, batch_sizes=(1,), output=None, **settings):
        settings = {"seconds": 0.4, "launches": 2, "max_launches": 2, "instruments": [], "timeout_s": 120, **settings}
        rows = {"workloads": list(workloads), "targets": list(targets), "batch_sizes": list(batch_sizes)}
        path.write_text(json.dumps({**rows, "settings": settings, "output": output or {}}))  # JSON is YAML, too
        return path

    return write


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture
def visit(browser):
    with visits(browser) as go:
        yield go


@pytest.fixture(scope="session")
def far():
    """A far machine: this one, over a real OpenSSH server with a cache of its own."""
    with server() as found:
        yield found
