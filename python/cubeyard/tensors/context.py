"""Contexts: a simulated machine with its memory.

>>> import cubeyard, numpy as np
>>> with cubeyard.Context() as context:
...     rows = cubeyard.Placement(cube="row_wise", pe="row_wise")
...     x = context.from_numpy(np.arange(16384, dtype=np.float32).reshape(256, 64)).to(rows)
...     x.numpy()[1, :3].tolist(), len(x.shards), context.memory_stats().used
([64.0, 65.0, 66.0], 128, 65536)

Any thread may use a context, one at a time; other threads wait. Using the context inside one of its own kernels raises
`BusyError`. A forked process has an independent copy of the context. The copy raises `BusyError` if another thread was
using the context at the time of the fork.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from cubeyard import _native as native
from cubeyard._base import checks, dtypes
from cubeyard.errors import InputError
from cubeyard.kernels.kernel import LaunchReport, launch
from cubeyard.machine.topology import native_of
from cubeyard.tensors.channels import Channels, End, connect
from cubeyard.tensors.reports import Finding, LeakReport, MemoryStats, MmuCounts, PeUsage
from cubeyard.tensors.tensor import Tensor

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Context", "current"]


class Context:
    """Simulated machine with its memory, for placing tensors and launching kernels.

    Leaving a `with` block closes the context, which frees the memory of all its tensors.
    """

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
        """Makes a context with a new machine.

        Args:
            topology: None for the default machine, a path, a dictionary, or a `Topology`.
            data: whether memory stores values. If False, only times are simulated.
            addressing: kind of tensor addresses. The virtual addresses of a tensor are contiguous.
            virtual_base: first virtual address of tensors, a multiple of the MMU's page size; 2**51 by default.
        """
        if addressing not in ("virtual", "physical"):
            raise InputError(f"addressing={addressing!r}: expected 'virtual' or 'physical'")
        if not isinstance(data, bool):
            raise InputError(f"data={data!r}: expected True or False")
        if virtual_base is not None:
            virtual_base = checks.count("virtual_base", virtual_base)
        machine = native_of(topology)
        self._native = native.Context(machine, data, addressing == "physical", virtual_base)

    def __enter__(self) -> Context:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        stats = self.memory_stats()
        return f"<Context at {self.now} ns, {stats.tensors} tensors, {stats.used} bytes>"

    @property
    def now(self) -> float:
        """Simulated time in nanoseconds."""
        return self._native.now_ps() / 1000

    @property
    def now_ps(self) -> int:
        """Simulated time in picoseconds."""
        return self._native.now_ps()

    @property
    def is_pristine(self) -> bool:
        """Whether nothing is allocated, mapped or connected."""
        return self._native.is_pristine()

    def close(self) -> LeakReport:
        """Waits for launches, frees the memory of all tensors, and reports the tensors that were still alive.

        >>> import cubeyard
        >>> context = Context()
        >>> tensor = context.zeros((2, 3)).to(cubeyard.Placement.one())
        >>> context.close().tensors
        ('a tensor of 2x3 f32 on 1 PEs, 24 bytes',)
        """
        return LeakReport(*map(tuple, self._native.close()))

    def synchronize(self) -> None:
        """Runs the machine until all launches are done."""
        self._native.synchronize()

    def memory_stats(self) -> MemoryStats:
        """Returns the memory usage.

        >>> import cubeyard
        >>> with Context() as context:
        ...     tensor = context.zeros(1024).to(cubeyard.Placement())
        ...     context.memory_stats().used == 128 * tensor.nbytes
        True
        """
        tensors, used, virtual_used, pes, mmu = self._native.memory_stats()
        return MemoryStats(tensors, used, virtual_used, tuple(PeUsage(*pe) for pe in pes), MmuCounts(*mmu))

    def findings(self) -> tuple[Finding, ...]:
        """Returns defects found in completed kernels, such as races and reads of uninitialised memory."""
        return tuple(Finding(*finding) for finding in self._native.findings())

    def from_numpy(self, array: np.ndarray[Any, Any], dtype: Any = None) -> Tensor:
        """Makes a tensor from an array. The elements are copied once, or twice if the array is strided.

        Args:
            array: an array of little-endian numbers or booleans.
            dtype: `bf16`, `fp8_e4m3` or `fp8_e5m2`, if the array holds the bits of such elements as `uint16` or `uint8`.

        >>> import numpy as np
        >>> context = Context()
        >>> context.from_numpy(np.eye(2, dtype=np.float16))
        Tensor(shape=(2, 2), dtype='f16', on the host)
        """
        array = checks.elements(array)
        name = dtypes.name_of(array.dtype)
        if dtype is not None:
            name = dtypes.of_bits(array.dtype, dtype)
        return Tensor(self, self._native.of_buffer(list(array.shape), name, checks.flat(array)))

    def from_dlpack(self, source: Any) -> Tensor:
        """Makes a tensor from an object with `__dlpack__`, such as a PyTorch tensor on the CPU.

        The elements are copied once.

        >>> import numpy as np
        >>> Context().from_dlpack(np.arange(3.0)).numpy().tolist()
        [0.0, 1.0, 2.0]
        """
        import numpy as np

        try:
            array = np.from_dlpack(source)
        except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
            what = f"found {type(source).__name__}: {error}"
            raise InputError(f"source: expected an object with __dlpack__ in host memory, {what}") from error
        return self.from_numpy(array)

    def tensor(self, values: Any, dtype: Any = None) -> Tensor:
        """Makes a tensor from a number, nested lists or an array.

        Args:
            values: the elements.
            dtype: element type; by default, the type of an array, `f32` for floats, `i64` for integers, or `bool`.

        >>> Context().tensor([[1, 2], [3, 4.5]])
        Tensor(shape=(2, 2), dtype='f32', on the host)
        """
        import numpy as np

        if isinstance(values, np.ndarray):
            made = self.from_numpy(values)
        else:
            made = self.from_numpy(_listed(values, dtype))
        return made if dtype is None or made.dtype == dtypes.name_of(dtype) else made.to(dtype)

    def empty(self, shape: int | Sequence[int], dtype: Any = "f32") -> Tensor:
        """Makes a tensor without values. Deploying it writes nothing."""
        return Tensor(self, self._native.empty(checks.shape(shape), dtypes.name_of(dtype)))

    def zeros(self, shape: int | Sequence[int], dtype: Any = "f32") -> Tensor:
        """Makes a tensor of zeros."""
        return self.full(shape, 0, dtype)

    def ones(self, shape: int | Sequence[int], dtype: Any = "f32") -> Tensor:
        """Makes a tensor of ones."""
        return self.full(shape, 1, dtype)

    def full(self, shape: int | Sequence[int], value: float, dtype: Any = "f32") -> Tensor:
        """Makes a tensor filled with one value, rounded to the nearest float or truncated to an integer.

        >>> Context().full(3, 2.5, "i8").numpy().tolist()
        [2, 2, 2]
        """
        return Tensor(
            self, self._native.full(checks.shape(shape), dtypes.name_of(dtype), checks.number("value", value))
        )

    def rand(self, shape: int | Sequence[int], dtype: Any = "f32", *, seed: int = 0) -> Tensor:
        """Makes a tensor of uniform random values from 0 to 1. Equal seeds give equal values."""
        seed = checks.count("seed", seed)
        return Tensor(self, self._native.rand(checks.shape(shape), dtypes.name_of(dtype), seed))

    def arange(self, start: float, stop: float | None = None, step: float = 1, dtype: Any = None) -> Tensor:
        """Makes a vector of the values from `start`, in increments of `step`, below `stop`. `arange(n)` starts at 0.

        >>> Context().arange(1, 8, 3).numpy().tolist()
        [1, 4, 7]
        """
        first, end = (0, start) if stop is None else (start, stop)
        if dtype is None:
            dtype = "i64" if all(isinstance(value, int) for value in (first, end, step)) else "f32"
        first, end, step = (checks.number(*given) for given in (("start", first), ("stop", end), ("step", step)))
        count = checks.steps(first, end, step)
        return Tensor(self, self._native.arange(first, step, count, dtypes.name_of(dtype)))

    def connect(
        self,
        channels: Iterable[tuple[End, End]],
        *,
        memory: Literal["tcm", "sram", "hbm"] = "tcm",
        slots: int = 4,
        slot_bytes: int = 4096,
    ) -> Channels:
        """Connects pairs of PEs and selects the channels for later launches; see `cubeyard.channels.connect`."""
        return connect(self, channels, memory=memory, slots=slots, slot_bytes=slot_bytes)

    def launch(
        self,
        kernel: Any,
        *arguments: Any,
        sip: int = 0,
        cubes: int | Iterable[int] | None = None,
        pes: int | Iterable[int] | None = None,
    ) -> LaunchReport:
        """Launches a kernel and waits for its completion. `launch("name", function, …)` launches a plain function.

        Args:
            kernel: a kernel made by `cubeyard.jit`, or a name followed by a function.
            arguments: deployed tensors and numbers.
            sip: number of the SIP that runs the kernel.
            cubes: numbers of the participating cubes in the SIP; all by default.
            pes: numbers of the participating PEs in each cube; all by default.
        """
        given = [argument._native if isinstance(argument, Tensor) else argument for argument in arguments]
        return launch(self._native, kernel, *given, sip=sip, cubes=cubes, pes=pes)


current: ContextVar[Context | None] = ContextVar("current", default=None)
"""Context of the running bench, if any."""


def _listed(values: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """Converts nested lists to an array: floats to `f32` if `dtype` is None, integers to `i64`."""
    import numpy as np

    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"values: expected numbers in nested lists of equal length: {error}") from error
    if array.dtype.kind not in "fiub":
        raise InputError(f"values: expected numbers in nested lists, found {array.dtype.name}")
    return array.astype(np.float32) if array.dtype.kind == "f" and dtype is None else array
