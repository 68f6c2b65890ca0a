"""Tensors on the host and on the machine."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cubeyard._base import checks, dtypes
from cubeyard.errors import InputError, OutOfMemory
from cubeyard.tensors.placement import Placement

if TYPE_CHECKING:
    import numpy as np

    from cubeyard import _native as native
    from cubeyard.tensors.context import Context

__all__ = ["DmaRead", "Shard", "Tensor"]


@dataclass(frozen=True)
class Shard:
    """Part of a tensor in the memory of one PE."""

    pe: str
    """PE that holds the shard, such as `sip0.cube3.pe1`."""
    address: int
    """First physical address."""
    nbytes: int
    """Size in bytes, without padding."""
    offset: int
    """Offset in the tensor's contiguous address range, in bytes."""


@dataclass(frozen=True)
class DmaRead:
    """Result of a read by the DMA of a PE."""

    values: bytes | None
    """Bytes that were read, or None if the context stores no data."""
    latency_ns: float
    """Time from the command to the last byte, including address translation."""


class Tensor:
    """Tensor with a shape, an element type, and values on the host or, once deployed, memory on the machine.

    The methods of a `Context` make tensors. Host values never change. `copy_` and kernels change the values of a deployed
    tensor. Views share the memory of their tensor, which is freed when the last view is dropped.

    >>> import cubeyard, numpy as np
    >>> context = cubeyard.Context()
    >>> tensor = context.arange(6, dtype="f32").view(2, 3).to(cubeyard.Placement.one())
    >>> tensor
    Tensor(shape=(2, 3), dtype='f32', on 1 PE)
    >>> np.asarray(tensor[1])
    array([3., 4., 5.], dtype=float32)
    >>> del tensor
    >>> context.is_pristine
    True
    """

    __slots__ = ("__weakref__", "_native", "context")

    _native: native.Tensor
    context: Context

    def __init__(self, context: Context, native: native.Tensor) -> None:
        """Wraps a native tensor. Use the methods of a `Context` to make tensors."""
        self.context = context
        self._native = native

    @property
    def shape(self) -> tuple[int, ...]:
        """Dimensions, outermost first."""
        return self._native.shape

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
        return len(self.shape)

    @property
    def is_deployed(self) -> bool:
        """Whether the tensor has memory on the machine."""
        return self._native.is_deployed

    @property
    def shards(self) -> tuple[Shard, ...]:
        """Shards of the tensor, sorted by offset, then by PE."""
        return tuple(Shard(*shard) for shard in self._native.shards())

    @property
    def va_base(self) -> int | None:
        """First virtual address, or None if addresses are physical or the tensor has no elements."""
        return self._native.va_base()

    @property
    def mapping_latency(self) -> float:
        """Duration of installing the address mappings through the fabric, in nanoseconds."""
        return self._native.mapping_latency_ps() / 1000

    def to(self, where: Any) -> Tensor:
        """Deploys the tensor according to a `Placement`, or converts it to an element type.

        Deploying allocates memory on the machine, maps it and writes the values, which takes simulated time. A conversion
        returns a tensor on the host and reads back a deployed tensor first. Elements are converted through 64-bit floats, so
        integers beyond 2**53 are rounded. Integers outside the range of the new type are refused.

        >>> import cubeyard
        >>> cubeyard.Context().tensor([1.5, 2.25]).to("bf16").to(cubeyard.Placement(pe="row_wise"))
        Tensor(shape=(2,), dtype='bf16', on 32 PEs)
        """
        if isinstance(where, Placement):
            return Tensor(self.context, self._native.to(where._native()))
        if where is None:
            raise InputError("where=None: expected a Placement or an element type")
        return Tensor(self.context, self._native.to_dtype(dtypes.name_of(where, "where")))

    def view(self, *shape: int | Sequence[int]) -> Tensor:
        """Returns a view of the same elements in another shape."""
        sizes: Any = shape[0] if len(shape) == 1 else shape
        return Tensor(self.context, self._native.view(checks.shape(sizes)))

    def rows(self, start: int, stop: int) -> Tensor:
        """Returns a view of a range of rows of a deployed tensor. A row spans all dimensions except the first."""
        first, end = checks.count("start", start), checks.count("stop", stop)
        return Tensor(self.context, self._native.rows(first, end))

    def __len__(self) -> int:
        if not self.shape:
            raise InputError("len(tensor): expected a tensor with at least one dimension, found a scalar")
        return self.shape[0]

    def __getitem__(self, index: int | slice) -> Tensor:
        """Returns a view of one row, without the first dimension, or of a range of rows."""
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                raise InputError(f"index={index!r}: expected consecutive rows, found a step of {step}")
            return self.rows(start, max(start, stop))
        row = checks.count("index", index, len(self) - 1, -len(self)) % len(self)
        return self.rows(row, row + 1).view(self.shape[1:])

    def __iter__(self) -> Iterator[Tensor]:
        """Yields a view of each row."""
        return (self[row] for row in range(len(self)))

    def numpy(self, out: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        """Returns the elements as an array. Reading a deployed tensor crosses the fabric and takes simulated time.

        Arrays of `bf16`, `fp8_e4m3` and `fp8_e5m2` have the types of `ml_dtypes` if that package is installed. Otherwise they
        hold the bits as `uint16` or `uint8`.

        Args:
            out: array to fill and return; a new array by default. Reusing an array is several times faster than filling
                new memory.
        """
        array = self._array() if out is None else self._checked(out)
        self._native.read_into(checks.flat(array))
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Returns the elements for NumPy. A tensor on the host gives a read-only array, without a copy if possible."""
        if copy is False and self.is_deployed:
            raise InputError("copy=False: expected a tensor on the host; a deployed tensor is read over the fabric")
        array = self.numpy() if copy or self.is_deployed else self._shared()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __dlpack__(self, **options: Any) -> Any:
        """Exports the elements through DLPack.

        Elements on the host are not copied if the consumer supports read-only memory (DLPack 1.0).
        """
        if self.is_deployed or options.get("copy") or options.get("max_version") is None:
            return self.numpy().__dlpack__(**options)
        return self._shared().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Returns the device of the exported elements, which is the CPU."""
        return (1, 0)

    def copy_(self, source: Any) -> Tensor:
        """Writes elements over the fabric into every copy of a deployed tensor, and returns the tensor.

        Args:
            source: an array or tensor of the same shape and element type, or an array of the bits of such elements.
        """
        array = source.numpy() if isinstance(source, Tensor) else checks.elements(source, "source")
        found = source.dtype if isinstance(source, Tensor) else dtypes.name_of(array.dtype, "dtype of source")
        if array.shape != self.shape or not dtypes.holds(array.dtype, self.dtype):
            raise InputError(f"source: expected {self.dtype} of {self.shape}, found {found} of {array.shape}")
        self._native.write(checks.flat(array))
        return self

    def read_from(self, pe: str, start: int = 0, stop: int | None = None) -> DmaRead:
        """Reads a range of the tensor's bytes with the DMA of a PE, as a kernel would. Takes simulated time.

        Args:
            pe: name of the PE, such as `sip0.cube3.pe1`.
            start: offset of the first byte in the tensor.
            stop: end offset of the range; by default, the end of the tensor.
        """
        end = self.nbytes if stop is None else checks.count("stop", stop)
        if not isinstance(pe, str):
            raise InputError(f"pe={pe!r}: expected a name such as 'sip0.cube3.pe1'")
        read: tuple[Any, int] = self._native.read_from(pe, checks.count("start", start), end)
        values, latency_ps = read
        return DmaRead(None if values is None else bytes(memoryview(values)), latency_ps / 1000)

    def draw(self) -> str:
        """Returns an SVG drawing of a deployed tensor: its matrix, with each part coloured by its PEs."""
        return self._native.draw()

    def __repr__(self) -> str:
        count = len(self._native.shards()) if self.is_deployed else 0
        where = f"on {count} PE{'' if count == 1 else 's'}" if self.is_deployed else "on the host"
        return f"Tensor(shape={self.shape}, dtype={self.dtype!r}, {where})"

    def _repr_html_(self) -> str:
        text = f"<code>{html.escape(repr(self))}</code>"
        return text + self.draw() if self.is_deployed else text

    def _array(self) -> np.ndarray[Any, Any]:
        """Returns a new array for the elements."""
        import numpy as np

        try:
            return np.empty(self.shape, dtypes.numpy_type(self.dtype))
        except (MemoryError, ValueError) as error:
            what = f"the host cannot allocate {self.nbytes} bytes for an array of {self!r}"
            raise OutOfMemory(what, {"requested": self.nbytes}) from error

    def _checked(self, out: Any) -> np.ndarray[Any, Any]:
        """Checks that an array can receive the elements and returns it."""
        import numpy as np

        held = dtypes.numpy_type(self.dtype)
        if isinstance(out, np.ndarray) and out.flags.c_contiguous and out.flags.writeable:
            if (out.shape, out.dtype) == (self.shape, held):
                return out
        found = f"{out.dtype.name} of {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
        raise InputError(f"out: expected a contiguous, writable array, {held.name} of {self.shape}; found {found}")

    def _shared(self) -> np.ndarray[Any, Any]:
        """Returns a read-only array that shares the memory of a tensor on the host."""
        import numpy as np

        if self.nbytes == 0:
            return self.numpy()
        held: Any = self._native.bytes()
        return np.frombuffer(held, dtypes.numpy_type(self.dtype)).reshape(self.shape)
