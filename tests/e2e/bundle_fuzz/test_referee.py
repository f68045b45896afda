"""The referee itself: it must be able to find fault."""

import shutil

import pytest


def test_a_sound_bundle_passes(sound, examine):
    assert examine(sound) is None


def test_what_is_written_elsewhere_is_noticed(watch, tmp_path):
    (tmp_path / "cache").mkdir()
    for write in (
        lambda: (tmp_path / "elsewhere").write_text("x"),
        (tmp_path / "cache" / ".." / "folder").mkdir,
        lambda: (tmp_path / "cache" / "link").symlink_to(tmp_path) or (tmp_path / "cache" / "link" / "x").touch(),
        lambda: (tmp_path / "elsewhere").rename(tmp_path / "cache" / "x"),
        (tmp_path / "folder").rmdir,
    ):
        with pytest.raises(AssertionError), watch.over(tmp_path / "cache"):
            write()
    with watch.over(tmp_path):
        (tmp_path / "folder").mkdir()
        shutil.rmtree(tmp_path / "folder")
