"""The documents' commands run as they are written; one that cannot run here names the tests of what it does.

A command may be given a smaller file than its reader has, or fewer calls: ``SHORTER`` says how.
"""

import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.e2e.conftest import variables
from tests.unit.test_documents import COMMAND, PAGES, ROOT, typed

ELSEWHERE = {
    r".*cross-backend serve": "serve/test_command.py",
    r"cross-backend node|.*--launcher ray": "cluster/test_study.py",
    r"cross-backend toolchain add": "test_cli_toolchain.py",
    r".*mychip": "../atalla/test_new.py",
    r".*--executor my_chip": "../atalla/fuzz_graphs/test_fuzz_graphs.py",
    r".*postgresql:": "../unit/store/test_store.py",
    r".*(--weights|bundles/gpt2_decoder)": "test_cli_run_prompt.py",
    r".*(onnxruntime.genai|llama_cpp)": "test_cli_generate.py",
    r".*--via runner": "places/test_without_python.py",
    r".*qemu:": "places/test_without_python.py",
    r".*study diff 41 nightly": "test_cli_study.py",
    r"cross-backend matrix( *#|$)": "test_cli_matrix.py",
}
"""Pattern of commands → the test file that does the same with what this machine or an hour has."""
SHORTER = {
    "compare": "--num-runs 6 --seconds 0.2 --launches 1",
    "tune": "--seconds 0.2 --launches 1",
    "matrix": "--seconds 0.1 --backends cpu",
    "fuzz": "--cases 3",
}
"""Command → what is added to it."""
MEANS = {"[NAME]": "", "NAME": "quick_test", "BEFORE AFTER": "1 quick_test", "FILE": "nightly.yaml"}
"""Word of a page → what a reader writes there."""
PICTURES = (
    "import numpy; [numpy.savez(f'pictures/{i}.npz', input_0=numpy.ones((1, 8), 'float32') * i) for i in range(4)]"
)
BEFORE = {
    r".*study diff 1 2": "cross-backend study run nightly.yaml",
    r".*pictures/": f'mkdir pictures && {shlex.quote(sys.executable)} -c "{PICTURES}"',
    r".*theirs.pte": "cp models/mobilenet_v3_small_xnnpack.pte theirs.pte",
    r".*--bundled-program": "cross-backend export mobilenet_v3_small --backends xnnpack --bundled",
    r".*run resnet50_xnnpack": "cross-backend export resnet50 --backends xnnpack --output-dir .",
    r".*run mobilenet.*_int8": "cross-backend export mobilenet_v3_small --backends 'cpu?precision=int8' --output-dir .",
}
"""Pattern of commands → what a reader did before."""
LONG = r".*(resnet50|--generate|llama_text|matrix |tune |--on |doctor|--platform ios --precision)"
"""Commands that take half a minute and more, also when they are shorter: they run at night only."""
STUDY = """
workloads: [linear_regression]
targets: [cpu, torch]
settings: {seconds: 0.1, launches: 1, max_launches: 1}
"""
FILES = {
    "net.py": """
        import torch

        def net():
            torch.manual_seed(0)
            layers = torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)
            return torch.nn.Sequential(*layers).eval(), (torch.randn(1, 8),)

        build = net

        class Decoder(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.embedding = torch.nn.Embedding(16, 8)
                self.head = torch.nn.Linear(8, 16)
                self.register_buffer("seen", torch.zeros(1, 8))

            def forward(self, tokens, position):
                told = self.embedding(tokens).mean(1)
                self.seen.copy_(0.5 * self.seen * (position > 0) + told)
                return self.head(self.seen)

        def decoder():
            torch.manual_seed(0)
            tokens, position = torch.zeros(1, 1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
            return Decoder().eval(), (tokens, position)
    """,
    "model.py": """
        import torch

        class Net(torch.nn.Module):
            def forward(self, x):
                return torch.nn.functional.interpolate(x.relu(), size=(64, 64)) + 1

        def net():
            return Net().eval(), (torch.randn(1, 1, 26, 26),)
    """,
    "data.py": """
        import torch

        def held_out():
            rows = torch.randn(32, 8, generator=torch.Generator().manual_seed(1))
            return rows, torch.arange(32) % 4
    """,
    "my_text.py": """
        import torch

        def held_out():
            return torch.randint(16, (20, 8), generator=torch.Generator().manual_seed(1)), None, "perplexity"
    """,
    "nightly.yaml": f"name: nightly{STUDY}",
    "bench/nightly.yaml": f"name: nightly{STUDY}",
    "examples/studies/quick_test.yaml": f"name: quick_test{STUDY}",
}
ALSO = {"net.py": ("my_net.py", "mymodel.py"), "data.py": ("my_data.py",)}
"""File → its other names on the pages."""


def commands(page: Path) -> list[str]:
    """Return the commands of a page in their order: those of its blocks, and whole ones in README's table."""
    text = page.read_text(encoding="utf-8")
    lines = [line.strip() for line in typed(text)]
    if page.name == "README.md":
        lines += re.findall(r"^\| `((?:cross-backend|atalla) [^`]+)` \|", text, re.MULTILINE)
    return [line for line in lines if COMMAND.match(line) and "[-" not in line]


def elsewhere(command: str) -> str | None:
    """Return the test file of a command that cannot run here."""
    return next((file for pattern, file in ELSEWHERE.items() if re.match(pattern, command)), None)


def shortened(command: str) -> str:
    """Return a command with this interpreter and what makes it shorter, without its comment."""
    for word, meant in MEANS.items():
        command = re.sub(rf"(?<= ){re.escape(word)}(?!\S)", meant, command)
    parts = re.split(r"(?<= )(&&|\|)(?= )", re.sub(r"\s+#.*", "", command).removeprefix(".venv/bin/"))
    return " ".join(_started(part.strip()) for part in parts)


def _started(part: str) -> str:
    program, *words = part.split(" ", 2)
    module = {"cross-backend": "cross_backend", "atalla": "atalla"}.get(program)
    if module is None:
        return part
    more = SHORTER.get(words[0], "")
    if "--generate" in part:
        words, more = [re.sub(r"\b\d+:\d+\b", "4:4", word) for word in words], ""
    return " ".join([shlex.quote(sys.executable), "-m", module, *words, more])


@pytest.fixture
def folder(tmp_path):
    """A reader's folder, with the files that the pages name."""
    for name, text in FILES.items():
        for one in (name, *ALSO.get(name, ())):
            path = tmp_path / one
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
    return tmp_path


def runnable(page: Path, which: str) -> list[str]:
    """Return the commands of a page that run here: all, or the short ones."""
    return [one for one in commands(page) if not elsewhere(one) and (which == "all" or not re.match(LONG, one))]


WHICH = {"short": pytest.mark.slow, "all": pytest.mark.nightly}
RUN = [
    pytest.param(page, which, marks=mark, id=f"{page.relative_to(ROOT).as_posix()}-{which}")
    for which, mark in WHICH.items()
    for page in PAGES
    if "tutorials" not in page.parts and runnable(page, which)
]


def test_what_is_tested_elsewhere_is_there():
    found = [one for page in PAGES for one in commands(page)]
    assert [file for file in ELSEWHERE.values() if not (Path(__file__).parent / file).is_file()] == []
    unused = [pattern for pattern in ELSEWHERE if not any(re.match(pattern, one) for one in found)]
    assert unused == []


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("page", "which"), RUN)
def test_the_commands_of_a_page_run(page, which, folder, far, new_memory):
    environment = variables(new_memory(), CROSS_BACKEND_SSH=far.command)
    for command in runnable(page, which):
        first = next((one for pattern, one in BEFORE.items() if re.match(pattern, command)), None)
        text = " && ".join(shortened(one) for one in (first, command) if one)
        text = re.sub(r"ssh://[\w@-]+", f"'ssh://there?python={sys.executable}'", text)
        done = subprocess.run(
            ["bash", "-c", text], cwd=folder, env=environment, capture_output=True, text=True, timeout=1200, check=False
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, f"$ {command}\n{done.stderr}"
