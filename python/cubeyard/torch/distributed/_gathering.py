"""One timeline of all ranks, from the timelines of their processes."""

from __future__ import annotations

import dataclasses
import itertools
import pickle
from collections.abc import Iterable, Sequence

import torch.distributed as dist

from cubeyard.errors import DistributedError, InputError
from cubeyard.torch._timeline import Timeline
from cubeyard.torch.distributed import _ranks
from cubeyard.torch.distributed._link import LocalLink

__all__ = ["gathered", "merged"]

Steps = list[tuple[int, int]]
"""Times in picoseconds, and the bytes from each time on."""


def gathered(timeline: Timeline) -> Timeline:
    """Returns one timeline of all ranks; see `cubeyard.torch.distributed.gather_timeline`."""
    if not isinstance(timeline, Timeline):
        raise InputError(f"timeline={timeline!r}: expected a Timeline, as record_timeline() gives")
    rank = _ranks.current()
    if isinstance(rank.link, LocalLink) and rank.size > 1:
        return timeline
    rank.timelines += 1
    return merged([pickle.loads(part) for part in _exchanged(rank, f"timeline {rank.timelines}", pickle.dumps(timeline))])


def merged(timelines: Sequence[Timeline]) -> Timeline:
    """Returns one timeline from the timelines of ranks 0, 1, …. Tracks begin with their rank, and bytes of a device are added."""
    spans = [
        span if span.track.startswith(f"rank {rank}: ") else dataclasses.replace(span, track=f"rank {rank}: {span.track}")
        for rank, timeline in enumerate(timelines)
        for span in timeline.spans
    ]
    devices = sorted({device for timeline in timelines for device in timeline.memory})
    memory = {device: _added(t.memory[device] for t in timelines if device in t.memory) for device in devices}
    return Timeline(spans, memory)


def _exchanged(rank: _ranks.Rank, name: str, mine: bytes) -> list[bytes]:
    """Returns the bytes of all ranks. They go through PyTorch's store, which takes no simulated time."""
    group = dist.distributed_c10d.GroupMember.WORLD
    assert group is not None, "a rank has a default group"
    group.store.set(f"{name} of {rank.number}", mine)
    return [_one(group.store, f"{name} of {other}", other) for other in group.members]


def _one(store: dist.Store, key: str, rank: int) -> bytes:
    try:
        return bytes(store.get(key))
    except RuntimeError as error:  # Stores have errors of several classes.
        raise DistributedError(f"rank {rank} has given no timeline: expected gather_timeline() on all ranks: {error}") from error


def _added(parts: Iterable[Steps]) -> Steps:
    """Returns the sum of several counts of bytes over time.

    >>> _added([[(0, 5), (10, 0)], [(0, 0), (4, 2)]])
    [(0, 5), (4, 7), (10, 2)]
    """
    changes: list[tuple[int, int]] = []
    for steps in parts:
        before = 0
        for time, size in steps:
            changes.append((time, size - before))
            before = size
    total, sums = 0, []
    for time, group in itertools.groupby(sorted(changes), key=lambda change: change[0]):
        total += sum(change for _, change in group)
        sums.append((time, total))
    return sums
