"""Damaged artifacts: one line and status 1, whatever is wrong with the payload or its manifest."""

import hashlib
import json
import shutil

import pytest

from cross_backend.artifact import VERSION

PAYLOADS = {
    "xnnpack": "linear_regression_xnnpack.pte",
    "portable": "linear_regression_portable.pte",
    "onnxruntime": "linear_regression_onnxruntime.onnx",
    "openvino": "linear_regression_openvino/model.xml",
    "torch": "linear_regression_torch.pt2",
}


def damage(path, how):
    content = bytearray(path.read_bytes())
    if how == "empty":
        content = bytearray()
    elif how == "truncated":
        content = content[: len(content) // 2]
    elif how == "flipped bit":
        content[len(content) // 2] ^= 1
    elif how == "garbage":
        content = bytearray(hashlib.shake_128(b"seed").digest(len(content)))
    path.write_bytes(bytes(content))


def forge(manifest, payload):
    """Make the manifest agree with the payload, so that nothing but the runtime can notice."""
    row = json.loads(manifest.read_text())
    digest = hashlib.sha256(payload.read_bytes()).hexdigest()
    folder = payload.parent
    if folder.name == row["payload"]["path"]:
        whole = hashlib.sha256()
        for path in sorted(folder.iterdir()):
            whole.update(f"{path.name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
        digest = whole.hexdigest()
    row["payload"]["sha256"] = digest
    manifest.write_text(json.dumps(row))


@pytest.mark.parametrize("command", ["run", "inspect"])
@pytest.mark.parametrize(
    ("name", "how"),
    [*((name, "flipped bit") for name in PAYLOADS), *(("xnnpack", how) for how in ("empty", "truncated", "garbage"))],
)
def test_damaged_payload_is_refused(name, how, command, damaged, cli, complaint):
    damage(damaged / PAYLOADS[name], how)
    result = cli(command, damaged / f"linear_regression_{name}.json")
    complaint(result, 1, PAYLOADS[name].partition("/")[0], f"linear_regression_{name}.json", "sha256")
    assert result.stdout == ""


@pytest.mark.parametrize("command", ["run", "inspect"])
def test_payload_of_another_artifact_is_refused(command, damaged, cli, complaint):
    shutil.copyfile(damaged / PAYLOADS["xnnpack"], damaged / PAYLOADS["portable"])
    complaint(cli(command, damaged / PAYLOADS["portable"]), 1, PAYLOADS["portable"], "sha256", "swapped")


@pytest.mark.parametrize("command", ["run", "inspect"])
@pytest.mark.parametrize("name", ["linear_regression_xnnpack.pte", "linear_regression_sample.npz"])
def test_file_that_the_manifest_names_is_missing(name, command, damaged, cli, complaint):
    (damaged / name).unlink()
    complaint(cli(command, damaged / "linear_regression_xnnpack.json"), 1, f"{name} is missing")


def test_damaged_sample_is_refused(damaged, cli, complaint):
    damage(damaged / "linear_regression_sample.npz", "flipped bit")
    complaint(cli("run", damaged / PAYLOADS["xnnpack"]), 1, "linear_regression_sample.npz", "sha256")


@pytest.mark.parametrize("how", ["garbage", "truncated", "empty"])
@pytest.mark.parametrize("name", PAYLOADS)
def test_runtime_that_sees_garbage_takes_down_its_worker_only(name, how, damaged, cli, complaint):
    """ExecuTorch's runtime aborts its process on some of these."""
    damage(damaged / PAYLOADS[name], how)
    forge(damaged / f"linear_regression_{name}.json", damaged / PAYLOADS[name])
    result = cli("run", damaged / f"linear_regression_{name}.json")
    line = complaint(result, 1)
    assert "sha256" not in line, "the forged digest was to pass"
    assert result.stdout == "" and result.stderr == line + "\n"


def test_folder_survives_a_runtime_that_aborts(damaged, cli):
    damage(damaged / PAYLOADS["xnnpack"], "garbage")
    forge(damaged / "linear_regression_xnnpack.json", damaged / PAYLOADS["xnnpack"])
    result = cli("run", damaged, "--platform", "web", "--num-runs", "12")
    assert result.returncode == 0, result.stderr
    assert "executorch.xnnpack passed over" in result.stderr and "on executorch.portable" in result.stdout


def _edit(**changes):
    def edit(text):
        row = json.loads(text)
        for path, value in changes.items():
            *parents, last = path.split("__")
            place = row
            for key in parents:
                place = place[int(key) if key.isdecimal() else key]
            if value is KeyError:
                del place[last]
            else:
                place[last] = value
        return json.dumps(row)

    return edit


MANIFESTS = {
    "empty": lambda text: "",
    "truncated": lambda text: text[: len(text) // 2],
    "binary": lambda text: "\x00\x01",
    "a list": lambda text: "[]",
    "a number": lambda text: "1",
    "null": lambda text: "null",
    "an empty object": lambda text: "{}",
    "deeply nested": lambda text: "[" * 100_000,
    "another format": _edit(format="something-else"),
    "a newer version": _edit(version=999),
    "no version": _edit(version=KeyError),
    "an infinite version": _edit(version=float("inf")),
    "a version in words": _edit(version="one"),
    "no payload": _edit(payload=KeyError),
    "payload is null": _edit(payload=None),
    "payload climbs out": _edit(payload__path="../../etc/passwd"),
    "payload is absolute": _edit(payload__path="/etc/passwd"),
    "payload is the folder": _edit(payload__path="."),
    "payload has no digest": _edit(payload__sha256=None),
    "sample climbs out": _edit(sample__path="../x.npz"),
    "sizes in words": _edit(payload__size_bytes="big"),
    "inputs are a number": _edit(inputs=3),
    "inputs without a shape": _edit(inputs__0__shape=None),
    "operators are null": _edit(placement__inside=None),
    "operators are counted in words": _edit(placement__inside=[{"name": "x", "count": "two", "why": None}]),
    "operators' lines are a number": _edit(placement__left=[{"name": "x", "count": 1, "why": None, "lines": 3}]),
    "placement is a list": _edit(placement=[]),
    "versions are a list": _edit(versions=[]),
    "seconds in words": _edit(export_s="long"),
}


@pytest.mark.parametrize("command", ["run", "inspect"])
@pytest.mark.parametrize("how", MANIFESTS)
def test_damaged_manifest(how, command, damaged, cli, complaint):
    manifest = damaged / "linear_regression_onnxruntime.json"
    manifest.write_text(MANIFESTS[how](manifest.read_text()))
    result = cli(command, damaged / PAYLOADS["onnxruntime"])
    complaint(result, 1, "linear_regression_onnxruntime.json")
    assert result.stdout == ""


def test_newer_manifest_says_what_to_do(damaged, cli, complaint):
    manifest = damaged / "linear_regression_xnnpack.json"
    manifest.write_text(_edit(version=VERSION + 1)(manifest.read_text()))
    complaint(cli("inspect", manifest), 1, f"version {VERSION + 1}", "Upgrade")


@pytest.mark.parametrize("target", ["nonsense", "", "Not A Target", "onnxruntime.cpu?colour=red"])
def test_manifest_that_names_no_target(target, damaged, cli, complaint):
    """The file is wrong, not the command line."""
    manifest = damaged / "linear_regression_onnxruntime.json"
    manifest.write_text(_edit(target=target)(manifest.read_text()))
    complaint(cli("run", manifest), 1)


def test_manifest_of_another_backend(damaged, cli, complaint):
    """An .onnx file under the name of XNNPACK."""
    manifest = damaged / "linear_regression_onnxruntime.json"
    manifest.write_text(_edit(target="executorch.xnnpack")(manifest.read_text()))
    complaint(cli("run", manifest), 1)
