"""Inductor's Triton templates on the device: products and attention."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from compiled import error, moved, same, weighted
from torch.nn import functional

OPTIONS = {"max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON"}


def random(*shape: int) -> torch.Tensor:
    """Returns random numbers of a seed that the shape gives."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize(
    ("product", "shapes"),
    [
        (lambda c, a, b: functional.gelu(torch.addmm(c, a, b)), [(40,), (24, 64), (64, 40)]),
        (lambda a, b: a @ b.mT, [(3, 32, 64), (3, 32, 64)]),
        (lambda a, b, c, d: a @ b + c @ d, [(32, 96), (96, 32), (32, 96), (96, 32)]),
    ],
    ids=["addmm", "bmm", "mm_plus_mm"],
)
def test_products(product: Callable[..., torch.Tensor], shapes: list[tuple[int, ...]]) -> None:
    torch._dynamo.reset()
    same(product, *(random(*shape) for shape in shapes), options=OPTIONS)


def test_flex_attention_in_both_directions() -> None:
    from torch.nn.attention.flex_attention import flex_attention

    torch._dynamo.reset()
    here = [(random(1, 1, 128, 16) + number).requires_grad_() for number in range(3)]
    there = moved(here)
    expected, found = functional.scaled_dot_product_attention(*here), torch.compile(flex_attention)(*there)
    assert error(found, expected) < 1e-5
    weighted(expected).backward()
    weighted(found).backward()
    for one, other in zip(there, here, strict=True):
        assert error(one.grad, other.grad) < 1e-4
