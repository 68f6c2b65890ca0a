"""Fused attention and its derivative."""

from __future__ import annotations

from cubeyard.torch.operators.call import Call
from cubeyard.torch.operators.description import Counts, Description, Rule, options, rows_of
from cubeyard.torch.operators.spec import TensorSpec, normal

PASS = "scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_fused_attention_overrideable"
PASS += " _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention"

BACKWARD = "_scaled_dot_product_flash_attention_for_cpu_backward _scaled_dot_product_fused_attention_overrideable_backward"
BACKWARD += " _scaled_dot_product_flash_attention_backward _scaled_dot_product_efficient_attention_backward"
BACKWARD += " _scaled_dot_product_cudnn_attention_backward"


def attention(call: Call, counts: Counts) -> list[Description]:
    """Describes attention. A mask or a bias is not read, and dropout is not drawn: the kernel has neither."""
    del counts
    operands = tuple(normal(call.tensor(name)) for name in ("query", "key", "value"))
    return [Description("attention", operands, (normal(call.result),), _options(call, backward=False))]


def attention_backward(call: Call, counts: Counts) -> list[Description]:
    """Describes the derivative of attention, which computes the scores again."""
    del counts
    names = (("query",), ("key",), ("value",), ("out",), ("grad_out", "grad_out_"))
    operands = tuple(normal(call.tensor(*name)) for name in names)
    results = [spec for spec in call.results if isinstance(spec, TensorSpec)][:3]
    return [Description("attention", operands, tuple(map(normal, results)), _options(call, backward=True))]


def _options(call: Call, *, backward: bool) -> tuple[tuple[str, bool], ...]:
    return options(causal=bool(call.get("is_causal", False)), backward=backward)


RULES: dict[str, Rule] = {**rows_of(attention, {(): PASS}), **rows_of(attention_backward, {(): BACKWARD})}
"""Rules of attention."""
