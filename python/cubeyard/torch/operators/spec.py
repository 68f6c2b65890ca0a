"""Shapes, strides and types of tensors, and the arithmetic of layouts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

__all__ = ["TensorSpec"]


class TensorSpec(NamedTuple):
    """Tensor without its data."""

    shape: tuple[int, ...]
    """Sizes of the dimensions."""
    strides: tuple[int, ...]
    """Distances of neighbours in each dimension, in elements."""
    dtype: str
    """Type as PyTorch names it, without `torch.`: `float16`."""
    element_bytes: int
    """Size of an element."""

    @property
    def bytes(self) -> int:
        """Bytes of the elements that the tensor can reach. A broadcast dimension (stride 0) counts once."""
        count = 1
        for size, stride in zip(self.shape, self.strides, strict=True):
            count *= size if stride or not size else 1
        return count * self.element_bytes

    @property
    def elements(self) -> int:
        """Number of elements; a broadcast dimension counts with its size."""
        return math.prod(self.shape)


def contiguous(like: TensorSpec, *shape: int) -> TensorSpec:
    """Returns a tensor of a type, row after row."""
    return like._replace(shape=shape, strides=row_strides(shape))


def row_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns the strides of a tensor that lies row after row."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def normal(spec: TensorSpec) -> TensorSpec:
    """Returns the tensor with the strides that its layout implies for dimensions of one element.

    PyTorch gives any stride to such a dimension, so that equal layouts would differ.
    """
    strides, step = [], 1
    for size, stride in zip(reversed(spec.shape), reversed(spec.strides), strict=True):
        strides.append(step if size == 1 else stride)
        step = strides[-1] * max(size, 1)
    return spec._replace(strides=tuple(reversed(strides)))


def expanded(spec: TensorSpec, shape: Sequence[int]) -> TensorSpec | None:
    """Returns the tensor broadcast to a shape, with strides of 0; None if the shapes do not fit."""
    missing = len(shape) - len(spec.shape)
    if missing < 0:
        return None
    strides = [0] * missing
    for size, stride, wanted in zip(spec.shape, spec.strides, shape[missing:], strict=True):
        if size not in (1, wanted):
            return None
        strides.append(stride if size == wanted else 0)
    return spec._replace(shape=tuple(shape), strides=tuple(strides))


def permuted(spec: TensorSpec, order: Sequence[int]) -> TensorSpec:
    """Returns the tensor with its dimensions in another order."""
    return spec._replace(shape=tuple(spec.shape[d] for d in order), strides=tuple(spec.strides[d] for d in order))


def with_last(spec: TensorSpec, dim: int) -> TensorSpec:
    """Returns the tensor with one dimension moved to the end."""
    return permuted(spec, [d for d in range(len(spec.shape)) if d != dim] + [dim])


def transposed(spec: TensorSpec) -> TensorSpec:
    """Returns the tensor with its last two dimensions exchanged."""
    rank = len(spec.shape)
    return permuted(spec, [*range(rank - 2), rank - 1, rank - 2])


def split_last(spec: TensorSpec, count: int) -> TensorSpec:
    """Returns the tensor with its last `count` dimensions joined into one; a copy row after row where they do not join."""
    kept, last = spec.shape[: len(spec.shape) - count], spec.shape[len(spec.shape) - count :]
    shape = (*kept, math.prod(last))
    for at in range(len(kept), len(spec.shape) - 1):
        if spec.strides[at] != spec.strides[at + 1] * spec.shape[at + 1] and spec.shape[at] != 1:
            return contiguous(spec, *shape)
    return spec._replace(shape=shape, strides=(*spec.strides[: len(kept)], spec.strides[-1] if count else 1))


def joinable(specs: Sequence[TensorSpec], kinds: Sequence[int], sort_by: int | None = None) -> list[list[int]]:
    """Returns the dimensions of tensors of one shape, in groups that are one dimension in each of them.

    Args:
        specs: The tensors, all of one shape.
        kinds: A number for each dimension. Only neighbours with equal numbers are joined.
        sort_by: Index of the tensor by whose strides the dimensions are sorted first, the longest stride outermost.
    """
    order = [d for d, size in enumerate(specs[0].shape) if size != 1]
    if sort_by is not None:
        order.sort(key=lambda d: -specs[sort_by].strides[d])
    groups: list[list[int]] = []
    for dim in order:
        before = groups[-1][-1] if groups else dim
        if groups and kinds[before] == kinds[dim] and all(_joins(spec, before, dim) for spec in specs):
            groups[-1].append(dim)
        else:
            groups.append([dim])
    return groups


def _joins(spec: TensorSpec, outer: int, inner: int) -> bool:
    return spec.strides[outer] == spec.strides[inner] * spec.shape[inner]


def joined(spec: TensorSpec, groups: Sequence[Sequence[int]]) -> TensorSpec:
    """Returns the tensor with one dimension for each group."""
    shape = tuple(math.prod(spec.shape[d] for d in group) for group in groups)
    return spec._replace(shape=shape, strides=tuple(spec.strides[group[-1]] for group in groups))


def tensors(values: Iterable[Any]) -> Iterator[TensorSpec]:
    """Yields the tensors of nested arguments, in order."""
    for value in values:
        if isinstance(value, TensorSpec):
            yield value
        elif isinstance(value, tuple | list):
            yield from tensors(value)


def flat(specs: Sequence[TensorSpec]) -> TensorSpec:
    """Returns one row of the elements of all tensors, of the first one's type."""
    return contiguous(specs[0], sum(spec.elements for spec in specs))
