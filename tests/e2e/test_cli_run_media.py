"""``run --input FILE``: pictures, drawings, texts and numbers go in as files, and the answer is shown."""

import io
import json

import numpy as np
import pytest
from PIL import Image, ImageDraw
from tokenizers import Tokenizer, models, pre_tokenizers

from cross_backend.workloads import find_workload

pytestmark = pytest.mark.usefixtures("own_memory")

MODELS = """
import torch
from cross_backend.workloads import Workload
from cross_backend.workloads.media import BoxesMedia, TextMedia


class Detector(torch.nn.Module):
    # One candidate for each quarter of the picture; its score is how red that quarter is.
    def forward(self, x):
        red = x[:, 0].unfold(1, 32, 32).unfold(2, 32, 32).mean((3, 4)).reshape(-1, 1, 4)
        middles = torch.tensor([[[16.0, 48, 16, 48], [16, 16, 48, 48], [30, 30, 30, 30], [20, 20, 20, 20]]])
        return torch.cat([middles + 0 * red, red, 0 * red], 1)


class Reader(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(6, 3)
        torch.nn.init.constant_(self.table.weight, 1.0)
        with torch.no_grad():
            self.table.weight[1] = torch.tensor([0.0, 3.0, 4.0])

    def forward(self, ids):
        return self.table(ids)


def detector():
    return Workload(
        "detector", Detector().eval(), (torch.rand(1, 3, 64, 64),), media=BoxesMedia(size=64, labels=("fire", "ice"))
    )


def reader():
    ids = torch.tensor([[1, 2, 3, 4]])
    return Workload("reader", Reader().eval(), (ids,), media=TextMedia(tokens=4, ids=6, padding=0, trained=False))
"""


@pytest.fixture(scope="module")
def digits(cli, tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    result = cli("export", "digits_cnn", "--backends", "cpu", "torch", "--strict", "--output-dir", folder)
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture(scope="module")
def mine(cli, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mine")
    (folder / "nets.py").write_text(MODELS)
    for name in ("detector", "reader"):
        result = cli(
            "export", f"{folder / 'nets.py'}:{name}", "--backends", "torch", "--strict", "--output-dir", folder
        )
        assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture(scope="module")
def seven(tmp_path_factory):
    """Draw a seven, with a name that says something else."""
    sheet = Image.new("L", (280, 280), 255)
    pen = ImageDraw.Draw(sheet)
    pen.line([(85, 50), (195, 50), (125, 230)], fill=0, width=26, joint="curve")
    pen.line([(105, 140), (190, 140)], fill=0, width=22)
    path = tmp_path_factory.mktemp("seven") / "drawing.txt"
    sheet.save(path, "PNG")
    return path


@pytest.mark.parametrize("name", ["onnxruntime.json", "torch.json"])
def test_a_drawn_digit_is_read(name, digits, seven, cli, document, plain):
    result = cli("run", digits / f"digits_cnn_{name}", "--input", seven)
    assert result.returncode == 0, result.stderr
    first = result.stdout.splitlines()[1].split()
    assert first[0] == "7" and float(first[1].rstrip("%")) > 50 and result.stdout.count("%") == 5
    plain(result.stdout)
    found = document(cli("run", digits / f"digits_cnn_{name}", "--input", seven, "--json"))
    assert found["workload"] == "digits_cnn" and len(found["output"]) >= 5
    assert found["shown"]["kind"] == "digit" and found["shown"]["top"][0]["label"] == "7"
    assert (found["shown"]["width"], found["shown"]["height"]) == (280, 280)
    assert sum(row["share"] for row in found["shown"]["top"]) <= 1.0000001


@pytest.mark.slow
def test_the_outputs_are_written_and_are_those_of_the_model(digits, seven, cli, tmp_path):
    import torch

    result = cli("run", digits / "digits_cnn_onnxruntime.json", "--input", seven, "--output", tmp_path / "out.npz")
    assert result.returncode == 0 and "out.npz" in result.stdout
    workload = find_workload("digits_cnn").build()
    with torch.no_grad():
        wanted = workload.model(torch.from_numpy(workload.media.prepare(seven.read_bytes())[0])).numpy()
    assert np.abs(np.load(tmp_path / "out.npz")["output_0"] - wanted).max() < 1e-4


def test_a_folder_takes_the_file_to_the_first_that_works(digits, seven, cli, document):
    assert document(cli("run", digits, "--input", seven, "--json"))["shown"]["top"][0]["label"] == "7"


def test_boxes_are_listed_and_drawn(mine, cli, document, tmp_path):
    """The picture is twice as high as wide, so that it stands in the middle half of the square."""
    picture = Image.new("RGB", (200, 400), "black")
    picture.paste("red", (0, 200, 200, 400))
    picture.save(tmp_path / "fire.jpg")
    result = cli(
        "run", mine / "nets_detector_torch.pt2", "--input", tmp_path / "fire.jpg", "--output", tmp_path / "out.png"
    )
    assert result.returncode == 0, result.stderr
    assert "2 objects found" in result.stdout and "fire" in result.stdout and "out.png" in result.stdout
    with Image.open(tmp_path / "out.png") as drawn:
        assert drawn.size == (200, 400) and drawn.getbands() == ("R", "G", "B")
    found = document(cli("run", mine / "nets_detector_torch.pt2", "--input", tmp_path / "fire.jpg", "--json"))
    box = found["shown"]["boxes"][0]
    assert box["label"] == "fire" and box["score"] == pytest.approx((255 + 114) / 510, abs=0.02)
    corners = (box["x0"], box["y0"], box["x1"], box["y1"])  # 6.25 pixels a pixel of the model; 16 of them are grey
    assert corners in {(0, 237.5, 93.75, 362.5), (106.25, 237.5, 200, 362.5)}


def test_a_text_needs_the_models_tokenizer(mine, cli, document, usage_error, tmp_path):
    (tmp_path / "in.txt").write_text("cat cow cat")
    usage_error(cli("run", mine / "nets_reader_torch.pt2", "--input", tmp_path / "in.txt"), "tokenizer.json")
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "cat": 1}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(tmp_path / "words.json"))
    given = (
        "run",
        mine / "nets_reader_torch.pt2",
        "--input",
        tmp_path / "in.txt",
        "--tokenizer",
        tmp_path / "words.json",
    )
    shown = document(cli(*given, "--json"))["shown"]
    assert [(one["text"], one["index"]) for one in shown["tokens"]] == [("cat", 1), ("[UNK]", 0), ("cat", 1)]
    assert [one["length"] for one in shown["tokens"]] == [5, pytest.approx(3**0.5), 5]
    result = cli(*given)
    assert "[cat] [[UNK]] [cat]" in result.stdout and "random" in result.stdout and "filling" in result.stdout


def test_numbers_may_stand_in_a_file(linear, cli, document, tmp_path):
    (tmp_path / "features.csv").write_text("1, 2, 3, 4\n")
    found = document(
        cli("run", linear / "linear_regression_torch.json", "--input", tmp_path / "features.csv", "--json")
    )
    assert found["shown"]["numbers"] == [pytest.approx(2.7182, abs=1e-3)]


def test_what_does_not_fit_is_told(digits, linear, seven, cli, usage_error, complaint, tmp_path):
    digit = digits / "digits_cnn_onnxruntime.json"
    (tmp_path / "page.png").write_text("<html>")
    usage_error(cli("run", digit, "--input", tmp_path / "page.png"), "page.png is not a readable picture")
    usage_error(cli("run", digit, "--input", tmp_path / "none.png"), "none.png")
    usage_error(cli("run", digit, "--input", seven, "--output", tmp_path / "out.png"), "only a detector's boxes")
    usage_error(cli("run", digit, "--input", seven, "--tokenizer", seven), "needs no tokenizer")
    usage_error(cli("run", digit, "--tokenizer", seven), "--input")
    usage_error(cli("run", linear / "linear_regression_torch.json", "--input", seven), "does not hold numbers")
    complaint(cli("run", digit, "--input", "/dev/zero"), 2, "--input")


def test_an_artifact_of_before_says_to_export_it_anew(digits, seven, cli, usage_error, tmp_path):
    row = json.loads((digits / "digits_cnn_torch.json").read_text())
    del row["media"]
    for path in digits.glob("digits_cnn_*"):
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "digits_cnn_torch.json").write_text(json.dumps(row))
    usage_error(cli("run", tmp_path / "digits_cnn_torch.json", "--input", seven), "export yours again")


@pytest.mark.slow
def test_a_picture_is_given_to_a_batch_as_every_row(cli, tmp_path, seven, document):
    result = cli("export", "digits_cnn", "--batch", "3", "--backends", "torch", "--strict", "--output-dir", tmp_path)
    assert result.returncode == 0, result.stderr
    (manifest,) = tmp_path.glob("*_torch.json")
    assert document(cli("run", manifest, "--input", seven, "--json"))["shown"]["top"][0]["label"] == "7"


def test_the_drawing_can_be_opened_from_memory(mine, cli, tmp_path):
    """A file that is another kind of picture than its name says is drawn on as well."""
    file = io.BytesIO()
    Image.new("RGB", (64, 64), "red").save(file, "WEBP")
    (tmp_path / "red.png").write_bytes(file.getvalue())
    result = cli(
        "run", mine / "nets_detector_torch.pt2", "--input", tmp_path / "red.png", "--output", tmp_path / "out.PNG"
    )
    assert result.returncode == 0 and "4 objects found" in result.stdout
    assert (tmp_path / "out.PNG").read_bytes().startswith(b"\x89PNG")
