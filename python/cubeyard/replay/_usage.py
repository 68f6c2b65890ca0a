"""Use of memory at one moment of a recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Holder:
    """Live allocations of one frame, call stack or size."""

    name: str
    """Frame of your own code (`train.py:88 step`), innermost frame of the call stack, or size."""
    stack: tuple[str, ...]
    """Frames of its call stack with most bytes, outermost first; empty if none was recorded."""
    bytes: int
    """Bytes that it holds; beside gaps, the bytes of the gaps."""
    requested_bytes: int
    """Bytes that it holds, as requested."""
    blocks: int
    """Number of its allocations."""
    largest_bytes: int
    """Largest size of them, as requested."""
    oldest_age_events: int
    """Number of events since its oldest allocation."""
    oldest_age_us: int
    """Microseconds since its oldest allocation."""
    youngest_age_events: int
    youngest_age_us: int


@dataclass(frozen=True)
class CacheUse:
    """Memory that PyTorch's allocator holds at one moment, according to its model."""

    policy: str
    """Policy of the model: the recorded one, else PyTorch's default."""
    reserved_bytes: int
    """Bytes held of the device's memory."""
    allocated_bytes: int
    """Bytes of blocks in use."""
    cached_bytes: int
    """Unused bytes that can be given back to the device."""
    gap_bytes: int
    """Unused bytes beside blocks in use, which cannot be given back."""
    longest_gap_bytes: int
    retries: int
    """Number of times that the cache was given back before, because the device was full."""
    beside_gaps: tuple[Holder, ...]
    """Holders of the blocks beside gaps, that of most bytes first."""


@dataclass(frozen=True)
class MemoryUse:
    """Use of memory at one moment of a recording.

    >>> from cubeyard import replay
    >>> peak = replay.compare(replay.example(), policies="pytorch").results[0].peak
    >>> peak.live_bytes == sum(holder.bytes for holder in replay.compare(
    ...     replay.example(), policies="pytorch", holders=1000).results[0].peak.holders)
    True
    """

    events: int
    """Number of events before the moment."""
    time_us: int
    """Time of the last of them, since the start of the recording."""
    live_bytes: int
    """Live bytes: requested sizes, each rounded up to 128."""
    requested_bytes: int
    """Live bytes as requested."""
    blocks: int
    """Number of live allocations."""
    stream_bytes: Mapping[str, int]
    """Live bytes of each stream."""
    failed_bytes: int | None
    """Size of the request that failed at this moment; `None` if none did."""
    cache: CacheUse
    """Memory that PyTorch's allocator holds."""
    by: str
    """Property by which the holders are added up."""
    holders: tuple[Holder, ...]
    """Holders of most bytes, in that order."""
