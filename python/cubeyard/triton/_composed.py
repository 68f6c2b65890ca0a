"""Compositions of libdevice in three forms: on numbers, on known arrays, and on tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cubeyard.triton._arrays import Arrays
from cubeyard.triton._elements import DTYPES, NUMPY, Array, number
from cubeyard.triton._integers import BITS
from cubeyard.triton._libdevice import FLOATS

__all__ = ["on_arrays", "on_numbers", "on_tiles"]

Composition = Callable[..., Any]


def on_tiles(name: str, element: str, source: str) -> Composition | None:
    """Returns a function that performs an operation `ahbm.…` on tiles, or None if there is no such composition.

    Args:
        name: name of the operation.
        element: element type of the result.
        source: element type of the first operand.
    """
    into, dtype, plain = DTYPES[element], DTYPES[source], name.removeprefix("ahbm.").removeprefix("unsigned_")
    if plain in BITS:
        return _of_tiles(BITS[plain](into, source), dtype)
    if plain == "power":
        return _of_tiles(lambda tl, x, n: tl.pow(x, tl.cast(n, dtype)), dtype)
    if plain not in FLOATS:
        return None
    first = f"u{into[1:]}" if "unsigned_" in name else into
    return _of_tiles(_in_f64(FLOATS[plain], into, first, dtype), dtype)


def _in_f64(compose: Composition, into: str, first: str, dtype: str) -> Composition:
    """Makes a function that is computed in `f64`. Its result is converted to the type `first`, then to its own."""

    def compute(tl: Any, x: Any, *given: Any) -> Any:
        x = x if dtype == "f64" else tl.cast(x, "f64")
        found = compose(tl, x, *(tl.cast(one, "f64") for one in given))
        found = found if first == "f64" else tl.cast(found, first)
        return found if first == into else tl.cast(found, into)

    return compute


def _of_tiles(compose: Composition, dtype: str) -> Composition:
    """Makes a function whose operands may be numbers beside tiles."""

    def compute(tl: Any, *given: Any) -> Any:
        rank = max(0 if isinstance(one, int | float) else len(one.shape) for one in given)
        return compose(tl, *(tl.full([1] * rank, one, dtype) if isinstance(one, int | float) else one for one in given))

    return compute


def on_arrays(name: str, element: str, source: str) -> Callable[..., Array] | None:
    """Returns a function that performs an operation on known arrays, or None if there is no such composition."""
    compute = on_tiles(name, element, source)
    if compute is None or element not in NUMPY:
        return None

    def computed(*given: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(compute(Arrays(), *given)).astype(NUMPY[element], copy=False)

    return computed


def on_numbers(name: str, element: str, source: str) -> Composition | None:
    """Returns a function that performs an operation on single elements, or None if there is no such composition."""
    compute = on_arrays(name, element, source)
    if compute is None:
        return None

    def computed(x: Any, *given: Any) -> Any:
        first: Array = np.asarray(x, NUMPY[source])
        rest: list[Array] = [np.asarray(one, NUMPY[source] if isinstance(one, float) else np.int64) for one in given]
        return number(compute(first, *rest).item(), element)

    return computed
