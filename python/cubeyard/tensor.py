"""Tensors on the host and on the machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cubeyard import _dtype
from cubeyard.errors import InputError
from cubeyard.placement import Placement

if TYPE_CHECKING:
    import numpy as np

    from cubeyard import _native as native
    from cubeyard.context import Context

__all__ = ["Shard", "Tensor"]


@dataclass(frozen=True)
class Shard:
    """Part of a tensor in the memory of a PE."""

    pe: str
    """PE that holds it, such as `sip0.cube3.pe1`."""
    address: int
    """First physical address."""
    nbytes: int
    """Size without padding."""
    offset: int
    """Offset in the tensor's contiguous addresses, in bytes."""


class Tensor:
    """A tensor: shape, element type and values on the host, and once deployed, memory on the machine.

    The methods of a `Context` make tensors. Views share the memory of their tensor; it is given back when the last of
    them is dropped.
    """

    __slots__ = ("__weakref__", "_native", "context")

    _native: native.Tensor
    context: Context

    def __init__(self, context: Context, native: native.Tensor) -> None:
        self.context = context
        self._native = native

    @property
    def shape(self) -> tuple[int, ...]:
        """Dimensions, the outermost first."""
        return tuple(self._native.shape)

    @property
    def dtype(self) -> str:
        """Name of the element type, such as `f32`."""
        return self._native.dtype

    @property
    def nbytes(self) -> int:
        """Size of the elements in bytes."""
        return self._native.nbytes

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._native.shape)

    @property
    def is_deployed(self) -> bool:
        """Whether the tensor has memory on the machine."""
        return self._native.is_deployed

    def to(self, where: Any) -> Tensor:
        """Deploys the tensor by a `Placement`, or converts it to an element type."""
        if isinstance(where, Placement):
            return Tensor(self.context, self._native.to(where._native()))
        return Tensor(self.context, self._native.to_dtype(_dtype.name_of(where, "where")))

    def numpy(self) -> np.ndarray[Any, Any]:
        """Returns the elements as a new array; a deployed tensor is read over the fabric, which takes simulated time."""
        import numpy as np

        array = np.empty(self.shape, _dtype.numpy_type(self.dtype))
        self._native.read_into(array.reshape(-1).view(np.uint8))
        return array
