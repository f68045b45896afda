"""``explain``: what is inside, what was left, why, at what cost, and from which line of the user's file."""

import re

import pytest

VENDORS = ("torch", "executorch", "onnx", "onnxruntime", "openvino")
SOURCE = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 8)

    def forward(self, x):
        y = self.linear(x)
        z = torch.cumsum(y, 1)
        return z @ y.T, torch.cumsum(z.int(), 1)

def net():
    torch.manual_seed(0)
    return Net(), (torch.randn(4, 16),)

class Sums(torch.nn.Module):
    def forward(self, x):
        return x.cumsum(0).cumsum(1)

def sums():
    return Sums(), (torch.ones(1, 4),)
"""
LINEAR, PRODUCT = 2 * 4 * 16 * 8, 2 * 4 * 8 * 4
CUMSUM = ["net.py:10 forward: z = torch.cumsum(y, 1)", "net.py:11 forward: return z @ y.T, torch.cumsum(z.int(), 1)"]


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    path = tmp_path_factory.mktemp("user") / "net.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture(scope="module")
def explained(net, cli, document):
    """The document of ``net`` on XNNPACK."""
    return document(cli("explain", f"{net}:net", "--backend", "xnnpack", "--json"))


def test_json_names_reason_work_and_line_of_what_was_left(explained):
    assert (explained["schema"], explained["workload"], explained["target"]) == (1, "net_net", "executorch.xnnpack")
    assert explained["flops"] == LINEAR + PRODUCT
    placement = explained["placement"]
    assert placement["delegates"]["XnnpackBackend"] >= 1 and placement["inside"]
    assert placement["flop_coverage"] == pytest.approx(1 - PRODUCT / (LINEAR + PRODUCT))
    assert 0 < placement["coverage"] < 1
    assert placement["planned_bytes"] > 0 and placement["constant_bytes"] >= 0
    assert placement["delegate_bytes"] > 4 * (16 * 8 + 8), "the weights at least"
    product, *others = placement["left"]
    assert product == {
        "name": "aten::mm.out", "count": 1, "why": "Expected weight to be a static param", "flops": PRODUCT,
        "lines": [CUMSUM[1]],
    }  # fmt: skip
    sums = next(row for row in others if row["name"].startswith("aten::cumsum"))
    assert (sums["count"], sums["why"], sums["flops"], sums["lines"]) == (2, "not in its table of operators", 0, CUMSUM)
    assert all(row["why"] and row["flops"] == 0 for row in others)


def test_text_is_grouped_with_the_most_expensive_first(explained, net, cli, plain):
    result = cli("explain", f"{net}:net", "--backend", "xnnpack")
    assert result.returncode == 0
    plain(result.stdout + result.stderr)
    lines = [re.sub(r"\s{2,}", " | ", line.strip()) for line in result.stdout.splitlines() if line.strip()]
    assert lines[0] == "* net_net on executorch.xnnpack"
    assert lines[1] == f"FLOPs | {LINEAR + PRODUCT:,} an inference"
    assert lines[2].startswith("delegates | XnnpackBackend × ")
    assert any(re.fullmatch(r"planned memory \| [\d.]+ k?B \(activations outside delegates\)", line) for line in lines)
    left = lines.index("Not delegated, most expensive first")
    assert lines[left + 1].startswith("20.0 % of the floating point operations run outside of the delegate")
    left += 1
    assert lines[left + 1] == "operator | count | FLOPs | why | made by"
    product = f"aten::mm.out | 1 | {PRODUCT} | Expected weight to be a static param | {CUMSUM[1]}"
    assert lines[left + 2] == product
    first = next(index for index, line in enumerate(lines) if line.startswith("aten::cumsum"))
    assert lines[first].endswith(f"| 2 | 0 | not in its table of operators | {CUMSUM[0]}")
    assert lines[first + 1] == CUMSUM[1]
    assert lines.index("Covered") > first
    assert any(re.fullmatch(r"FullyConnected \| 1", line) for line in lines)


@pytest.mark.slow
def test_lines_are_those_of_the_file_as_it_is_now(explained, net, cli, document, tmp_path):
    """The same program from another file, or from one that has grown, is the same program with other lines."""
    moved = tmp_path / "moved.py"
    moved.write_text(f"# A comment.\n{net.read_text()}")
    found = document(cli("explain", f"{moved}:net", "--backend", "xnnpack", "--json"))
    assert [row["lines"] for row in found["placement"]["left"] if row["name"] == "aten::mm.out"] == [
        [CUMSUM[1].replace("net.py:11", "moved.py:12")]
    ]
    before, now = ([line for row in one["placement"]["left"] for line in row["lines"]] for one in (explained, found))
    assert len(now) == len(before) and all(line.startswith("moved.py:") for line in now)


def test_the_second_time_nothing_is_imported(cli, document):
    first = document(cli("explain", "linear_regression", "--backend", "xnnpack", "--json"))
    again = cli("explain", "linear_regression", "--backend", "xnnpack", "--json", before=("-X", "importtime"))
    assert document(again) == first
    imported = set(re.findall(r"\|\s+([\w.]+)$", again.stderr, re.MULTILINE))
    assert "cross_backend.exporting.export" in imported and not imported & set(VENDORS)


@pytest.mark.parametrize("backend", ["portable", "torch", "cpu"])
def test_where_nothing_is_left_it_says_so(backend, cli):
    result = cli("explain", "linear_regression", "--backend", backend)
    assert result.returncode == 0
    assert "100 % of the operators" in result.stdout and "100 % of the floating point operations" in result.stdout
    assert "Not delegated" not in result.stdout


@pytest.mark.slow
def test_two_backends_are_laid_side_by_side(net, cli, document, plain):
    """Products of both are the program's two: one of a module, one of a line at the top."""
    command = ("explain", f"{net}:net", "--backend", "xnnpack", "--against", "portable")
    against = document(cli(*command, "--json"))["against"]
    assert against["targets"] == ["executorch.xnnpack", "executorch.portable"] and against["reason"] is None
    assert {part["module"] for part in against["parts"]} >= {"linear", "matmul"}
    lines = {part["line"] for part in against["lines"]}
    assert {"net.py:9 forward: y = self.linear(x)", CUMSUM[1]} <= lines
    for side, total in (("backend", against["ms"][0]), ("against", against["ms"][1])):
        assert sum(part[side]["ms"] for part in against["parts"]) == pytest.approx(total, abs=1e-6)
    result = cli(*command)
    assert result.returncode == 0
    plain(result.stdout + result.stderr)
    assert "executorch.xnnpack against executorch.portable" in result.stdout
    assert re.search(r"takes [\d.]+ ms more than executorch\.\w+ \([\d.]+ against", result.stdout)
    assert "counts with the operators that follow it, up to the next one" in result.stdout
    assert re.search(
        r"^part of the model +executorch\.xnnpack +executorch\.portable +difference", result.stdout, re.MULTILINE
    )


def test_a_backend_without_a_profiler_cannot_be_laid_beside_another(cli, complaint):
    result = cli("explain", "linear_regression", "--backend", "xnnpack", "--against", "torch.compile")
    complaint(result, 1, "torch.compile has no profiler")


def test_inspect_shows_the_same_of_an_artifact(explained, net, cli, document, tmp_path):
    exported = cli("export", f"{net}:net", "--backends", "xnnpack", "--output-dir", tmp_path, "--json")
    (row,) = document(exported)["results"]
    assert row["flop_coverage"] == explained["placement"]["flop_coverage"]
    manifest = document(cli("inspect", row["path"], "--json"))
    assert manifest["placement"] == explained["placement"]
    shown = cli("inspect", row["path"]).stdout
    for word in ("Not delegated, most expensive first", "aten::mm.out", CUMSUM[0], "planned memory"):
        assert word in shown


def test_a_backend_that_takes_nothing_is_one_line(net, cli, complaint):
    result = cli("explain", f"{net}:sums", "--backend", "xnnpack")
    told = "XNNPACK (CPU) delegates 0 of 2 operators (aten::cumsum.out: not in its table of operators)"
    complaint(result, 1, "net_sums on xnnpack: UNSUPPORTED", told, "executorch.portable")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("linear_regression",), ("--backend",)),
        (("linear_regression", "--backend", "vulcan"), ("'vulcan'", "Did you mean 'vulkan'")),
        (("linear_regression", "--backend", "xnnpack?precision=int4"), ("int4", "fp32", "int4w", "int8dyn")),
        (("linear_regresion", "--backend", "xnnpack"), ("Did you mean 'linear_regression'",)),
        (("--backend", "xnnpack"), ("MODEL",)),
        (("a", "b", "--backend", "xnnpack"), ("b",)),
        (("none.pt2", "--backend", "xnnpack"), ("none.pt2 does not exist",)),
    ],
)
def test_wrong_names_are_told_before_anything_is_done(arguments, words, cli, usage_error, tmp_path):
    usage_error(cli("explain", *arguments, cache=tmp_path / "cache"), *words)
    assert not (tmp_path / "cache").exists()


def test_what_is_missing_is_told_with_its_remedy(cli, complaint, tmp_path):
    result = cli("explain", "linear_regression", "--backend", "mps", CROSS_BACKEND_TOOLCHAINS=str(tmp_path))
    complaint(result, 1, "UNAVAILABLE", "removed in executorch 1.5", "cross-backend toolchain add mps")
