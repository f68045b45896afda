"""The wheel: what it holds, and what the command says in a clean environment that has nothing but it."""

import json
import os
import re
import subprocess
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import torch
from packaging.utils import canonicalize_name

import atalla
import cross_backend
from atalla.scaffold.renaming import sources

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def clean(wheel, tmp_path_factory):
    """Run the installed command in an environment with the wheel and its plain dependencies only."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder / "venv", with_pip=True)
    bin_folder = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    install = [bin_folder / "python", "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    kept = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    own = {"CROSS_BACKEND_CACHE": "cache", "CROSS_BACKEND_TOOLCHAINS": "toolchains", "XDG_DATA_HOME": "data"}
    kept |= {**{name: str(folder / place) for name, place in own.items()}, "PYTHONUTF8": "1"}

    def run(*arguments, command="cross-backend"):
        words = [bin_folder / command, *arguments]
        return subprocess.run(words, capture_output=True, text=True, cwd=folder, env=kept, check=False)

    return run


def test_content(wheel):
    assert re.fullmatch(rf"cross_backend-{cross_backend.__version__}-py3-none-\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(next(n for n in names if n.endswith(".dist-info/METADATA"))).decode()
        entry_points = archive.read(next(n for n in names if n.endswith("entry_points.txt"))).decode()
    assert {"atalla/py.typed", "cross_backend/py.typed"} <= names
    assert any(re.fullmatch(r"cross_backend-.*\.dist-info/licenses/LICENSE", name) for name in names)
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"atalla", "cross_backend", f"cross_backend-{cross_backend.__version__}.dist-info"}
    scaffold = {path.relative_to(ROOT / "src").as_posix() for path in sources()}
    assert {"atalla/scaffold/template/.gitignore", "atalla/scaffold/template/Makefile"} < scaffold <= names
    of_tests = re.compile(r"(^|/)(tests?|__pycache__|conftest\.py|test_[^/]*|[^/]*_tests?\.\w+)(/|$)|\.pyc$")
    odd = {name for name in names if of_tests.search(name)}
    assert odd <= scaffold, "no test of ours and no bytecode"
    ours = {
        path.relative_to(ROOT / "src").as_posix()
        for suffix in ("c", "cpp", "css", "h", "js", "mo", "py", "template")
        for path in (ROOT / "src").rglob(f"*.{suffix}")
    }
    pages = {name.rpartition("/")[0] for name in ours if name.endswith(".template")}
    assert pages >= {"atalla/report/templates", "cross_backend/report/templates"}
    assert ours <= names, "every module and every template is shipped"
    runner = {f"cross_backend/_runner/src/{path.name}" for path in (ROOT / "runner" / "src").iterdir()}
    assert runner <= names and "cross_backend/_runner/build.sh" in names, "and what builds the runner"
    assert "cross-backend = cross_backend.cli:main" in entry_points and "atalla = atalla.cli:main" in entry_points
    assert "License-Expression: MIT" in metadata and "Requires-Python: >=3.11" in metadata
    for extra in PYPROJECT["project"]["optional-dependencies"]:
        assert f"Provides-Extra: {canonicalize_name(extra)}\n" in metadata


def test_plain_dependencies_are_light(wheel):
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = archive.read(name).decode()
    plain = re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*$", metadata, re.MULTILINE)
    assert sorted(plain) == [
        "cattrs",
        "filelock",
        "jinja2",
        "markupsafe",
        "ml-dtypes",
        "numpy",
        "packaging",
        "platformdirs",
        "psutil",
        "pydantic",
        "pyyaml",
        "rich",
        "sqlalchemy",
    ]


def test_version_and_help(clean):
    shown = clean("--version")
    assert (shown.returncode, shown.stdout) == (0, f"cross-backend {cross_backend.__version__}\n")
    assert clean("--help").returncode == 0


def test_every_backend_says_what_to_install(clean):
    done = clean("backends", "--json")
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)["backends"]}
    assert {"executorch.xnnpack", "onnxruntime.cpu", "openvino", "torch.eager"} <= set(rows)
    extras = PYPROJECT["project"]["optional-dependencies"]
    for name, row in rows.items():
        if name == "null":
            assert row["lower"] is None and row["run"] is None
            continue
        assert row["lower"]["reason"] and row["run"]["reason"]
        remedy = row["lower"]["remedy"]
        named = re.search(r"pip install 'cross-backend\[([\w,-]+)\]'", remedy)
        assert named or remedy.startswith("cross-backend toolchain "), (name, remedy)
        assert named is None or set(named[1].split(",")) <= set(extras)
    table, reasons = clean("backends"), clean("backends", "--why")
    assert table.returncode == 0 and "cross-backend backends --why" in table.stdout
    assert reasons.returncode == 0 and "pip install 'cross-backend[" in reasons.stdout


def test_models_say_what_to_install(clean):
    done = clean("models", "--json")
    assert done.returncode == 0, done.stderr
    for row in json.loads(done.stdout)["models"]:
        assert row["remedy"] and re.fullmatch(r"pip install 'cross-backend\[[\w,-]+\]'", row["remedy"]), row
    assert clean("models").returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("export", "linear_regression"),
        ("export", "linear_regression", "--backends", "cpu"),
        ("export", "digits_cnn", "--backends", "openvino"),
        ("export", "mobilenet_v2", "--platform", "web"),
        ("compare", "linear_regression"),
        ("compare", "linear_regression", "--backends", "torch", "--json"),
    ],
    ids=" ".join,
)
def test_missing_package_is_one_line_with_the_exact_command(arguments, clean):
    done = clean(*arguments)
    assert done.returncode == 1
    told = done.stdout + done.stderr
    assert "Traceback" not in told
    assert re.search(r"pip install 'cross-backend\[[\w,-]+\]'", told), told
    complaints = [line for line in done.stderr.splitlines() if line.startswith("cross-backend")]
    assert len(complaints) <= 1
    assert "ModuleNotFoundError" not in told and "ImportError" not in told


def test_doctor_says_what_to_install(clean):
    done = clean("doctor")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "pip install 'cross-backend[all]'" in done.stdout + done.stderr


def test_atalla_lists_blobs_without_torch_and_says_what_the_rest_needs(clean, tmp_path):
    program = torch.export.export(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.GELU()), (torch.ones(1, 3),))
    blob = tmp_path / "m.atalla"
    blob.write_bytes(atalla.compile(program).data)
    listed = clean("disasm", str(blob), command="atalla")
    assert listed.returncode == 0 and "GEMM" in listed.stdout, listed.stderr
    assert clean("info", str(blob), command="atalla").returncode == 0
    for arguments in (("run", str(blob)), ("compile", "mobilenet_v3_small")):
        done = clean(*arguments, command="atalla")
        assert done.returncode == 1
        assert done.stderr == f"atalla {arguments[0]}: this needs PyTorch: pip install 'cross-backend[torch]'\n"


def test_own_file_says_what_to_install(clean, tmp_path):
    (tmp_path / "net.py").write_text("import torch\ndef net():\n    return torch.nn.Linear(1, 1), torch.ones(1, 1)\n")
    done = clean("export", f"{tmp_path / 'net.py'}:net")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr and "torch" in done.stderr
    (tmp_path / "net.pt2").write_bytes(b"PK")
    done = clean("export", str(tmp_path / "net.pt2"))
    assert done.returncode == 1
    assert re.search(r"pip install 'cross-backend\[[\w,-]+\]'", done.stderr), done.stderr


def test_one_engine_opens_a_bundle_in_less_than_300_mb(clean):
    """Comes last: it installs the engine. No PyTorch is needed to load."""
    pin = next(line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("onnxruntime=="))
    done = clean("-m", "pip", "install", "--quiet", pin, command="python")
    assert done.returncode == 0, done.stderr
    done = clean("run", str(ROOT / "tests" / "data" / "bundle_v1"))
    assert done.returncode == 0 and "on onnxruntime.cpu: outputs are right" in done.stdout, done.stdout + done.stderr
    size = "sum(p.stat().st_size for p in pathlib.Path(sys.prefix).rglob('*') if p.is_file() and not p.is_symlink())"
    done = clean("-c", f"import pathlib, sys; print({size})", command="python")
    assert int(done.stdout) < 300e6
