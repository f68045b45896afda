"""The JSON Schema of study files: it takes what the reader takes, and marks what the reader refuses."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from cross_backend.errors import StudyFileError
from cross_backend.study.yaml_file import read_study

ROOT = Path(__file__).parents[3]
PATH = ROOT / "docs" / "reference" / "study.schema.json"
EXAMPLES = sorted((ROOT / "examples" / "studies").glob("*.yaml"))
RIGHT = """
name: right
workloads:
  - linear_regression
  - {model: digits_cnn, batch_sizes: [1], inputs: ~}
targets: [torch, 'cpu?threads=2']
precisions: [fp32]
threads: [1, 2]
settings: {seconds: 0.5, margin: 2%, memory_limit: 4 GB, instruments: [memory], localize: yes, together: ~}
output: {reports: [a.html], db: a.sqlite}
places: [local, 'ssh://pi']
machines: [pi, {name: server, processor: AMD EPYC 7763}]
"""
WRONG = {
    "an unknown key": {"workload": ["linear_regression"]},
    "no targets": {"targets": []},
    "targets that are no list": {"targets": "torch"},
    "a target that is no name": {"targets": ["Torch!"]},
    "a batch size of nought": {"batch_sizes": [0]},
    "a batch size that is no whole number": {"batch_sizes": [1.5]},
    "a workload without a model": {"workloads": [{"weights": "w.pt"}]},
    "an unknown key of a workload": {"workloads": [{"model": "digits_cnn", "batch": 1}]},
    "an unknown setting": {"settings": {"secnds": 5}},
    "too many seconds": {"settings": {"seconds": 90_000}},
    "a margin of a half per mille": {"settings": {"margin": 0.0005}},
    "a margin that is no share": {"settings": {"margin": "narrow"}},
    "an unknown instrument": {"settings": {"instruments": ["thermometer"]}},
    "a report of an unknown kind": {"output": {"reports": ["a.pdf"]}},
    "a machine class without a name": {"machines": [{"processor": "AMD EPYC 7763"}]},
    "no places": {"places": []},
}


@pytest.fixture(scope="module")
def validator():
    schema = json.loads(PATH.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_name_the_schema_and_are_valid(path, validator):
    text = path.read_text(encoding="utf-8")
    named = re.match(r"# yaml-language-server: \$schema=(.*)\n", text)
    assert named is not None and (path.parent / named[1]).resolve() == PATH
    assert list(validator.iter_errors(yaml.safe_load(text))) == []


def test_the_example_of_the_docs_is_valid(validator):
    page = (ROOT / "docs" / "study.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(name: nightly.*?)```", page, re.DOTALL)
    assert list(validator.iter_errors(yaml.safe_load(example))) == []


def test_every_key_of_a_right_study_is_valid(validator, tmp_path):
    assert list(validator.iter_errors(yaml.safe_load(RIGHT))) == []
    (tmp_path / "right.yaml").write_text(RIGHT)
    assert read_study(tmp_path / "right.yaml").settings.localize


@pytest.mark.parametrize("name", WRONG)
def test_what_the_reader_refuses_the_schema_marks(name, validator, tmp_path):
    wrong = copy.deepcopy(yaml.safe_load(RIGHT)) | WRONG[name]
    assert list(validator.iter_errors(wrong))
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump(wrong))
    with pytest.raises(StudyFileError):
        read_study(tmp_path / "wrong.yaml")
