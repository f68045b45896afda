"""``bundle`` that fails: what is said, and what is left behind."""

import ctypes
import re
import shutil
import zipfile

import pytest

from tests.e2e.bundle.contents import NEWER, WEB, XNNPACK, content, names

pytestmark = pytest.mark.usefixtures("own_memory")


def test_partial_failure_is_told_and_the_rest_is_bundled(linear, cli, document, tmp_path):
    args = ("bundle", "linear_regression", "--backends", "xnnpack", "arm", "qnn", "--output-dir", tmp_path)
    result = cli(*args)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert "[ok] 1/3 backends, in fallback order:" in lines
    failed = lines.index("[warn] Failed 2 backend(s):")
    assert re.fullmatch(r" +• arm: .+", lines[failed + 1])
    assert re.fullmatch(r" +• qnn: .+", lines[failed + 2]) and len(lines) == failed + 3
    assert names(tmp_path / "linear_regression") == [XNNPACK]
    good, *unavailable = document(cli(*args, "--json"))["results"]
    assert good["outcome"] == "OK" and good["name"] == XNNPACK
    assert [row["outcome"] for row in unavailable] == ["UNAVAILABLE", "UNAVAILABLE"]
    for row in unavailable:
        assert row["name"] is row["size_bytes"] is row["coverage"] is row["rank"] is None


def test_strict_turns_a_partial_failure_into_status_1(linear, cli, tmp_path):
    args = ("bundle", "linear_regression", "--backends", "xnnpack", "qnn", "--strict", "--output-dir", tmp_path)
    assert cli(*args).returncode == 1
    assert names(tmp_path / "linear_regression") == [XNNPACK], "what succeeded is kept"


def test_nothing_to_bundle_is_status_1_and_an_older_bundle_is_kept(linear, cli, complaint, tmp_path, web):
    older = shutil.copytree(web, tmp_path / "linear_regression")
    result = cli("bundle", "linear_regression", "--backends", "qnn", "--output-dir", tmp_path)
    complaint(result, 1, "nothing to bundle: qnn: executorch.qnn")
    assert result.stdout == "" and content(older) == content(web)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("linear_regression",), ("--platform android|", "--backends")),
        (("linear_regression", "--platform", "web", "--backends", "cpu"), ("--platform", "--backends")),
        (("linear_regression", "--platform", "androit"), ("unknown platform 'androit'", "'android'")),
        (("linear_regression", "--platform", "web", "lunix"), ("unknown platform 'lunix'", "'linux'")),
        (("linear_regresion", "--platform", "web"), ("unknown model", "'linear_regression'")),
        (("linear_regression", "--platform", "web", "--precision", "fp8"), ("fp8",)),
        (("linear_regression", "--platform", "web", "--min-coverage", "2"), ("'2'",)),
        (("linear_regression", "--platform", "web", "--zipp"), ("did you mean --zip",)),
        (("--platform", "web"), ("MODEL",)),
    ],
    ids=" ".join,
)
def test_wrong_usage(args, words, cli, usage_error, tmp_path):
    usage_error(cli("bundle", *args, "--output-dir", tmp_path), *words)
    assert list(tmp_path.iterdir()) == []


def test_an_older_bundle_is_replaced_whole(web, cli, tmp_path):
    older = shutil.copytree(web, tmp_path / "linear_regression")
    (older / "linear_regression_vulkan.pte").touch()
    (older / "manifest.json").write_text(NEWER)
    assert cli(*WEB, "--output-dir", tmp_path).returncode == 0
    assert content(older) == content(web)
    assert [path.name for path in tmp_path.iterdir()] == ["linear_regression"]


@pytest.mark.parametrize("own", [{"thesis.txt": "years"}, {"manifest.json": '{"name": "web app"}', "index.html": ""}])
def test_a_folder_that_is_no_bundle_is_left_alone(own, linear, cli, usage_error, complaint, tmp_path):
    folder = tmp_path / "linear_regression"
    folder.mkdir()
    for name, text in own.items():
        (folder / name).write_text(text)
    before = content(tmp_path)
    line = complaint(cli(*WEB, "--output-dir", tmp_path), 2, "exists and is not a bundle", "--output-dir")
    assert str(folder) in line
    assert content(tmp_path) == before and [path.name for path in tmp_path.iterdir()] == ["linear_regression"]


def test_a_zip_file_that_is_no_bundle_is_left_alone(linear, cli, complaint, tmp_path):
    with zipfile.ZipFile(tmp_path / "linear_regression.zip", "w") as archive:
        archive.writestr("thesis.txt", "years")
    before = content(tmp_path)
    complaint(cli(*WEB, "--zip", "--output-dir", tmp_path), 2, "linear_regression.zip exists and is not a bundle")
    assert content(tmp_path) == before


def as_anybody():
    """Give up root's right to write everywhere, before the command starts: PR_CAPBSET_DROP of CAP_DAC_OVERRIDE."""
    ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)


def test_a_read_only_folder(web, cli, complaint, tmp_path):
    older = shutil.copytree(web, tmp_path / "out" / "linear_regression")
    (tmp_path / "out").chmod(0o500)
    try:
        result = cli(*WEB, "--output-dir", tmp_path / "out", preexec=as_anybody)
    finally:
        (tmp_path / "out").chmod(0o700)
    complaint(result, 1, "Permission denied", str(tmp_path / "out"))
    assert content(older) == content(web) and [path.name for path in (tmp_path / "out").iterdir()] == [older.name]


def test_a_folder_that_cannot_be_made(linear, cli, usage_error, tmp_path):
    (tmp_path / "file").touch()
    usage_error(cli(*WEB, "--output-dir", tmp_path / "file" / "out"), "cannot write to", "file/out")


def test_a_disk_that_is_full_leaves_the_older_bundle(web, cli, complaint, tmp_path):
    older = shutil.copytree(web, tmp_path / "linear_regression")
    result = cli(*WEB, "--output-dir", tmp_path, max_file_bytes=4000)  # payloads fit, the manifest does not
    complaint(result, 1, "File too large")
    assert content(older) == content(web)
    assert [path.name for path in tmp_path.iterdir()] == ["linear_regression"], "no scratch is left"
