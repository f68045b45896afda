"""Missing: what operators do that no rule knows, in words, where their names alone do not tell."""

from __future__ import annotations

WORDS = {
    "_cdist_forward": "distances of all pairs of rows",
    "_embedding_bag_forward_only": "sums of bags of embeddings",
    "_fft_c2c": "a Fourier transform",
    "_fft_c2r": "a Fourier transform",
    "_histogramdd_from_bin_cts": "a histogram",
    "_linalg_det": "a determinant",
    "_linalg_eigh": "eigenvalues",
    "_linalg_slogdet": "a determinant",
    "_linalg_solve_ex": "a system of linear equations",
    "_linalg_svd": "a singular value decomposition",
    "_lu_with_info": "an LU decomposition",
    "_native_batch_norm_legit": "a batch norm in training",
    "_pdist_forward": "distances of all pairs of rows",
    "_upsample_bicubic2d_aa": "bicubic upsampling with antialias",
    "_upsample_bilinear2d_aa": "bilinear upsampling with antialias",
    "_weight_norm_interface": "a weight norm that is worked out in every run",
    "bucketize": "a search in sorted numbers",
    **dict.fromkeys(
        (
            *(f"choose_qparams{kind}" for kind in ("", "_symmetric", "_per_token", "_per_token_asymmetric")),
            *("_choose_qparams_per_token_asymmetric_impl", "quantize_per_token", "dequantize_per_token"),
        ),
        "scales that are worked out in every run",
    ),
    **dict.fromkeys(("quantize_per_channel_group", "dequantize_per_channel_group"), "scales of groups within a row"),
    "col2im": "patches that are put together to an image",
    "cummax": "a running maximum",
    "cummin": "a running minimum",
    "cumprod": "a running product",
    "fractional_max_pool2d": "fractional max pooling",
    "fractional_max_pool3d": "fractional max pooling",
    "grid_sampler_3d": "sampling of a volume where a grid says",
    "im2col": "an image taken apart into patches",
    "linalg_inv_ex": "the inverse of a matrix",
    "logcumsumexp": "the logarithm of a running sum of exponentials",
    "masked_scatter": "elements that are put one after the other where a mask is true",
    "max_unpool2d": "unpooling",
    "max_unpool3d": "unpooling",
    "native_batch_norm": "a batch norm in training",
    "nonzero": "places of what is not zero",
    "searchsorted": "a search in sorted numbers",
    "topk": "the largest elements, sorted",
}
"""Packet of ATen, or of quantised operators → what it does."""


def what_is_missing(target: str) -> str:
    """Return the reason why a node runs on the host whose operator has no rule: ``aten.im2col.default``."""
    packet = target.split(".")[1] if target.count(".") > 1 else target
    words = WORDS.get(packet)
    return f"no instruction does it{'' if words is None else f': {words}'}"
