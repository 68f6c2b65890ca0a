"""The operations of `tl` on NumPy arrays, for known values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["Arrays"]

_SAME: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "rem": np.remainder, "pow": np.power,
    "maximum": np.maximum, "minimum": np.minimum, "and_": np.bitwise_and, "or_": np.bitwise_or, "xor": np.bitwise_xor,
    "shl": np.left_shift, "shr": np.right_shift, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "neg": np.negative, "abs": np.abs, "exp": np.exp, "exp2": np.exp2,
    "log": np.log, "log2": np.log2, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "floor": np.floor,
    "ceil": np.ceil, "not_": np.invert, "where": np.where,
}  # fmt: skip

_DTYPES = {"f16": "float16", "f32": "float32", "f64": "float64", "bool": "bool", "i": "int", "u": "uint"}


def _dtype(name: str) -> str:
    """Returns NumPy's name of an element type."""
    return _DTYPES.get(name) or _DTYPES[name[0]] + name[1:]


class Arrays:
    """Stands for `tl`, with arrays for tiles. Counts the operations."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        self.calls.append(name)
        return _SAME[name]

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        """Returns `x * y + z`, rounded twice."""
        self.calls.append("fma")
        return x * y + z

    def erf(self, x: Any) -> Any:
        """Returns the error function."""
        self.calls.append("erf")
        return np.vectorize(math.erf, otypes=[x.dtype])(x)

    def cast(self, x: Any, dtype: str) -> Any:
        """Converts elements to another type."""
        self.calls.append("cast")
        return x.astype(_dtype(dtype))

    def bitcast(self, x: Any, dtype: str) -> Any:
        """Reinterprets the bits of elements as another type of the same size."""
        self.calls.append("bitcast")
        return np.asarray(x).view(_dtype(dtype))

    def full(self, shape: list[int], value: Any, dtype: str) -> Any:
        """Returns an array filled with a number."""
        return np.full(shape, value, _dtype(dtype))
