"""Memory of a part of a run: its peak, the holders of the peak, and the allocated bytes over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cubeyard._base.results import HIDDEN
from cubeyard.errors import OutOfMemory
from cubeyard.torch.profiling.memory import allocator_of, holders
from cubeyard.torch.profiling.records import Block, Holder, MemoryLog

__all__ = ["Footprint", "footprint"]


@dataclass(frozen=True)
class Footprint:
    """Memory of one device in a part of a run."""

    device: int
    """Number of the device."""
    capacity_bytes: int
    """Memory of the device."""
    peak_bytes: int
    """Maximum of the allocated bytes, in whole blocks, in the order of the program."""
    peak_ps: int
    """Time of the peak, from the begin of the part."""
    reserved_bytes: int
    """Maximum of the bytes that the allocator had acquired from the device during the whole run."""
    largest_free_bytes: int
    """Longest free range at the peak, in the acquired memory and beyond it."""
    fits: bool
    """Whether the part runs in the capacity."""
    kinds: dict[str, int]
    """Bytes at the peak by kind: `parameter`, `gradient`, `optimizer state`, `activation`, …"""
    holders: tuple[Holder, ...] = field(repr=False)
    """Holders of the peak, the largest first."""
    over_time: tuple[tuple[int, int], ...] = field(repr=False, metadata=HIDDEN)
    """Times in picoseconds from the begin of the part, and the allocated bytes from each time on."""

    @property
    def fragmented_bytes(self) -> int:
        """Free bytes at the peak that are not in the longest free range."""
        return max(0, self.capacity_bytes - self.peak_bytes - self.largest_free_bytes)


def footprint(log: MemoryLog, begin: int, end: int, time: int, capacity: int) -> Footprint:
    """Returns the memory of the changes from `begin` to `end` of a log.

    Args:
        log: The log of a device.
        begin: Number of changes before the part.
        end: Number of changes up to the end of the part.
        time: Begin of the part in picoseconds.
        capacity: Memory of the device in bytes.
    """
    total = log.first + sum(change for _, change, _ in log.changes[:begin])
    best, peak, at = begin, total, time
    for number, (when, change, _) in enumerate(log.changes[begin:end], begin + 1):
        total += change
        if total > peak:
            best, peak, at = number, total, when
    live = _live(log.changes[:best])
    first = peak - sum(block.size for block in live)
    rows = holders(live, first)
    kinds: dict[str, int] = {}
    for row in rows:
        kinds[row.kind] = kinds.get(row.kind, 0) + row.bytes
    largest = _largest(log, best, capacity)
    fits = largest is not None
    return Footprint(
        log.device, capacity, peak, max(0, at - time), log.reserved_peak, largest or 0, fits, kinds, tuple(rows), _over(log, begin, end, time)
    )


def _live(changes: Sequence[tuple[int, int, Block]]) -> list[Block]:
    """Returns the blocks that are allocated after some changes."""
    live: dict[int, Block] = {}
    for _, change, block in changes:
        if change > 0:
            live[block.number] = block
        else:
            live.pop(block.number, None)
    return list(live.values())


def _largest(log: MemoryLog, end: int, capacity: int) -> int | None:
    """Returns the longest free range after some changes, which a fresh allocator repeats; None if they do not fit."""
    allocator = allocator_of(capacity)
    taken = {}
    try:
        before = allocator.allocate(log.first) if log.first else None
        for _, change, block in log.changes[:end]:
            if change > 0:
                taken[block.number] = allocator.allocate(change)
            elif block.number in taken:
                taken.pop(block.number).free()
    except OutOfMemory:
        return None
    ranges = [region.largest_free for region in allocator.regions()]
    del before
    return max([*ranges, allocator.info().free])


def _over(log: MemoryLog, begin: int, end: int, time: int) -> tuple[tuple[int, int], ...]:
    """Returns the times of changes, and the bytes from each on. Of several changes at one time, the last remains."""
    bytes_now = log.first + sum(change for _, change, _ in log.changes[:begin])
    found = {0: bytes_now}
    for when, change, _ in sorted(log.changes[begin:end], key=lambda row: row[0]):
        bytes_now += change
        found[max(0, when - time)] = bytes_now
    return tuple(found.items())
