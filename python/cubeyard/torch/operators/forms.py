"""Other kernels that do the same as one on rows, and may do it in less time.

- **More rows.** The machine's kernels spread few rows over all PEs, which then read from the few PEs that hold them. A kernel for so many
  rows that each PE has a page of them works in place. It serves fewer rows as well: these lie where they would lie among the others.
- **Wide sums.** Sums of 2 bytes share a burst of the HBM among more PEs than sums of 4 bytes, and the PEs wait for each other. A kernel may
  write its sums in float32, and another one casts them.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from cubeyard.torch.operators.description import ACCUMULATOR_BYTES, Description, pointwise
from cubeyard.torch.operators.kernels import pages
from cubeyard.torch.operators.spec import TensorSpec, contiguous, normal

__all__ = ["forms"]


def forms(kernel: Description) -> list[list[Description]]:
    """Returns other kernels, one after the other, in the place of a kernel on rows."""
    more = _larger(kernel)
    found = [] if more is None else [[more]]
    if kernel.family == "reduce" and min(spec.element_bytes for spec in kernel.results) < ACCUMULATOR_BYTES:
        sums = [spec._replace(dtype="float32", element_bytes=ACCUMULATOR_BYTES) for spec in kernel.results]
        wide = kernel._replace(results=tuple(sums))
        cast = pointwise(sums, kernel.results)
        found += [[one, cast] for one in (wide, _larger(wide)) if one is not None]
    return found


def _larger(kernel: Description) -> Description | None:
    """Returns the same kernel for a page of rows on each PE; None if it has as many, or if rows do not lie one after the other."""
    given = dict(kernel.options)
    columns = _columns(kernel, given)
    wide = max((*kernel.operands, *kernel.results), key=lambda spec: spec.bytes)
    if columns is None or wide.elements % columns:
        return None
    rows, wanted = wide.elements // columns, pages()[0] * pages()[1] // (columns * wide.element_bytes)
    if rows >= wanted or min(rows, columns) == 1:
        return None
    sizes = {rows: (wanted,), rows * columns: (wanted, columns)}
    if kernel.family == "rows":
        # A vector of this size is a row that all rows share. Where it may also be a number for each row, nothing is tried.
        sizes = {columns: (columns,), **sizes} if rows != columns else {rows * columns: (wanted, columns)}
    resized = functools.partial(_resized, sizes=sizes)
    operands, results = resized(kernel.operands), resized(kernel.results)
    return None if operands is None or results is None else kernel._replace(operands=operands, results=results)


def _columns(kernel: Description, given: dict[str, Any]) -> int | None:
    """Returns the elements of a row; None if the kernel is not one on rows."""
    if kernel.family == "rows":
        return int(given["columns"])
    shape = kernel.operands[0].shape
    return shape[1] if kernel.family == "reduce" and len(shape) == 2 and given["dims"] == (1,) else None


def _resized(specs: Sequence[TensorSpec], sizes: Mapping[int, tuple[int, ...]]) -> tuple[TensorSpec, ...] | None:
    """Returns tensors with other shapes by their numbers of elements; None if one has none or does not lie row after row."""
    if any(spec.elements not in sizes or not _is_contiguous(spec) for spec in specs):
        return None
    return tuple(contiguous(spec, *sizes[spec.elements]) for spec in specs)


def _is_contiguous(spec: TensorSpec) -> bool:
    return normal(spec) == normal(contiguous(spec, *spec.shape))
