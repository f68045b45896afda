"""Generation's rows: lengths, growth, tokens per second, and ranks for prefill and decode apart."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cross_backend.errors import UsageError
from cross_backend.generation.rows import GenerationPanel, GenerationRow, Length, tokens_per_s
from cross_backend.generation.sequence import check_generates
from cross_backend.measurement import Measurement
from cross_backend.report.generation import print_generation
from cross_backend.report.terminal import Terminal
from cross_backend.tensors import TensorSpec


def row(name: str, first_ns: float, token_ns: float, slower: float = 1.0) -> GenerationRow:
    """Seven sequences; the later half of each takes ``slower`` times as long."""
    tokens = [token_ns] * 8 + [token_ns * slower] * 8
    prefill = Measurement("generation.prefill", "ns", tuple((first_ns + n,) for n in range(7)))
    decode = Measurement("generation.decode", "ns", tuple(tuple(t + n for t in tokens) for n in range(7)))
    return GenerationRow(name, name, "OK", None, prefill, decode, tokens=(1,) * 17)


def panel() -> GenerationPanel:
    failed = GenerationRow("c", "c", "RUN_FAIL", "it failed")
    return GenerationPanel("m", Length(10, 17), (row("a", 5e6, 3e6, 2.0), row("b", 9e6, 1e6), failed))


def test_prefill_and_decode_are_ranked_apart() -> None:
    found = panel()
    assert found.ranking("prefill").ranks == {0: 1, 1: 2} and found.ranking("decode").ranks == {1: 1, 0: 2}


def test_growth_and_tokens_per_second() -> None:
    first, second, failed = panel().rows
    assert first.growth == pytest.approx(2.0, rel=1e-5) and second.growth == pytest.approx(1.0, rel=1e-5)
    assert failed.growth is None and second.decode is not None and second.prefill is not None
    assert tokens_per_s(second.decode, 1) == pytest.approx(1000, rel=1e-4)
    assert tokens_per_s(second.prefill, 10) == pytest.approx(10 / 9e-3, rel=1e-4)


def test_the_document_holds_the_raw_samples() -> None:
    told = json.loads(json.dumps(panel().to_json(), allow_nan=False))
    assert (told["prompt"], told["new"]) == (10, 17)
    assert told["rows"][1]["decode"]["rank"] == 1 and len(told["rows"][1]["decode"]["samples_ns"]) == 7
    assert told["rows"][2]["decode"] is None and told["rows"][2]["reason"] == "it failed"


def test_the_tables_show_both(capsys: pytest.CaptureFixture[str]) -> None:
    print_generation(Terminal(width=80), panel())
    shown = capsys.readouterr().out
    assert "Prefill" in shown and "Decode" in shown and "growth" in shown and "c: RUN_FAIL, it failed" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_energy_has_a_column_where_it_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    print_generation(Terminal(width=100), panel())
    assert "energy" not in capsys.readouterr().out
    counted = replace(
        panel().rows[0],
        energy=Measurement("energy.per_token", "J", ((0.5,), (0.25,), (0.75,))),
        energy_note="of the whole CPU, idle power included",
    )
    print_generation(Terminal(width=100), replace(panel(), rows=(counted, panel().rows[1])))
    shown = capsys.readouterr().out
    assert "energy per token" in shown and "500.0 mJ" in shown
    assert "Energy: of the whole CPU, idle power included; the prompt's share is in it." in shown
    assert replace(panel(), rows=(counted,)).to_json()["rows"][0]["joules_per_token"] == 0.5


def test_an_encoder_is_part_of_the_first_token(capsys: pytest.CaptureFixture[str]) -> None:
    encoder = Measurement("generation.encoder", "ns", tuple((4e6 + n,) for n in range(7)))
    encoded = replace(row("a", 5e6, 3e6), encoder=encoder, encoder_peak_bytes=7_000_000)
    failed = GenerationRow("c", "c", "RUN_FAIL", "it failed")
    found = GenerationPanel("m", Length(1, 17), (encoded, failed), "m_encoder")
    assert encoded.prompt is not None and encoded.prompt.values == (1e6,) * 7
    told = found.to_json()
    assert told["encoder"] == "m_encoder" and panel().to_json()["encoder"] is None
    first, second = told["rows"]
    assert first["encoder"]["samples_ns"][0] == [4e6] and second["encoder"] is None
    assert first["prefill"]["tokens_per_s"] == pytest.approx(1000) and first["encoder_peak_bytes"] == 7_000_000
    print_generation(Terminal(width=100), found)
    shown = capsys.readouterr().out
    assert "prompt of 1 token, 17 new ones" in shown and "encoder's peak" in shown and "7.0 MB" in shown
    assert "5.00 ms  4.00 ms     1,000" in shown and "one call of m_encoder on the same target" in shown


@pytest.mark.parametrize("text", ["128", "0:2", "2:1", "a:b", "-3:4", "128:64:2", ""])
def test_a_length_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not PROMPT:NEW"):
        Length.parse(text)


def test_a_model_that_does_not_generate_is_refused() -> None:
    ids, start, logits = (
        TensorSpec("tokens", "int64", (1, "n")),
        TensorSpec("start", "int64", (1,)),
        TensorSpec("logits", "float32", (1, 97)),
    )
    assert check_generates("m", (ids, start), (logits,), (TensorSpec("keys", "float32", (2, 8)),)) == 97
    with pytest.raises(UsageError, match="m has no state"):
        check_generates("m", (ids, start), (logits,), ())
    for inputs, outputs in (((ids,), (logits,)), ((ids, start), ()), ((logits, start), (logits,))):
        with pytest.raises(UsageError, match="m does not generate"):
            check_generates("m", inputs, outputs, (logits,))
