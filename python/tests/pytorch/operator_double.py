"""A double of the machine: it checks each described kernel, records it, and answers with bytes over a bandwidth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from cubeyard.torch.operators import TensorSpec
from cubeyard.torch.operators.kernels import Tensor

FAMILIES: dict[str, set[str]] = {
    "pointwise": {"simple", "special"},
    "reduce": {"dims", "simple", "special"},
    "rows": {"columns", "simple", "special", "reduces"},
    "product": {"simple", "special"},
    "attention": {"causal", "backward"},
    "gather": {"row", "simple"},
    "scatter": {"row", "add"},
    "convolution": {"stride", "padding", "dilation", "groups", "transposed"},
}
"""Families of the machine with their options."""


class Recorder:
    """Machine without a simulation."""

    def __init__(self) -> None:
        self.kernels: list[tuple[str, list[TensorSpec], list[TensorSpec], dict[str, Any]]] = []

    def __call__(self, family: str, operands: list[Tensor], results: list[Tensor], options: dict[str, Any]) -> Mapping[str, Any]:
        """Checks and records one kernel."""
        given, written = [TensorSpec(*one) for one in operands], [TensorSpec(*one) for one in results]
        check(family, given, written, options)
        self.kernels.append((family, given, written, options))
        moved = sum(spec.bytes for spec in (*given, *written))
        done = flops(family, given, written, options)
        return {"ps": moved + 1, "kernel": family, "bytes": moved, "flops": done, "bound_ps": moved, "local_share": 0.5}


def check(family: str, operands: list[TensorSpec], results: list[TensorSpec], options: dict[str, Any]) -> None:
    """Fails if a kernel is not what its family takes."""
    assert set(options) == FAMILIES[family], f"{family} with {sorted(options)}"
    assert results, family
    for spec in (*operands, *results):
        assert len(spec.shape) == len(spec.strides), spec
        assert min(spec.shape, default=1) >= 1 and min(spec.strides, default=0) >= 0, spec
    SHAPES[family](operands, results, options)


def _pointwise(operands: list[TensorSpec], results: list[TensorSpec], options: dict[str, Any]) -> None:
    assert {spec.shape for spec in (*operands, *results)} == {results[0].shape}
    assert all(size > 1 for size in results[0].shape), "a dimension of one element is left"


def _reduce(operands: list[TensorSpec], results: list[TensorSpec], options: dict[str, Any]) -> None:
    shape = operands[0].shape
    assert {spec.shape for spec in operands} == {shape}
    kept = tuple(size for dim, size in enumerate(shape) if dim not in options["dims"])
    assert options["dims"] and {spec.shape for spec in results} == {kept}, (shape, options["dims"], results)


def _rows(operands: list[TensorSpec], results: list[TensorSpec], options: dict[str, Any]) -> None:
    columns = options["columns"]
    whole = max(spec.elements for spec in (*operands, *results))
    assert whole % columns == 0
    for spec in (*operands, *results):
        assert spec.elements in (whole, columns, whole // columns, 1), (spec, columns)


def _product(operands: list[TensorSpec], results: list[TensorSpec], options: dict[str, Any]) -> None:
    a, b, c = operands[0].shape, operands[1].shape, results[0].shape
    assert a[:-2] == b[:-2] == c[:-2] and a[-2] == c[-2] and b[-1] == c[-1] and a[-1] == b[-2], (a, b, c)
    assert all(spec.shape == c for spec in operands[2:])


def _attention(operands: list[TensorSpec], results: list[TensorSpec], options: dict[str, Any]) -> None:
    q, k, v = (spec.shape for spec in operands[:3])
    assert len(operands) == (5 if options["backward"] else 3)
    assert q[0] == k[0] == v[0] and q[1] % k[1] == 0 and q[3] == k[3] and k[2] == v[2]
    wanted = [q, k, v] if options["backward"] else [(*q[:3], v[3])]
    assert [spec.shape for spec in results] == wanted


def _gather(operands: list[TensorSpec], results: list[TensorSpec], options: dict[str, Any]) -> None:
    table, indices = operands
    assert table.shape[1:] == results[0].shape[1:] == (options["row"],)
    assert indices.elements == results[0].shape[0], (indices, results)


def _scatter(operands: list[TensorSpec], results: list[TensorSpec], options: dict[str, Any]) -> None:
    values, indices = operands
    assert values.shape[1:] == results[0].shape[1:] == (options["row"],)
    assert indices.elements == values.shape[0], (values, indices)


def _convolution(operands: list[TensorSpec], results: list[TensorSpec], options: dict[str, Any]) -> None:
    x, w, y = operands[0].shape, operands[1].shape, results[0].shape
    groups = options["groups"]
    assert x[0] == y[0] and all(spec.shape == y[1:2] for spec in operands[2:])
    assert (x[1], y[1]) == ((w[0], w[1] * groups) if options["transposed"] else (w[1] * groups, w[0])), (x, w, y)
    small, large = (x, y) if options["transposed"] else (y, x)
    for dim in range(len(x) - 2):
        reach = options["dilation"][dim] * (w[dim + 2] - 1) + 1
        steps = (large[dim + 2] + 2 * options["padding"][dim] - reach) // options["stride"][dim] + 1
        assert small[dim + 2] == steps, (x, w, y, options)


SHAPES = {
    "pointwise": _pointwise,
    "reduce": _reduce,
    "rows": _rows,
    "product": _product,
    "attention": _attention,
    "gather": _gather,
    "scatter": _scatter,
    "convolution": _convolution,
}


def flops(family: str, operands: list[TensorSpec], results: list[TensorSpec], options: dict[str, Any]) -> int:
    """Returns multiplications and additions of a kernel, from its shapes."""
    if family == "product":
        return 2 * results[0].elements * operands[0].shape[-1]
    if family == "attention":
        (b, h, s, d), t = operands[0].shape, operands[1].shape[2]
        forward = 2 * b * h * s * t * (d + operands[2].shape[3])
        return forward * 5 // 2 if options["backward"] else forward
    if family == "convolution":
        small = operands[0] if options["transposed"] else results[0]
        return 2 * small.elements * math.prod(operands[1].shape[1:])
    return 0
