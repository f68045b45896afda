"""A cluster that these tests share, and the command that runs a study on it."""

import json

import pytest

from tests.e2e.cluster.ray_cluster import advertised, started

pytest.importorskip("ray", reason="pip install 'cross-backend[ray]'")


@pytest.fixture(scope="package")
def ray_cluster(tmp_path_factory):
    """Give a head, two machines of class a, one of class b, and one that captures and lowers."""
    cache = tmp_path_factory.mktemp("there")
    with started() as made:
        for name in "aab":
            made.add_node(num_cpus=1, resources=advertised(name))
        made.add_node(num_cpus=1, resources={"prepare": 1}, env_vars={"CROSS_BACKEND_CACHE": str(cache)})
        yield made


@pytest.fixture
def asked(write_study, tmp_path):
    """Give a function that writes a study of machine classes, and the command that runs it."""

    def write(machines, batch_sizes=(1,), launches=2):
        path = write_study(
            tmp_path / "c.yaml", ["linear_regression"], ["cpu"], batch_sizes, launches=launches, max_launches=launches
        )
        path.write_text(json.dumps(json.loads(path.read_text()) | {"machines": machines}))
        return ("study", "run", path, "--launcher", "ray", "--db", tmp_path / "s.sqlite")

    return write
