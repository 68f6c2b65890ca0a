"""The Flex allocator, its regions and its snapshots."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from cubeyard import _native
from cubeyard.errors import InputError
from cubeyard.memory._device import Card, Device, HostMemory, MemoryInfo, Streams
from cubeyard.memory._statistics import Statistics


@dataclass(frozen=True)
class Snapshot:
    """State of an allocator at one moment, in the format of PyTorch's memory viewer.

    `cubeyard.replay` replays it. `python -m torch.cuda._memory_viz` and https://pytorch.org/memory_viz display it.
    """

    pickled: bytes = field(repr=False)
    """Pickle of plain data."""

    def to_dict(self) -> dict[str, Any]:
        """Returns the snapshot in the structure of `torch.cuda.memory._snapshot()`."""
        return cast("dict[str, Any]", pickle.loads(self.pickled))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the snapshot to a file, as `torch.cuda.memory._dump_snapshot()` does."""
        Path(path).write_bytes(self.pickled)


@dataclass(frozen=True)
class Region:
    """Sizes of one region, in bytes."""

    id: int
    """Identifier of the region: a physical address, or an index into the firmware's table."""
    size: int
    """Size of the region: acquired memory or, if it is growable, committed memory."""
    free: int
    """Free bytes in that memory."""
    largest_free: int
    """Length of the longest free range."""
    blocks: int
    """Number of live blocks."""


@dataclass(frozen=True)
class PoolFigures:
    """Figures of one pool, in bytes."""

    id: int
    """Number of the pool; 0 for the allocator's own."""
    name: str
    """Name of the pool; "default" for the allocator's own."""
    limit: int | None
    """Maximum number of bytes of its regions; `None` without a limit."""
    is_closed: bool
    """Whether the last reference to the pool is gone while blocks were live."""
    blocks: int
    """Number of live allocations."""
    regions: int
    """Number of regions."""
    allocated: int
    """Bytes of live allocations, in whole blocks."""
    reserved: int
    """Bytes of the regions or, if they are growable, of their committed memory."""
    active: int
    """Bytes of live allocations, and of freed blocks that a stream may still access."""
    requested: int
    """Bytes of active blocks as requested."""
    paused: int
    """Bytes of paused blocks, which count as nothing else."""


@dataclass(frozen=True)
class Segment:
    """Entry of the segment table, through which programs find a region."""

    region_id: int
    """Identifier of the region."""
    base: int
    """Start of the region in the flat address space of programs and snapshots."""
    size: int
    """Length in bytes."""


class FlexAllocator(_native.FlexAllocator):
    """Allocator of blocks in the regions of a device.

    Args:
        device: A `Card`, a `HostMemory`, or a `Device` of your own; a card with 16 GiB by default.
        config: Configuration, as one line of text, `"key:value,key:value"`, or as a mapping of keys to values.
        streams: Events on the device's streams. Without them, every free is immediate.
        clock: Clock for the history, in microseconds; the time of day by default.
        **settings: Further configuration keys. Sizes are numbers of bytes or strings such as "4GiB". The key `preset`
            names a configuration that the other keys change: "rfc", "grow" or "card".

    >>> from cubeyard.memory import Card, FlexAllocator
    >>> allocator = FlexAllocator(Card(8 << 30), fallback_sizes=["4GiB", "1GiB"], max_regions=2)
    >>> blocks = [allocator.allocate(3 << 30) for _ in range(2)]
    >>> [region.free >> 30 for region in allocator.regions()]
    [1, 1]

    One byte with memory that grows takes 2 MiB of the card, and not a region of 12 GiB:

    >>> allocator = FlexAllocator(Card(60 << 30), preset="grow")
    >>> byte = allocator.allocate(1)
    >>> allocator.info().total - allocator.info().free
    2097152
    """

    def __new__(
        cls,
        device: Card | HostMemory | Device | None = None,
        config: str | Mapping[str, Any] = "",
        *,
        streams: Streams | None = None,
        clock: Callable[[], int] | None = None,
        **settings: Any,
    ) -> FlexAllocator:
        text = config if isinstance(config, str) else ""
        given = {} if isinstance(config, str) else _mapping(config)
        pairs = [(key, _text(key, value)) for key, value in {**given, **settings}.items()]
        return super().__new__(cls, _source(device), text, pairs, _streams(streams), _clock(clock))

    @property
    def config(self) -> dict[str, Any]:
        """Configuration by key, including defaults."""
        return self._settings()

    def statistics(self) -> Statistics:
        """Returns the current statistics."""
        return Statistics.from_dict(self._entries())

    def snapshot(self, device: int = 0) -> Snapshot:
        """Takes a snapshot of all regions, all blocks, and the latest events, up to the number in the key `history`.

        Args:
            device: Number of the device in the snapshot, 0 to 65535.

        >>> from cubeyard.memory import FlexAllocator
        >>> allocator = FlexAllocator(history=100)
        >>> block = allocator.allocate(1 << 20)
        >>> [event["action"] for event in allocator.snapshot().to_dict()["device_traces"][0]]
        ['segment_alloc', 'alloc']
        """
        return Snapshot(self._pickled(device))

    def regions(self) -> list[Region]:
        """Returns the sizes of the regions, oldest first."""
        return [Region(**figures) for figures in self._region_figures()]

    def pools(self) -> list[PoolFigures]:
        """Returns the figures of all pools at one moment, the allocator's own first. Their sums are its statistics."""
        return [PoolFigures(**figures) for figures in self._pool_figures()]

    def segment_table(self) -> tuple[Segment | None, ...]:
        """Returns the segment table, with `None` for each empty entry."""
        return tuple(None if entry is None else Segment(*entry) for entry in self._segments())

    def info(self) -> MemoryInfo:
        """Returns the free and total memory of the device."""
        return MemoryInfo(*self._memory_info())

    def __repr__(self) -> str:
        reserved, allocated = (self.statistic(f"{name}_bytes.all.current") for name in ("reserved", "allocated"))
        return f"<FlexAllocator, {allocated} of {reserved} bytes allocated>"


def _source(device: Any) -> Any:
    if device is None:
        device = Card(16 << 30)
    if isinstance(device, Card | HostMemory):
        return device._native
    if isinstance(device, Device):
        return device
    raise InputError(f"device is {device!r}: expected a Card, a HostMemory or a Device")


def _streams(streams: Any) -> Any:
    if streams is None or isinstance(streams, Streams):
        return streams
    raise InputError(f"streams is {streams!r}: expected Streams, or None")


def _clock(clock: Any) -> Any:
    if clock is None or callable(clock):
        return clock
    raise InputError(f"clock is {clock!r}: expected a function, or None")


def _mapping(config: Any) -> Mapping[str, Any]:
    if isinstance(config, Mapping):
        return config
    raise InputError(f"config is {config!r}: expected a string such as 'block:best-fit', or a mapping of keys to values")


def _text(key: str, value: Any) -> str:
    """Returns a value in the notation of the configuration text."""
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence):
        return f"[{';'.join(_text(key, item) for item in value)}]"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise InputError(f"{key} is {value!r}: expected a number, a string, or a list of them")
