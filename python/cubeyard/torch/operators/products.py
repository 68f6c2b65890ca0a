"""Matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cubeyard.torch.operators.call import Call, NotDescribed
from cubeyard.torch.operators.description import Counts, Description, Rule, pointwise, product, reduction, rows_of
from cubeyard.torch.operators.spec import TensorSpec, contiguous, expanded, split_last, transposed


def plain(call: Call, counts: Counts) -> list[Description]:
    """Describes `mm` and `bmm`."""
    a, b = call.reads[:2]
    return [product(a, b, call.result, counts=counts)]


def added(call: Call, counts: Counts) -> list[Description]:
    """Describes a product to which a tensor is added; factors other than 1 are operations of the epilogue."""
    a, b = call.tensor("mat1", "batch1"), call.tensor("mat2", "batch2")
    scales = sum(call.get(name, 1) != 1 for name in ("alpha", "beta"))
    beside = None if call.get("beta", 1) == 0 else call.tensor("self")
    counts = counts.plus(scales)
    if "use_gelu" in call.signature.names:
        counts = Counts(counts.simple + 4, 1) if call.get("use_gelu") else counts.plus(1)
    return [product(a, b, call.result, beside, counts)]


def vector(call: Call, counts: Counts) -> list[Description]:
    """Describes a product of a matrix and a vector, and of a tensor that is added."""
    a, b = call.tensor("mat") if "mat" in call.signature.names else call.tensor("self"), call.tensor("vec")
    beside = call.tensor("self") if "mat" in call.signature.names and call.get("beta", 1) != 0 else None
    if beside is not None:
        whole = expanded(beside, call.result.shape)
        beside = None if whole is None else _column(whole)
    return [product(a, _column(b), _column(call.result), beside, counts)]


def linear(call: Call, counts: Counts) -> list[Description]:
    """Describes `linear`: its weight is transposed."""
    given, weight = call.tensor("input", "self"), call.tensor("weight")
    bias = call.get("bias")
    a, result = _matrix(given), _matrix(call.result)
    return [product(a, transposed(weight), result, bias if isinstance(bias, TensorSpec) else None, counts)]


def linear_backward(call: Call, counts: Counts) -> list[Description]:
    """Describes the derivatives of `linear`, those that are wanted: two products and a sum."""
    given, gradient, weight = (_matrix(call.tensor(name)) for name in ("self", "grad_output", "weight"))
    wanted = [*call.results, None, None, None]
    parts = []
    if isinstance(wanted[0], TensorSpec):
        parts.append(product(gradient, weight, _matrix(wanted[0]), counts=counts))
    if isinstance(wanted[1], TensorSpec):
        parts.append(product(transposed(gradient), given, wanted[1], counts=counts))
    if isinstance(wanted[2], TensorSpec):
        parts.append(reduction([gradient], [wanted[2]], [0]))
    return parts


def matmul(call: Call, counts: Counts) -> list[Description]:
    """Describes `matmul` of any ranks, with its rules of broadcasting."""
    a, b, result = call.tensor("self"), call.tensor("other"), call.result
    if len(a.shape) == len(b.shape) == 1:
        return [reduction([a, b], [result], [0], Counts(1))]
    if len(a.shape) == 1:
        a, result = _inserted(a, 0), _inserted(result, len(result.shape) - (1 if len(b.shape) > 1 else 0))
    elif len(b.shape) == 1:
        b, result = _column(b), _column(result)
    batch = result.shape[:-2]
    return [product(_batched(a, batch), _batched(b, batch), result, counts=counts)]


def grouped(call: Call, counts: Counts) -> list[Description]:
    """Describes a product of groups of rows. The sizes of the groups are data; equal ones are assumed."""
    a, b, result = call.tensor("self"), call.tensor("mat2"), call.result
    offsets = call.get("offs")
    groups = offsets.shape[0] if isinstance(offsets, TensorSpec) else max(a.shape[0], 1)
    shapes = (len(a.shape), len(b.shape))
    if shapes == (2, 3):
        return [product(_cut(a, groups, 0), b, _cut(result, groups, 0), counts=counts)]
    if shapes == (3, 2):
        return [product(a, _cut(b, groups, 1), _cut(result, groups, 1), counts=counts)]
    if shapes == (2, 2):
        return [product(_cut(a, groups, 1), _cut(b, groups, 0), result, counts=counts)]
    return [product(a, b, result, counts=counts)]


def listed(call: Call, counts: Counts) -> list[Description]:
    """Describes products of two lists of matrices, one after the other."""
    pairs = zip(call.get("self") or (), call.get("mat2") or call.get("other") or (), call.results[0], strict=True)
    return [product(a, b, result, counts=counts) for a, b, result in pairs]


def outer(call: Call, counts: Counts) -> list[Description]:
    """Describes the products of all pairs of two vectors' elements, and a matrix that is added."""
    a, b = call.tensor("vec1", "self"), call.tensor("vec2")
    beside = [call.tensor("self")] if "vec1" in call.signature.names else []
    return [pointwise([_column(a), b, *beside], call.writes, counts)]


def summed(call: Call, counts: Counts) -> list[Description]:
    """Describes the sum of a batch of products, which is one product over the batch."""
    a, b = call.tensor("batch1"), call.tensor("batch2")
    wide = contiguous(a, a.shape[1], a.shape[0] * a.shape[2])
    return [product(wide, contiguous(b, b.shape[0] * b.shape[1], b.shape[2]), call.result, call.tensor("self"), counts)]


def packed(call: Call, counts: Counts) -> list[Description]:
    """Describes a product whose weight is a matrix of bytes, [n, k], with a scale for each of its rows."""
    a, b = call.tensor("self"), call.tensor("mat2")
    return [product(a, transposed(b), call.result, call.tensor("scales"), counts)]


def _matrix(spec: TensorSpec) -> TensorSpec:
    """Returns a tensor as one matrix of its last dimension."""
    if len(spec.shape) < 2:
        return _inserted(spec, 0)
    rows, columns = math.prod(spec.shape[:-1]), spec.shape[-1]
    front = split_last(spec._replace(shape=spec.shape[:-1], strides=spec.strides[:-1]), len(spec.shape) - 1)
    if front.strides[-1:] == (1,) and columns != 1 and rows != 1:
        return contiguous(spec, rows, columns)
    return spec._replace(shape=(rows, columns), strides=(front.strides[-1], spec.strides[-1]))


def _column(spec: TensorSpec) -> TensorSpec:
    return _inserted(spec, len(spec.shape))


def _inserted(spec: TensorSpec, at: int) -> TensorSpec:
    """Returns the tensor with a dimension of one element."""
    return spec._replace(shape=(*spec.shape[:at], 1, *spec.shape[at:]), strides=(*spec.strides[:at], 1, *spec.strides[at:]))


def _batched(spec: TensorSpec, batch: Sequence[int]) -> TensorSpec:
    whole = expanded(spec, (*batch, *spec.shape[-2:]))
    if whole is None:
        raise NotDescribed(f"a matrix of shape {list(spec.shape)} in a batch of {list(batch)}")
    return whole


def _cut(spec: TensorSpec, groups: int, dim: int) -> TensorSpec:
    """Returns a matrix as a batch of equal parts of one of its dimensions."""
    size = -(-spec.shape[dim] // max(groups, 1))
    shape = [size if d == dim else n for d, n in enumerate(spec.shape)]
    return spec._replace(shape=(groups, *shape), strides=(spec.strides[dim] * size, *spec.strides))


RULES: dict[str, Rule] = {
    **rows_of(plain, {(): "mm bmm _int_mm", (1, 0): "_scaled_mm"}),
    **rows_of(added, {(): "addmm baddbmm _addmm_activation"}),
    **rows_of(vector, {(): "mv addmv"}),
    **rows_of(linear, {(): "linear mkldnn_linear"}),
    **rows_of(linear_backward, {(): "linear_backward mkldnn_linear_backward"}),
    **rows_of(matmul, {(): "matmul"}),
    **rows_of(grouped, {(): "_grouped_mm"}),
    **rows_of(listed, {(): "_foreach_mm"}),
    **rows_of(outer, {(1, 0): "outer ger", (3, 0): "addr"}),
    **rows_of(summed, {(): "addbmm"}),
    **rows_of(packed, {(1, 0): "_weight_int8pack_mm"}),
}
"""Rules of products."""
