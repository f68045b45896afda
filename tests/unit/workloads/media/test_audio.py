"""Sound: WAV files of every width, other rates, and the spectrogram of transformers' own extractor."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cross_backend.errors import RunError, UsageError
from cross_backend.workloads._transformers import import_transformers
from cross_backend.workloads.media import AudioMedia
from cross_backend.workloads.media.sounds import read_wav, resampled
from tests.unit.workloads.media.conftest import wav

WHISPER = AudioMedia()
SECOND = np.arange(16_000) / 16_000


def tone(hertz: float, rate: int, seconds: float = 1.0) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * hertz * np.arange(int(rate * seconds)) / rate)


@pytest.mark.parametrize("seconds", [0.5, 30, 33])
def test_the_spectrogram_is_that_of_transformers(seconds):
    extractor = import_transformers("whisper_tiny", "audio").WhisperFeatureExtractor()
    rng = np.random.default_rng(0)
    sound = tone(440, 16_000, seconds) * np.linspace(0, 1, int(16_000 * seconds)) + 0.01 * rng.standard_normal(
        int(16_000 * seconds)
    )
    data = wav(sound, 16_000)
    padded = np.zeros(480_000, np.float32)
    heard = read_wav(data)[0][:480_000]
    padded[: len(heard)] = heard
    wanted = extractor._np_extract_fbank_features(padded[None], "cpu")
    (got,) = WHISPER.prepare(data)
    assert got.shape == wanted.shape == (1, 80, 3000) and got.dtype == np.float32
    assert np.abs(got - wanted).max() < 1e-5


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2, 6])
def test_whole_numbers_of_every_width_are_read(width, channels):
    samples = np.stack([tone(300, 16_000, 0.1) * (channel + 1) / channels for channel in range(channels)])
    got, rate = read_wav(wav(samples, 16_000, channels, width))
    assert rate == 16_000 and np.abs(got - samples.mean(0)).max() < 1.1 * 2.0 ** (1 - 8 * width) + 1e-9


def riff(form: bytes, samples: bytes, *before: bytes) -> bytes:
    """Give a WAV file by hand."""
    chunks = [
        *before,
        b"fmt " + struct.pack("<I", len(form)) + form,
        b"data" + struct.pack("<I", len(samples)) + samples,
    ]
    body = b"WAVE" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def form(code: int, bits: int, rate: int = 16_000, channels: int = 1) -> bytes:
    return struct.pack("<HHIIHH", code, channels, rate, rate * bits // 8 * channels, bits // 8 * channels, bits)


@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
def test_floats_are_read_and_cut_at_the_full_scale(dtype):
    values = np.array([0.25, -0.5, 3.0], dtype)
    got, _ = read_wav(riff(form(3, values.itemsize * 8), values.tobytes()))
    assert got.tolist() == [0.25, -0.5, 1.0]


def test_a_recorders_extended_header_and_its_other_chunks_are_read():
    extended = form(0xFFFE, 16) + struct.pack("<HHI", 22, 16, 4) + struct.pack("<H", 1) + bytes(14)
    odd = b"LIST" + struct.pack("<I", 3) + b"abc\0"
    got, _ = read_wav(riff(extended, struct.pack("<3h", 16384, -32768, 0), odd))
    assert got.tolist() == [0.5, -1.0, 0.0]


def test_a_stream_that_does_not_know_its_length_is_read():
    data = riff(form(1, 16), struct.pack("<2h", 16384, 8192))
    assert read_wav(data[:40] + b"\xff\xff\xff\xff" + data[44:])[0].tolist() == [0.5, 0.25]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"ID3\x04 an mp3", "is no WAV file"),
        (b"RIFF\0\0\0\0WAVE", "does not say how it is made"),
        (riff(form(1, 16), b""), "holds no sound"),
        (riff(form(0x55, 16), bytes(9)), "format 85"),
        (riff(form(1, 12), bytes(9)), "12 bits"),
        (riff(form(1, 16, rate=0), bytes(9)), "of 0 samples a second"),
        (riff(form(1, 16, rate=1_000_000), bytes(9)), "samples a second"),
        (riff(form(1, 16, channels=0), bytes(9)), "0 channel"),
        (riff(form(1, 16, channels=500), bytes(2000)), "500 channel"),
        (riff(form(3, 32), np.array([np.nan], "<f4").tobytes()), "not finite"),
    ],
)
def test_what_is_no_sound_is_told_in_one_line(data, words):
    with pytest.raises(UsageError, match=r"word\.wav") as caught:
        WHISPER.prepare(data, "word.wav")
    assert words in str(caught.value) and "\n" not in str(caught.value)


@given(st.data())
def test_a_damaged_sound_is_read_or_refused_and_nothing_else(data):
    whole = bytearray(wav(tone(500, 8000, 0.02), 8000))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        samples, rate = read_wav(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
    except UsageError:
        return
    assert len(samples) and np.abs(samples).max() <= 1 and rate >= 4000


@pytest.mark.parametrize("rate", [8000, 11_025, 22_050, 44_100, 48_000, 96_000])
@pytest.mark.parametrize("hertz", [100, 1000, 3500])
def test_a_tone_stays_the_same_tone_at_another_rate(rate, hertz):
    got = resampled(tone(hertz, rate), rate, 16_000)
    assert len(got) == 16_000
    inside = slice(800, -800)
    assert np.abs(got - tone(hertz, 16_000))[inside].max() < 2e-3


@pytest.mark.parametrize("hertz", [9500, 12_000, 20_000])
def test_what_the_new_rate_cannot_hold_does_not_come_back_as_another_tone(hertz):
    assert np.abs(resampled(tone(hertz, 48_000), 48_000, 16_000))[800:-800].max() < 0.01


def test_another_rate_gives_the_same_spectrogram():
    """As loud as the tone is, 80 dB below it the two may differ."""
    first, second = (WHISPER.prepare(wav(tone(1000, rate), rate))[0] for rate in (16_000, 48_000))
    assert np.abs(first - second)[:, :, 10:90].max() < 0.05 or np.abs(10**first - 10**second)[:, :, 10:90].max() < 0.01


def test_waveform_and_states_follow_the_sound():
    sound = np.concatenate([np.zeros(16_000), tone(440, 16_000)])
    prepared = WHISPER.prepare(wav(sound, 16_000))
    seen = prepared.seen
    assert seen.seconds == 2 and len(seen.waveform) == 200
    assert seen.waveform[10] == (0, 0)
    assert seen.waveform[150] == (pytest.approx(-0.5, abs=0.01), pytest.approx(0.5, abs=0.01))
    states = np.zeros((1, 1500, 8), np.float32)
    states[0, 50:100, 0] = 3
    states[0, 100:, 0] = 9
    shown = WHISPER.present([states], prepared)
    assert shown.lengths == (0.0,) * 50 + (3.0,) * 50  # the first 2 of 30 s


def test_a_longer_sound_is_cut_off_and_that_is_told():
    assert WHISPER.prepare(wav(tone(440, 8000, 31), 8000)).seen.caveats == ("Only the first 30 of 31.0 s are heard.",)
    with pytest.raises(RunError, match="not finite"):
        WHISPER.present([np.full((1, 1500, 4), np.nan)], WHISPER.prepare(wav(SECOND, 16_000)))
