"""Elements of tiles, masks and element types, as the native kernels read them."""

from __future__ import annotations

from typing import Any

from cubeyard import _dtype
from cubeyard.errors import InputError

__all__ = ["array", "bools", "dtype_name"]


def array(dtype: str, data: bytes, shape: tuple[int, ...]) -> Any:
    """Makes an array of the elements of a tile."""
    import numpy as np

    return np.frombuffer(data, _dtype.numpy_type(dtype)).reshape(shape)


def bools(mask: Any) -> tuple[tuple[int, ...], bytes] | None:
    """Returns shape and bytes of an array of bools; None if it is none."""
    import numpy as np

    array = np.asarray(mask)
    return (array.shape, array.tobytes()) if array.dtype == np.bool_ else None


def dtype_name(dtype: Any) -> str | None:
    """Returns the name of an element type; None if there is none of that kind."""
    try:
        return _dtype.name_of(dtype)
    except InputError:
        return None
