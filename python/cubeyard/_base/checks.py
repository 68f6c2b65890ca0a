"""Argument checks for shapes, numbers and arrays."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from cubeyard._base import dtypes
from cubeyard.errors import InputError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["count", "elements", "flat", "number", "shape", "steps"]


def count(argument: str, value: Any, most: int = 2**64 - 1, least: int = 0) -> int:
    """Returns `value` as an integer, which must lie between `least` and `most` inclusive.

    >>> count("seed", 7)
    7
    """
    try:
        found = operator.index(value)
    except TypeError:
        found = least - 1
    if isinstance(value, bool) or not least <= found <= most:
        raise InputError(f"{argument}={_cut(value)}: expected a whole number from {least} to {most}")
    return found


def number(argument: str, value: Any) -> float:
    """Returns `value` as a float. An integer must be exactly representable in 64 bits.

    >>> number("value", 2)
    2.0
    """
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{argument}={_cut(value)}: expected a number") from None
    if isinstance(value, int) and int(found) != value:
        raise InputError(f"{argument}={value}: expected a number that a 64-bit float holds exactly; from_numpy takes any")
    return found


def shape(value: Any, argument: str = "shape") -> list[int]:
    """Returns the dimensions of a shape, given as one integer or as a sequence.

    >>> shape(3), shape((2, 4))
    ([3], [2, 4])
    """
    if isinstance(value, (tuple, list)) or isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return [count(argument, size) for size in value]
    return [count(argument, value)]


def steps(start: float, stop: float, step: float) -> int:
    """Returns the number of values in a range, as `len(range(start, stop, step))` does for integers.

    >>> steps(0, 1, 0.25), steps(3, 0, -2), steps(3, 0, 1)
    (4, 2, 0)
    """
    if step == 0 or not all(map(math.isfinite, (start, stop, step))):
        raise InputError(f"start={start}, stop={stop}, step={step}: expected finite numbers and a step that is not 0")
    return count("stop", max(0, math.ceil((stop - start) / step)), 2**53)


def elements(array: Any, argument: str = "array") -> np.ndarray[Any, Any]:
    """Returns the array itself if it is C-contiguous, else a contiguous copy."""
    import numpy as np

    if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
        raise InputError(f"{argument}: expected a numpy.ndarray, found {type(array).__name__}; tensor() takes lists")
    if array.dtype.byteorder == ">":
        native = array.dtype.newbyteorder("<").str
        raise InputError(
            f"{argument}: expected little-endian elements, found {array.dtype.str}: use {argument}.astype({native!r})"
        )
    dtypes.name_of(array.dtype, f"dtype of {argument}")
    return array if array.flags.c_contiguous else array.copy(order="C")


def flat(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns the bytes of a contiguous array without copying them."""
    import numpy as np

    return array.reshape(-1).view(np.uint8)


def _cut(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
