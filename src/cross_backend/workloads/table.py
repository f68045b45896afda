"""The built-in models: what each is, where it comes from, and how large it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class BuiltIn:
    """One built-in workload."""

    family: str
    """What it works on: ``audio``, ``detection``, ``nlp``, ``tabular``, ``vision``."""
    build: str
    """``module:function`` of the builder; it takes the model's name, and the ``--weights`` text or None."""
    summary: str
    """What it is, and what it takes."""
    source: str
    """Where the code of the architecture comes from."""
    licence: str
    """Of that code; published weights have their own."""
    parameters: int
    """Trained numbers, shared ones once."""
    flops: int
    """Floating point operations of one inference of batch 1, counted as ``Captured.flops``."""
    requires: tuple[tuple[str, str], ...] = ()
    """(distribution, extra) pairs that the builder imports."""
    options: Mapping[str, int] = field(default_factory=dict)
    """Sizes that may follow the name, ``llama?layers=2&context=512``, with their defaults."""
    trained_on: str = ""
    """Module of Python itself whose text it is trained on while it is built; another Python makes another model."""
    decoder: str | None = None
    """Workload with the same weights that keeps caches from call to call, for generating text."""
    encoder: str | None = None
    """Of a decoder: workload with the same weights whose outputs are the further inputs of every call."""


def _ours(family: str, build: str, summary: str, parameters: int, flops: int, *requires: tuple[str, str]) -> BuiltIn:
    return BuiltIn(
        family, f"cross_backend.workloads.{build}", summary, "cross-backend", "MIT", parameters, flops, requires
    )


def _decoder(name: str, build: str, summary: str, options: Mapping[str, int], parameters: int, flops: int) -> BuiltIn:
    row = _ours("nlp", f"decoder:{build}", summary, parameters, flops, ("torch", "torch"))
    return replace(row, options=options, decoder=name)


_LLAMA = {
    "layers": 6,
    "hidden": 288,
    "heads": 6,
    "kv_heads": 6,
    "inner": 768,
    "vocabulary": 32_000,
    "context": 256,
    "prompts": 1,
}
_QWEN = {**_LLAMA, "kv_heads": 2}
"""About the 15 million parameters of llama2.c's smallest story teller."""
_GPT2 = {
    "layers": 12,
    "hidden": 768,
    "heads": 12,
    "kv_heads": 12,
    "inner": 3072,
    "vocabulary": 50_257,
    "context": 1024,
    "prompts": 1,
}
_OF_DECODERS = ("context", "prompts")
"""Sizes that a decoder has and its encoder has not."""
_T5 = {"layers": 6, "hidden": 512, "heads": 8, "width": 64, "inner": 2048, "vocabulary": 32_128, "context": 256}
_T5 |= {"source": 128, "prompts": 1}
_RNNT = {"layers": 2, "hidden": 512, "frame": 512, "joint": 512, "vocabulary": 1024}
_WHISPER = {"vocabulary": 51_865, "context": 448, "frames": 3000, "prompts": 1}
_WHISPER_SIZES = {
    "base": {"layers": 6, "hidden": 512, "heads": 8, "inner": 2048, **_WHISPER},
    "small": {"layers": 12, "hidden": 768, "heads": 12, "inner": 3072, **_WHISPER},
    "tiny": {"layers": 4, "hidden": 384, "heads": 6, "inner": 1536, **_WHISPER},
}


def _vision(parameters: int, flops: int, size: int = 224) -> BuiltIn:
    requires = (("torch", "vision"), ("torchvision", "vision"))
    build, summary = "cross_backend.workloads.vision:classifier", f"ImageNet classifier, {size}×{size}"
    return BuiltIn("vision", build, summary, "torchvision", "BSD-3-Clause", parameters, flops, requires)


def _yolo(parameters: int, flops: int) -> BuiltIn:
    requires = (("torch", "yolo"), ("ultralytics", "yolo"))
    build, summary = "cross_backend.workloads.detection:yolo", "object detector for COCO's 80 classes, 640×640"
    return BuiltIn("detection", build, summary, "ultralytics", "AGPL-3.0", parameters, flops, requires)


def _transformer(family: str, build: str, summary: str, parameters: int, flops: int) -> BuiltIn:
    requires = (("torch", family), ("transformers", family))
    build = f"cross_backend.workloads.{family}:{build}"
    return BuiltIn(family, build, summary, "transformers", "Apache-2.0", parameters, flops, requires)


def _kv(name: str, summary: str, options: Mapping[str, int], parameters: int, flops: int) -> BuiltIn:
    """Return the row of an encoder that returns the keys and values of its decoder's cross-attention."""
    family = "audio" if name.startswith("whisper") else "nlp"
    row = _transformer(family, "", f"{summary}: keys and values for its decoder", parameters, flops)
    build = f"cross_backend.workloads.encoder_decoder:{name.partition('_')[0]}_encoder"
    taken = {key: size for key, size in options.items() if key not in _OF_DECODERS}
    return replace(row, build=build, options=taken, decoder=name.replace("_encoder_kv", "_decoder"))


def _cross(name: str, summary: str, options: Mapping[str, int], parameters: int, flops: int) -> BuiltIn:
    """Return the row of a decoder that takes what an encoder returns."""
    encoder = name.replace("_decoder", "_encoder_kv")
    row = _kv(encoder, "", options, parameters, flops)
    summary = f"{summary}, with caches; takes the outputs of {encoder}"
    build = row.build.replace("_encoder", "_decoder")
    return replace(row, build=build, summary=summary, options=options, encoder=encoder)


# Parameters and operations are what `python docs/model_figures.py` counts; a test counts again.
WORKLOADS: dict[str, BuiltIn] = {
    "bert_base": _transformer("nlp", "bert", "text encoder, 12 layers, 128 tokens", 109_482_240, 22_348_431_360),
    "bert_large": _transformer("nlp", "bert", "text encoder, 24 layers, 128 tokens", 335_141_888, 78_922_121_216),
    "digits_cnn": _ours(
        "vision",
        "digits:digits_cnn",
        "small CNN, trained in seconds on scikit-learn's handwritten digits",
        9_978,
        618_496,
        ("torch", "vision"),
        ("scikit-learn", "vision"),
    ),
    "efficientnet_b0": _vision(5_288_548, 771_629_504),
    "efficientnet_b1": _vision(7_794_184, 1_373_605_664, 240),
    "efficientnet_b2": _vision(9_109_994, 2_175_058_912, 288),
    "efficientnet_b3": _vision(12_233_232, 3_654_282_784, 300),
    "efficientnet_b4": _vision(19_341_616, 8_787_542_048, 380),
    "efficientnet_b5": _vision(30_389_784, 20_532_769_504, 456),
    "efficientnet_b6": _vision(43_040_704, 38_135_187_072, 528),
    "efficientnet_b7": _vision(66_347_960, 75_491_768_384, 600),
    "gpt2": replace(
        _transformer(
            *("nlp", "gpt2", "language model, prefill of 128 tokens: next token, keys and values"),
            *(124_439_808, 22_424_446_464),
        ),
        decoder="gpt2_decoder",
    ),
    "gpt2_decoder": _decoder("gpt2_decoder", "gpt2", "GPT-2 with caches", _GPT2, 124_439_808, 1_115_284_992),
    "linear_regression": _ours(
        "tabular",
        "linear:linear_regression",
        "4 features, fitted in closed form; features 1, 2, 3, 4 give 2.7182",
        5,
        8,
        ("torch", "torch"),
    ),
    "llama": _decoder(
        "llama", "llama", "Llama-shaped decoder of any size, with caches", _LLAMA, 15_191_712, 86_999_040
    ),
    "llama_text": replace(
        _decoder(
            *("llama_text", "llama", "byte-level Llama, trained in half a minute on Python's language reference"),
            *({"context": 256, "prompts": 1}, 361_088, 4_653_056),
        ),
        build="cross_backend.workloads.llama_text:llama_text",
        trained_on="pydoc_data.topics",
    ),
    "mobilenet_v2": _vision(3_504_872, 601_548_544),
    "mobilenet_v3_large": _vision(5_483_032, 433_179_520),
    "mobilenet_v3_small": _vision(2_542_856, 113_020_800),
    "qwen": _decoder("qwen", "qwen", "Qwen-shaped decoder of any size, with caches", _QWEN, 14_531_040, 80_363_520),
    "resnet101": _vision(44_549_160, 15_602_810_880),
    "resnet50": _vision(25_557_032, 8_178_368_512),
    "rnnt_decoder": replace(
        _ours(
            "audio",
            "transducer:rnnt_decoder",
            "speech transducer: prediction network (LSTM, with its state) and joiner, one frame a call",
            5_772_800,
            10_485_760,
            ("torch", "torch"),
        ),
        options=_RNNT,
    ),
    "t5_decoder": _cross("t5_decoder", "text decoder of T5-small", _T5, 38_479_616, 227_934_208),
    "t5_encoder": replace(
        _transformer("nlp", "t5_encoder", "text encoder of T5-small, 128 tokens", 35_330_816, 5_033_164_800),
        decoder="t5_decoder",
    ),
    "t5_encoder_kv": _kv("t5_encoder_kv", "text encoder of T5-small, 128 tokens", _T5, 38_476_544, 5_838_471_168),
    "vit_b_16": _vision(86_567_656, 35_127_656_448),
    "whisper_base": replace(
        _transformer("audio", "whisper", "speech encoder, 30 s of sound", 20_590_592, 87_367_680_000),
        decoder="whisper_base_decoder",
    ),
    "whisper_base_decoder": _cross(
        "whisper_base_decoder", "text decoder of Whisper", _WHISPER_SIZES["base"], 48_854_528, 325_018_624
    ),
    "whisper_base_encoder_kv": _kv(
        "whisper_base_encoder_kv", "speech encoder, 30 s of sound", _WHISPER_SIZES["base"], 23_739_392, 96_804_864_000
    ),
    "whisper_small": replace(
        _transformer("audio", "whisper", "speech encoder, 30 s of sound", 88_154_112, 344_162_304_000),
        decoder="whisper_small_decoder",
    ),
    "whisper_small_decoder": _cross(
        "whisper_small_decoder", "text decoder of Whisper", _WHISPER_SIZES["small"], 139_415_808, 1_159_632_384
    ),
    "whisper_small_encoder_kv": _kv(
        "whisper_small_encoder_kv",
        "speech encoder, 30 s of sound",
        _WHISPER_SIZES["small"],
        102_319_104,
        386_629_632_000,
    ),
    "whisper_tiny": replace(
        _transformer("audio", "whisper", "speech encoder, 30 s of sound", 8_208_384, 36_937_728_000),
        decoder="whisper_tiny_decoder",
    ),
    "whisper_tiny_decoder": _cross(
        "whisper_tiny_decoder", "text decoder of Whisper", _WHISPER_SIZES["tiny"], 28_371_072, 153_766_656
    ),
    "whisper_tiny_encoder_kv": _kv(
        "whisper_tiny_encoder_kv", "speech encoder, 30 s of sound", _WHISPER_SIZES["tiny"], 9_389_568, 40_476_672_000
    ),
    "yolo11m": _yolo(20_114_688, 68_104_448_000),
    "yolo11n": _yolo(2_624_080, 6_542_502_400),
    "yolo11s": _yolo(9_458_752, 21_589_760_000),
    "yolov5n": _yolo(2_654_816, 7_724_902_400),
    "yolov8m": _yolo(25_902_640, 78_936_729_600),
    "yolov8n": _yolo(3_157_200, 8_743_987_200),
    "yolov8s": _yolo(11_166_560, 28_602_624_000),
}
assert list(WORKLOADS) == sorted(WORKLOADS), "keep the table sorted"
