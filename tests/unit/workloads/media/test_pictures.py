"""Pictures: the kinds that are read, what is refused and how, and that nothing is unpacked that is too large."""

from __future__ import annotations

import contextlib
import io
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from cross_backend.errors import UsageError
from cross_backend.workloads.media import base, pictures
from cross_backend.workloads.media.pictures import MAX_PIXELS, open_picture
from tests.unit.workloads.media.conftest import saved


def png(width: int, height: int, body: bytes, depth: int = 8, colour: int = 0) -> bytes:
    """Give a grey PNG file by hand, whatever its header says."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(body)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("form", pictures.FORMATS)
@pytest.mark.parametrize("name", ["cat.txt", "cat.png", None])
def test_the_content_decides_and_not_the_name(form, name, picture):
    opened = open_picture(picture(40, 30, form), name)
    assert opened.size == (40, 30) and opened.mode == "RGB"


@pytest.mark.parametrize(
    ("mode", "wanted"), [("1", "L"), ("L", "L"), ("P", "RGB"), ("RGB", "RGB"), ("RGBA", "RGBA"), ("LA", "RGBA")]
)
def test_colours_become_one_of_three_kinds(mode, wanted):
    assert open_picture(saved(Image.new(mode, (5, 4)))).mode == wanted


def test_cmyk_of_a_camera_becomes_rgb():
    opened = open_picture(saved(Image.new("CMYK", (5, 4), (0, 255, 255, 0)), "JPEG"))
    red, green, blue = opened.getpixel((2, 2))
    assert opened.mode == "RGB" and red > 200 and green < 60 and blue < 60


def test_sixteen_bits_of_grey_are_scaled_and_not_clipped():
    values = np.array([[0, 255, 256, 32768, 65535]], np.uint16)
    opened = open_picture(saved(Image.fromarray(values)))
    assert np.asarray(opened).tolist() == [[0, 0, 1, 128, 255]]


def test_a_picture_is_turned_as_the_camera_was_held():
    exif = Image.Exif()
    exif[0x0112] = 6  # to be shown turned by 90° to the right
    image = Image.new("RGB", (40, 20), "white")
    image.paste("black", (0, 0, 10, 10))
    opened = open_picture(saved(image, "JPEG", exif=exif, quality=95))
    assert opened.size == (20, 40)
    assert opened.getpixel((16, 3))[0] < 60 and opened.getpixel((3, 3))[0] > 200


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"hello", "is not a readable picture. Readable formats: "),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "is not a readable picture"),
        (b"%PDF-1.7", "is not a readable picture"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is not a readable picture"),
        (saved(Image.new("RGB", (9, 9)), "TIFF"), "is not a readable picture"),
        (b"\x80\x04\x95cos\nsystem\n", "is not a readable picture"),
        (saved(Image.new("RGB", (300, 300), "red"), "JPEG")[:700], "cannot be read as a picture"),
    ],
)
def test_what_is_no_whole_picture_is_told_in_one_line(data, words):
    with pytest.raises(UsageError, match=r"cat\.png") as caught:
        open_picture(data, "cat.png")
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("side", [7072, 9500, 14_000, 100_000])  # Pillow says nothing, warns, and raises
def test_a_bomb_is_refused_before_it_is_unpacked(side):
    data = png(side, side, bytes(1000))
    assert len(data) < 200 and side * side > MAX_PIXELS
    tracemalloc.start()
    with pytest.raises(UsageError, match="pixels"):
        open_picture(data, "bomb.png")
    assert tracemalloc.get_traced_memory()[1] < 10 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("size", [(1, 40_000_000), (40_000_000, 1)])
def test_a_thread_of_pixels_is_refused_before_it_is_decoded(size):
    data = png(*size, bytes(1000))
    tracemalloc.start()
    with pytest.raises(UsageError, match="a side has more than 32,768 pixels"):
        open_picture(data, "thread.png")
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_a_bomb_in_a_comment_is_refused_too():
    text = zlib.compress(bytes(20 << 20), 9)
    body = b"zTXt" + b"Comment\0\0" + text
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    data = saved(Image.new("L", (4, 4)))
    tracemalloc.start()
    with pytest.raises(UsageError, match="cannot be read as a picture"):
        open_picture(data[:33] + chunk + data[33:], "bomb.png")
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


def test_a_file_that_is_too_long_is_not_looked_at(monkeypatch, picture):
    monkeypatch.setattr(base, "MAX_BYTES", 1 << 20)
    with pytest.raises(UsageError, match="cat is longer than 1 MiB"):
        open_picture(picture(20, 20) + bytes(1 << 20), "cat")


def test_only_the_first_frame_of_an_animation_is_unpacked():
    frames = [Image.new("L", (50, 50), shade) for shade in (0, 128, 255)]
    file = io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    assert np.asarray(open_picture(file.getvalue()).convert("L")).max() == 0


@given(st.data())
def test_a_damaged_picture_is_read_or_refused_and_nothing_else(data):
    form = data.draw(st.sampled_from(pictures.FORMATS))
    whole = bytearray(saved(Image.radial_gradient("L").resize((33, 21)).convert("RGB"), form))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    with contextlib.suppress(UsageError):
        assert open_picture(bytes(whole[:cut])).mode in {"L", "RGB", "RGBA"}
