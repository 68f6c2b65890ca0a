"""Contexts: a simulated machine with its memory."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from cubeyard import _dtype
from cubeyard import _native as native
from cubeyard.errors import InputError
from cubeyard.tensor import Tensor

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Context", "LeakReport"]


@dataclass(frozen=True)
class LeakReport:
    """Memory that was still allocated when a context was closed."""

    tensors: tuple[str, ...]
    """Descriptions of the tensors that were still alive; they have been freed."""
    regions: tuple[str, ...]
    """Descriptions of regions that are still allocated."""
    release_errors: tuple[str, ...]
    """Errors of releases that failed."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing was left and no release failed."""
        return not (self.tensors or self.regions or self.release_errors)


class Context:
    """A simulated machine with its memory, on which tensors are placed and kernels launched."""

    __slots__ = ("__weakref__", "_native")

    _native: native.Context

    def __init__(
        self,
        topology: Any = None,
        *,
        data: bool = True,
        addressing: Literal["virtual", "physical"] = "virtual",
        virtual_base: int | None = None,
    ) -> None:
        if addressing not in ("virtual", "physical"):
            raise InputError(f"addressing={addressing!r}: expected 'virtual' or 'physical'")
        machine = _topology(topology)
        self._native = native.Context(machine, data, addressing == "physical", virtual_base)

    def __enter__(self) -> Context:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def now(self) -> float:
        """Simulated time in nanoseconds."""
        return self._native.now_ps() / 1000

    @property
    def now_ps(self) -> int:
        """Simulated time in picoseconds."""
        return self._native.now_ps()

    def close(self) -> LeakReport:
        """Frees all memory of the context's tensors, and reports what was still alive."""
        return LeakReport(*map(tuple, self._native.close()))

    def synchronize(self) -> None:
        """Runs the machine until all launches are done."""
        self._native.synchronize()

    def from_numpy(self, array: np.ndarray[Any, Any]) -> Tensor:
        """Makes a tensor of a copy of an array."""
        import numpy as np

        array = np.ascontiguousarray(array).reshape(np.shape(array))
        name = _dtype.name_of(array.dtype, "dtype of array")
        flat = array.reshape(-1).view(np.uint8)
        return Tensor(self, self._native.of_buffer(list(array.shape), name, flat))

    def empty(self, shape: int | Sequence[int], dtype: Any = "f32") -> Tensor:
        """Makes a tensor without values."""
        return Tensor(self, self._native.empty(_shape(shape), _dtype.name_of(dtype)))

    def zeros(self, shape: int | Sequence[int], dtype: Any = "f32") -> Tensor:
        """Makes a tensor of zeros."""
        return self.full(shape, 0, dtype)

    def ones(self, shape: int | Sequence[int], dtype: Any = "f32") -> Tensor:
        """Makes a tensor of ones."""
        return self.full(shape, 1, dtype)

    def full(self, shape: int | Sequence[int], value: float, dtype: Any = "f32") -> Tensor:
        """Makes a tensor of one value."""
        return Tensor(self, self._native.full(_shape(shape), _dtype.name_of(dtype), value))

    def rand(self, shape: int | Sequence[int], dtype: Any = "f32", *, seed: int = 0) -> Tensor:
        """Makes a tensor of uniform random values from 0 to 1."""
        return Tensor(self, self._native.rand(_shape(shape), _dtype.name_of(dtype), seed))

    def launch(self, *arguments: Any, sip: int = 0, cubes: Any = None, pes: Any = None) -> Any:
        """Launches a kernel with its arguments and waits for it: `launch(kernel, *args)` or `launch("name", fn, *args)`."""
        kernel = importlib.import_module("cubeyard.kernel")
        return kernel.launch(self, *arguments, sip=sip, cubes=cubes, pes=pes)


def _shape(shape: int | Sequence[int]) -> list[int]:
    dimensions = [shape] if isinstance(shape, int) else list(shape)
    for size in dimensions:
        if not isinstance(size, int) or not 0 <= size < 2**64:
            raise InputError(f"shape={shape!r}: expected dimensions from 0 to 2^64 - 1")
    return dimensions


def _topology(topology: Any) -> native.Topology:
    if topology is None:
        return native.Topology.read("default", "")
    name = os.fspath(topology)
    with open(name, encoding="utf-8") as file:
        return native.Topology.read(name, file.read())
