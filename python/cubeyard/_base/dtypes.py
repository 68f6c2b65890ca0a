"""Element types: their names, their NumPy types, and their bytes for native kernels.

| name | NumPy |
|---|---|
| `f16`, `f32`, `f64`, `i8` … `i64`, `u8` … `u64`, `bool` | the type of the same kind and size |
| `bf16`, `fp8_e4m3`, `fp8_e5m2` | the `ml_dtypes` type if that package is installed, else the bits as `uint16` or `uint8` |
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from cubeyard.errors import InputError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["array", "bits_type", "bools", "dtype_name", "holds", "name_of", "numpy_type", "of_bits"]

# Cubeyard's names and NumPy's names. Types that NumPy lacks have the names of ml_dtypes.
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
    """Returns the Cubeyard name of an element type, given as a name, a NumPy type or a Python type.

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
        raise InputError(f"{argument}={dtype!r}: expected one of {expected}, or its NumPy type") from None


@cache
def numpy_type(name: str) -> np.dtype[Any]:
    """Returns the NumPy type for elements of a type, from `ml_dtypes` if needed and installed.

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
    """Returns NumPy's own type for elements of a type, or an unsigned integer type for their bits.

    >>> bits_type("f32").name, bits_type("bf16").name
    ('float32', 'uint16')
    """
    import numpy as np

    return np.dtype(_BITS.get(name, _TYPES[name]))


def holds(held: np.dtype[Any], name: str) -> bool:
    """Returns whether a NumPy type stores elements of a type, either directly or as bits.

    >>> import numpy as np
    >>> holds(np.dtype("uint8"), "fp8_e4m3"), holds(np.dtype("uint8"), "i8")
    (True, False)
    """
    return held.name in (_BITS.get(name), _TYPES[name])


def of_bits(held: np.dtype[Any], dtype: Any) -> str:
    """Returns the name of `dtype` after checking that an array stores its elements or their bits.

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
    """Returns the bytes of a tile as a NumPy array."""
    import numpy as np

    return np.frombuffer(data, numpy_type(dtype)).reshape(shape)


def bools(mask: Any) -> tuple[tuple[int, ...], bytes] | None:
    """Returns the shape and bytes of a boolean array, or None for any other array."""
    import numpy as np

    array = np.asarray(mask)
    return (array.shape, array.tobytes()) if array.dtype == np.bool_ else None


def dtype_name(dtype: Any) -> str | None:
    """Returns the name of an element type, or None if the type is unknown."""
    try:
        return name_of(dtype)
    except InputError:
        return None
