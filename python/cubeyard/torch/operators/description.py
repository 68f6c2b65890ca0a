"""Descriptions of operators for the machine, family by family."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from cubeyard.torch.operators.call import Call, NotDescribed
from cubeyard.torch.operators.spec import TensorSpec, contiguous, expanded, joinable, joined, normal

__all__ = ["Counts", "Description", "Rule"]


ACCUMULATOR_BYTES = 4
"""Bytes of an element of a product's sum in the matrix unit."""


class Counts(NamedTuple):
    """Vector operations for each element of an operator."""

    simple: int = 0
    """Additions, multiplications, comparisons, selections and bit operations."""
    special: int = 0
    """Divisions, roots, exponentials, logarithms, and functions that are built on them."""
    reduces: int = 0
    """Reductions over a row."""

    def plus(self, simple: int) -> Counts:
        """Returns the counts with more simple operations."""
        return self._replace(simple=self.simple + simple)


class Description(NamedTuple):
    """One kernel of the machine: a family with its operands, results and options."""

    family: str
    """Family, such as `pointwise`."""
    operands: tuple[TensorSpec, ...]
    """Tensors that are read."""
    results: tuple[TensorSpec, ...]
    """Tensors that are written."""
    options: tuple[tuple[str, Any], ...] = ()
    """Options of the family by name, sorted."""
    times: int = 1
    """Number of times that the kernel runs, one after the other."""


class Rule(NamedTuple):
    """Row of the table of operators."""

    describe: Callable[[Call, Counts], list[Description]]
    """Function that describes a call."""
    counts: Counts = Counts()
    """Vector operations for each element."""


def options(**values: Any) -> tuple[tuple[str, Any], ...]:
    """Returns options in their fixed order, lists as tuples."""
    return tuple(sorted((key, tuple(v) if isinstance(v, list) else v) for key, v in values.items()))


def rows_of(
    describe: Callable[[Call, Counts], list[Description]], table: Mapping[tuple[int, ...], str]
) -> dict[str, Rule]:
    """Returns a rule for each name of a table from counts to names."""
    return {name: Rule(describe, Counts(*counts)) for counts, names in table.items() for name in names.split()}


def pointwise(
    operands: Sequence[TensorSpec], results: Sequence[TensorSpec], counts: Counts = Counts(), times: int = 1
) -> Description:
    """Describes operations on elements; operands are broadcast to the first result's shape."""
    shape = results[0].shape
    given = [_expanded(spec, shape) for spec in (*operands, *results)]
    groups = joinable(given, [0] * len(shape), sort_by=len(operands))
    done = tuple(joined(spec, groups) for spec in given)
    counted = options(simple=counts.simple, special=counts.special)
    return Description("pointwise", done[: len(operands)], done[len(operands) :], counted, times)


def reduction(
    operands: Sequence[TensorSpec], results: Sequence[TensorSpec], dims: Sequence[int], counts: Counts = Counts()
) -> Description:
    """Describes a reduction over some dimensions; results have the other ones, with or without dimensions of one element."""
    shape = operands[0].shape
    kinds = [int(d in dims) for d in range(len(shape))]
    given = [_expanded(spec, shape) for spec in operands]
    wide = [_widened(spec, kinds, shape) for spec in results]
    groups = joinable([*given, *wide], kinds)
    kept = [group for group in groups if not kinds[group[0]]]
    reduced = [at for at, group in enumerate(groups) if kinds[group[0]]]
    if not reduced:
        return pointwise(given, wide, counts)
    counted = options(dims=reduced, simple=counts.simple, special=counts.special)
    done = tuple(joined(spec, groups) for spec in given)
    return Description("reduce", done, tuple(joined(spec, kept) for spec in wide), counted)


def _expanded(spec: TensorSpec, shape: Sequence[int]) -> TensorSpec:
    whole = expanded(spec, shape)
    if whole is None:
        raise NotDescribed(f"a tensor of shape {list(spec.shape)} beside one of shape {list(shape)}")
    return whole


def _widened(spec: TensorSpec, kinds: Sequence[int], shape: Sequence[int]) -> TensorSpec:
    """Returns a result of a reduction with its operand's dimensions, those that are reduced with stride 0."""
    if len(spec.shape) == len(shape):
        return _expanded(spec, shape)
    strides = iter(spec.strides)
    if len(spec.shape) != kinds.count(0):
        raise NotDescribed(f"a result of shape {list(spec.shape)} of a reduction of shape {list(shape)}")
    return spec._replace(shape=tuple(shape), strides=tuple(0 if kind else next(strides) for kind in kinds))


def rows(operands: Sequence[TensorSpec], results: Sequence[TensorSpec], columns: int, counts: Counts) -> Description:
    """Describes operations on rows: softmax, norms and scans. The last dimension is the row."""
    counted = options(columns=columns, simple=counts.simple, special=counts.special, reduces=counts.reduces)
    return Description("rows", tuple(map(normal, operands)), tuple(map(normal, results)), counted)


def passes(kernel: Description) -> list[Description]:
    """Describes an operator on rows that are too long for a PE: a pass for each reduction, then one that writes the results."""
    given = dict(kernel.options)
    shape = max((spec.shape for spec in kernel.operands), key=math.prod)
    wide = [spec for spec in kernel.operands if spec.shape == shape]
    results = [spec for spec in kernel.results if spec.shape == shape]
    beside = [_beside(spec, shape) for spec in kernel.operands if spec.shape != shape]
    statistic = contiguous(TensorSpec((), (), "float32", 4), *shape[:-1])
    work = Counts(-(-given["simple"] // (given["reduces"] + 1)), given["special"])
    reduced = reduction(wide, [statistic], [len(shape) - 1], work)._replace(times=given["reduces"])
    return [reduced, pointwise([*wide, *beside], results, work)] if results else [reduced]


def _beside(spec: TensorSpec, shape: Sequence[int]) -> TensorSpec:
    """Returns a vector of weights, or of statistics of each row, broadcast to all rows."""
    if spec.elements != math.prod(shape[:-1]):
        return spec
    whole = contiguous(spec, *shape[:-1])
    return whole._replace(shape=tuple(shape), strides=(*whole.strides, 0))


def product(
    a: TensorSpec, b: TensorSpec, result: TensorSpec, added: TensorSpec | None = None, counts: Counts = Counts(), times: int = 1
) -> Description:
    """Describes a matrix product of the last two dimensions, with an optional tensor that is added."""
    operands = [a, b] if added is None else [a, b, _expanded(added, result.shape)]
    if added is None and counts == Counts() and result.element_bytes >= ACCUMULATOR_BYTES:
        # Other results are cast when they leave the accumulators, which is a pass of the vector unit too.
        counts = Counts(simple=1)
    counted = options(simple=counts.simple, special=counts.special)
    return Description("product", tuple(map(normal, operands)), (normal(result),), counted, times)
