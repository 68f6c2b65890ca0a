"""The context of a bench."""

from __future__ import annotations

from typing import Any, NoReturn

from cubeyard import _native
from cubeyard.errors import InputError
from cubeyard.tensors.context import Context

__all__ = ["BenchContext"]


class BenchContext(Context):
    """The context of a bench: a machine of its own, which is closed when the bench ends."""

    __slots__ = ("data", "sips")

    data: bool
    """Whether values are computed, which `--data` asks for."""
    sips: tuple[int, ...]
    """SIPs that `--device` gives to the bench; launches go to the first by default."""

    def __init__(self, native: _native.Context, data: bool, sips: tuple[int, ...]) -> None:
        self._native = native
        self.data, self.sips = data, sips

    def close(self) -> NoReturn:
        """Raises an error: the run closes the context.

        Raises:
            InputError: Always.
        """
        raise InputError("the context of a bench is closed when the bench ends, and not before")

    def launch(self, *arguments: Any, sip: int | None = None, cubes: Any = None, pes: Any = None) -> Any:
        """Launches a kernel as `Context.launch` does; on the first of `sips` by default."""
        return super().launch(*arguments, sip=self.sips[0] if sip is None else sip, cubes=cubes, pes=pes)
