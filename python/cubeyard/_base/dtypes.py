"""Element types: their names, the NumPy types that hold them, and elements as native kernels read them.

| name | NumPy |
|---|---|
| `f16`, `f32`, `f64`, `i8` … `i64`, `u8` … `u64`, `bool` | the type of that kind and size |
| `bf16`, `fp8_e4m3`, `fp8_e5m2` | those of `ml_dtypes` where it is installed, else the bits as `uint16` or `uint8` |
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from cubeyard.errors import InputError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["array", "bits_type", "bools", "dtype_name", "holds", "name_of", "numpy_type", "of_bits"]

# Name, NumPy's name, and the name of ml_dtypes where NumPy has no such type.
_TYPES = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "bool": "bool",
}
_NAMES = {numpy: name for name, numpy in _TYPES.items()}
_BITS = {"bf16": "uint16", "fp8_e4m3": "uint8", "fp8_e5m2": "uint8"}


def name_of(dtype: Any, argument: str = "dtype") -> str:
    """Returns the name of an element type, given by its name, by a NumPy type, or by a Python type.

    >>> name_of("f32"), name_of("float16"), name_of(float), name_of("<i2")
    ('f32', 'f16', 'f64', 'i16')
    """
    if isinstance(dtype, str) and dtype in _TYPES:
        return dtype
    if isinstance(dtype, str) and dtype in _NAMES:
        return _NAMES[dtype]
    import numpy as np

    try:
        found = np.dtype(dtype)
        if dtype is not None and found.byteorder != ">":
            return _NAMES[found.name]
        raise KeyError(dtype)
    except (TypeError, KeyError):
        expected = ", ".join(_TYPES)
        raise InputError(f"{argument}={dtype!r}: expected one of {expected}, or the NumPy type of one") from None


@cache
def numpy_type(name: str) -> np.dtype[Any]:
    """Returns the NumPy type that holds elements of a type.

    >>> numpy_type("f32").name
    'float32'
    """
    import numpy as np

    if name not in _BITS:
        return bits_type(name)
    try:
        import ml_dtypes
    except ImportError:
        return bits_type(name)
    held: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _TYPES[name]))
    return held


def bits_type(name: str) -> np.dtype[Any]:
    """Returns the NumPy type of the elements of a type, or that of their bits where NumPy itself has no such type.

    >>> bits_type("f32").name, bits_type("bf16").name
    ('float32', 'uint16')
    """
    import numpy as np

    return np.dtype(_BITS.get(name, _TYPES[name]))


def holds(held: np.dtype[Any], name: str) -> bool:
    """Returns whether an array of a NumPy type holds elements of a type, or their bits.

    >>> import numpy as np
    >>> holds(np.dtype("uint8"), "fp8_e4m3"), holds(np.dtype("uint8"), "i8")
    (True, False)
    """
    return held.name in (_BITS.get(name), _TYPES[name])


def of_bits(held: np.dtype[Any], dtype: Any) -> str:
    """Returns the name of an element type whose bits, or whose elements, an array holds.

    >>> import numpy as np
    >>> of_bits(np.dtype("uint16"), "bf16")
    'bf16'
    """
    name = name_of(dtype)
    if holds(held, name):
        return name
    bits = f" or its bits as {_BITS[name]}" if name in _BITS else ""
    raise InputError(f"array: expected elements of {name}{bits}, found {held.name}; Tensor.to converts elements")


def array(dtype: str, data: bytes, shape: tuple[int, ...]) -> Any:
    """Makes an array of the elements of a tile."""
    import numpy as np

    return np.frombuffer(data, numpy_type(dtype)).reshape(shape)


def bools(mask: Any) -> tuple[tuple[int, ...], bytes] | None:
    """Returns shape and bytes of an array of bools; None if it is none."""
    import numpy as np

    array = np.asarray(mask)
    return (array.shape, array.tobytes()) if array.dtype == np.bool_ else None


def dtype_name(dtype: Any) -> str | None:
    """Returns the name of an element type; None if there is none of that kind."""
    try:
        return name_of(dtype)
    except InputError:
        return None
