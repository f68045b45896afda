"""``inspect`` of a bundle: its order, its digests, and files that are none."""

import re
import shutil
import zipfile

import pytest

from tests.e2e.bundle.contents import NEWER, OPENVINO, PORTABLE, XNNPACK

pytestmark = pytest.mark.usefixtures("own_memory")


def test_inspect_shows_the_order_and_checks_every_digest(bundle, cli, plain, document):
    result = cli("inspect", bundle)
    assert result.returncode == 0 and result.stderr == ""
    plain(result.stdout)
    lines = result.stdout.splitlines()
    assert lines[0] == f"* {bundle}: linear_regression, 2 artifacts in fallback order"
    assert re.fullmatch(rf"{XNNPACK} +executorch\.xnnpack +XnnpackBackend × 1 +100 % +[\d.]+ kB +digest is right *",
                        lines[2])  # fmt: skip
    assert lines[-1] == f"web: {XNNPACK} › {PORTABLE}"
    found = document(cli("inspect", bundle, "--json"))
    assert set(found) == {"schema", "model", "orders", "evidence", "artifacts"}
    assert found["model"] == "linear_regression" and found["orders"] == {"web": [XNNPACK, PORTABLE]}
    assert [(row["target"], row["damage"]) for row in found["artifacts"]] == [
        ("executorch.xnnpack", None), ("executorch.portable", None),
    ]  # fmt: skip


def test_inspect_finds_what_was_damaged(bundle, cli, document):
    path = bundle / f"{XNNPACK}.pte"
    path.write_bytes(path.read_bytes()[:-1])
    result = cli("inspect", bundle)
    assert result.returncode == 1 and result.stdout.count("digest is right") == 1
    assert "was changed, truncated or swapped" in " ".join(result.stdout.split())
    bad, good = document(cli("inspect", bundle, "--json"), 1)["artifacts"]
    assert f"{XNNPACK}.pte is not the payload" in bad["damage"] and good["damage"] is None


def test_inspect_reads_zip_files_payloads_and_the_folder_we_stand_in(bundle, cli, document, tmp_path):
    path = shutil.make_archive(str(tmp_path / "packed"), "zip", bundle)
    assert document(cli("inspect", path, "--json")) == document(cli("inspect", bundle, "--json"))
    assert document(cli("inspect", ".", "--json", cwd=bundle)) == document(cli("inspect", bundle, "--json"))
    alone = document(cli("inspect", bundle / f"{PORTABLE}.pte", "--json"))
    assert alone["target"] == "executorch.portable"


def test_inspect_in_a_folder_that_is_nothing(cli, complaint, tmp_path):
    complaint(cli("inspect", ".", cwd=tmp_path), 1, str(tmp_path))
    complaint(cli("inspect", "/"), 1, "/")


def test_inspect_of_a_payload_that_is_a_folder(linear, cli, document, tmp_path):
    cli("bundle", "linear_regression", "--backends", "openvino", "--output-dir", tmp_path)
    payload = tmp_path / "linear_regression" / OPENVINO
    assert document(cli("inspect", payload, "--json"))["target"] == "openvino"
    assert document(cli("inspect", ".", "--json", cwd=payload))["target"] == "openvino"


@pytest.mark.parametrize("command", ["inspect", "run"])
def test_a_newer_bundle_says_which_version_is_needed(command, cli, complaint, tmp_path):
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / "manifest.json").write_text(NEWER)
    with zipfile.ZipFile(tmp_path / "new.zip", "w") as archive:
        archive.writestr("manifest.json", NEWER)
    for path in (folder, tmp_path / "new.zip"):
        result = cli(command, path)
        complaint(result, 1, f"{path}/manifest.json has format version 7; this cross-backend reads up to 1. Upgrade")
        assert result.stdout == ""
