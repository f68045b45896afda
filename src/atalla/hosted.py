"""Hosted: the operators of torch that a blob's HOST calls may name; both loaders have the list of ``csrc/hosted.inc``.

python -m atalla.hosted > src/atalla/csrc/hosted.inc

A blob may come from anywhere, so what it calls makes tensors of tensors, and nothing else happens. An operator of ATen
is in the list where all of :data:`RULES` hold. One whose name begins with an underscore relies on its caller to give
it what fits: of these only those are in the list that exported programs hold, by name.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch._C import FunctionSchema

LIST = Path(__file__).with_name("csrc") / "hosted.inc"
OWN = frozenset({"aten", "prims"})
"""Namespaces of torch's operators that exported programs hold; what is in others is a custom operator."""
EXPORTED = frozenset(
    f"aten.{name}"
    for name in (
        *("_adaptive_avg_pool2d.default", "_adaptive_avg_pool3d.default", "_addmm_activation.default"),
        *("_assert_async.default", "_assert_async.msg", "_cdist_forward.default", "_conj.default"),
        *("_conj_physical.default", "_embedding_bag.default", "_embedding_bag_forward_only.default"),
        *("_euclidean_dist.default", "_fft_c2c.default", "_fft_c2r.default", "_fft_r2c.default"),
        *("_histogramdd_bin_edges.default", "_histogramdd_from_bin_cts.default"),
        *("_histogramdd_from_bin_tensors.default", "_linalg_check_errors.default", "_linalg_det.default"),
        *("_linalg_eigh.default", "_linalg_eigvals.default", "_linalg_slogdet.default", "_linalg_solve_ex.default"),
        *("_linalg_svd.default", "_log_softmax.default", "_logcumsumexp.default", "_lu_with_info.default"),
        *("_native_batch_norm_legit.no_stats", "_native_batch_norm_legit_functional.default"),
        *("_native_batch_norm_legit_no_training.default", "_neg_view.default", "_pdist_forward.default"),
        *("_safe_softmax.default", "_scaled_dot_product_flash_attention_for_cpu.default", "_softmax.default"),
        *("_to_copy.default", "_trilinear.default", "_unsafe_index.Tensor", "_unsafe_index_put.default"),
        *("_unsafe_view.default", "_upsample_bicubic2d_aa.default", "_upsample_bicubic2d_aa.vec"),
        *("_upsample_bilinear2d_aa.default", "_upsample_bilinear2d_aa.vec", "_upsample_nearest_exact1d.default"),
        *("_upsample_nearest_exact1d.vec", "_upsample_nearest_exact2d.default", "_upsample_nearest_exact2d.vec"),
        *("_upsample_nearest_exact3d.default", "_upsample_nearest_exact3d.vec", "_weight_norm_interface.default"),
    )
) | {"prims.convert_element_type.default"}
"""Those with an underscore, or beside ATen, that the decompositions of ``torch.export`` leave in programs."""
TEXTS = frozenset(
    {
        *("UPLO", "api_name", "approximate", "assert_msg", "driver", "equation", "indexing", "interpolation", "mode"),
        *("norm", "ord", "p", "pad_mode", "padding", "padding_side", "reduce", "rounding_mode", "side"),
    }
)
"""Names of arguments that may be text: they choose among a few ways to compute. ``filename`` is none."""
KINDS = frozenset({"Tensor", "int", "float", "bool", "number", "Device", "Generator", "str"})
"""Types of arguments, or of what is in a list; a blob can hold no generator, so that it is absent."""
OTHERS = re.compile(
    "backward|_jvp|sparse|_c[so][rco]|_bs[rc]|c?(col|row)_indices|::indices|::values|coalesce|smm|sspaddmm|to_dense|"
    "nested|jagged|quantize|qparams|fbgemm|cudnn|miopen|mkldnn|mps|_cuda|pin_memory|overrideable|empty|resize|lift|"
    "::set$|::data$|::(native_)?batch_norm|instance_norm|embedding_renorm|rrelu_with_noise|::(cov|corrcoef)$|"
    "::(lstm|gru|rnn_tanh|rnn_relu|embedding_bag)$"
)
"""What calls of the host never are: gradients, tensors that are not strided, other devices, memory that nobody wrote,
operands that are written although the schema does not say so; and those that read what is not there where their
arguments do not fit, of which ``torch.export`` leaves none in a program."""


def changes_nothing(schema: FunctionSchema) -> bool:
    """It writes none of its arguments."""
    return not schema.is_mutable and not any(one.is_out for one in schema.arguments)


def gives_tensors(schema: FunctionSchema) -> bool:
    """It returns tensors, and at least one."""
    return bool(schema.returns) and all(str(one.type) in {"Tensor", "List[Tensor]"} for one in schema.returns)


def takes_values(schema: FunctionSchema) -> bool:
    """It takes tensors, numbers, and words that choose a way to compute: no file, no storage, no object."""
    kinds = ((one.name, re.sub(r"Optional\[|List\[|\]", "", str(one.type))) for one in schema.arguments)
    return all(kind in KINDS and (kind != "str" or name in TEXTS) for name, kind in kinds)


def is_for_any_caller(schema: FunctionSchema) -> bool:
    """It is public, and computes with strided tensors that were written before."""
    return not schema.name.startswith("aten::_") and not OTHERS.search(schema.name)


def runs_on_the_processor(schema: FunctionSchema) -> bool:
    """It has a kernel for the CPU, as TorchScript's own operators have not."""
    import torch

    name = f"{schema.name}.{schema.overload_name}".rstrip(".")
    try:
        return bool(torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, "CPU"))  # noqa: SLF001  no other name
    except RuntimeError:
        return False


RULES = (changes_nothing, gives_tensors, takes_values, is_for_any_caller, runs_on_the_processor)
"""Each a rule in words."""


@functools.cache
def hosted() -> frozenset[str]:
    """Return the list: ``aten.sort.default`` and others."""
    return frozenset(json.loads(f"[{LIST.read_text(encoding='utf-8').rstrip().rstrip(',')}]"))


def foreign(names: Iterable[str]) -> list[str]:
    """Return the names that are not in the list, each once, in order."""
    return [name for name in dict.fromkeys(names) if name not in hosted()]


def schemas() -> dict[str, FunctionSchema]:
    """Return what the installed torch says of each operator."""
    import torch

    return {name_of(one): one for one in torch._C._jit_get_all_schemas()}  # noqa: SLF001  it has no other name


def name_of(schema: FunctionSchema) -> str:
    """Return ``aten.sort.default`` of an operator's schema."""
    return f"{schema.name.replace('::', '.')}.{schema.overload_name or 'default'}"


def names_to_host() -> set[str]:
    """Return the names that the list should hold with the installed torch."""
    public = {
        name for name, one in schemas().items() if one.name.startswith("aten::") and all(rule(one) for rule in RULES)
    }
    return public | EXPORTED


def text() -> str:
    """Return the text of the file, in the order of bytes."""
    return "".join(f'"{name}",\n' for name in sorted(names_to_host(), key=str.encode))


if __name__ == "__main__":
    print(text(), end="")  # noqa: T201  what it is for
