"""A study on a Ray cluster of node processes on this machine: by class, through faults, and what is refused."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import cross_backend
from cross_backend.machine import Machine
from cross_backend.records import Launch
from cross_backend.store import Store
from cross_backend.study.spec import StudySpec
from tests.e2e.cluster.ray_cluster import added, advertised

pytest.importorskip("ray", reason="pip install 'cross-backend[ray]'")
pytestmark = pytest.mark.xdist_group("cluster")


def kept(path):
    """Give (class, panel, launch) of every stored launch, and whether each study is finished."""
    found, finished = [], []
    with Store.open(str(path)) as store:
        for row in store.studies():
            study = StudySpec.from_json(store.study(row.id).spec)
            finished.append(row.finished is not None)
            for spec in study.panels():
                launches = store.records(row.id, spec.key, Launch)
                found += [(study.where_measured, str(spec.key), number) for number, _ in launches]
    return found, finished


@pytest.mark.slow
@pytest.mark.fresh_workers
def test_each_class_measures_the_whole_study_once(ray_cluster, cli, asked, document, tmp_path):
    command = (*asked(["a", "b"], launches=1), "--address", ray_cluster.address)
    found = document(cli(*command, "--json"))
    assert [(panel["place"], panel["batch"]) for panel in found["panels"]] == [("a", 1), ("b", 1)]
    assert {row["outcome"] for row in found["results"]} == {"OK"}
    launches, finished = kept(tmp_path / "s.sqlite")
    assert finished == [True, True] and len(launches) == len(set(launches)) == 2


@pytest.mark.slow
@pytest.mark.fresh_workers
def test_artifacts_travel_through_a_shared_cache(ray_cluster, cli, asked, tmp_path):
    shared = tmp_path / "shared"
    done = cli(*asked(["b"]), "--address", ray_cluster.address, "--shared-cache", f"file://{shared}")
    assert done.returncode == 0, done.stderr
    files = [path for path in shared.rglob("*") if path.is_file()]
    assert len(files) > 3 and all(path.parent.name == path.name[:2] for path in files), "by digest, whole"


@pytest.mark.slow
@pytest.mark.fresh_workers
def test_a_killed_node_and_driver_lose_a_launch_at_most(ray_cluster, start, streams, asked, until, tmp_path):
    command = (*asked(["c"], [1, 2], launches=3), "--address", ray_cluster.address)
    first = ray_cluster.add_node(num_cpus=1, resources=advertised("c"))
    process = start(*command)
    until(lambda: "launch 1 on c: stored" in streams()[1], "a launch is stored", of=process)
    ray_cluster.add_node(num_cpus=1, resources=advertised("c"))
    ray_cluster.remove_node(first, allow_graceful=False)
    until(lambda: "it is taken again" in streams()[1], "the lost panel is told", of=process)
    until(lambda: streams()[1].count("on c: stored") >= 2, "it goes on elsewhere", of=process)
    before, _ = kept(tmp_path / "s.sqlite")
    process.send_signal(signal.SIGKILL)
    process.wait(30)
    again = start(*command)
    assert again.wait(180) == 0, streams()[1]
    after, finished = kept(tmp_path / "s.sqlite")
    assert finished == [True] and set(before) <= set(after)
    assert sorted(after) == sorted(
        ("c", f"linear_regression, batch {b}, 1 thread", n) for b in (1, 2) for n in range(3)
    )


@pytest.mark.slow
def test_nodes_without_the_package_or_of_another_version_are_refused(ray_cluster, cli, asked, complaint, tmp_path):
    absent, other = tmp_path / "absent" / "cross_backend", tmp_path / "other" / "cross_backend"
    absent.mkdir(parents=True)
    (absent / "__init__.py").write_text("raise ImportError('not here')\n")
    shutil.copytree(Path(cross_backend.__file__).parent, other)
    (other / "_version.py").write_text('__version__ = "0.0.1"\n')
    nodes = [
        ray_cluster.add_node(num_cpus=1, resources=advertised("d"), env_vars={"PYTHONPATH": str(path.parent)})
        for path in (absent, other)
    ]
    line = complaint(
        cli(*asked(["d"]), "--address", ray_cluster.address), 2, "no machine of class d", "There: machine:a"
    )
    assert "cross-backend cannot be imported" in line and "it has cross-backend 0.0.1" in line
    for node in nodes:
        ray_cluster.remove_node(node)


@pytest.mark.slow
def test_a_class_without_a_machine_is_told_at_once(ray_cluster, cli, asked, complaint):
    began = time.monotonic()
    complaint(cli(*asked(["a", "pi"]), "--address", ray_cluster.address), 2, "class pi", "machine:a", "machine:b")
    assert time.monotonic() - began < 60


@pytest.mark.slow
def test_a_shared_cache_that_cannot_be_written(ray_cluster, cli, asked, complaint, tmp_path):
    (tmp_path / "file").write_text("in the way")
    url = f"file://{tmp_path / 'file' / 'cache'}"
    complaint(cli(*asked(["a"]), "--address", ray_cluster.address, "--shared-cache", url), 1, "cannot be written", url)


def test_nothing_answers(cli, asked, complaint):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        complaint(cli(*asked(["a"]), "--address", address), 1, f"no Ray cluster answers at {address}")
        complaint(cli("node", "--join", address), 1, f"no Ray cluster answers at {address}")


def test_no_ray(cli, asked, complaint, tmp_path):
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "__init__.py").write_text("raise ImportError('no')\n")
    result = cli(*asked(["a"]), PYTHONPATH=str(tmp_path))
    complaint(result, 1, "Ray is not installed", "pip install 'cross-backend[ray]'")


def test_a_node_prints_what_it_advertises(cli, usage_error):
    found = json.loads(cli("node", "--name", "Lab Pi 5").stdout)
    assert found["machine:lab-pi-5"] == found["measure"] == 1
    assert f"architecture:{Machine.here().arch}".replace("_", "-") in found
    assert json.loads(cli("node", "--prepare").stdout) == {"prepare": 1}
    assert "place:adb-1234" in json.loads(cli("node", "--name", "pixel", "--place", "adb:1234").stdout)
    usage_error(cli("node", "--name", "///"), "a name has letters")


def test_the_local_launcher_refuses_what_is_of_a_cluster(cli, asked, usage_error):
    command = [part for part in asked(["a"]) if part not in ("--launcher", "ray")]
    usage_error(cli(*command), "--launcher ray")


def kill_something(ray_cluster, nodes, process, chance):
    """Kill a node, what measures on one, or the driver; give the processes that must be gone."""
    victim = chance.choice(["node", "worker", "driver"])
    if victim == "driver":
        process.kill()
        return []
    node = nodes[0]
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    family = [one for one in raylet.children(recursive=True) if one.is_running()]
    if victim == "node":
        nodes.append(added(ray_cluster, "e"))
        ray_cluster.remove_node(nodes.pop(0), allow_graceful=False)
        return family
    for one in [one for one in family if one.name().startswith("ray::")][:1]:
        one.kill()
    return []


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.fresh_workers
def test_killed_at_random_moments_nothing_is_lost_or_twice(ray_cluster, start, asked, until, all_gone, tmp_path):
    """Nodes, what runs on them and the driver are killed; ``CROSS_BACKEND_KILLS=50`` kills so often."""
    kills, path = int(os.environ.get("CROSS_BACKEND_KILLS", "5")), tmp_path / "s.sqlite"
    batches = range(1, 41 if kills >= 50 else 9)
    command = (*asked(["e"], list(batches)), "--address", ray_cluster.address)
    chance = random.Random(kills)
    nodes = [added(ray_cluster, "e") for _ in range(2)]
    process, before, gone = start(*command), set(), []
    for _ in range(kills):
        time.sleep(chance.uniform(0.5, 8))
        gone += kill_something(ray_cluster, nodes, process, chance)
        if process.poll() is not None:
            after = set(kept(path)[0]) if path.exists() else set()
            assert before <= after, "nothing is lost"
            before, process = after, start(*command)
    for _ in range(5):  # a panel that lost its machine three times is missing until the next command
        if process.wait(900) == 0:
            break
        process = start(*command)
    launches, finished = kept(path)
    wanted = {("e", f"linear_regression, batch {batch}, 1 thread", number) for batch in batches for number in range(2)}
    assert finished[0] and wanted == set(launches) and before <= set(launches)
    for node in nodes:
        ray_cluster.remove_node(node)
    assert until(lambda: all_gone(gone), "nothing is left of nodes that were killed", 30)


@pytest.mark.slow
def test_another_version_of_ray(ray_cluster, cli, asked, complaint):
    """The version that a cluster was started with lies in its own table."""
    script = f"""
import json, ray, sys
from ray._common.usage.usage_constants import CLUSTER_METADATA_KEY as key
from ray._private.ray_constants import KV_NAMESPACE_CLUSTER as space
from ray.experimental import internal_kv as kv
ray.init(address={ray_cluster.address!r}, log_to_driver=False)
old = json.loads(kv._internal_kv_get(key, namespace=space))
new = json.dumps(old | {{"ray_version": sys.argv[1]}}).encode()
kv._internal_kv_put(key, new, overwrite=True, namespace=space)
print(flush=True)
sys.stdin.readline()
kv._internal_kv_put(key, json.dumps(old).encode(), overwrite=True, namespace=space)
"""

    command = [sys.executable, "-c", script, "1.0.0"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as renaming:
        assert renaming.stdout.readline()
        try:
            complaint(cli(*asked(["a"]), "--address", ray_cluster.address), 1, "of another version", "1.0.0")
        finally:
            renaming.communicate("\n")
