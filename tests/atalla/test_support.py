"""Support: the table says what the rules do, and a fallback's reason is a constraint's docstring."""

from __future__ import annotations

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
from torch import nn

import atalla
from atalla.errors import UnsupportedError
from atalla.isa import Op
from atalla.passes.constraints import float32, reason
from atalla.passes.lower import lower
from atalla.passes.lowering import Lowering
from atalla.passes.missing import WORDS
from atalla.passes.normalize import normalize
from atalla.passes.rules import all_rules
from atalla.support import find, markdown, rows, table
from tests.atalla.nets import NETS, Call, some_quick


@pytest.mark.parametrize("name", some_quick())
def test_rules_make_the_instructions_that_they_declare(name: str) -> None:
    """A copy into another layout may come before any of them."""
    module, inputs = NETS[name]()
    normal = normalize(torch.export.export(module.eval(), inputs))
    targets = {node.name: str(node.target) for node in normal.graph.nodes}
    made = [(one.node, one.op) for one in lower(normal, all_rules()).program.instructions]
    for node, op in made:
        rule = all_rules().get(targets.get(node, ""))
        assert op in {Op.COPY, Op.CALL_HOST} or (rule is not None and op in rule.makes), (node, op)
    assert made


def test_the_reason_of_a_fallback_is_a_constraint_in_words() -> None:
    program = torch.export.export(nn.Linear(3, 2).double(), (torch.randn(4, 3, dtype=torch.float64),))
    (fallback,) = atalla.compile(program).fallbacks
    assert fallback.target == "aten.linear.default"
    assert fallback.reason == reason(float32) == "Tensors must be float32"
    assert reason(float32) in find("linear.default").needs


def test_every_constraint_is_a_sentence() -> None:
    for one in {constraint for rule in all_rules().values() for constraint in rule.constraints}:
        text = (one.__doc__ or "").strip()
        assert text[0].isupper() and text.endswith(".") and "\n" not in text, one


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("add.Tensor", "native"), ("aten.linear.default", "native"), ("sort", "fallback"), ("aten.addcmul.default",
        "decomposed"), ("topk", "fallback"),
    ],
)  # fmt: skip
def test_any_operator_of_torch_is_found(name: str, kind: str) -> None:
    assert find(name).kind == kind


def test_an_unknown_operator_is_told() -> None:
    with pytest.raises(KeyError, match=r"no operator aten\.ad\.Tensor"):
        find("ad.Tensor")


def test_the_tables_name_every_rule() -> None:
    text, page = table(), markdown({"aten.sort.default": {"float32": {"fallback": 2}}}, {"sort": {"fallback": 2}}, 9)
    assert all(row.name in text and f"| `{row.name}` |" in page for row in rows())
    assert "1 of the 9 rows" in page and "`aten.sort.default`" in page.partition("## On the host")[2]


def test_what_a_constraint_refuses_runs_on_the_host_and_is_right() -> None:
    module = Call(lambda _, x: torch.pow(x, x))
    x = torch.arange(5)
    made = atalla.compile(torch.export.export(module, (x,)))
    assert [one.target for one in made.fallbacks] == ["aten.pow.Tensor_Tensor"]
    torch.testing.assert_close(atalla.load(made.data, isa="reference").run((x,))[0], torch.pow(x, x))


def test_what_a_name_does_not_tell_is_said_in_words() -> None:
    made = atalla.compile(torch.export.export(Call(lambda _, x: (torch.fft.rfft(x) * 2j).abs()), (torch.randn(8),)))
    assert "no instruction computes with complex numbers" in {one.reason for one in made.fallbacks}
    made = atalla.compile(torch.export.export(nn.FractionalMaxPool2d(2, 3), (torch.randn(1, 3, 6, 6),)))
    assert "no instruction does it: fractional max pooling" in {one.reason for one in made.fallbacks}


def test_words_are_of_operators_that_torch_has_and_no_rule_knows() -> None:
    for packet in WORDS:
        assert hasattr(torch.ops.aten, packet) or hasattr(torch.ops.quantized_decomposed, packet), packet
        assert f"aten.{packet}.default" not in all_rules(), packet


def test_an_argument_that_a_rule_does_not_know_is_a_reason() -> None:
    rule = all_rules()["aten.relu.default"]
    with pytest.raises(UnsupportedError, match="the rule knows: got an unexpected keyword argument 'inplace'"):
        rule(Lowering(), None, inplace=True)
