"""Files of strangers that hold code: every command refuses them in one line, until the user trusts them."""

import io
import json
import zipfile
from pathlib import Path

import pytest
import torch

from cross_backend.artifact import digest_path


class Spy:
    """What a stranger pickles: unpickling it writes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.fixture
def spied(tmp_path):
    return tmp_path / "it-ran"


@pytest.fixture
def poisoned(spied):
    """Give a function that puts a pickle that runs code into the place of a ``.pt2`` file's sample inputs."""
    buffer = io.BytesIO()
    torch.save(((Spy(spied),), {}), buffer)

    def poison(path):
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in members.items():
                archive.writestr(name, buffer.getvalue() if "sample_inputs" in name else data)
        return path

    return poison


@pytest.mark.parametrize("command", ["export", "compare", "bundle", "explain"])
def test_a_model_that_holds_code_is_refused_until_it_is_trusted(command, cli, complaint, poisoned, spied, tmp_path):
    program = torch.export.export(torch.nn.Linear(4, 2).eval(), (torch.ones(1, 4),))
    torch.export.save(program, tmp_path / "evil.pt2")
    path, folder = poisoned(tmp_path / "evil.pt2"), tmp_path / "out"
    words = {
        "export": ["--backends", "null", "--output-dir", folder],
        "compare": ["--backends", "null"],
        "bundle": ["--backends", "null", "--output-dir", folder],
        "explain": ["--backend", "null"],
    }[command]
    complaint(cli(command, path, *words), 1, "holds pickled sample inputs, which is code")
    assert not spied.exists()
    if command == "export":
        cli(command, path, *words, "--trust")
        assert spied.exists(), "this is what would have happened"


def test_an_artifact_that_holds_code_is_refused_until_it_is_trusted(cli, complaint, poisoned, spied, tmp_path):
    made = cli("export", "linear_regression", "--backends", "torch", "--output-dir", tmp_path)
    assert made.returncode == 0, made.stderr
    payload, manifest = tmp_path / "linear_regression_torch.pt2", tmp_path / "linear_regression_torch.json"
    poisoned(payload)
    row = json.loads(manifest.read_text())
    row["payload"] |= {"sha256": digest_path(payload), "size_bytes": payload.stat().st_size}
    manifest.write_text(json.dumps(row))
    complaint(cli("run", payload), 1, "--trust")
    assert not spied.exists()
    assert cli("run", payload, "--trust", "--num-runs", "6").returncode == 0
    assert spied.exists()
    assert cli("run", payload, "--num-runs", "6").returncode == 0, "it is remembered"


UNMOVED = """
import torch

class Unmoved(torch.nn.Module):
    def forward(self, x):
        return torch.ones(3) * 2

def make():
    return Unmoved().eval(), torch.ones(1, 4)
"""


@pytest.mark.slow
def test_outputs_that_prove_nothing_have_a_status_of_their_own(cli, document, tmp_path):
    (tmp_path / "unmoved.py").write_text(UNMOVED)
    model = f"{tmp_path / 'unmoved.py'}:make"
    compared = cli("compare", model, "--backends", "torch", "--json")
    assert compared.returncode == 3, compared.stderr
    (row,) = json.loads(compared.stdout)["results"]
    assert (row["outcome"], row["rank"], row["latency_ms"]) == ("NOT_PROVED", None, None)
    assert row["reason"] == "not proved, because its outputs are the same for two different inputs"
    assert row["error"]["verdict"] is True and row["error"]["unproved"]
    shown = cli("compare", model, "--backends", "torch")
    assert shown.returncode == 3 and "NOT_PROVED" in shown.stdout and "not proved, because" in shown.stdout
    assert cli("export", model, "--backends", "torch", "--output-dir", tmp_path).returncode == 0
    ran = cli("run", tmp_path / "unmoved_make_torch.pt2")
    assert ran.returncode == 3 and "not proved, because" in ran.stderr


def test_a_study_opens_a_model_that_holds_code_only_if_it_is_trusted(cli, poisoned, spied, write_study, tmp_path):
    program = torch.export.export(torch.nn.Linear(4, 2).eval(), (torch.ones(1, 4),))
    torch.export.save(program, tmp_path / "evil.pt2")
    poisoned(tmp_path / "evil.pt2")
    file = write_study(tmp_path / "small.yaml", ["evil.pt2"], ["null"])
    refused = cli("study", "run", file, "--db", tmp_path / "one.sqlite")
    assert refused.returncode == 1 and "--trust" in refused.stdout and not spied.exists()
    cli("study", "run", file, "--db", tmp_path / "two.sqlite", "--trust")
    assert spied.exists()
