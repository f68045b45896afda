"""What a person gives by camera, microphone, keyboard and file, in a real browser with a camera and a microphone."""

import io
import math
import re
import struct
import wave

import pytest
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers

from tests.browser import chromium
from tests.e2e.serve.conftest import serving
from tests.e2e.serve.visits import figures, visiting
from tests.e2e.test_cli_run_media import MODELS

pytestmark = pytest.mark.slow
HEARER = """
class Hearer(torch.nn.Module):
    # How loud each band is, over the time.
    def forward(self, x):
        return x.mean(1, keepdim=True).transpose(1, 2) * torch.ones(1, 1, 8)


def hearer():
    from cross_backend.workloads.media import AudioMedia

    return Workload("hearer", Hearer().eval(), (torch.rand(1, 80, 300),), media=AudioMedia(frames=300))
"""
RATE = 48_000


def tone(path, seconds):
    """Write a tone that is loud in its middle third."""
    count = int(seconds * RATE)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, count, "NONE", ""))
        loud = [12_000 if count // 3 <= at < 2 * count // 3 else 100 for at in range(count)]
        file.writeframes(b"".join(struct.pack("<h", round(v * math.sin(at / 20))) for at, v in enumerate(loud)))


def film(path):
    """Write a picture whose lower half is red, as a film of one picture."""
    wide, high = 320, 240
    luma = bytes([16]) * (wide * high // 2) + bytes([81]) * (wide * high // 2)
    blue, red = (bytes([128]) * (wide * high // 8) + bytes([v]) * (wide * high // 8) for v in (90, 240))
    path.write_bytes(f"YUV4MPEG2 W{wide} H{high} F10:1 Ip A1:1 C420mpeg2\nFRAME\n".encode() + luma + blue + red)


@pytest.fixture(scope="module")
def visit(cli, linear, db, tmp_path_factory):
    """Give what opens a page of a server that has a detector, a reader and a hearer, in a browser with devices."""
    folder, code = tmp_path_factory.mktemp("mine"), tmp_path_factory.mktemp("code") / "nets.py"
    code.write_text(MODELS + HEARER)
    for name in ("detector", "reader", "hearer"):
        done = cli("export", f"{code}:{name}", "--backends", "onnxruntime.cpu", "--strict", "--output-dir", folder)
        assert done.returncode == 0, done.stderr
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "cat": 1}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(folder / "tokenizer.json"))
    tone(folder.parent / "tone.wav", 3)
    flags = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
    film(folder.parent / "film.y4m")
    seen = f"--use-file-for-fake-video-capture={folder.parent / 'film.y4m'}"
    heard = f"--use-file-for-fake-audio-capture={folder.parent / 'tone.wav'}"
    with (
        serving([folder, linear], db) as served,
        chromium(*flags, seen, heard) as browser,
        visiting(browser, served) as go,
    ):
        yield go


def test_the_camera_is_run_again_and_again_and_boxes_are_drawn_on_it(visit):
    page = visit("/?model=nets_detector")
    page.click("#camera-go")
    page.locator(".overlay dd", has_text="MB").wait_for(timeout=60_000)
    calls = page.locator(".overlay > div").last.locator("dd")
    calls.filter(has_text=re.compile(r"^([5-9]|\d\d+)$")).wait_for(timeout=60_000)
    assert page.evaluate("document.getElementById('camera').videoWidth") > 0
    assert page.locator("#camera").is_visible() and page.locator("#marks").is_visible()
    assert "fire" in page.inner_text(".answer")
    page.click("#camera-go")
    assert page.locator("#camera").is_hidden() and page.inner_text("#camera-go") == "Use the camera"


def test_a_pictures_boxes_are_drawn_and_listed(visit):
    picture, file = Image.new("RGB", (200, 400), "black"), io.BytesIO()
    picture.paste("red", (0, 200, 200, 400))
    picture.save(file, "PNG")
    page = visit("/?model=nets_detector")
    page.set_input_files("#file", {"name": "fire.png", "mimeType": "image/png", "buffer": file.getvalue()})
    page.locator(".top .label", has_text="fire").first.wait_for(timeout=60_000)
    assert page.inner_text(".answer .note") == "2 found"
    size, painted = page.evaluate("""() => {
      const marks = document.getElementById("marks"), pen = marks.getContext("2d");
      const alpha = pen.getImageData(0, 0, marks.width, marks.height).data.filter((_, i) => i % 4 === 3);
      return [[marks.width, marks.height], alpha.filter((a) => a).length];
    }""")
    assert size == [200, 400] and 200 < painted < 20_000


def test_what_is_said_is_recorded_and_drawn(visit):
    page = visit("/?model=nets_hearer")
    page.click("#record")
    page.wait_for_timeout(1500)
    page.click("#record")
    chart = page.locator(".answer svg.live")
    chart.wait_for(timeout=60_000)
    heights = chart.evaluate(
        "(c) => [...c.querySelectorAll('.line')].map((l) => Math.abs(l.y1.baseVal.value - l.y2.baseVal.value))"
    )
    assert len(heights) > 100 and max(heights) > 3, "it was heard"
    assert chart.locator("polyline").count() == 1 and page.locator("#sound").is_visible()


def test_a_sound_file_is_drawn(visit, tmp_path):
    tone(tmp_path / "t.wav", 2)
    page = visit("/?model=nets_hearer")
    page.set_input_files("#file", str(tmp_path / "t.wav"))
    chart = page.locator(".answer svg.live")
    chart.wait_for(timeout=60_000)
    loud = chart.evaluate(
        "(c) => [...c.querySelectorAll('.line')].map((l) => Math.abs(l.y1.baseVal.value - l.y2.baseVal.value))"
    )
    third = len(loud) // 3
    assert min(loud[third + 2 : 2 * third - 2]) > 5 * max(loud[: third - 2])


def test_a_text_is_told_by_its_tokens(visit):
    page = visit("/?model=nets_reader")
    page.fill("#text", "cat cow cat")
    page.click("#run")
    page.locator(".tokens li").first.wait_for(timeout=60_000)
    assert page.locator(".tokens li").all_inner_texts()[:3:2] == ["cat", "cat"]
    assert figures(page)["calls"] == "1"


def test_each_slider_moves_the_answer(visit):
    page = visit("/?model=linear_regression")
    page.click("#run")
    page.locator(".numbers").wait_for(timeout=60_000)
    for at in range(4):
        before = page.inner_text(".numbers")
        page.locator(".sliders input").nth(at).press("End" if at % 2 else "Home")
        page.locator(".numbers").filter(has_not_text=before).wait_for()
