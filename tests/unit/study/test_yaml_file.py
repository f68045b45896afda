"""Study files: what they say, and every mistake at its line and column, all of them together."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cross_backend.errors import StudyFileError
from cross_backend.study import yaml_nodes
from cross_backend.study.spec import StudyOutput, StudySettings, StudySpec, WorkloadSpec
from cross_backend.study.yaml_file import read_study
from tests.unit.study.test_spec import STUDIES

GOOD = """\
# a comment
name: quick
workloads:
  - digits_cnn
  - model: resnet50
    weights: IMAGENET1K_V1
    batch_sizes: [1]
targets: [cpu, 'torch?threads=2']
batch_sizes: [1, 8]
precisions: [fp32, int8]
threads: [1]
settings: {seconds: 2.5, margin: 1%, launches: 2, memory_limit: 4 GB, instruments: [memory]}
output:
  reports: [quick.html, quick.md]
  db: results.db
"""


@pytest.fixture
def read(tmp_path: Path):
    """Give a function that reads a text as a study file called ``s.yaml``."""

    def from_text(text: str | bytes) -> StudySpec:
        path = tmp_path / "s.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_study(path)

    return from_text


@pytest.fixture
def complaints(read, tmp_path: Path):
    """Give a function that reads a text and gives what is said of it, without the file's path."""

    def of(text: str | bytes) -> list[str]:
        with pytest.raises(StudyFileError) as caught:
            read(text)
        assert str(caught.value) == "\n".join(caught.value.lines)
        return [line.removeprefix(f"{tmp_path / 's.yaml'}:") for line in caught.value.lines]

    return of


def lines(body: str) -> str:
    """Give a study that is right but for what is given."""
    rest = {"workloads": "[digits_cnn]", "targets": "[cpu]"}
    return body + "".join(f"{key}: {value}\n" for key, value in rest.items() if f"{key}:" not in body)


def test_everything_that_a_file_can_say(read) -> None:
    assert read(GOOD) == StudySpec(
        name="quick",
        workloads=(
            WorkloadSpec("digits_cnn", "digits_cnn"),
            WorkloadSpec("resnet50", "resnet50", "IMAGENET1K_V1", None, (1,)),
        ),
        targets=("cpu", "torch?threads=2"),
        batch_sizes=(1, 8),
        precisions=("fp32", "int8"),
        threads=(1,),
        settings=StudySettings(2.5, 0.01, 2, memory_limit=4_000_000_000, instruments=("memory",)),
        output=StudyOutput(("quick.html", "quick.md"), "results.db"),
    )


def test_the_least_that_a_file_can_say(read) -> None:
    found = read("\ufeffworkloads: [digits_cnn]\ntargets: [cpu]\nprecisions:\nsettings:\n")
    assert found == StudySpec("s", (WorkloadSpec("digits_cnn", "digits_cnn"),), ("cpu",))


def test_nothing_is_typed_by_guess(read) -> None:
    """In YAML 1.1 these are a Boolean, a number in base 60, an octal number, and a date."""
    for name in ("no", "1:30", "012", "2026-11-21"):
        assert read(lines(f"name: {name}\n")).name == name


def test_lengths_of_text_are_texts(read) -> None:
    """In YAML 1.1 the first of these is a number in base 60."""
    found = read(lines("workloads: [{model: llama, generate: [128:32, 16:64]}]\n"))
    assert found.workloads == (WorkloadSpec("llama", "llama", generate=("128:32", "16:64")),)


def test_models_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "studies").mkdir()
    (tmp_path / "net.onnx").write_bytes(b"onnx")
    (tmp_path / "studies" / "s.yaml").write_text("workloads: [../net.onnx]\ntargets: [cpu]\n")
    assert read_study(tmp_path / "studies" / "s.yaml").workloads[0].model == str(tmp_path / "net.onnx")


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("treads: [1]\n", "1:1: unknown key 'treads' in a study. Did you mean 'threads'?"),
        ("settings:\n  secnds: 3\n", "2:3: unknown key 'secnds' in settings. Did you mean 'seconds'?"),
        ("output:\n  zzz: 3\n", "2:3: unknown key 'zzz' in output. Keys: db, reports."),
        ("workloads:\n- {weights: x}\n", "2:3: workloads: the key 'model' is missing."),
        ("workloads:\n- - digits_cnn\n", "2:3: workloads: one value is expected, not a list."),
        ("workloads:\n- {model: [a]}\n", "2:11: model: one value is expected, not a list."),
        ("workloads:\n- digits_cnn\n-\n", "3:2: workloads: a text is expected, not nothing."),
        ("workloads:\n- digits_cnn\n- net.onnx\n", "3:3: workloads: DIR/net.onnx does not exist."),
        ("workloads: []\n", "1:12: workloads: the list is empty."),
        ("workloads:\n", "1:11: workloads: a list is expected, not nothing."),
        ("targets: cpu\n", "1:10: targets: a list is expected, not 'cpu': write [cpu]."),
        ("targets: {cpu: 1}\n", "1:10: targets: a list is expected, not a mapping."),
        ("targets: [cpu, {a: b}]\n", "1:16: targets: one value is expected, not a mapping."),
        ("targets:\n- cpu?threads=0\n", "2:3: targets: option 'threads' takes a whole number from 1 to 4096, not '0'."),
        ("targets: ['a?b']\n", "1:11: targets: not an option: 'b' in target 'a?b'. Write key=value, joined by &."),
        ("targets: [a?b=c]\n", ("1:12: not YAML: expected ',' or ']', but got '?' while parsing a flow sequence."
                                 " Put a text that holds ? into quotes.")),
        ("batch_sizes: [1, 0]\n", "1:18: batch_sizes: a whole number from 1 to 65536 is expected, not '0'."),
        ("batch_sizes: [1.5]\n", "1:15: batch_sizes: a whole number from 1 to 65536 is expected, not '1.5'."),
        ("threads: [true]\n", "1:11: threads: a whole number from 1 to 4096 is expected, not 'true'."),
        ("settings: {seconds: fast}\n", "1:21: seconds: a number from 0.1 to 86400 is expected, not 'fast'."),
        ("settings: {seconds: }\n", "1:20: seconds: a number from 0.1 to 86400 is expected, not nothing."),
        ("settings: {margin: 1}\n", "1:20: margin: a share from 0.001 to 0.5, such as 1%, is expected, not '1'."),
        ("settings: {launches: 4, max_launches: 2, margin: 1%}\n",
         "1:11: settings: max_launches: 2 is fewer than the 4 launches."),
        ("settings:\n seed: -1\n", "2:8: seed: a whole number from 0 to 2147483647 is expected, not '-1'."),
        ("settings: {instruments: memory}\n", "1:25: instruments: a list is expected, not 'memory': write [memory]."),
        ("output: {reports: [a]}\n", "1:20: reports: a file that ends in .html, .json or .md is expected, not 'a'."),
        ("output: {db: a://}\n", "1:14: db: a file or postgresql://HOST/NAME is expected, not 'a://'."),
        ('name: "\\UFFFFFFFF"\n', "1:1: not YAML: a number in an escape or a directive is too large."),
        ("settings: {instruments: [latency, speed]}\n", ("1:35: instruments: unknown instrument 'speed'. "
                                                            "Choices: accuracy, cold_start, energy, latency, memory, "
                                                            "open_loop, throughput.")),
        ("name: a\nname: b\n", "2:1: key 'name' is given twice, first in line 1."),
        ("? [a]\n: b\n", "1:3: a key is a text, not a list."),
        ("name: &a x\n", "1:7: anchors are not read: leave &a out."),
        ("targets: *t\n", "1:10: aliases are not read: write out what *t stands for."),
        ("targets: [cpu, *t]\n", "1:16: aliases are not read: write out what *t stands for."),
        ("<<: x\n", "1:1: merge keys are not read: write out what << stands for."),
        ("name: !!python/none x\n", "1:7: tags are not read: leave 'tag:yaml.org,2002:python/none' out."),
        ("name: !x y\n", "1:7: tags are not read: leave '!x' out."),
        ("name: a: b\n", "1:8: not YAML: mapping values are not allowed here."),
        ("\tname: a\n", ("1:1: not YAML: found character '\\t' that cannot start any token"
                          " while scanning for the next token.")),
        ("name: ü\x07\n", "1:8: a control character, which YAML does not allow."),
    ],
    ids=lambda value: value if ":" not in value[:6] else "",
)  # fmt: skip
def test_a_mistake_has_its_line_and_column(complaints, tmp_path: Path, body: str, line: str) -> None:
    assert complaints(lines(body)) == [line.replace("DIR", str(tmp_path))]


@pytest.mark.parametrize(
    ("body", "begins"),
    [
        ("workloads: [digit_cnn]\n", "1:13: workloads: unknown model 'digit_cnn'. Did you mean 'digits_cnn'"),
        ("targets: [cpu, xnpack]\n", "1:16: targets: unknown backend 'xnpack'. Did you mean 'xnnpack'"),
        ("targets: ['cpu?thread=1']\n", "1:11: targets: unknown option of onnxruntime.cpu: 'thread'. Did you mean"),
        ("precisions: [int9]\n", "1:14: precisions: unknown precision 'int9'. Did you mean 'int8'"),
        (
            "settings: {instruments: [memroy]}\n",
            "1:26: instruments: unknown instrument 'memroy'. Did you mean 'memory'",
        ),
    ],
)
def test_an_unknown_name_gets_the_nearest(complaints, body: str, begins: str) -> None:
    (told,) = complaints(lines(body))
    assert told.startswith(begins)


def test_all_mistakes_are_told_together_in_the_order_of_the_file(complaints) -> None:
    told = complaints("targets: [cpux]\nthreads: [0, 1, x]\nsettings:\n  seed: -1\n  jobs: many\nzzz: 1\n")
    assert [line.split(": ")[0] for line in told] == ["1:1", "1:11", "2:11", "2:17", "4:9", "5:9", "6:1"]
    assert told[0] == "1:1: the key 'workloads' is missing."


def test_of_thousands_of_mistakes_the_first_are_told(complaints) -> None:
    told = complaints("".join(f"k{i}: 1\n" for i in range(3000)))
    assert len(told) == 51
    assert told[-1].endswith("… and 2952 more mistakes.")


@pytest.mark.parametrize("text", ["", "# only a comment\n", "\n\n"])
def test_an_empty_file(complaints, text: str) -> None:
    assert complaints(text) == ["1:1: the file is empty."]


def test_a_document_that_is_no_mapping(complaints) -> None:
    assert complaints("---\n")[0].startswith("2:1: nothing stands where keys are expected: name, workloads, targets")
    assert complaints("- a\n")[0].startswith("1:1: a list stands where keys are expected")


def test_several_documents(complaints) -> None:
    assert complaints(GOOD + "---\nname: b\n") == ["16:1: a second document begins: a study is one document."]


def test_what_is_not_utf8(complaints) -> None:
    assert complaints("name: ü\nthreads: ".encode() + b"\xff") == ["2:10: not UTF-8 text."]
    assert complaints(GOOD.encode("utf-16")) == ["1:1: not UTF-8 text."]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(StudyFileError, match=r"cannot read .*absent\.yaml: No such file"):
        read_study(tmp_path / "absent.yaml")
    with pytest.raises(StudyFileError, match=r"cannot read .*: Is a directory"):
        read_study(tmp_path)


LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("bomb", "says"),
    [
        (LAUGHS, "aliases are not read"),
        ("a: &a [*a]\n", "aliases are not read"),
        (f"%YAML {'1' * 5000}.1\n---\nname: a\n", "a directive is too large"),
        ("[" * 10_000, "1:11: nested more than 10 deep."),
        ("{a: " * 10_000, "nested more than 10 deep."),
        ("- " * 10_000, "1:21: nested more than 10 deep."),
        ("? " * 10_000, "nested more than 10 deep."),
        ("\n".join(" " * i + "a:" for i in range(1200)), "10:10: nested more than 10 deep."),
        ("[" + "a," * 400_000 + "]", "more than 20000 values"),
        ("".join(f"k{i}: 1\n" for i in range(90_000)), "more than 20000 values"),
        ("name: " + "x" * 900_000, "name: a text is expected"),
        ("threads: [" + "9" * 900_000 + "]", "threads: a whole number"),
        ("a: b\n" * 10_000_000, "is larger than 1 MB"),
    ],
    ids=[
        "billion laughs", "endless", "version", "lists", "mappings", "blocks", "keys", "indents", "long list",
        "many keys", "long text", "long number", "50 MB",
    ],
)  # fmt: skip
def test_a_bomb_is_refused_quickly(complaints, bomb: str, says: str) -> None:
    started = time.process_time()
    told = complaints(bomb)
    assert any(says in line for line in told), told[:3]
    assert max(map(len, told)) < 1000
    assert time.process_time() - started < 10  # seconds at worst on a slow machine; expanding one takes hours


def test_an_endless_device_is_refused() -> None:
    with pytest.raises(StudyFileError, match="is larger than 1 MB"):
        read_study(Path("/dev/zero"))


@given(STUDIES)
def test_what_another_writer_wrote_is_read_as_it_was_meant(
    tmp_path_factory: pytest.TempPathFactory, one: StudySpec
) -> None:
    """PyYAML's own writer quotes and folds as it likes; the texts of every field come back."""
    mistakes = yaml_nodes.Mistakes(Path("s"))
    root = yaml_nodes.compose(yaml.safe_dump(one.to_json(), allow_unicode=True), mistakes)
    row = yaml_nodes.value_of(root, mistakes)
    mistakes.tell()
    assert row["name"] == one.name
    assert row["batch_sizes"] == [str(batch) for batch in one.batch_sizes]


@given(st.text(max_size=300) | st.binary(max_size=300))
def test_any_text_is_a_study_or_a_complaint(tmp_path_factory: pytest.TempPathFactory, text: str | bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    with pytest.raises(StudyFileError):
        read_study(path)


TOKENS = st.sampled_from(
    ["a", "name", "workloads", "targets", ": ", "- ", "[", "]", "{", "}", ", ", "\n", "\n  ", "&a ", "*a", "!!x ", "<<",
     "? ", "| ", "> ", "'", '"', "#", "---\n", "...\n", "%YAML 1.2\n", "cpu", "digits_cnn", "1", "\t"]
)  # fmt: skip


@given(st.lists(TOKENS, max_size=40).map("".join))
def test_any_mixture_of_yaml_is_a_study_or_a_complaint(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "mixture.yaml"
    path.write_text(text)
    try:
        assert isinstance(read_study(path), StudySpec)
    except StudyFileError as error:
        assert error.lines  # noqa: PT017  either is right


def test_reading_imports_no_vendor(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(GOOD)
    script = (
        "import sys; from pathlib import Path; from cross_backend.study.yaml_file import read_study\n"
        "read_study(Path(sys.argv[1])).panels()\n"
        "assert not {'torch', 'onnxruntime', 'openvino', 'executorch', 'iree', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "s.yaml")], check=True)


def test_a_workload_may_have_inputs_of_its_own(tmp_path: Path) -> None:
    own = tmp_path / "own.npz"
    np.savez(own, input_0=np.ones((1, 4), np.float32))
    path = tmp_path / "s.yaml"
    path.write_text("workloads: [{model: linear_regression, inputs: [own.npz]}]\ntargets: [cpu]\n")
    first = read_study(path)
    assert first.workloads[0].inputs == (str(own.resolve()),)
    np.savez(own, input_0=np.zeros((1, 4), np.float32))
    assert read_study(path).digest != first.digest, "other inputs are another study"
    path.write_text("workloads: [{model: linear_regression, inputs: [gone.npz]}]\ntargets: [cpu]\n")
    with pytest.raises(StudyFileError, match=r"gone\.npz does not exist"):
        read_study(path)
