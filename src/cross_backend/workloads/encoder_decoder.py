"""Encoder-decoders as two programs that share a memory: T5's and Whisper's decoders, and encoders that feed them.

The encoder runs once for a sequence; its outputs are inputs of each call of the decoder, whose own caches are state.
Both programs have the same weights: seeded random ones, or real ones of the whole model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cross_backend.errors import CaptureError, UsageError
from cross_backend.workloads import WORKLOADS, Workload
from cross_backend.workloads._transformers import SEED, copy_weights, import_transformers, load_model
from cross_backend.workloads.audio import MELS, let_sound_in

if TYPE_CHECKING:
    import torch

    from cross_backend.workloads._cross_net import CrossDecoder, EncoderMemory

PROMPT, STEPS = 4, 3
"""Tokens of the prompt, and tokens after it, on which a decoder's capture is verified; a prompt of Whisper has four."""
WHISPER_POSITIONS = 448
"""Of the decoder: caches may be shorter, and the weights are the same."""
CALIBRATION = 4
"""Random sources that an encoder's quantisers observe."""


@dataclass(frozen=True)
class CrossShape:
    """Sizes of an encoder-decoder; the encoder has as many layers, and as wide ones."""

    kind: str
    """``t5``: distances in buckets, RMSNorm, ReLU, no biases; ``whisper``: learned positions, LayerNorm, GELU."""
    layers: int
    hidden: int
    heads: int
    inner: int
    """Width of the feed-forward part."""
    vocabulary: int
    context: int
    """Positions of the decoder's caches."""
    source: int
    """What the encoder takes: tokens, or frames of 10 ms."""
    prompts: int = 1
    """1 where a call takes any number of tokens, 0 where it takes one."""
    width: int = 64
    """Numbers of a head."""

    @property
    def places(self) -> int:
        """Positions of the memory."""
        return self.source if self.kind == "t5" else self.source // 2

    def check(self, name: str) -> None:
        """Refuse sizes that do not fit each other.

        Raises:
            UsageError: names what does not fit.
        """
        if min(self.layers, self.hidden, self.heads, self.inner, self.vocabulary, self.width) < 1 or self.source < 2:
            raise UsageError(f"{name}: every size must be at least 1, and the source at least 2 long.")
        if self.kind == "whisper" and (self.hidden % 2 or self.hidden != self.heads * self.width or self.source % 2):
            raise UsageError(f"{name}: hidden must be even and a multiple of heads, and frames must be even.")
        if self.context < PROMPT + STEPS:
            raise UsageError(f"{name}: context must be at least {PROMPT + STEPS}.")
        if self.kind == "whisper" and self.context > WHISPER_POSITIONS:
            raise UsageError(f"{name}: context must be at most {WHISPER_POSITIONS}, the positions that Whisper has.")
        if self.prompts not in (0, 1):
            raise UsageError(f"{name}: prompts is 1 (any number of tokens a call) or 0 (one).")


def t5_encoder(name: str = "t5_encoder_kv", weights: str | None = None, **sizes: int) -> Workload:
    """Build T5's encoder with the keys and values for its decoder; input (1, 128) ids, two outputs (6, 8, 128, 64)."""
    return _encoder(name, _t5_shape(name, sizes), weights)


def t5_decoder(name: str = "t5_decoder", weights: str | None = None, **sizes: int) -> Workload:
    """Build T5's decoder; inputs ids (1, tokens), the (1,) position of the first, keys and values (6, 8, 128, 64)."""
    return _decoder(name, _t5_shape(name, sizes), weights)


def whisper_encoder(name: str, weights: str | None = None, **sizes: int) -> Workload:
    """Build Whisper's encoder with the keys and values for its decoder; input (1, 80, 3000) log-mel spectrogram."""
    decoder = name.partition("_encoder_kv")[0] + "_decoder"
    return _encoder(name, _whisper_shape(decoder, name, sizes), weights)


def whisper_decoder(name: str, weights: str | None = None, **sizes: int) -> Workload:
    """Build Whisper's decoder; inputs ids (1, tokens), the (1,) position of the first, keys and values of the sound."""
    return _decoder(name, _whisper_shape(name.partition("_decoder")[0] + "_decoder", name, sizes), weights)


def _t5_shape(name: str, sizes: dict[str, int]) -> CrossShape:
    shape = CrossShape("t5", **{**WORKLOADS["t5_decoder"].options, **sizes})
    shape.check(name)
    return shape


def _whisper_shape(row: str, name: str, sizes: dict[str, int]) -> CrossShape:
    known = {**WORKLOADS[row].options, **sizes}
    known["source"] = known.pop("frames")
    shape = CrossShape("whisper", width=max(1, known["hidden"] // max(1, known["heads"])), **known)
    shape.check(name)
    return shape


def _encoder(name: str, shape: CrossShape, weights: str | None) -> Workload:
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        net = build_encoder(shape, whole_model(name, shape, weights))
        sources = [(source_of(shape),) for _ in range(1 + CALIBRATION)]
    return Workload(name, net, sources[0], tuple(sources[1:]))


def _decoder(name: str, shape: CrossShape, weights: str | None) -> Workload:
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model = whole_model(name, shape, weights)
        encoder = build_encoder(shape, model)
        source = source_of(shape)  # the encoder's own sample: drawn as there
        net = build_decoder(shape, model)
        ids = torch.randint(shape.vocabulary, (1, PROMPT + STEPS))
    with torch.no_grad():
        keys, values = (one.contiguous() for one in encoder(source))
    first = PROMPT if shape.prompts else 1
    places = range(first, PROMPT + STEPS)
    steps = tuple((ids[:, at : at + 1], torch.tensor([at]), keys, values) for at in places)
    inputs = (ids[:, :first], torch.tensor([0]), keys, values)
    free: Any = None
    if shape.prompts:
        free = ({1: torch.export.Dim("tokens", min=1, max=shape.context)}, None, None, None)
    return Workload(name, net, inputs, steps=steps, dynamic_shapes=free)


def source_of(shape: CrossShape) -> torch.Tensor:
    """Return a random source, of the generator's current state: token ids, or a log-mel spectrogram."""
    import torch

    if shape.kind == "t5":
        return torch.randint(shape.vocabulary, (1, shape.source))
    return 0.5 * torch.randn(1, MELS, shape.source)


def whole_model(name: str, shape: CrossShape, weights: str | None) -> Any:
    """Return transformers' model of these sizes, with weights of the generator's current state or real ones.

    Raises:
        CaptureError: the weights are not there, or are not this model's.
    """
    package = import_transformers(name, "nlp" if shape.kind == "t5" else "audio")
    if shape.kind == "t5":
        config = package.T5Config(
            vocab_size=shape.vocabulary,
            d_model=shape.hidden,
            d_kv=shape.width,
            d_ff=shape.inner,
            num_layers=shape.layers,
            num_heads=shape.heads,
        )
        model = load_model(name, package.T5ForConditionalGeneration, config, weights)
        if model.config.is_gated_act or not model.config.scale_decoder_outputs:
            raise CaptureError(f"weights {weights} are of T5 1.1, and {name} computes what T5 1.0 does: ReLU, no gate.")
        if weights is None:
            _spread(shape, model)
        return model
    config = package.WhisperConfig(
        vocab_size=shape.vocabulary,
        d_model=shape.hidden,
        encoder_layers=shape.layers,
        encoder_attention_heads=shape.heads,
        encoder_ffn_dim=shape.inner,
        decoder_layers=shape.layers,
        decoder_attention_heads=shape.heads,
        decoder_ffn_dim=shape.inner,
        num_mel_bins=MELS,
        max_source_positions=shape.places,
        max_target_positions=WHISPER_POSITIONS,
        # Of the published vocabulary; a smaller one has no such tokens.
        **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), shape.vocabulary - 1),
        decoder_start_token_id=shape.vocabulary - 1,
    )
    model = load_model(name, package.WhisperForConditionalGeneration, config, weights)
    if weights is None:
        let_sound_in(model.model.encoder)
        _spread(shape, model)
    return model


def _spread(shape: CrossShape, model: Any) -> None:
    """Scale random weights so that what came before outweighs the last token's own embedding.

    With the first weights Whisper's scores are alike, near 0, T5 hardly sees distances, and both repeat one token: the
    tied head finds the embedding that went in. A sequence of one token would not show where a cache is wrong.
    """
    import torch

    normal = torch.nn.init.normal_
    normal(model.get_input_embeddings().weight, std=0.5 * shape.hidden**-0.5)
    if shape.kind == "t5":
        normal(model.decoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight)
        return
    for layer in model.model.decoder.modules():
        if isinstance(layer, torch.nn.Linear):
            normal(layer.weight, std=layer.in_features**-0.5)


def build_encoder(shape: CrossShape, model: Any) -> EncoderMemory:
    """Return the encoder of transformers' model as a module that returns the decoder's memory."""
    from cross_backend.workloads._cross_net import EncoderMemory

    if shape.kind == "t5":
        from cross_backend.workloads.nlp import t5_buckets, t5_states

        net = EncoderMemory(shape, model.encoder, lambda net, ids: t5_states(net.encoder, net.buckets, ids))
        net.register_buffer("buckets", t5_buckets(model.encoder, shape.source))
        attentions = [block.layer[1].EncDecAttention for block in model.decoder.block]
        keys, values = [[getattr(one, part) for one in attentions] for part in ("k", "v")]
    else:
        net = EncoderMemory(shape, model.model.encoder, lambda net, sound: net.encoder(sound).last_hidden_state)
        attentions = [layer.encoder_attn for layer in model.model.decoder.layers]
        keys, values = [[getattr(one, part) for one in attentions] for part in ("k_proj", "v_proj")]
    copy_weights([*_stacked(net.keys, keys), *_stacked(net.values, values)])
    return net.eval()


def build_decoder(shape: CrossShape, model: Any) -> CrossDecoder:
    """Return the decoder with the weights of transformers' model."""
    from cross_backend.workloads._cross_net import CrossDecoder

    net = CrossDecoder(shape)
    copy_weights(_t5_pairs(net, model) if shape.kind == "t5" else _whisper_pairs(net, model.model.decoder))
    return net.eval()


def _stacked(linear: Any, parts: list[Any]) -> list[tuple[Any, Any]]:
    """Return one linear layer's tensors beside those of several, one below the other."""
    import torch

    pairs = [(linear.weight, torch.cat([one.weight for one in parts]))]
    return pairs if linear.bias is None else [*pairs, (linear.bias, torch.cat([one.bias for one in parts]))]


def _t5_pairs(net: Any, model: Any) -> list[tuple[Any, Any]]:
    stack = model.decoder
    relative = stack.block[0].layer[0].SelfAttention.relative_attention_bias
    pairs = [(net.tokens.weight, model.shared.weight), (net.norm.weight, stack.final_layer_norm.weight)]
    pairs.append((net.distances.weight, relative.weight))
    for mine, theirs in zip(net.layers, stack.block, strict=True):
        own, cross, forward = theirs.layer
        pairs += [(mine.own.q.weight, own.SelfAttention.q.weight), (mine.own.k.weight, own.SelfAttention.k.weight)]
        pairs += [(mine.own.v.weight, own.SelfAttention.v.weight), (mine.own.out.weight, own.SelfAttention.o.weight)]
        pairs += [(mine.cross.q.weight, cross.EncDecAttention.q.weight)]
        pairs += [(mine.cross.out.weight, cross.EncDecAttention.o.weight)]
        pairs += [(mine.up.weight, forward.DenseReluDense.wi.weight)]
        pairs += [(mine.down.weight, forward.DenseReluDense.wo.weight)]
        norms = ((mine.before, own), (mine.across, cross), (mine.between, forward))
        pairs += [(norm.weight, part.layer_norm.weight) for norm, part in norms]
    return pairs


def _whisper_pairs(net: Any, decoder: Any) -> list[tuple[Any, Any]]:
    pairs = [(net.tokens.weight, decoder.embed_tokens.weight)]
    pairs += [(net.places.weight, decoder.embed_positions.weight[: net.places.num_embeddings])]
    parts = [(net.norm, decoder.layer_norm)]
    for mine, theirs in zip(net.layers, decoder.layers, strict=True):
        own, cross = theirs.self_attn, theirs.encoder_attn
        parts += [(mine.own.q, own.q_proj), (mine.own.k, own.k_proj), (mine.own.v, own.v_proj)]
        parts += [(mine.own.out, own.out_proj), (mine.cross.q, cross.q_proj), (mine.cross.out, cross.out_proj)]
        parts += [(mine.before, theirs.self_attn_layer_norm), (mine.across, theirs.encoder_attn_layer_norm)]
        parts += [(mine.between, theirs.final_layer_norm), (mine.up, theirs.fc1), (mine.down, theirs.fc2)]
    for mine, theirs in parts:
        pairs.append((mine.weight, theirs.weight))
        if theirs.bias is not None:
            pairs.append((mine.bias, theirs.bias))
    return pairs
