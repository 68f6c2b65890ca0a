"""Context of a running bench."""

from __future__ import annotations

from typing import Any, NoReturn

from cubeyard import _native
from cubeyard._base import checks, dtypes
from cubeyard.errors import InputError
from cubeyard.tensors.context import Context

__all__ = ["BenchContext", "DeclaredWork"]

DeclaredWork = tuple[tuple[str, int] | None, int, int, int | None]
"""Element type and operations of matrix products, elements, bytes, and number of memories."""


class BenchContext(Context):
    """Context of a running bench, with a machine of its own. It is closed when the bench ends."""

    __slots__ = ("_work", "data", "sips")

    data: bool
    """Whether values are computed, as requested with `--data`."""
    sips: tuple[int, ...]
    """SIPs assigned by `--device`. By default, launches use the first one."""

    def __init__(self, native: _native.Context, data: bool, sips: tuple[int, ...]) -> None:
        self._native = native
        self.data, self.sips = data, sips
        self._work: DeclaredWork | None = None

    def work(
        self,
        *,
        flop: int = 0,
        dtype: Any = "f16",
        elements: int = 0,
        bytes: int = 0,
        memories: int | None = None,
    ) -> None:
        """Declares the work that any implementation of the bench must do. The bounds of the run are computed from it.

        Without a declaration, they are computed from the work of the kernels as written.

        Args:
            flop: Floating-point operations of matrix products.
            dtype: Element type of the matrix products, which determines the rate of the engine.
            elements: Elements that the vector unit must process.
            bytes: Bytes that must leave or enter memory: each input once and each output once, over all PEs.
            memories: Number of PE memories over which these bytes are spread evenly; by default, all PEs of the launch.

        Raises:
            InputError: An argument is invalid, all are zero, or the work was declared before.
        """
        if self._work is not None:
            raise InputError("work: expected one declaration in a run, found a second one; add their numbers")
        numbers = {"flop": flop, "elements": elements, "bytes": bytes}
        counts = {name: checks.count(name, number) for name, number in numbers.items()}
        if not any(counts.values()):
            raise InputError("work: expected flop, elements or bytes, found none")
        places = None if memories is None else checks.count("memories", memories, least=1)
        gemm = (dtypes.name_of(dtype), counts["flop"]) if flop else None
        self._work = (gemm, counts["elements"], counts["bytes"], places)

    def close(self) -> NoReturn:
        """Always fails, because the run closes the context.

        Raises:
            InputError: Always.
        """
        raise InputError("a bench cannot close its context: the run closes it when the bench ends")

    def launch(self, *arguments: Any, sip: int | None = None, cubes: Any = None, pes: Any = None) -> Any:
        """Launches a kernel as `Context.launch` does, by default on the first of `sips`."""
        return super().launch(*arguments, sip=self.sips[0] if sip is None else sip, cubes=cubes, pes=pes)
