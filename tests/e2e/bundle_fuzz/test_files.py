"""Payloads, samples and labels with flipped bits, cut, swapped, or no files at all."""

import os
import random

import pytest

from tests.e2e.bundle_fuzz.cases import OPENVINO, PORTABLE, XNNPACK, files_of, flip


def test_bits_of_the_files(bundle, examine, count):
    files = files_of(bundle)
    assert len(files) == 12
    for seed in range(count("payload bits")):
        rng = random.Random(seed)
        path = rng.choice(files)
        whole = path.read_bytes()
        path.write_bytes(flip(whole, rng))
        assert "changed" in examine(bundle), path
        path.write_bytes(whole)
    assert examine(bundle) is None


def test_files_that_were_cut_or_grew(bundle, examine, count):
    files = files_of(bundle)
    for seed in range(count("payload cuts")):
        rng = random.Random(seed)
        path = rng.choice(files)
        whole = path.read_bytes()
        path.write_bytes(rng.choice([whole[: rng.randrange(len(whole))], whole + b"\0", whole * 2]))
        assert "changed" in examine(bundle), path
        path.write_bytes(whole)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"{XNNPACK}.pte", f"{PORTABLE}.pte"),
        (f"{XNNPACK}.pte", OPENVINO),
        (OPENVINO, "sample"),
        (f"{OPENVINO}/model.bin", f"{OPENVINO}/model.xml"),
        ("sample/input_0.npy", "sample/expected_0.npy"),
        ("labels.txt", f"{PORTABLE}.pte"),
    ],
)
def test_files_that_were_swapped(one, other, bundle, examine):
    for swapped in (True, False):  # there and back
        (bundle / one).rename(bundle / "aside")
        (bundle / other).rename(bundle / one)
        (bundle / "aside").rename(bundle / other)
        complaint = examine(bundle)
        assert "changed" in complaint if swapped else complaint is None


@pytest.mark.parametrize("what", ["a device", "a pipe", "a folder", "a loop", "somewhere else", "nowhere", "itself"])
def test_payloads_that_are_no_files(what, bundle, examine, tmp_path):
    path = bundle / f"{PORTABLE}.pte"
    path.unlink()
    (tmp_path / "secret").write_text("secret")
    if what == "a pipe":
        os.mkfifo(path)
    elif what == "a folder":
        path.mkdir()
    elif what == "a loop":
        path.mkdir()
        (path / "again").symlink_to(path, target_is_directory=True)
    else:
        goal = {"a device": "/dev/zero", "somewhere else": tmp_path / "secret", "nowhere": "absent", "itself": path}
        path.symlink_to(goal[what])
    complaint = examine(bundle)
    assert f"{PORTABLE}.pte " in complaint


def test_strangers(bundle, examine):
    for stranger in (f"{OPENVINO}/more.bin", "sample/input_1.npy", "sample/.hidden"):
        (bundle / stranger).touch()
        assert "changed" in examine(bundle)
        (bundle / stranger).unlink()
    (bundle / "unknown.bin").touch()
    assert examine(bundle) is None, "what the manifest does not name is not looked at"
