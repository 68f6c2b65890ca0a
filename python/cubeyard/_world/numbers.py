"""Arithmetic of the machine's engines on arrays: the same bits, without the machine.

Floats of at most 32 bits compute in `f32` and are rounded after every operation; integers wrap; every NaN is the one
quiet NaN of its type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cubeyard._base import dtypes

__all__ = ["FLOATS", "TYPES", "finish", "join", "raw", "suits", "values"]

Array = np.ndarray[Any, Any]

FLOATS = ("f16", "bf16", "f32", "f64")
"""Element types whose sums depend on their order."""

_INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool")

TYPES = {name: dtypes.bits_type(name) for name in (*FLOATS, *_INTEGERS)}
"""NumPy types that hold elements; bits of those that NumPy does not know."""


def suits(op: str, dtype: str) -> bool:
    """Returns whether a reduction is defined for an element type."""
    if dtype in FLOATS:
        return op in {"sum", "prod", "min", "max", "avg"}
    return op != "avg" and (dtype != "bool" or op not in {"sum", "prod"})


def values(held: Array, dtype: str) -> Array:
    """Returns bytes as numbers to compute with: `bf16` as `f32`.

    >>> values(np.array([0x3F80, 0xC000], np.uint16).view(np.uint8), "bf16").tolist()
    [1.0, -2.0]
    """
    array: Array = held.view(TYPES[dtype])
    return (array.astype(np.uint32) << np.uint32(16)).view(np.float32) if dtype == "bf16" else array


def raw(array: Array, dtype: str) -> Array:
    """Returns the bytes of computed numbers."""
    if dtype == "bf16":
        array = (array.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return np.ascontiguousarray(array).view(np.uint8)


def join(op: str, dtype: str, a: Array, b: Array) -> Array:
    """Returns the combination of two arrays."""
    with np.errstate(all="ignore"):
        joined = _JOIN[op](a, b)
    return _rounded(joined) if dtype == "bf16" and op in {"sum", "avg", "prod"} else joined


def finish(op: str, dtype: str, ranks: int, array: Array) -> Array:
    """Returns the combination of all ranks as it is stored: an average divided, and any NaN the one of its type.

    The array, which is that of a combination and nobody else's, is overwritten.
    """
    with np.errstate(all="ignore"):
        if op == "avg":
            np.divide(array, array.dtype.type(ranks), out=array)
            array = _rounded(array) if dtype == "bf16" else array
        # A sum is NaN if an element is, or if infinities cancel out: faster than to look at each element.
        if dtype in FLOATS and np.isnan(np.add.reduce(array, axis=None)):
            np.copyto(array, array.dtype.type(np.nan), where=np.isnan(array))
    return array


def _rounded(array: Array) -> Array:
    """Rounds `f32` to the nearest `bf16`, ties to even."""
    bits = array.view(np.uint32)
    up = ((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF)
    rounded: Array = ((bits + up) & np.uint32(0xFFFF0000)).view(np.float32)
    broken = np.isnan(array)
    return np.where(broken, np.float32(np.nan), rounded) if broken.any() else rounded


def _max(a: Array, b: Array) -> Array:
    return np.where((a >= b) | (a != a), a, b)


def _min(a: Array, b: Array) -> Array:
    return np.where((a <= b) | (a != a), a, b)


_JOIN: dict[str, Callable[[Array, Array], Array]] = {
    "sum": np.add,
    "avg": np.add,
    "prod": np.multiply,
    "min": _min,
    "max": _max,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
}
