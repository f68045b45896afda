"""Counters: as Prometheus reads them: cumulative buckets, escaped labels, a bounded number of series."""

from __future__ import annotations

from cross_backend.web.counters import BOUNDS_S, Counters


def test_buckets_are_cumulative_and_end_with_all() -> None:
    metrics = Counters()
    for seconds in (0.0005, 0.0006, 0.003, 99.0):
        metrics.observe("took_seconds", seconds, target="cpu")
    lines = metrics.text({}).splitlines()
    found = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}
    counts = [found[f'took_seconds_bucket{{target="cpu",le="{bound}"}}'] for bound in (*BOUNDS_S, "+Inf")]
    assert counts[:4] == [1, 2, 2, 3] and counts == sorted(counts) and counts[-2:] == [3, 4]
    assert found['took_seconds_count{target="cpu"}'] == 4
    assert found['took_seconds_sum{target="cpu"}'] == 99.0041
    assert "# TYPE took_seconds histogram" in lines


def test_labels_are_escaped() -> None:
    metrics = Counters()
    metrics.count("runs_total", target='a"b\\c\nd')
    assert metrics.text({"open": 2}).splitlines() == [
        "# TYPE open gauge",
        "open 2",
        "# TYPE runs_total counter",
        'runs_total{target="a\\"b\\\\c\\nd"} 1',
    ]


def test_labels_that_never_end_share_one_series() -> None:
    metrics = Counters()
    for index in range(3000):
        metrics.count("runs_total", target=str(index))
    lines = metrics.text({}).splitlines()
    assert len(lines) <= 1002 and 'runs_total{target="other"} 2000' in lines
