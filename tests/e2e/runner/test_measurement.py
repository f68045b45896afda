"""What the runner measures, and that its arithmetic is that of the Python package."""

import os
import random
import subprocess

import psutil
import pytest

from cross_backend.measure import statistics
from cross_backend.measure.ranking import Ranking
from cross_backend.measurement import Measurement
from tests.e2e.runner.bundles import ATALLA, PORTABLE, QUICK, XNNPACK, probe


@pytest.mark.parametrize(("name", "other"), [(XNNPACK, ATALLA), (ATALLA, XNNPACK)])
@pytest.mark.parametrize("threads", [1, 2])
def test_thread_pool_has_as_many_threads_as_asked_for(threads, name, other, accelerated, built, until):
    command = [
        built / "cross_backend_runner",
        accelerated,
        "--only",
        name,
        other,
        "--num-runs",
        "10000000",
        "--seconds",
        "20",
    ]
    with psutil.Popen([*command, "--threads", str(threads)], stdout=subprocess.DEVNULL) as process:
        try:
            # By the second the first has been opened and verified; the third is the twin.
            children = until(lambda: len(process.children()) >= 2 and process.children(), "two benches", of=process)
            assert min(children, key=psutil.Process.create_time).num_threads() == threads + 1, "one reads questions"
        finally:
            process.kill()
            process.wait()


@pytest.mark.parametrize("threads", [1, 2])
def test_openvino_may_use_as_many_processors_as_it_has_threads(threads, bundle, harmful, rows):
    """Its delegate takes a thread for each, and no other number; the Python session does the same."""
    environment = harmful('if (system("nproc >&2") == 0) abort();')
    row = rows(bundle, "--only", PORTABLE, "--threads", threads, status=1, **environment)[PORTABLE]
    assert f": {min(threads, len(os.sched_getaffinity(0)))}, while it was opened" in row["reason"]


def test_one_alone_is_measured_without_a_twin(sound, rows, runner):
    """As `cross-backend run` does: another's turns would change what is measured, and there is nothing to rank."""
    result = runner(sound, "--only", PORTABLE, *QUICK)
    assert result.returncode == 0
    assert "Fastest" in result.stdout
    assert "is detected with 95 % power" not in result.stdout
    assert "is detected with 95 % power" in runner(sound, *QUICK).stdout
    assert rows(sound, "--only", PORTABLE, "--num-runs", "20")[PORTABLE]["latency_ms"]["n"] == 20


@pytest.mark.slow
def test_time_box(sound, rows):
    """However many calls are asked for, and however busy the machine is."""
    found = rows(sound, "--num-runs", "10000000", "--seconds", "0.5")
    counts = [row["latency_ms"]["n"] for row in found.values() if row["latency_ms"]]
    assert counts and all(0 < count < 10_000_000 for count in counts)


MODEL = """
import torch


class Mixed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 5, 3, padding=1)

    def forward(self, x):
        y = self.convolution(x)
        return y.to(memory_format=torch.channels_last), y.sum(dim=(2, 3)), y.argmax(dim=1), y > 0


def make():
    torch.manual_seed(0)
    return Mixed().eval(), (torch.randn(2, 3, 6, 7),)
"""


@pytest.mark.slow
def test_outputs_of_several_types_and_memory_orders(cli, rows, tmp_path):
    (tmp_path / "mixed.py").write_text(MODEL)
    targets = ("portable", "xnnpack", "atalla")
    done = cli("bundle", f"{tmp_path / 'mixed.py'}:make", "--backends", *targets, "--output-dir", tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    found = rows(*(tmp_path / "out").iterdir(), *QUICK)
    assert [row["outcome"] for row in found.values()] == ["OK", "OK", "OK"]
    assert all(0 < row["error"]["max_rel"] < 1e-5 for row in found.values())


def test_statistics_are_those_of_the_python_package(built):
    random.seed(0)
    for _ in range(60):
        count = random.choice([1, 2, 5, 6, 7, 29, 30])
        base = random.choice([0, random.randint(1, 10_000), 10**9])
        visited = [range(count), range(count), random.sample(range(count), random.randint(1, count)), range(count)]
        measured = [
            [
                [random.randint(base, base + spread) for _ in range(random.randint(1, 4))] if k in blocks else []
                for k in range(count)
            ]
            for spread, blocks in zip((base, base // 2, 3 * base, base), visited, strict=True)
        ]
        found = probe(built, {"rounds": measured})
        wanted = [Measurement("latency", "ns", tuple(map(tuple, rounds)), (count,)) for rounds in measured]
        for latency, one in zip(found["latencies"], wanted, strict=True):
            interval = statistics.latency_ms(one)
            mean = sum(one.values) / len(one.values) / 1e6
            assert latency == pytest.approx([interval.value, interval.low, interval.high, mean])
        twins = wanted[0], wanted[-1]
        floor = statistics.noise_floor(*twins)
        assert found["floor"] == (floor and pytest.approx(floor))
        ranking = Ranking(dict(enumerate(wanted)), floor)
        assert found["ranks"] == [ranking.ranks.get(key, 0) for key in range(len(wanted))]
        ratios = [ranking.ratios.get(key) for key in range(len(wanted))]
        assert found["ratios"] == [one and pytest.approx([one.value, one.low, one.high]) for one in ratios]
        found_from = ranking.found_from(twins)
        assert found["found_from"] == (found_from and pytest.approx(found_from))
