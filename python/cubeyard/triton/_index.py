"""Arithmetic on known indices, addresses and masks: affine where possible, with NumPy otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cubeyard.triton._composed import on_arrays
from cubeyard.triton._elements import BITCASTS, COMPARISONS, NUMPY, SIZES, Array
from cubeyard.triton._values import Bools, Index, Uniform, of_vector

__all__ = ["added", "both", "compared", "multiplied", "pointwise", "times", "vector"]


def _parts(value: Any) -> tuple[int, tuple[Any, ...]]:
    """Returns the base and axes of an index or a uniform value."""
    if isinstance(value, Index):
        return value.base, value.axes
    return int(value.value), (0,) * len(value.shape)


def _sum(x: Any, y: Any, sign: int) -> Any:
    if type(x) is int and type(y) is int:
        return x + sign * y
    length = len(y) if type(x) is int else len(x)
    left = np.arange(length, dtype=np.int64) * x if type(x) is int else x
    right = np.arange(length, dtype=np.int64) * y if type(y) is int else y
    return left + sign * right


def added(x: Any, y: Any, element: str, sign: int = 1, size: int = 1, **made: Any) -> Any:
    """Returns `x + sign * size * y`, or None if the result overflows the element type."""
    base, axes = _parts(x)
    more, steps = _parts(y)
    if element == "ptr" and isinstance(y, Uniform) and isinstance(x, Index):
        # Most common case: pointers that a loop advances.
        return Index(x.shape, element, base + sign * size * more, axes, **made)
    axes = tuple(_sum(left, _scaled(right, size), sign) for left, right in zip(axes, steps, strict=True))
    return _checked(Index(x.shape, element, base + sign * size * more, axes, **made))


def multiplied(x: Any, y: Any, element: str, **made: Any) -> Any:
    """Returns the product of an index and a uniform value, or None on overflow or if both are indices."""
    index, factor = (x, y) if isinstance(y, Uniform) else (y, x)
    if not isinstance(factor, Uniform):
        return None
    base, axes = _parts(index)
    times = int(factor.value)
    return _checked(Index(x.shape, element, base * times, tuple(_scaled(of, times) for of in axes), **made))


def _scaled(of: Any, factor: int) -> Any:
    return of if factor == 1 else of * factor


def times(x: Any, y: Any) -> bool:
    """Returns whether at least one factor is uniform."""
    return isinstance(x, Uniform) or isinstance(y, Uniform)


def _checked(index: Index) -> Any:
    if not index.fits():
        return None
    return Uniform(index.shape, index.element, index.base) if not index.varying() else index


_ALWAYS = {"slt": 0, "sge": 0, "sle": 1, "sgt": 1}
"""Relations decided by the least and greatest index alone, with the number added to the bound."""


def compared(x: Any, y: Any, relation: str) -> bool | None:
    """Compares an index with a uniform value. Returns the result if it is equal for all elements, else None."""
    if relation not in _ALWAYS or not isinstance(x, Index) or not isinstance(y, Uniform):
        return None
    low, high = x.ends()
    bound = int(y.value) + _ALWAYS[relation]
    if high < bound:
        return relation in ("slt", "sle")
    return relation in ("sge", "sgt") if low >= bound else None


def _axis(values: tuple[Any, ...]) -> int | None:
    """Returns the only axis along which values vary, or None."""
    found: set[int] = set()
    for value in values:
        if isinstance(value, Index):
            found.update(value.varying())
        elif isinstance(value, Bools):
            found.update(axis for axis, of in enumerate(value.axes) if of is not None)
    return found.pop() if len(found) == 1 else None


def _line(value: Any, axis: int) -> Array:
    """Returns the elements of a value along an axis."""
    if isinstance(value, Uniform):
        return np.full(1, value.value, NUMPY[value.element])
    if isinstance(value, Index):
        return (value.base + value.numbers(axis)).astype(NUMPY[value.element])
    found: Array = value.axes[axis]
    return found


def pointwise(shape: Any, element: str, values: tuple[Any, ...], **made: Any) -> Any:
    """Applies an operation to values that vary along one axis. Returns None if they vary along several."""
    if element not in NUMPY or element[0] not in "ip" or not all(isinstance(it, Uniform | Index | Bools) for it in values):
        return None
    axis = _axis(values)
    if axis is None:
        return None
    result = np.broadcast_to(made["vector"](*(_line(value, axis) for value in values)), (shape[axis],))
    return of_vector(shape, element, axis, result, **made)


def both(x: Any, y: Any, **made: Any) -> Any:
    """Returns the conjunction of two masks, or None for values of other kinds."""
    if isinstance(x, Uniform):
        return y if x.value else x
    if isinstance(y, Uniform):
        return x if y.value else y
    if not (isinstance(x, Bools) and isinstance(y, Bools)):
        return None
    axes = tuple(_conjunction(left, right) for left, right in zip(x.axes, y.axes, strict=True))
    return Bools(x.shape, axes, **made)


def _conjunction(x: Any, y: Any) -> Any:
    return y if x is None else x if y is None else x & y


_EXACT = ("i8", "i16", "i32", "i64", "f16", "f32", "f64")
"""Types with the same bits in NumPy."""

_UNSIGNED = {"i1": np.bool_, "i8": np.uint8, "i16": np.uint16, "i32": np.uint32, "i64": np.uint64}


def _divided(x: Array, y: Array) -> Array:
    """Divides, rounding towards 0. Starts with floor division, because the least integer has no absolute value."""
    safe = np.where(y == 0, np.ones_like(y), y)
    with np.errstate(over="ignore"):
        down = x // safe
        rest = x - down * safe
    quotient = down + ((rest != 0) & ((x < 0) != (safe < 0)))
    return np.asarray(np.where(y == 0, 0, quotient))


def _remainder(x: Array, y: Array) -> Array:
    return np.asarray(x - _divided(x, y) * y)


_PLAIN: dict[str, Callable[..., Any]] = {
    "arith.addi": np.add, "arith.subi": np.subtract, "arith.muli": np.multiply, "arith.divsi": _divided,
    "arith.remsi": _remainder, "arith.andi": np.bitwise_and, "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor, "arith.shli": np.left_shift, "arith.shrsi": np.right_shift,
    "arith.minsi": np.minimum, "arith.maxsi": np.maximum, "math.absi": np.abs,
    "arith.floordivsi": np.floor_divide, "arith.ceildivsi": lambda x, y: -(-x // y),
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply, "arith.divf": np.divide, "tt.approx_divf": np.divide,
    "arith.maxnumf": np.fmax, "arith.minnumf": np.fmin, "math.floor": np.floor, "math.ceil": np.ceil,
    "math.sqrt": np.sqrt, "math.absf": np.abs, "arith.negf": np.negative, "arith.select": np.where,
}  # fmt: skip
_NATURAL: dict[str, Callable[..., Any]] = {
    "arith.divui": np.floor_divide, "arith.remui": np.remainder, "arith.shrui": np.right_shift,
    "arith.minui": np.minimum, "arith.maxui": np.maximum,
}  # fmt: skip


def vector(name: str, element: str, words: list[str], source: str) -> Callable[..., Array] | None:
    """Returns a function that performs an operation on arrays, or None if the operation is unknown."""
    into = NUMPY.get(element)
    if into is None or (name in BITCASTS and element not in _EXACT):
        return None
    if name in _PLAIN:
        plain = _PLAIN[name]
        return lambda *given: np.asarray(plain(*given)).astype(into, copy=False)
    if name in _NATURAL:
        natural, kind = _NATURAL[name], _UNSIGNED.get(source, np.uint64)
        return lambda x, y: np.asarray(natural(x.astype(kind), y.astype(kind))).astype(into)
    if name == "arith.cmpi":
        return _comparison(words[0], source)
    if name == "arith.cmpf":
        return _float_comparison(words[0])
    if name == "tt.mulhiui":
        bits, kind = 8 * SIZES[source], _UNSIGNED[source]
        return lambda x, y: (x.astype(kind).astype(object) * y.astype(kind).astype(object) >> bits).astype(kind).astype(into)
    if name.startswith("ahbm."):
        return on_arrays(name, element, source)
    return _conversion(name, into, source)


def _comparison(relation: str, source: str) -> Callable[..., Array]:
    compare = COMPARISONS[relation[-2:]]
    if relation[0] == "u":
        kind = _UNSIGNED.get(source, np.uint64)
        return lambda x, y: np.asarray(compare(x.astype(kind), y.astype(kind)))
    return lambda x, y: np.asarray(compare(x, y))


def _float_comparison(relation: str) -> Callable[..., Array]:
    if relation in ("ord", "uno"):
        return lambda x, y: np.asarray((np.isnan(x) | np.isnan(y)) == (relation == "uno"))
    compare, unordered = COMPARISONS[relation[1:]], relation[0] == "u"
    return lambda x, y: np.where(np.isnan(x) | np.isnan(y), unordered, compare(x, y))


def _conversion(name: str, into: type, source: str) -> Callable[..., Array] | None:
    if name == "arith.extsi" and source == "i1":
        return lambda x: -x.astype(into)
    if name in ("arith.extui", "arith.uitofp") and source in _UNSIGNED:
        kind = _UNSIGNED[source]
        return lambda x: x.astype(kind).astype(into)
    if name in ("arith.extsi", "arith.trunci", "arith.sitofp", "arith.extf", "arith.truncf", "arith.fptosi",
                "tt.int_to_ptr", "tt.ptr_to_int"):  # fmt: skip
        return lambda x: x.astype(into)
    if name in BITCASTS and source in _EXACT:
        return lambda x: np.ascontiguousarray(x, NUMPY[source]).view(into)
    return None
