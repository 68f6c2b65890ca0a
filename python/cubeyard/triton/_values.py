"""Values while a kernel runs: known ones, and tiles of the machine.

A scalar that is known is a number of Python. A tensor is one of these:

- `Uniform`: one known number everywhere;
- `Index`: known whole numbers, the sum of a function of each axis, affine ones by their stride;
- `Bools`: known truth values, the conjunction of a function of each axis;
- `Node`: any other element-wise result: a tile, or an operation on others that is computed when its elements are needed
  (`_chains`).

`Node` is the base of `Index` and `Bools`: where their elements are needed in a tile, the machine computes them.
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
    """A tensor of one known number."""

    __slots__ = ("element", "shape", "value")

    def __init__(self, shape: Shape, element: str, value: Any) -> None:
        self.shape, self.element, self.value = shape, element, value


class Node:
    """Result of an operation: its tile, or what it is computed from."""

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
        """Returns the elements of a known node, in a shape that broadcasts to its own."""
        if self.array is None:
            if self.vector is None:
                raise AssertionError("a node that is not known has no elements before it runs")
            self.array = self.vector(*(array_of(one) for one in self.operands))
        return self.array


class Index(Node):
    """Known whole numbers: `base`, and for each axis a stride or the numbers along it."""

    __slots__ = ("axes", "base")

    def __init__(self, shape: Shape, element: str, base: int, axes: tuple[Any, ...], **made: Any) -> None:
        if {*map(type, axes)} == {int}:
            # Affine numbers are computed from their strides; the operation is not kept, nor are its operands.
            made = {}
        super().__init__(shape, element, **made)
        self.base, self.axes = base, axes
        self.known = True

    def elements(self) -> Array:
        if self.array is None:
            total = np.full((1,) * len(self.shape), self.base, np.int64)
            for axis in self.varying():
                total = total + along(self.numbers(axis), axis, len(self.shape))
            self.array = total.astype(NUMPY[self.element])
        return self.array

    def varying(self) -> list[int]:
        """Returns the axes along which the numbers differ."""
        return [axis for axis, of in enumerate(self.axes) if not (type(of) is int and of == 0)]

    def numbers(self, axis: int) -> Array:
        """Returns what an axis adds to the base."""
        of = self.axes[axis]
        return np.arange(self.shape[axis], dtype=np.int64) * of if type(of) is int else of

    def fits(self) -> bool:
        """Returns whether no number exceeds the element type, in which Triton would wrap it."""
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
    """Known truth values: true where all axes are; None is an axis that is true everywhere."""

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
    """Returns a vector as an array of so many dimensions, along one of them."""
    return numbers.reshape([-1 if at == axis else 1 for at in range(rank)])


def of_vector(shape: Shape, element: str, axis: int, numbers: Array, **made: Any) -> Any:
    """Returns the known tensor that has these elements along one axis."""
    if element == "i1":
        if numbers.all():
            return Uniform(shape, "i1", True)
        if not numbers.any():
            return Uniform(shape, "i1", False)
        return Bools(shape, tuple(numbers if at == axis else None for at in range(len(shape))), **made)
    first, steps = int(numbers[0]), np.diff(numbers)
    step = int(steps[0]) if len(numbers) > 1 else 0
    # The last number tells whether they wrap on their way, where a stride does not describe them.
    if first + step * (len(numbers) - 1) == int(numbers[-1]) and (steps == step).all():
        if step == 0:
            return Uniform(shape, element, first)
        return Index(shape, element, first, tuple(step if at == axis else 0 for at in range(len(shape))), **made)
    own = numbers.astype(np.int64)
    return Index(shape, element, 0, tuple(own if at == axis else 0 for at in range(len(shape))), **made)


def of_elements(elements: Array, element: str, tile: Any = None) -> Node:
    """Returns the known tensor that has these elements, and their tile, if the machine has one."""
    node = Node(elements.shape, element, tile=tile)
    node.array, node.known = elements, True
    return node


def is_known(value: Any) -> bool:
    """Returns whether a value is known before the machine computes anything."""
    return value.known if isinstance(value, Node) else True


def array_of(value: Any) -> Array:
    """Returns the elements of a known value."""
    if isinstance(value, Node):
        return value.elements()
    if isinstance(value, Uniform):
        return np.full((1,) * len(value.shape), value.value, NUMPY[value.element])
    return np.asarray(value)


def is_affine(value: Node) -> bool:
    """Returns whether a value is an index with a stride for each axis."""
    return isinstance(value, Index) and all(type(of) is int for of in value.axes)


def affine_tile(index: Any, tl: Any) -> Any:
    """Computes affine numbers: a range along each axis, times its stride, and their sum."""
    total, base = None, index.base
    for axis in index.varying():
        stride, length = index.axes[axis], index.shape[axis]
        one = tl.arange(base if stride == 1 else 0, length, DTYPES[index.element])
        base = 0 if stride == 1 else base
        one = tl.reshape(one, [length if at == axis else 1 for at in range(len(index.shape))])
        one = one if stride == 1 else tl.mul(one, wrapped(stride, index.element))
        total = one if total is None else tl.add(total, one)
    return total if base == 0 else tl.add(total, base)
