"""``run`` of a bundle: the first artifact that works, and the way past damage."""

import json
import os
import re
import shutil

import pytest

from tests.e2e.bundle.contents import PORTABLE, XNNPACK, manifest

pytestmark = pytest.mark.usefixtures("own_memory")


def test_run_takes_the_first_that_works(bundle, cli, document, tmp_path):
    path = shutil.make_archive(str(tmp_path / "packed"), "zip", bundle)
    for given, args, target in (
        (bundle, (), "executorch.xnnpack"),
        (path, ("--platform", "web"), "executorch.xnnpack"),
        (bundle / f"{PORTABLE}.pte", (), "executorch.portable"),
    ):
        (row,) = document(cli("run", given, *args, "--num-runs", "6", "--json"))["results"]
        assert row["target"] == target and row["outcome"] == "OK"
    result = cli("run", path, "--input", "1,2,3,4")
    assert result.returncode == 0 and "2.718" in result.stdout


def test_run_falls_back_past_damage(bundle, cli, complaint):
    (bundle / f"{XNNPACK}.pte").unlink()
    result = cli("run", bundle, "--num-runs", "6")
    assert result.returncode == 0, result.stderr
    assert re.search(rf"executorch\.xnnpack passed over: .*{XNNPACK}\.pte is missing", result.stderr)
    assert "on executorch.portable: outputs are right" in result.stdout
    (bundle / f"{PORTABLE}.pte").write_bytes(b"")
    result = cli("run", bundle)
    assert result.returncode == 1 and result.stdout == "" and "Traceback" not in result.stderr
    line = result.stderr.splitlines()[-1]
    assert line.startswith("cross-backend run: nothing in ") and "executorch.xnnpack: " in line and "sha256" in line


def test_run_of_another_model_or_of_nothing_for_a_platform(bundle, cli, complaint):
    complaint(cli("run", bundle, "--model", "other"), 1, "is a bundle of linear_regression, not of other")
    row = manifest(bundle)
    row["orders"]["ios"] = []
    (bundle / "manifest.json").write_text(json.dumps(row))
    complaint(cli("run", bundle, "--platform", "ios"), 1, f"{os.fspath(bundle)} holds no artifact for ios")
