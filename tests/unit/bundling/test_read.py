"""Reading a bundle: whole, by its own form only; what makes no sense or leaves its folder is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cross_backend as xb
from cross_backend.artifact import Artifact
from cross_backend.bundling import Bundle, open_bundle
from cross_backend.cache import Cache
from cross_backend.errors import ArtifactError
from cross_backend.program.captured import Captured
from cross_backend.tensors import load_tensors
from tests.unit.bundling.bundles import (
    NULL,
    OPENVINO,
    TORCH,
    Change,
    edit,
    zip_of,
)

NEWER = '{"format": "cross-backend-bundle", "version": 7, "everything": "is different"}'


# --- What is read


def test_it_reads_what_was_written(
    made: Path, captured: Captured, rows: list[tuple[Artifact, str, str, float]]
) -> None:
    bundle = Bundle.read(made)
    assert (bundle.folder, bundle.model) == (made, "typed")
    for found, (artifact, name, _, _) in zip(bundle.artifacts, rows, strict=True):
        found.check()
        assert (found.name, found.workload, found.program) == (name, "typed", captured.digest)
        for field in (
            "target",
            "sha256",
            "size_bytes",
            "placement",
            "estimate",
            "versions",
            "inputs",
            "outputs",
            "structure",
        ):
            assert getattr(found, field) == getattr(artifact, field), field
        assert found.manifest_path == made / "manifest.json" and found.payload_path.exists()


@pytest.mark.parametrize("name", [TORCH, OPENVINO])
def test_its_artifacts_run(name: str, made: Path) -> None:
    (artifact,) = (a for a in Bundle.read(made).artifacts if a.name == name)
    sample = load_tensors(made / "sample")
    with xb.load(artifact.payload_path) as session:
        outputs = session(*sample["input"])
    for got, want in zip(outputs, sample["expected"], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_the_order_is_the_platforms_or_else_the_bundles_own(made: Path) -> None:
    bundle = Bundle.read(made)
    assert [a.name for a in bundle.ordered("linux")] == [OPENVINO, TORCH]
    assert [a.name for a in bundle.ordered("web")] == [TORCH, NULL]
    assert [a.name for a in bundle.ordered("ios")] == [NULL, OPENVINO, TORCH]


def test_reading_imports_nothing_heavy(made: Path, run_python: Callable[..., str]) -> None:
    script = (
        "import sys; from pathlib import Path; from cross_backend.bundling import Bundle\n"
        "for artifact in Bundle.read(Path(sys.argv[1])).artifacts: artifact.check()\n"
        "print(sorted({'numpy', 'torch', 'rich'} & set(sys.modules)))"
    )
    assert run_python(script, str(made)) == "[]\n"


def test_keys_that_it_does_not_know_are_ignored(bundle: Path) -> None:
    before = Bundle.read(bundle)

    def extend(row: dict[str, Any]) -> None:
        samples = row["sample"]["inputs"] + row["sample"]["expected"]
        placements = [artifact["placement"] for artifact in row["artifacts"]]
        for part in [row, row["sample"], row["labels"], *row["artifacts"], *placements, *row["inputs"], *samples]:
            part["invented_later"] = {"a": [1, None]}

    edit(bundle, extend)
    assert (bundle / "manifest.json").read_text().count("invented_later") == 17
    assert Bundle.read(bundle) == before


def test_a_newer_version_says_which_one_it_is(tmp_path: Path, cache: Cache) -> None:
    (tmp_path / "manifest.json").write_text(NEWER)
    wanted = r"manifest\.json has format version 7; this cross-backend reads up to 1\. Upgrade it\.$"
    with pytest.raises(ArtifactError, match=wanted):
        Bundle.read(tmp_path)
    with pytest.raises(ArtifactError, match=r"new\.zip/" + wanted):
        open_bundle(zip_of({"manifest.json": NEWER}, tmp_path / "new.zip"), cache)


def test_a_damaged_payload_spoils_no_other(bundle: Path) -> None:
    (bundle / "typed_openvino" / "model.bin").write_bytes(b"")
    (bundle / "typed_null.null").unlink()
    null, openvino, torch_ = Bundle.read(bundle).artifacts
    with pytest.raises(ArtifactError, match=r"typed_null\.null is missing"):
        null.check()
    with pytest.raises(ArtifactError, match=r"typed_openvino is not the payload that manifest\.json describes"):
        openvino.check()
    torch_.check()


@pytest.mark.parametrize("damage", ["changed", "missing", "one more"])
def test_a_damaged_sample_is_found(damage: str, bundle: Path) -> None:
    path = bundle / "sample" / "expected_0.npy"
    if damage == "changed":
        path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    elif damage == "missing":
        path.unlink()
    else:
        shutil.copyfile(path, path.with_name("expected_4.npy"))
    for artifact in Bundle.read(bundle).artifacts:
        with pytest.raises(ArtifactError, match="is not the sample"):
            artifact.check()


PATHS = [
    "/etc/passwd", "../typed_torch.pt2", "..", ".", "", "a/b", "a\\b", "C:x", "nul\0", "two\nlines", "\x1b[2J",
    "\ud800", None, 3, ["typed_torch.pt2"],
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("key", ["payload", "name", "model", "labels", "sample"])
def test_names_that_leave_the_folder_are_refused(key: str, path: object, bundle: Path) -> None:
    def change(row: dict[str, Any]) -> None:
        if key == "payload":
            row["artifacts"][1]["path"] = path
        elif key == "name":
            row["artifacts"][1]["name"] = path
        elif key == "model":
            row["model"] = path
        elif key == "labels":
            row["labels"]["path"] = path
        else:
            row["sample"]["inputs"][0]["path"] = f"sample/{path}" if isinstance(path, str) else path

    edit(bundle, change)
    with pytest.raises(ArtifactError, match=r"manifest\.json is damaged or not a bundle's manifest") as caught:
        Bundle.read(bundle)
    assert str(caught.value).isprintable(), "one line"


REFUSED: dict[str, tuple[Change, str]] = {
    "another format": (lambda row: row.update(format="cross-backend-artifact"), "format is 'cross-backend-artifact'"),
    "a sample elsewhere": (lambda row: row["sample"]["inputs"][0].update(path="input_0.npy"), "not lie in sample/"),
    "a sample too few": (lambda row: row["sample"]["expected"].pop(), "outputs must be .* one tensor each"),
    "no sample": (lambda row: row.update(sample={"inputs": [], "expected": []}), "inputs must be"),
    "too many inputs": (
        lambda row: [rows.extend(rows * 500) for rows in (row["inputs"], row["sample"]["inputs"])],
        "inputs must be at most 1000",
    ),
    "no artifacts": (lambda row: row.update(artifacts=[]), "1 to 100 artifacts"),
    "artifacts by name": (lambda row: row.update(artifacts={"a": row["artifacts"][0]}), "1 to 100 artifacts"),
    "too many artifacts": (lambda row: row.update(artifacts=row["artifacts"] * 34), "1 to 100 artifacts"),
    "one name twice": (lambda row: row["artifacts"][0].update(name=TORCH), "two artifacts have one name"),
    "an order of strangers": (lambda row: row["orders"].update(web=["nobody"]), "'nobody', which is no artifact"),
    "an order with repeats": (lambda row: row["orders"].update(web=[TORCH, TORCH]), "names an artifact twice"),
    "a negative size": (lambda row: row["artifacts"][0].update(size_bytes=-1), "-1 is no size"),
    "an endless size": (lambda row: row["artifacts"][0].update(size_bytes=1 << 63), "is no size"),
    "no number": (lambda row: row["artifacts"][0].update(export_s=float("nan")), "not JSON compliant"),
    "an infinite estimate": (lambda row: row["artifacts"][0].update(estimate={"cycles": "inf"}), "not JSON compliant"),
    "an endless share": (
        lambda row: row["artifacts"][0]["placement"].update(flop_coverage="inf"),
        "not JSON compliant",
    ),
    "no target": (lambda row: row["artifacts"][0].update(target="../x"), "not a target"),
    "other labels": (lambda row: row["labels"].update(sha256="0" * 64), "labels.txt was changed"),
    "a structure of less": (
        lambda row: row.update(structure={"arguments": [], "outputs": "tensor"}),
        "other numbers of inputs or outputs",
    ),
    "code in a structure": (
        lambda row: row.update(
            structure={"arguments": [], "outputs": {"named": "P", "fields": [["x=print(1)", "tensor"]]}}
        ),
        "must be valid identifiers",
    ),
    "media that are a list": (lambda row: row.update(media=["image"]), "media is no object"),
    "endless media": (lambda row: row["media"].update(std=float("inf")), "not JSON compliant"),
    "no version": (lambda row: row.pop("version"), "KeyError: 'version'"),
    "a version in words": (lambda row: row.update(version="two"), "invalid literal"),
}  # fmt: skip


def test_a_manifest_that_was_written_before_media_has_none(bundle: Path) -> None:
    edit(bundle, lambda row: row.pop("media"))
    assert [artifact.media for artifact in Bundle.read(bundle).artifacts] == [None] * 3


def test_a_manifest_that_was_written_before_structures_gives_flat_outputs(bundle: Path) -> None:
    edit(bundle, lambda row: row.pop("structure"))
    (artifact,) = (a for a in Bundle.read(bundle).artifacts if a.name == TORCH)
    sample = load_tensors(bundle / "sample")
    with xb.load(artifact) as session:
        outputs = session(*sample["input"])
    assert isinstance(outputs, tuple) and len(outputs) == len(sample["expected"])


@pytest.mark.parametrize("what", REFUSED)
def test_a_manifest_that_makes_no_sense_is_refused(what: str, bundle: Path) -> None:
    change, said = REFUSED[what]
    edit(bundle, change)
    with pytest.raises(ArtifactError, match=said):
        Bundle.read(bundle)


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "1", "{}", "\0", "[" * 100_000, '{"format": "cross-backend-bundle"']
)
def test_a_file_that_is_no_manifest_is_refused(text: str, bundle: Path) -> None:
    (bundle / "manifest.json").write_text(text)
    with pytest.raises(ArtifactError, match=r"manifest\.json is damaged or not a bundle's manifest \("):
        Bundle.read(bundle)


def test_a_manifest_that_is_too_long_is_not_parsed(bundle: Path) -> None:
    with (bundle / "manifest.json").open("ab") as file:
        file.truncate(17 << 20)
    with pytest.raises(ArtifactError, match="longer than 16 MiB"):
        Bundle.read(bundle)


def test_a_folder_that_is_no_bundle_says_so(tmp_path: Path, cache: Cache) -> None:
    with pytest.raises(ArtifactError, match=r"is not a bundle: it has no manifest\.json"):
        Bundle.read(tmp_path)
    with pytest.raises(ArtifactError, match=r"none\.zip does not exist"):
        open_bundle(tmp_path / "none.zip", cache)
