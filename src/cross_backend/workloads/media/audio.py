"""Sound for Whisper's encoders: WAV files, resampled, and made the log-mel spectrogram of transformers' extractor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from cross_backend.workloads.media.base import Media, Prepared
from cross_backend.workloads.media.shown import Shown, finite
from cross_backend.workloads.media.sounds import read_wav, resampled

if TYPE_CHECKING:
    import numpy as np

RATE = 16_000
"""Samples a second."""
WINDOW = 400
"""Samples that one spectrum is made of."""
HOP = 160
"""Samples from one spectrum to the next: 10 ms."""
PIECES = 200
"""Of the waveform."""
MAX_FRAMES = 100_000


@dataclass(frozen=True, kw_only=True)
class AudioMedia(Media):
    """So many frames of so many bands; what is longer is cut off, what is shorter is followed by silence."""

    kind: ClassVar[str] = "audio"
    what: ClassVar[str] = "a sound"
    accepts: ClassVar[tuple[str, ...]] = ("audio/wav", "audio/x-wav")
    bands: int = 80
    """Of the mel scale, 0 to 8 kHz."""
    frames: int = 3000
    """Of 10 ms."""

    def __post_init__(self) -> None:
        if not 1 <= self.bands <= 1024 or not 3 <= self.frames <= MAX_FRAMES:
            raise ValueError("bands or frames cannot be")

    def prepare(self, data: bytes, name: str | None = None) -> Prepared:
        """Return ``(1, bands, frames)`` in float32."""
        import numpy as np

        samples, rate = read_wav(data, name)
        seconds = len(samples) / rate
        most = self.frames * HOP / RATE
        caveats = self.caveats()
        if seconds > most:
            caveats += (f"Only the first {most:g} of {seconds:.1f} s are heard.",)
        taken = resampled(samples[: int(most * rate) + rate], rate, RATE)[: self.frames * HOP]
        sound = np.zeros(self.frames * HOP)
        sound[: len(taken)] = taken
        pieces = np.array_split(samples, min(PIECES, len(samples)))
        waveform = tuple((float(piece.min()), float(piece.max())) for piece in pieces)
        seen = Shown(self.kind, seconds=seconds, waveform=waveform, caveats=caveats)
        return Prepared([_log_mel(sound, self.bands)[None]], seen)

    def present(self, outputs: Sequence[np.ndarray[Any, Any]], prepared: Prepared) -> Shown:
        """Return how the length of the states of ``(1, times, width)`` goes over the sound's own part of the time."""
        import numpy as np

        states = np.linalg.norm(finite(outputs[0])[0], axis=-1)
        most = self.frames * HOP / RATE
        heard = states[: max(1, round(len(states) * min(1.0, (prepared.seen.seconds or most) / most)))]
        pieces = np.array_split(heard, min(PIECES, len(heard)))
        return replace(prepared.seen, lengths=tuple(float(piece.mean()) for piece in pieces))


def _log_mel(sound: np.ndarray[Any, Any], bands: int) -> np.ndarray[Any, Any]:
    """Return ``(bands, frames)``: power of windows around every hop, in decibels / 10, the lower 80 dB cut, scaled."""
    import numpy as np

    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
    padded = np.pad(sound, WINDOW // 2, mode="reflect")
    framed = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP][: len(sound) // HOP]
    power = np.abs(np.fft.rfft(framed * window)) ** 2
    mel = np.log10(np.maximum(_mel_filters(bands).T @ power.T, 1e-10))
    mel = np.maximum(mel, mel.max() - 8.0)
    return ((mel + 4.0) / 4.0).astype(np.float32)  # type: ignore[no-any-return]


def _mel_filters(bands: int) -> np.ndarray[Any, Any]:
    """Return ``(frequencies, bands)``: triangles of equal area on Slaney's scale, linear below 1 kHz."""
    import numpy as np

    step = np.log(6.4) / 27  # natural logarithm of the ratio of two neighbours above 1 kHz
    top = 15 + np.log(RATE / 2 / 1000) / step
    mels = np.linspace(0, top, bands + 2)
    edges = np.where(mels < 15, mels * 200 / 3, 1000 * np.exp(step * (mels - 15)))
    frequencies = np.linspace(0, RATE / 2, WINDOW // 2 + 1)
    slopes = edges - frequencies[:, None]
    widths = np.diff(edges)
    rising, falling = -slopes[:, :-2] / widths[:-1], slopes[:, 2:] / widths[1:]
    filters: np.ndarray[Any, Any] = np.maximum(0, np.minimum(rising, falling)) * 2 / (edges[2:] - edges[:-2])
    return filters
