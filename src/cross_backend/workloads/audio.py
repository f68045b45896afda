"""Speech encoders of Whisper on 30 s of sound, with seeded random weights or real ones."""

from __future__ import annotations

from typing import Any

from cross_backend.workloads import Workload
from cross_backend.workloads._transformers import SEED, as_module, import_transformers, load_model
from cross_backend.workloads.media import AudioMedia

MELS = 80
FRAMES = 3000
"""Of 10 ms: 30 s."""
CALIBRATION = 2
"""Random spectrograms that quantisers observe."""
_SIZES = {"whisper_tiny": (384, 4, 6), "whisper_base": (512, 6, 8), "whisper_small": (768, 12, 12)}
"""Width, layers, heads."""


def whisper(name: str, weights: str | None = None) -> Workload:
    """Build Whisper's encoder; input (1, 80, 3000) log-mel spectrogram, output (1, 1500, width) states."""
    import torch

    package = import_transformers(name, "audio")
    width, layers, heads = _SIZES[name]
    config = package.WhisperConfig(
        d_model=width,
        encoder_layers=layers,
        encoder_attention_heads=heads,
        encoder_ffn_dim=4 * width,
        decoder_layers=layers,
        decoder_attention_heads=heads,
        decoder_ffn_dim=4 * width,
        num_mel_bins=MELS,
    )
    encoder = package.models.whisper.modeling_whisper.WhisperEncoder
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model = load_model(name, encoder, config, weights, (package.WhisperModel, "encoder"))
        if weights is None:
            let_sound_in(model)
        # Log-mel features as Whisper's own extractor scales them: mostly within -1 and 1.
        sounds = [(0.5 * torch.randn(1, MELS, FRAMES),) for _ in range(1 + CALIBRATION)]
    module = as_module(model, lambda net, features: net.model(features).last_hidden_state)
    media = AudioMedia(bands=MELS, frames=FRAMES, trained=weights is not None)
    return Workload(name, module, sounds[0], tuple(sounds[1:]), media=media)


def let_sound_in(encoder: Any) -> None:
    """Scale random convolutions to unit gain: with their first weights the positions drown the sound beside them."""
    import torch

    for layer in (encoder.conv1, encoder.conv2):
        torch.nn.init.kaiming_normal_(layer.weight)
