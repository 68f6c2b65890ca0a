"""Memory use at one moment of a recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Holder:
    """Group of live allocations with the same frame, call stack or size."""

    name: str
    """Frame of your own code (`train.py:88 step`), innermost frame of the call stack, or size."""
    stack: tuple[str, ...]
    """Call stack with the most bytes in the group, outermost frame first; empty if no stack was recorded."""
    bytes: int
    """Bytes held by the group. In `beside_gaps`, the bytes of the adjacent gaps."""
    requested_bytes: int
    """Bytes held by the group, as requested."""
    blocks: int
    """Number of allocations in the group."""
    largest_bytes: int
    """Size of the largest allocation, as requested."""
    oldest_age_events: int
    """Number of events since the oldest allocation."""
    oldest_age_us: int
    """Microseconds since the oldest allocation."""
    youngest_age_events: int
    youngest_age_us: int


@dataclass(frozen=True)
class CacheUse:
    """Memory held by PyTorch's allocator at one moment, according to a model of it."""

    policy: str
    """Modelled policy: the recorded policy if known, else PyTorch's default."""
    reserved_bytes: int
    """Device memory held, in bytes."""
    allocated_bytes: int
    """Bytes in blocks in use."""
    cached_bytes: int
    """Unused bytes that can be returned to the device."""
    gap_bytes: int
    """Unused bytes next to blocks in use, which cannot be returned."""
    longest_gap_bytes: int
    retries: int
    """Number of times that the cache was released earlier because the device was full."""
    beside_gaps: tuple[Holder, ...]
    """Holders of the blocks next to gaps, most gap bytes first."""


@dataclass(frozen=True)
class MemoryUse:
    """Memory use at one moment of a recording.

    >>> from cubeyard import replay
    >>> peak = replay.compare(replay.example(), policies="pytorch").results[0].peak
    >>> peak.live_bytes == sum(holder.bytes for holder in replay.compare(
    ...     replay.example(), policies="pytorch", holders=1000).results[0].peak.holders)
    True
    """

    events: int
    """Number of events before the moment."""
    time_us: int
    """Time of the last of these events, in microseconds since the start of the recording."""
    live_bytes: int
    """Live bytes, with each requested size rounded up to 128."""
    requested_bytes: int
    """Live bytes as requested."""
    blocks: int
    """Number of live allocations."""
    stream_bytes: Mapping[str, int]
    """Live bytes of each stream."""
    failed_bytes: int | None
    """Size of the request that failed at this moment, or `None`."""
    cache: CacheUse
    """Memory held by PyTorch's allocator."""
    by: str
    """Property that groups the allocations."""
    holders: tuple[Holder, ...]
    """Largest holders, most bytes first."""
