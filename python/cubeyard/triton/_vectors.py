"""Arithmetic on known elements with NumPy: on indices, addresses and masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cubeyard.triton._elements import BITCASTS, COMPARISONS, SIZES

__all__ = ["NUMPY", "Array", "vector"]

Array = np.ndarray[Any, Any]

NUMPY: dict[str, type] = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "ptr": np.int64,
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": np.float32,
}  # fmt: skip
"""NumPy's types of known elements."""

_EXACT = ("i8", "i16", "i32", "i64", "f16", "f32", "f64")
"""Types whose elements have the same bits in NumPy."""

_UNSIGNED = {"i1": np.bool_, "i8": np.uint8, "i16": np.uint16, "i32": np.uint32, "i64": np.uint64}


def _divided(x: Array, y: Array) -> Array:
    """Divides, rounding towards 0; the least number has no absolute value, so it is rounded down first."""
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
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply, "arith.divf": np.divide,
    "arith.maxnumf": np.fmax, "arith.minnumf": np.fmin, "math.floor": np.floor, "math.ceil": np.ceil,
    "math.sqrt": np.sqrt, "math.absf": np.abs, "arith.negf": np.negative, "arith.select": np.where,
}  # fmt: skip
_NATURAL: dict[str, Callable[..., Any]] = {
    "arith.divui": np.floor_divide, "arith.remui": np.remainder, "arith.shrui": np.right_shift,
    "arith.minui": np.minimum, "arith.maxui": np.maximum,
}  # fmt: skip


def vector(name: str, element: str, words: list[str], source: str) -> Callable[..., Array] | None:
    """Returns an operation on arrays, as a function; None if there is none of that name."""
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
    if name == "tt.mulhiui":
        bits, kind = 8 * SIZES[source], _UNSIGNED[source]
        return lambda x, y: (x.astype(kind).astype(object) * y.astype(kind).astype(object) >> bits).astype(kind).astype(into)
    return _conversion(name, into, source)


def _comparison(relation: str, source: str) -> Callable[..., Array]:
    compare = COMPARISONS[relation[-2:]]
    if relation[0] == "u":
        kind = _UNSIGNED.get(source, np.uint64)
        return lambda x, y: np.asarray(compare(x.astype(kind), y.astype(kind)))
    return lambda x, y: np.asarray(compare(x, y))


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
