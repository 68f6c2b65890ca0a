"""Values of a running kernel: known values, and tiles of the machine.

A known scalar is a Python number. A tensor is one of these:

- `Uniform`: one known number everywhere;
- `Index`: known integers, a sum of one function per axis, which is a stride if the function is affine;
- `Bools`: known booleans, a conjunction of one function per axis;
- `Node`: any other element-wise result: a tile, or an operation that is computed when its elements are needed
  (`_chains`).

`Node` is the base class of `Index` and `Bools`. The machine computes their elements when a tile needs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cubeyard.triton._elements import DTYPES, NUMPY, SIZES, Array, wrapped
from cubeyard.triton._ir import Line

__all__ = ["Bools", "Index", "Node", "Uniform", "affine_tile", "array_of", "is_affine", "is_known", "of_elements", "of_vector"]

Shape = tuple[int, ...]

LIMITS = {element: 1 << (8 * size - 1) for element, size in SIZES.items()}
"""Bound of the signed numbers of each type."""


class Uniform:
    """Tensor filled with one known number."""

    __slots__ = ("element", "shape", "value")

    def __init__(self, shape: Shape, element: str, value: Any) -> None:
        self.shape, self.element, self.value = shape, element, value


class Node:
    """Result of an operation: its tile, or the operation and its operands."""

    __slots__ = ("array", "at", "compute", "element", "known", "lazy", "moves", "operands", "shape", "size", "tile", "uses",
                 "vector")  # fmt: skip

    def __init__(
        self,
        shape: Shape,
        element: str,
        *,
        tile: Any = None,
        compute: Callable[..., Any] | None = None,
        operands: tuple[Any, ...] = (),
        vector: Callable[..., Array] | None = None,
        at: Line | None = None,
        uses: int = 1,
        moves: bool = False,
    ) -> None:
        self.shape, self.element, self.tile = shape, element, tile
        self.compute, self.operands, self.vector, self.at = compute, operands, vector, at
        self.array: Array | None = None
        self.uses, self.lazy, self.size, self.moves = uses, None, 0, moves
        self.known = vector is not None and tile is None and all(map(is_known, operands))

    def elements(self) -> Array:
        """Returns the elements of a known node, in a shape that broadcasts to the node's shape."""
        if self.array is None:
            if self.vector is None:
                raise AssertionError("an unknown node has no elements before it runs")
            self.array = self.vector(*(array_of(one) for one in self.operands))
        return self.array


class Index(Node):
    """Known integers: a base, and for each axis a stride or the numbers along it."""

    __slots__ = ("axes", "base", "is_affine")

    def __init__(self, shape: Shape, element: str, base: int, axes: tuple[Any, ...], **made: Any) -> None:
        self.base, self.axes = base, axes
        for of in axes:
            if type(of) is not int:
                self.is_affine = False
                super().__init__(shape, element, **made)
                break
        else:
            # Affine numbers follow from their strides, so the operation and its operands are dropped.
            self.is_affine = True
            self.shape, self.element, self.operands, self.uses, self.size, self.moves = shape, element, (), 1, 0, False
            self.tile = self.compute = self.vector = self.at = self.array = self.lazy = None
        self.known = True

    def elements(self) -> Array:
        if self.array is None:
            total = np.full((1,) * len(self.shape), self.base, np.int64)
            for axis in self.varying():
                total = total + along(self.numbers(axis), axis, len(self.shape))
            self.array = total.astype(NUMPY[self.element])
        return self.array

    def varying(self) -> list[int]:
        """Returns the axes along which the numbers vary."""
        return [axis for axis, of in enumerate(self.axes) if not (type(of) is int and of == 0)]

    def numbers(self, axis: int) -> Array:
        """Returns the contribution of an axis to the numbers."""
        of = self.axes[axis]
        return np.arange(self.shape[axis], dtype=np.int64) * of if type(of) is int else of

    def fits(self) -> bool:
        """Returns whether all numbers fit the element type. Triton would wrap others."""
        if self.element == "ptr":
            return True
        low, high = self.ends()
        limit = LIMITS[self.element]
        return -limit <= low and high < limit

    def ends(self) -> tuple[int, int]:
        """Returns the least and the greatest number."""
        low = high = self.base
        for length, of in zip(self.shape, self.axes, strict=True):
            if type(of) is not int:
                low, high = low + int(of.min()), high + int(of.max())
            elif of > 0:
                high += of * (length - 1)
            elif of:
                low += of * (length - 1)
        return low, high


class Bools(Node):
    """Known booleans: true where all axes are true. None stands for an axis that is true everywhere."""

    __slots__ = ("axes",)

    def __init__(self, shape: Shape, axes: tuple[Any, ...], **made: Any) -> None:
        super().__init__(shape, "i1", **made)
        self.axes = axes
        self.known = True

    def elements(self) -> Array:
        if self.array is None:
            total = np.ones((1,) * len(self.shape), np.bool_)
            for axis, of in enumerate(self.axes):
                if of is not None:
                    total = total & along(of, axis, len(self.shape))
            self.array = total
        return self.array


def along(numbers: Array, axis: int, rank: int) -> Array:
    """Reshapes a vector to an array with `rank` dimensions, along one axis."""
    return numbers.reshape([-1 if at == axis else 1 for at in range(rank)])


def of_vector(shape: Shape, element: str, axis: int, numbers: Array, **made: Any) -> Any:
    """Returns the known tensor with these elements along one axis."""
    if element == "i1":
        if numbers.all():
            return Uniform(shape, "i1", True)
        if not numbers.any():
            return Uniform(shape, "i1", False)
        return Bools(shape, tuple(numbers if at == axis else None for at in range(len(shape))), **made)
    first, steps = int(numbers[0]), np.diff(numbers)
    step = int(steps[0]) if len(numbers) > 1 else 0
    # The last number reveals wrapping inside the range, which a stride does not describe.
    if first + step * (len(numbers) - 1) == int(numbers[-1]) and (steps == step).all():
        if step == 0:
            return Uniform(shape, element, first)
        return Index(shape, element, first, tuple(step if at == axis else 0 for at in range(len(shape))), **made)
    own = numbers.astype(np.int64)
    return Index(shape, element, 0, tuple(own if at == axis else 0 for at in range(len(shape))), **made)


def of_elements(elements: Array, element: str, tile: Any = None) -> Node:
    """Returns the known tensor with these elements, and their tile if the machine has one."""
    node = Node(elements.shape, element, tile=tile)
    node.array, node.known = elements, True
    return node


def is_known(value: Any) -> bool:
    """Returns whether a value is known before the machine runs."""
    return value.known if isinstance(value, Node) else True


def array_of(value: Any) -> Array:
    """Returns the elements of a known value."""
    if isinstance(value, Node):
        return value.elements()
    if isinstance(value, Uniform):
        return np.full((1,) * len(value.shape), value.value, NUMPY[value.element])
    return np.asarray(value)


def is_affine(value: Node) -> bool:
    """Returns whether a value is an index with one stride per axis."""
    return isinstance(value, Index) and value.is_affine


def affine_tile(index: Any, tl: Any) -> Any:
    """Computes affine numbers as the base plus one scaled range per axis."""
    total, base = None, index.base
    for axis in index.varying():
        stride, length = index.axes[axis], index.shape[axis]
        one = tl.arange(base if stride == 1 else 0, length, DTYPES[index.element])
        base = 0 if stride == 1 else base
        one = tl.reshape(one, [length if at == axis else 1 for at in range(len(index.shape))])
        one = one if stride == 1 else tl.mul(one, wrapped(stride, index.element))
        total = one if total is None else tl.add(total, one)
    return total if base == 0 else tl.add(total, base)
