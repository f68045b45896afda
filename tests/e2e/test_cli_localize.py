"""``localize``: a vendor's fault by operator and line, fusion, crashes, calls that do not repeat, two that agree."""

import pytest

SOURCE = """\
import torch
import torch.nn.functional as F
from torch import nn

class Resizes(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 2, 1)

    def forward(self, x):
        y = self.first(x).relu()
        z = F.interpolate(y, size=(64, 64), mode="nearest")
        return self.last(z).sigmoid()

class Gates(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return (self.linear(x.tanh()).sigmoid() * 2).exp()

class Sums(nn.Module):
    def forward(self, x):
        return F.softsign(x).mean(1) + x.sum(1)

def sums():
    torch.manual_seed(0)
    return Sums().eval(), (torch.randn(2, 8),)

def resizes():
    torch.manual_seed(0)
    return Resizes().eval(), (torch.randn(1, 3, 26, 26),)

def gates():
    torch.manual_seed(0)
    return Gates().eval(), (torch.randn(2, 8),)
"""
VENDOR = "openvino"
"""Its nearest neighbours of 26 pixels among 64 are others than PyTorch's."""


@pytest.fixture(scope="module")
def nets(tmp_path_factory):
    path = tmp_path_factory.mktemp("user") / "nets.py"
    path.write_text(SOURCE)
    return path


def test_a_vendors_fault_is_found_by_operator_and_line(nets, cli, document):
    found = document(cli("localize", f"{nets}:resizes", "--backend", VENDOR, "--json"))
    assert (found["culprit"], found["sure"], found["crash"]) == ("operator", True, False)
    (suspect,) = found["operators"]
    assert suspect["operator"] == "aten.upsample_nearest2d.vec"
    assert suspect["line"] == 'nets.py:12 forward: z = F.interpolate(y, size=(64, 64), mode="nearest")'
    assert suspect["inputs"] == ["float32[1, 4, 26, 26]"]
    assert [shape["name"] for shape in found["shapes"]] == ["index off by one"]
    assert found["lowerings"] <= found["bound"]
    rows = {row["node"]: row for row in found["nodes"]}
    assert [name for name, row in rows.items() if row["parts"]] == [suspect["node"]]
    shown = cli("localize", f"{nets}:resizes", "--backend", VENDOR, COLUMNS="80")
    assert shown.returncode == 0
    for part in ("nets.py:12", "index off by one", "inherited", f"--keep-out {suspect['node']}", "from the cache"):
        assert part in " ".join(shown.stdout.split()), part


@pytest.mark.slow
def test_two_backends_are_compared_and_the_right_one_is_named(nets, cli, document):
    found = document(cli("localize", f"{nets}:resizes", "--backend", "eager", "--against", VENDOR, "--json"))
    assert found["culprit"] == "operator" and found["operators"][0]["operator"] == "aten.upsample_nearest2d.vec"
    assert "eager agrees with the reference" in found["says"]


@pytest.mark.slow
def test_an_operator_is_kept_out(nets, cli, document):
    node = ("--keep-out", "upsample_nearest2d")
    found = document(cli("localize", f"{nets}:resizes", "--backend", VENDOR, *node, "--against", "eager", "--json"))
    assert found["right"] and found["count"] == 3 and found["parts_ms"] > 0
    refused = cli("localize", f"{nets}:resizes", "--backend", VENDOR, *node)
    assert refused.returncode == 1 and len(refused.stderr.splitlines()) <= 2
    assert "name a target for them with --against" in refused.stderr


def test_two_that_agree_exit_with_3(nets, cli):
    result = cli("localize", f"{nets}:gates", "--backend", "eager")
    assert result.returncode == 3
    assert "nothing to localise" in result.stdout


def test_fusion_is_named_by_its_operators(nets, cli, document, faulty):
    found = document(cli("localize", f"{nets}:gates", "--backend", "faulty.gives_fused", "--json", **faulty))
    assert (found["culprit"], found["sure"]) == ("group", True)
    assert [one["node"] for one in found["operators"]] == ["linear", "sigmoid"]
    assert "the fusion across linear, sigmoid" in found["says"]
    assert found["lowerings"] <= found["bound"]


def test_a_crash_ends_with_the_smallest_part_that_crashes(nets, cli, document, faulty):
    found = document(cli("localize", f"{nets}:gates", "--backend", "faulty.call_segfault", "--json", **faulty))
    assert found["crash"] and found["culprit"] == "operator"
    assert [one["node"] for one in found["operators"]] == ["tanh"]
    assert "SIGSEGV" in found["reason"] and found["lowerings"] <= found["bound"]


def test_what_does_not_repeat_is_not_sure_and_says_how_often(nets, cli, document, faulty):
    found = document(cli("localize", f"{nets}:gates", "--backend", "faulty.gives_moody", "--json", **faulty))
    assert not found["sure"]
    assert 0 < found["wrong_runs"] < found["runs"] == 5
    assert f"{found['wrong_runs']} of 5 calls are wrong" in found["says"]


@pytest.mark.slow
def test_compare_prints_the_command_for_a_mismatch(nets, cli):
    result = cli("compare", f"{nets}:resizes", "--backends", VENDOR, "eager", "--num-runs", "60", "--launches", "1")
    assert f"cross-backend localize {nets}:resizes --backend {VENDOR}" in " ".join(result.stdout.split())


@pytest.mark.slow
def test_a_study_localises_by_itself_where_it_is_asked_to(nets, cli, document, tmp_path, write_study):
    spec = write_study(tmp_path / "s.yaml", [f"{nets}:resizes"], [VENDOR, "eager"], localize="yes")
    result = cli("study", "run", str(spec), "--json")
    row = next(one for one in document(result, 1)["results"] if one["target"] == VENDOR)
    assert row["outcome"] == "MISMATCH"
    assert "upsample_nearest2d is wrong on its own" in row["notes"]["localize"]
    assert "nets.py:12" in row["notes"]["localize"]


@pytest.mark.slow
def test_an_input_that_a_search_finds_is_kept_and_makes_the_next_comparison_a_mismatch(
    nets, cli, document, faulty, tmp_path
):
    target, cache = "faulty.gives_clamped", tmp_path / "cache"
    quick = ("--num-runs", "60", "--launches", "1", "--json")

    def compared(**where):
        found = document(cli("compare", f"{nets}:sums", "--backends", target, "eager", *quick, **faulty, **where))
        return {row["target"].partition("?")[0]: row for row in found["results"]}

    assert {row["outcome"] for row in compared(cache=cache).values()} == {"OK"}
    asked = ("localize", f"{nets}:sums", "--backend", target, "--adversarial", "60", "--json")
    found = document(cli(*asked, **faulty, cache=cache))
    (search,) = found["adversarial"]
    assert search["wrong"] and search["tried"] > 0 and search["probe"] in search["reason"]
    assert found["input_name"] == search["probe"] and found["operators"][0]["operator"] == "aten.sum.dim_IntList"
    again = compared(cache=cache)
    assert again[target]["outcome"] == "MISMATCH" and search["probe"] in again[target]["reason"]
    assert again["torch.eager"]["outcome"] == "OK"
    assert {row["outcome"] for row in compared(cache=tmp_path / "other").values()} == {"OK"}, "kept in that cache alone"
