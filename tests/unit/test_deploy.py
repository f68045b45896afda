"""``deploy/``: the manifest advertises what studies ask for, and follows the shape of its kinds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cross_backend.study.machines import MEASURE, NAME, PREPARE, MachineClass

ROOT = Path(__file__).parents[2]
CLUSTER, POLICY = yaml.safe_load_all((ROOT / "deploy" / "kuberay.yaml").read_text(encoding="utf-8"))
PODS = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["containers"],
            "properties": {
                "containers": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "required": ["name", "image", "resources"],
                        "properties": {"name": {"type": "string"}, "image": {"type": "string"}},
                    },
                }
            },
        }
    },
}
PARAMS = {"type": "object", "additionalProperties": {"type": "string"}}
GROUP = {
    "type": "object",
    "required": ["groupName", "rayStartParams", "template", "maxReplicas", "minReplicas"],
    "properties": {"groupName": {"type": "string"}, "rayStartParams": PARAMS, "template": PODS},
}
SCHEMA = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "ray.io/v1"},
        "kind": {"const": "RayCluster"},
        "spec": {
            "type": "object",
            "required": ["headGroupSpec", "rayVersion"],
            "additionalProperties": False,
            "properties": {
                "rayVersion": {"type": "string"},
                "headGroupSpec": {
                    "type": "object",
                    "required": ["template", "rayStartParams"],
                    "properties": {"rayStartParams": PARAMS, "template": PODS},
                },
                "workerGroupSpecs": {"type": "array", "items": GROUP},
            },
        },
    },
}
"""What the operator's own definition of ray.io/v1 RayCluster asks of the keys that are used."""


def advertised() -> dict[str, dict[str, Any]]:
    groups = CLUSTER["spec"]["workerGroupSpecs"]
    return {one["groupName"]: json.loads(json.loads(one["rayStartParams"]["resources"])) for one in groups}


def test_the_manifest_has_the_shape_of_its_kind() -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="pip install 'cross-backend[ray]'")
    jsonschema.validate(CLUSTER, SCHEMA)


def test_ray_is_of_the_version_that_is_tested() -> None:
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert f"ray=={CLUSTER['spec']['rayVersion']}" in pins


def test_groups_are_classes_that_studies_can_name() -> None:
    found = advertised()
    assert found.pop("prepare") == {PREPARE: 1}
    assert found
    for name, resources in found.items():
        assert MachineClass(name).includes(resources) and resources[MEASURE] == 1 and f"{NAME}{name}" in resources


def test_only_the_clusters_own_pods_reach_it() -> None:
    own = {"matchLabels": {"ray.io/cluster": CLUSTER["metadata"]["name"]}}
    assert POLICY["spec"]["podSelector"] == own
    assert POLICY["spec"]["ingress"] == [{"from": [{"podSelector": own}]}]


def test_the_image_sets_the_priority_of_workers_and_no_root() -> None:
    lines = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8").splitlines()
    words = {line.split(maxsplit=1)[0] for line in lines if line and line[0].isupper()}
    assert words <= {"FROM", "RUN", "WORKDIR", "COPY", "USER", "ENV"}
    assert "ENV RAY_worker_niceness=0" in lines and "USER node" in lines
