"""``compare --generate`` with an encoder-decoder: two programs on every target, and where one is refused."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.usefixtures("own_memory")
SIZES = "layers=1&hidden=32&heads=4&width=8&inner=48&vocabulary=60&context=24&source=9"
MODEL = f"t5_decoder?{SIZES}"
NEW = 9


@pytest.mark.slow
def test_every_target_runs_its_own_encoder(cli):
    words = ("compare", MODEL, "--generate", f"1:{NEW}", "--backends", "torch", "onnxruntime", "genai", "--json")
    result = cli(*words)
    assert result.returncode == 0, result.stderr
    (panel,) = json.loads(result.stdout)["generation"]
    assert panel["encoder"].startswith("t5_encoder_kv") and (panel["prompt"], panel["new"]) == (1, NEW)
    *measured, missing = panel["rows"]
    assert [row["outcome"] for row in measured] == ["OK", "OK"] and missing["outcome"] in {"UNSUPPORTED", "UNAVAILABLE"}
    assert missing["encoder"] is None and missing["encoder_peak_bytes"] is None
    for row in measured:
        assert row["verified_calls"] == NEW and row["encoder_peak_bytes"] > 0 and row["state_bytes"] > 0
        first, encoder = row["prefill"]["samples_ns"], row["encoder"]["samples_ns"]
        assert all(0 < part[0] < whole[0] for part, whole in zip(encoder, first, strict=True))
    assert measured[0]["tokens"] == measured[1]["tokens"] and len(measured[0]["tokens"]) == NEW


@pytest.mark.slow
def test_a_target_with_more_threads_than_processors_is_unavailable(cli):
    small = "llama?layers=1&hidden=16&heads=2&inner=24&vocabulary=32&context=16"
    result = cli("compare", small, "--generate", "2:2", "--backends", "onnxruntime?threads=999", "torch", "--json")
    (panel,) = json.loads(result.stdout)["generation"]
    rows = {row["target"]: row for row in panel["rows"]}
    assert rows["torch.eager"]["outcome"] == "OK"
    refused = rows["onnxruntime.cpu?threads=999"]
    assert refused["outcome"] == "UNAVAILABLE" and "999 threads are asked for" in refused["reason"]


@pytest.mark.slow
def test_a_bundle_of_a_decoder_says_what_a_prompt_lacks(cli, tmp_path):
    assert cli("bundle", MODEL, "--backends", "torch", "--output-dir", tmp_path).returncode == 0
    (bundle,) = tmp_path.iterdir()
    result = cli("run", bundle, "--prompt", "5", "--new-tokens", "3")
    assert (
        result.returncode == 2 and "cannot generate alone: every call takes the outputs of an encoder" in result.stderr
    )
    assert len(result.stderr.strip().splitlines()) == 1
    assert cli("run", bundle).returncode == 0


@pytest.mark.slow
def test_a_transducer_is_verified_over_its_calls(cli):
    model = "rnnt_decoder?layers=2&hidden=12&frame=10&joint=8&vocabulary=30"
    words = ("--backends", "torch", "onnxruntime", "atalla", "--seconds", "1", "--launches", "1", "--json")
    result = cli("compare", model, *words)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert [row["outcome"] for row in found["results"]] == ["OK"] * 3
    assert set(found["panels"][0]["proof"]["state"]) == {
        f"layers.{layer}.{part}" for layer in range(2) for part in ("hidden", "cell")
    }
