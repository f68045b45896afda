"""Study: panels in order and without duplicates, an identity of what is measured, and a round trip through JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cross_backend.errors import UnsupportedError, UsageError
from cross_backend.registry import resolve
from cross_backend.study.spec import StudyOutput, StudySettings, StudySpec, WorkloadSpec

DIGITS = WorkloadSpec("digits_cnn", "digits_cnn")
LINEAR = WorkloadSpec("linear_regression", "linear_regression")


def study(**given: object) -> StudySpec:
    return StudySpec(**{"name": "s", "workloads": (DIGITS,), "targets": ("cpu", "torch"), **given})  # type: ignore[arg-type]


def test_panels_go_workload_by_workload_then_batch_then_threads() -> None:
    one = study(workloads=(DIGITS, replace(LINEAR, batch_sizes=(4,))), batch_sizes=(1, 8), threads=(1, 2))
    assert [(p.workload.model, p.batch, p.threads) for p in one.panels()] == [
        ("digits_cnn", 1, 1), ("digits_cnn", 1, 2), ("digits_cnn", 8, 1), ("digits_cnn", 8, 2),
        ("linear_regression", 4, 1), ("linear_regression", 4, 2),
    ]  # fmt: skip
    assert str(one.panels()[1].key) == "digits_cnn, batch 1, 2 threads"
    assert {p.targets for p in one.panels()} == {("cpu", "torch")}


def test_a_study_that_would_have_millions_of_cells_is_refused() -> None:
    many = tuple(range(1, 601))
    with pytest.raises(UsageError, match=r"workloads: 720,000 cells are more than the 100,000"):
        study(batch_sizes=many, threads=many)
    assert len(study(batch_sizes=many, threads=many[:80]).panels()) == 48_000


def test_every_target_at_every_precision_but_its_own() -> None:
    one = study(targets=("xnnpack", "iree", "openvino?precision=bf16"), precisions=("fp32", "int8"))
    assert one.panels()[0].targets == (
        "xnnpack?precision=fp32", "xnnpack?precision=int8",
        "iree", "iree?precision=int8",  # has no int8: kept, and exporting it says so
        "openvino?precision=bf16",
    )  # fmt: skip
    with pytest.raises(UnsupportedError, match="has no int8"):
        resolve("iree?precision=int8")


def test_a_target_named_in_two_ways_is_measured_once() -> None:
    texts = ("xnnpack", "executorch.xnnpack", "xnnpack?precision=fp32", "xnnpack?threads=2", "cpu", "cpu")
    assert study(targets=texts).panels()[0].targets == ("xnnpack", "xnnpack?threads=2", "cpu")


def test_a_backend_that_is_gone_keeps_its_row() -> None:
    assert study(targets=("vanished", "cpu"), precisions=("int8",)).panels()[0].targets == (
        "vanished",
        "cpu?precision=int8",
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"targets": ("cpu", "vanished")},
        {"targets": ("cpu?precision=int9",)},
        {"precisions": ("fp32", "int9")},
        {"settings": StudySettings(instruments=("memroy",))},
    ],
    ids=str,
)
def test_names_are_looked_up_when_asked_for(wrong: dict[str, object]) -> None:
    study(precisions=("int8",)).check_names()
    with pytest.raises(UsageError, match="unknown"):
        study(**wrong).check_names()


def test_repeated_values_count_once() -> None:
    one = study(workloads=(DIGITS, DIGITS), batch_sizes=[1, 1, 8], threads=[2, 2])
    assert (one.workloads, one.batch_sizes, one.threads) == ((DIGITS,), (1, 8), (2,))


def test_settings_read_texts() -> None:
    read = StudySettings(seconds="2.5", margin="1%", memory_limit="4 GB", min_on_device="90%", instruments=["latency"])  # type: ignore[arg-type]
    assert (read.seconds, read.margin, read.memory_limit, read.min_on_device) == (2.5, 0.01, 4_000_000_000, 0.9)
    assert read.instruments == ()  # latency is always taken
    assert StudySettings(memory_limit="512MiB").memory_limit == 512 * 2**20  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"batch_sizes": (0,)}, "batch_sizes: a whole number from 1 to 65536 is expected, not 0"),
        ({"batch_sizes": (True,)}, "batch_sizes: .*not True"),
        ({"batch_sizes": ()}, "batch_sizes: the list is empty"),
        ({"targets": "cpu"}, "targets: a list is expected, not 'cpu'"),
        ({"targets": ("CPU!",)}, "targets: not a target"),
        ({"threads": 4}, "threads: a list is expected, not 4"),
        ({"workloads": ()}, "workloads: the list is empty"),
        ({"name": "a/b"}, "name: .*without slashes"),
        ({"workloads": (DIGITS, replace(DIGITS, weights="w"))}, "are both called 'digits_cnn'"),
    ],
)
def test_what_cannot_be_measured_is_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        study(**given)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"seconds": float("nan")}, "seconds: a number from 0.1 to 86400 is expected, not nan"),
        ({"seconds": "1_0"}, "seconds"),
        ({"seconds": None}, "seconds: .*not nothing"),
        ({"margin": 0}, "margin: a share from 0.001 to 0.5, such as 1%, is expected, not 0"),
        ({"margin": "60 %"}, "margin"),
        ({"launches": 20, "margin": "1%"}, "max_launches: 15 is fewer than the 20 launches"),
        ({"launches": "٣"}, "launches: a whole number"),
        ({"memory_limit": 4}, "memory_limit: a size such as 4 GB"),
        ({"memory_limit": "9" * 16 + "TB"}, "memory_limit"),
        ({"memory_limit": "400000000 iB"}, "memory_limit: a size such as 4 GB"),
        ({"min_on_device": 1.01}, "min_on_device"),
        ({"seed": -1}, "seed"),
    ],
)
def test_settings_out_of_range_are_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        StudySettings(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url", ["postgresql://me:secret@host/x", "postgresql+psycopg://me:@host/x", "postgresql://host/x?password=secret"]
)
def test_a_password_does_not_go_into_a_study(url: str) -> None:
    with pytest.raises(UsageError, match="PGPASSWORD") as caught:
        StudyOutput(db=url)
    assert "secret" not in str(caught.value)


def test_more_launches_than_the_most_of_a_margin_need_no_margin() -> None:
    assert StudySettings(launches=20).launches == 20


def test_databases_are_files_or_two_kinds_of_url() -> None:
    for good in ("results.db", "postgres://host/x", "postgresql://host/x", "postgresql+psycopg://me@host/x"):
        assert StudyOutput(db=good).db == good
    for bad in ("mysql://host/x", "postgresql://[::1/x"):
        with pytest.raises(UsageError, match="db: "):
            StudyOutput(db=bad)


class TestDigest:
    """Sixteen digits of what is measured."""

    def test_outputs_names_and_jobs_do_not_count(self) -> None:
        one = study()
        other = replace(one, name="t", output=StudyOutput(("a.html",), "x.db"), settings=StudySettings(jobs=3))
        assert one.digest == other.digest
        assert len(one.digest) == 16

    @pytest.mark.parametrize(
        "changed",
        [
            {"targets": ("cpu",)},
            {"batch_sizes": (1, 2)},
            {"threads": (2,)},
            {"precisions": ("int8",)},
            {"workloads": (LINEAR,)},
            {"workloads": (replace(DIGITS, weights="V1"),)},
            {"settings": StudySettings(seed=1)},
            {"settings": StudySettings(margin=0.01)},
        ],
        ids=str,
    )
    def test_what_is_measured_counts(self, changed: dict[str, object]) -> None:
        assert study().digest != study(**changed).digest

    def test_it_does_not_change_from_version_to_version(self) -> None:
        """A stored study is found again by it: a change here is a change of SCHEMA."""
        settings = StudySettings(instruments=("memory",))
        assert study(targets=("null",), settings=settings).digest == "74bf67696170537a"

    def test_a_file_counts_by_its_content_and_not_by_its_place(self, tmp_path: Path) -> None:
        digests = []
        for folder, content in (("a", b"one"), ("b", b"one"), ("b", b"two")):
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / "m.onnx").write_bytes(content)
            digests.append(study(workloads=(WorkloadSpec.find("m.onnx", None, tmp_path / folder),)).digest)
        for content in (b"one", b"two"):
            (tmp_path / "m[1].onnx").write_bytes(content)
            digests.append(study(workloads=(WorkloadSpec.find("m[1].onnx", None, tmp_path),)).digest)
        (tmp_path / "b" / "m.onnx.data").write_bytes(b"weights beside it")
        digests.append(study(workloads=(WorkloadSpec.find("m.onnx", None, tmp_path / "b"),)).digest)
        assert digests[0] == digests[1]
        assert len(set(digests)) == 5


class TestFind:
    """Models by name or by file."""

    def test_a_path_starts_at_the_folder(self, tmp_path: Path) -> None:
        (tmp_path / "models").mkdir()
        (tmp_path / "studies").mkdir()
        (tmp_path / "models" / "net.py").write_text("def build(): ...\n")
        found = WorkloadSpec.find("../models/net.py:build", None, tmp_path / "studies")
        assert (found.model, found.name) == (f"{tmp_path}/models/net.py:build", "net_build")
        assert found.content is not None

    def test_a_checkpoint_is_a_file_and_a_published_name_is_not(self, tmp_path: Path) -> None:
        (tmp_path / "w.pt").write_bytes(b"x")
        assert WorkloadSpec.find("resnet50", "w.pt", tmp_path).weights == str(tmp_path / "w.pt")
        named = WorkloadSpec.find("resnet50", "IMAGENET1K_V1", tmp_path)
        assert (named.weights, named.content) == ("IMAGENET1K_V1", None)
        for absent in ("absent.pt", "./absent", "a/b/c", "~/absent"):
            with pytest.raises(UsageError, match="do not exist"):
                WorkloadSpec.find("resnet50", absent, tmp_path)

    @pytest.mark.parametrize("name", ["openai/whisper-tiny", "google-bert/bert-base-uncased", "gpt2", "a/b-v0.1"])
    def test_a_published_name_may_have_an_owner(self, name: str, tmp_path: Path) -> None:
        found = WorkloadSpec.find("whisper_tiny", name, tmp_path)
        assert (found.weights, found.content) == (name, None)

    def test_a_folder_of_weights_counts_by_its_files(self, tmp_path: Path) -> None:
        (tmp_path / "bert").mkdir()
        contents = set()
        for content in ("one", "two"):
            (tmp_path / "bert" / "model.safetensors").write_text(content)
            found = WorkloadSpec.find("bert_base", "bert", tmp_path)
            assert found.weights == str(tmp_path / "bert")
            contents.add(found.content)
        assert len(contents) == 2 and None not in contents

    def test_what_does_not_exist_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="Did you mean 'resnet50'"):
            WorkloadSpec.find("resnet5O", None, tmp_path)
        with pytest.raises(UsageError, match=r"absent\.onnx does not exist"):
            WorkloadSpec.find("absent.onnx", None, tmp_path)


_CHARACTERS = st.characters(codec="utf-8", categories=("L", "N", "P", "S"), exclude_characters="/\\-")
NAMES = st.text(_CHARACTERS, min_size=1, max_size=100).filter(str.isprintable)
WORKLOADS = st.lists(
    st.builds(
        WorkloadSpec,
        model=NAMES,
        name=NAMES,
        weights=st.none() | NAMES,
        content=st.none() | st.just("0" * 64),
        batch_sizes=st.lists(st.integers(1, 65_536), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda one: one.name,
).map(tuple)
SETTINGS = st.builds(
    StudySettings,
    seconds=st.floats(0.1, 86_400),
    margin=st.none() | st.floats(0.001, 0.5),
    launches=st.integers(1, 15),
    max_launches=st.integers(15, 1000),
    seed=st.integers(0, 2**31 - 1),
    timeout_s=st.floats(1, 604_800),
    memory_limit=st.none() | st.integers(64_000_000, 2**53 - 1),
    instruments=st.lists(st.sampled_from(("memory", "energy", "other")), max_size=3).map(tuple),
    min_on_device=st.floats(0, 1),
    min_coverage=st.floats(0, 1),
    jobs=st.integers(0, 4096),
)
STUDIES = st.builds(
    StudySpec,
    name=NAMES,
    workloads=WORKLOADS,
    targets=st.lists(st.sampled_from(("cpu", "torch", "xnnpack?threads=2", "gone.backend")), min_size=1).map(tuple),
    batch_sizes=st.lists(st.integers(1, 65_536), min_size=1, max_size=4).map(tuple),
    precisions=st.lists(st.sampled_from(("fp32", "int8", "fp4")), max_size=3).map(tuple),
    threads=st.lists(st.integers(1, 4096), min_size=1, max_size=3).map(tuple),
    settings=SETTINGS,
    output=st.builds(
        StudyOutput,
        reports=st.lists(NAMES.map(lambda text: text + ".html"), max_size=2).map(tuple),
        db=st.none() | st.just("postgresql://host/name"),
    ),
)


@given(STUDIES)
def test_round_trip_through_json(one: StudySpec) -> None:
    text = json.dumps(one.to_json(), allow_nan=False)
    again = StudySpec.from_json(json.loads(text))
    assert again == one
    assert again.digest == one.digest
    assert again.panels() == one.panels()


@pytest.mark.parametrize(
    "change",
    [{"schema": 2}, {"later": 1}, {"settings": {"later": 1}}, {"workloads": 3}, {"batch_sizes": ["many"]}],
    ids=str,
)
def test_another_versions_json_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        StudySpec.from_json({**study().to_json(), **change})
    with pytest.raises(UsageError, match="not a study"):
        StudySpec.from_json({})


def test_generated_text_has_panels_for_prefill_and_decode() -> None:
    one = study(workloads=(WorkloadSpec.find("gpt2", generate=["128:64", "16:8"]), LINEAR), batch_sizes=(1, 2))
    assert [(p.key.workload, p.batch, p.generate, p.part) for p in one.panels()] == [
        ("gpt2_decoder_128_64_prefill", 1, "128:64", "prefill"),
        ("gpt2_decoder_128_64_decode", 1, "128:64", "decode"),
        ("gpt2_decoder_16_8_prefill", 1, "16:8", "prefill"),
        ("gpt2_decoder_16_8_decode", 1, "16:8", "decode"),
        ("linear_regression", 1, None, None),
        ("linear_regression", 2, None, None),
    ]
    assert StudySpec.from_json(json.loads(json.dumps(one.to_json()))) == one
    longer = study(workloads=(WorkloadSpec.find("gpt2", generate=["128:65", "16:8"]), LINEAR), batch_sizes=(1, 2))
    assert one.digest != longer.digest and one.digest != study(workloads=(LINEAR,), batch_sizes=(1, 2)).digest


@pytest.mark.parametrize(
    ("workload", "more", "says"),
    [
        ({"generate": ("128",)}, {}, "generate: '128' is not PROMPT:NEW"),
        ({"generate": ("0:64",)}, {}, "at least 1 token and 2 new ones"),
        ({"generate": ("8:8",), "batch_sizes": (4,)}, {}, "generates text with a batch of 1"),
        ({"generate": ("8:8",)}, {"places": ("ssh://pi",)}, "generates text on this machine only"),
    ],
)
def test_what_cannot_be_generated_is_refused(
    workload: dict[str, tuple[object, ...]], more: dict[str, object], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        study(workloads=(WorkloadSpec("llama", "llama", **workload),), **more)  # type: ignore[arg-type]


def test_a_decoder_with_an_encoder_is_refused() -> None:
    with pytest.raises(UsageError, match=r"two, whisper_tiny_encoder_kv and itself\. Use compare .* --generate 4:32"):
        WorkloadSpec.find("whisper_tiny", generate=["4:32"])
