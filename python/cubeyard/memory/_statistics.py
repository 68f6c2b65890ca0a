"""Statistics of an allocator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class Stat:
    """Four values of one statistic."""

    current: int
    """Value at this moment."""
    peak: int
    """Highest value since the last reset."""
    allocated: int
    """Sum of all increases since the last reset."""
    freed: int
    """Sum of all decreases since the last reset."""


@dataclass(frozen=True)
class PoolStatistics:
    """One statistic for all allocations, for small ones (below 1 MiB) and for large ones."""

    all: Stat
    small_pool: Stat
    large_pool: Stat


@dataclass(frozen=True)
class Statistics:
    """Statistics of an allocator at one moment, with the entries of `torch.accelerator.memory_stats`.

    >>> from cubeyard.memory import FlexAllocator
    >>> allocator = FlexAllocator()
    >>> block = allocator.allocate(1000)
    >>> allocator.statistics().allocated_bytes.small_pool
    Stat(current=1024, peak=1024, allocated=1024, freed=0)
    >>> allocator.statistics().to_dict()["requested_bytes.all.current"]
    1000
    """

    allocation: PoolStatistics
    """Allocations that their owners have not freed."""
    segment: PoolStatistics
    """Regions acquired from the device."""
    active: PoolStatistics
    """Blocks in use: allocations, and freed blocks that a stream may still touch."""
    inactive_split: PoolStatistics
    """Free ranges in partly used regions."""
    allocated_bytes: PoolStatistics
    """Bytes in allocations, rounded up to the alignment."""
    reserved_bytes: PoolStatistics
    """Bytes in regions, or in the memory committed to them."""
    active_bytes: PoolStatistics
    """Bytes in active blocks."""
    inactive_split_bytes: PoolStatistics
    """Bytes in inactive splits."""
    requested_bytes: PoolStatistics
    """Bytes in allocations, as requested."""
    num_alloc_retries: int
    """Requests that failed at first and were retried after memory was released."""
    num_ooms: int
    """Requests that failed."""
    num_sync_all_streams: int
    """Waits for streams."""
    num_device_alloc: int
    """Calls to the device that acquired a region or committed memory."""
    num_device_free: int
    """Calls to the device that released a region or decommitted memory."""
    _entries: Mapping[str, int] = field(repr=False, compare=False)

    @classmethod
    def from_dict(cls, entries: Mapping[str, int]) -> Statistics:
        """Builds statistics from PyTorch's keys and values."""
        names = [item.name for item in fields(cls) if item.name != "_entries"]
        values: dict[str, Any] = {
            name: _pools(entries, name) if f"{name}.all.current" in entries else entries[name] for name in names
        }
        return cls(**values, _entries=entries)

    def to_dict(self) -> dict[str, int]:
        """Returns all entries of `torch.accelerator.memory_stats`, in PyTorch's order."""
        return dict(self._entries)


def _pools(entries: Mapping[str, int], name: str) -> PoolStatistics:
    return PoolStatistics(*(_stat(entries, f"{name}.{item.name}") for item in fields(PoolStatistics)))


def _stat(entries: Mapping[str, int], prefix: str) -> Stat:
    return Stat(*(entries[f"{prefix}.{item.name}"] for item in fields(Stat)))
