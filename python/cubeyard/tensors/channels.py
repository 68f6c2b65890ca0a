"""Channels between PEs. Kernels send tiles through them."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from cubeyard import _native
from cubeyard.errors import ClosedError, InputError

if TYPE_CHECKING:
    from cubeyard.tensors.context import Context

__all__ = ["Channels", "connect", "ring"]

End = tuple[str, int | str]
"""PE, such as `sip0.cube3.pe1`, and one of its ports: a number, or `N`, `E`, `S`, `W`, `global_N` … `global_W`."""

_DIRECTIONS = ("N", "E", "S", "W", "global_N", "global_E", "global_S", "global_W")


class Channels:
    """Installed channels. Launches after `select` use their ends as ports; `close` removes the channels."""

    __slots__ = ("_channels",)

    _channels: _native.Channels | None

    def __init__(self, native: _native.Channels) -> None:
        self._channels = native

    @property
    def latency_ps(self) -> int:
        """Simulated duration of the installation, in picoseconds."""
        return self._open().latency_ps

    @property
    def nbytes(self) -> int:
        """Total size of the ring buffers, in bytes."""
        return self._open().nbytes

    def select(self) -> None:
        """Makes later launches in the context use these channels."""
        self._open().select()

    def close(self) -> None:
        """Removes the channels from their PEs. Later launches have no channels."""
        if self._channels is not None:
            self._channels.deselect()
        self._channels = None

    def __enter__(self) -> Channels:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> _native.Channels:
        if self._channels is None:
            raise ClosedError("the channels are closed")
        return self._channels


def connect(
    context: Context,
    channels: Iterable[tuple[End, End]],
    *,
    memory: Literal["tcm", "sram", "hbm"] = "tcm",
    slots: int = 4,
    slot_bytes: int = 4096,
) -> Channels:
    """Connects pairs of PEs and selects the channels for later launches.

    Args:
        context: the machine's context.
        channels: both ends of each channel. Messages travel in both directions.
        memory: memory of the receiver that buffers messages.
        slots: capacity of each end's ring buffer, in messages.
        slot_bytes: maximum size of a message, in bytes.

    >>> import cubeyard, numpy as np
    >>> def swap(x, tl):
    ...     tl.send("E", tl.load(x))
    ...     tl.store(x, tl.recv_async("E", x.shape, x.dtype))
    >>> context = cubeyard.Context()
    >>> two = cubeyard.Placement(pe="row_wise", cubes=1, pes=2)
    >>> x = context.from_numpy(np.array([[1, 1], [2, 2]], dtype=np.float32)).to(two)
    >>> with connect(context, [(("sip0.cube0.pe0", "E"), ("sip0.cube0.pe1", "E"))]):
    ...     report = context.launch(swap, x, cubes=[0], pes=[0, 1])
    >>> x.numpy().tolist()
    [[2.0, 2.0], [1.0, 1.0]]
    """
    pes: dict[str, int] = {}

    def end(of: End) -> tuple[int, int]:
        return pes.setdefault(of[0], len(pes)), port_number(of[1])

    wires = [(end(one), end(other)) for one, other in channels]
    for name, number in (("slots", slots), ("slot_bytes", slot_bytes)):
        if not isinstance(number, int) or not 0 <= number < 2**32:
            raise InputError(f"{name}={number!r}: expected a number from 1 to 2^32 - 1")
    native = _native.connect(context._native, list(pes), wires, (memory, slots, slot_bytes))
    native.select()
    return Channels(native)


def ring(context: Context, pes: Iterable[str], *, slot_bytes: int = 4096) -> Channels:
    """Connects PEs in a ring: port `E` of each PE leads to port `W` of the next, and the last PE to the first."""
    names = list(pes)
    pairs = zip(names, [*names[1:], *names[:1]], strict=True)
    return connect(context, [((one, "E"), (other, "W")) for one, other in pairs], slot_bytes=slot_bytes)


def port_number(port: int | str) -> int:
    """Returns the number of a port, given as a number or as a direction."""
    if isinstance(port, str) and port in _DIRECTIONS:
        return _DIRECTIONS.index(port)
    if isinstance(port, int) and 0 <= port < 2**16:
        return port
    raise InputError(f"port={port!r}: expected a number from 0 to 65535, or one of {', '.join(_DIRECTIONS)}")
