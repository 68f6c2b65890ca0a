"""Simulated times of operators: relations that hold on any machine, and models in which few times are estimates."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import operator_models
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from cubeyard.torch.operators import Cost, cost
from cubeyard.torch.operators.dispatch import Calls

IS_LONG = os.environ.get("CUBEYARD_LONG_TESTS") == "1"
CASES = 6 if IS_LONG else 2
"""Random sizes of each operator."""

Program = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """Operator with the dimensions of its tensors."""

    run: Program
    """Operator on tensors."""
    shapes: tuple[tuple[str, ...], ...]
    """Names of the dimensions of each tensor."""
    one: float = 1.0
    """Most that a call may take of the time of the call with one dimension doubled."""
    every: float = 1.0
    """Most that a call may take of the time of the call with all dimensions doubled."""
    half: float = 1.0
    """Most that a call in float16 may take of the time of the call in float32."""


# Ratios above 1 are the largest over random shapes (docs/operators-coverage.md, "Where more work takes less time"), rounded up.
# Rows, boxes and tiles go to PEs by rules of thumb, which at times fit the larger call better.
CASES_BY_NAME: dict[str, Case] = {
    "add": Case(torch.add, (("a", "b"), ("a", "b")), half=1.04),
    "add broadcast": Case(torch.add, (("a", "b"), ("b",)), one=2.1, every=1.2, half=1.7),
    "gelu": Case(torch.nn.functional.gelu, (("a", "b"),), half=1.3),
    "copy transposed": Case(lambda x: x.t().contiguous(), (("a", "b"),), one=2.3, every=1.8, half=2.3),
    "sum rows": Case(lambda x: x.sum(-1), (("a", "b"),), one=1.6, every=1.2, half=1.6),
    "sum columns": Case(lambda x: x.sum(0), (("a", "b"),), one=1.4, every=1.1, half=1.2),
    "softmax": Case(lambda x: torch.softmax(x, -1), (("a", "b"),), one=1.5, every=1.1, half=1.8),
    "layer norm": Case(
        lambda x, w: torch.nn.functional.layer_norm(x, w.shape, w, w), (("a", "b"), ("b",)), one=1.6, every=1.2, half=1.4
    ),
    "mm": Case(torch.mm, (("a", "k"), ("k", "b")), one=1.9, half=1.4),
    "linear": Case(lambda x, w: x @ w.t(), (("a", "k"), ("b", "k")), one=1.5, half=1.2),
    "bmm": Case(torch.bmm, (("n", "a", "k"), ("n", "k", "b")), one=2.0, half=1.1),
}
"""Operators whose sizes are drawn."""


def priced(program: Program, *tensors: torch.Tensor) -> Cost:
    """Returns the sum of the costs of a program's operators, none of them an estimate."""
    found: list[Cost] = []

    def seen(op: str, arguments: tuple[Any, ...], results: tuple[Any, ...]) -> None:
        one = cost(op, arguments, results)
        if one is not None:
            assert not one.is_estimate, op
            found.append(one)

    with Calls(seen):
        program(*tensors)
    assert found
    return Cost(
        sum(c.ps for c in found),
        " + ".join(str(c.kernel) for c in found),
        sum(c.bytes for c in found),
        sum(c.flops for c in found),
        sum(c.bound_ps for c in found),
    )


def made(case: Case, sizes: dict[str, int], dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Returns the tensors of a case without data."""
    return [torch.empty([sizes[name] for name in shape], dtype=dtype, device="meta") for shape in case.shapes]


def drawn(name: str, number: int) -> dict[str, int]:
    """Returns random sizes of the dimensions."""
    draw = random.Random(f"{name} {number}")
    return {dim: draw.choice([8, 24, 64, 100, 256, 768]) for dim in "abk"} | {"n": draw.choice([1, 3, 8])}


@pytest.mark.parametrize("number", range(CASES))
@pytest.mark.parametrize("name", CASES_BY_NAME)
def test_more_work_never_takes_less_time(name: str, number: int) -> None:
    case, sizes = CASES_BY_NAME[name], drawn(name, number)
    before = priced(case.run, *made(case, sizes))
    assert before.ps >= before.bound_ps > 0
    dims = sorted({dim for shape in case.shapes for dim in shape})
    for grown, most in [*(([dim], case.one) for dim in dims), (dims, case.every)]:
        after = priced(case.run, *made(case, sizes | {dim: 2 * sizes[dim] for dim in grown}))
        assert before.ps <= after.ps * most, (grown, sizes, before, after)
        assert after.bytes > before.bytes and after.flops >= before.flops


@pytest.mark.parametrize("number", range(CASES))
@pytest.mark.parametrize("name", CASES_BY_NAME)
def test_half_the_bytes_never_take_more_time(name: str, number: int) -> None:
    case, sizes = CASES_BY_NAME[name], drawn(name, number)
    single, half = (priced(case.run, *made(case, sizes, dtype)) for dtype in (torch.float32, torch.float16))
    assert half.ps <= single.ps * case.half, (sizes, single, half)
    assert half.bytes < single.bytes


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_few_rows_are_worked_on_where_they_lie(dtype: torch.dtype) -> None:
    few, many = (torch.empty(count, 64, dtype=dtype, device="meta") for count in (32, 32 * 64))
    assert priced(lambda: few.softmax(-1)).ps <= priced(lambda: many.softmax(-1)).ps
    assert priced(lambda: few.softmax(-1)).bytes == 2 * few.nbytes


def test_rows_across_the_fast_axis_are_simulated() -> None:
    x = torch.empty(64, 128, dtype=torch.float16, device="meta")
    across, along = priced(lambda: x.softmax(0)), priced(lambda: x.softmax(1))
    assert across.ps > along.ps and "columns" in str(across.kernel)


def test_products_of_float32_take_longer_than_their_bytes() -> None:
    x = torch.empty(256, 256, device="meta")
    found = priced(lambda: x @ x)
    assert found.flops == 2 * 256**3 and found.ps > found.bound_ps


def test_a_view_of_the_same_layout_costs_the_same() -> None:
    x = torch.empty(4, 6, 128, device="meta")
    flat, folded, turned = x.view(-1), x.view(24, 128), x.permute(2, 0, 1)
    assert priced(torch.exp, x) == priced(torch.exp, flat) == priced(torch.exp, folded) == priced(torch.exp, turned)
    assert priced(lambda y: y.softmax(-1), x).ps == priced(lambda y: y.softmax(-1), folded).ps


def test_a_fused_operator_costs_less_than_its_parts() -> None:
    x, w = torch.empty(64, 256, device="meta"), torch.empty(256, device="meta")
    fused = priced(lambda: torch.nn.functional.layer_norm(x, (256,), w, w))
    parts = priced(lambda: (x - x.mean(-1, True)) * torch.rsqrt(x.var(-1, keepdim=True) + 1e-5) * w + w)
    assert fused.ps < parts.ps


def test_flops_and_bytes_of_the_machine_are_pytorchs() -> None:
    x, w, b = (torch.empty(*shape, device="meta", dtype=torch.bfloat16) for shape in ((64, 96), (32, 96), (32,)))
    with FlopCounterMode(display=False) as counter:
        found = priced(lambda: torch.nn.functional.linear(x, w, b))
    assert found.flops == counter.get_total_flops()
    assert found.bytes == sum(t.numel() for t in (x, w, b)) * 2 + 64 * 32 * 2


MODELS = list(operator_models.MODELS) if IS_LONG else ["gpt2", "resnet"]


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_estimates_are_at_most_a_tenth_of_a_models_time(name: str, train: bool) -> None:
    times = operator_models.run(operator_models.MODELS[name], train=train, tiny=True)
    assert times.calls > 20
    assert times.share <= 0.1, times.estimated.most_common(5)
