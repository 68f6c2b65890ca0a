"""Context of a running bench."""

from __future__ import annotations

from typing import Any, NoReturn

from cubeyard import _native
from cubeyard.errors import InputError
from cubeyard.tensors.context import Context

__all__ = ["BenchContext"]


class BenchContext(Context):
    """Context of a running bench, with a machine of its own. It is closed when the bench ends."""

    __slots__ = ("data", "sips")

    data: bool
    """Whether values are computed, as requested with `--data`."""
    sips: tuple[int, ...]
    """SIPs assigned by `--device`. By default, launches use the first one."""

    def __init__(self, native: _native.Context, data: bool, sips: tuple[int, ...]) -> None:
        self._native = native
        self.data, self.sips = data, sips

    def close(self) -> NoReturn:
        """Always fails, because the run closes the context.

        Raises:
            InputError: Always.
        """
        raise InputError("a bench cannot close its context: the run closes it when the bench ends")

    def launch(self, *arguments: Any, sip: int | None = None, cubes: Any = None, pes: Any = None) -> Any:
        """Launches a kernel as `Context.launch` does, by default on the first of `sips`."""
        return super().launch(*arguments, sip=self.sips[0] if sip is None else sip, cubes=cubes, pes=pes)
