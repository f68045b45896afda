"""The reference: what the eager model computes, on two inputs, and what rounding does to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cross_backend.errors import CaptureError
from cross_backend.program.flops import count_accumulations
from cross_backend.tensors import to_numpy
from cross_backend.verify.deviation import deviation, scale_of
from cross_backend.verify.sample import make_sample
from cross_backend.workloads.user_code import with_place

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def reference_sample(
    program: ExportedProgram, name: str, leaves: Sequence[Any], structure: Any, expected: Any, reference: Any
) -> dict[str, Any]:
    """Return the sample's groups; the captured program must agree with the eager model on both inputs.

    Raises:
        CaptureError: it does not.
    """
    import torch
    from torch.utils import _pytree

    module = program.module()

    def run(callee: Any, arrays: Sequence[Any]) -> list[Any]:
        given = _pytree.tree_unflatten([torch.from_numpy(x.copy()) for x in arrays], structure)
        return [to_numpy(y) for y in run_eagerly(callee, given)]

    inputs, wanted = [to_numpy(x) for x in leaves], [to_numpy(y) for y in expected]
    again = [
        outputs
        for seed in range(2)
        if (outputs := _perturbed(program, _pytree.tree_unflatten(leaves, structure), seed))
    ]
    groups = make_sample(inputs, wanted, lambda arrays: run(reference, arrays), again, count_accumulations(program))
    tolerance = min(max(1e-4, 16 * float(groups["rounding"][0])), 1e-2)  # random numbers look like large rounding
    _check_same(name, wanted, run(module, inputs), tolerance)
    if "input2" in groups:
        _check_same(name, groups["expected2"], run(module, groups["input2"]), tolerance)
    return groups


def _perturbed(program: ExportedProgram, inputs: Sequence[Any], seed: int) -> list[Any] | None:
    """Run a program with every floating point number in it, and its inputs, changed by one rounding error or none.

    Results of the two runs differ by what rounding does to this program (D. S. Parker, *Monte Carlo Arithmetic*, 1997).
    None where it cannot be run so.
    """
    import torch
    from torch.utils import _pytree

    random = torch.Generator().manual_seed(seed)

    def change(x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or not (x.is_floating_point() or x.is_complex()):
            return x
        steps = torch.randint(-1, 2, x.shape, generator=random)
        return x.detach() * (1 + steps * torch.finfo(x.dtype).eps).to(x.dtype)

    module = program.module()
    state = {name: change(x) for name, x in (*module.named_parameters(), *module.named_buffers())}
    try:
        with torch.no_grad():
            outputs = torch.func.functional_call(
                module, state, _pytree.tree_map(change, row_major(inputs)), strict=False
            )
    except Exception:
        return None
    return [to_numpy(y) for y in _pytree.tree_leaves(outputs)]


def _check_same(name: str, expected: Sequence[Any], captured: Sequence[Any], tolerance: float) -> None:
    """Compare what the captured program computes with what the eager model does.

    Raises:
        CaptureError: they differ by more than rounding.
    """
    for want, got in zip(expected, captured, strict=True):
        same = want.shape == got.shape and want.dtype == got.dtype
        if same and want.dtype.kind in "fc":
            same = not want.size or float(deviation(want, got, scale_of(want, None)).max()) <= tolerance
        elif same:
            same = bool((want == got).all())
        if not same:
            raise CaptureError(
                f"the captured {name} does not compute what the eager model does: it depends on more than "
                "its inputs (random numbers, a counter). Call .eval() and make it a pure function."
            )


def run_eagerly(module: Any, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Run a torch module on positional inputs without gradients and flatten its outputs.

    Raises:
        CaptureError: it fails, or gives something that is not a tensor.
    """
    import torch
    from torch.utils import _pytree

    try:
        with torch.no_grad():
            given = row_major(inputs)
            outputs = tuple(_pytree.tree_leaves(module(*given)))
    except CaptureError:
        raise
    except Exception as error:
        raise CaptureError(f"the model fails on its own example inputs: {with_place(error)}") from error
    for before, after in zip(_pytree.tree_leaves(inputs), _pytree.tree_leaves(given), strict=True):
        if isinstance(before, torch.Tensor) and not torch.equal(before.nan_to_num(), after.nan_to_num()):
            raise CaptureError("the model changes its inputs in place; make it a pure function.")
    for output in outputs:
        if not isinstance(output, torch.Tensor):
            raise CaptureError(
                f"the model gives a {type(output).__name__} among its outputs; only tensors can be shipped."
            )
    return outputs


def row_major(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Lay tensors out in row-major order; dimensions of extent 1 get their canonical stride, too."""
    import torch
    from torch.utils import _pytree

    def lay_out(leaf: Any) -> Any:
        return leaf.clone(memory_format=torch.contiguous_format) if isinstance(leaf, torch.Tensor) else leaf

    laid_out: tuple[Any, ...] = _pytree.tree_map(lay_out, tuple(inputs))
    return laid_out
