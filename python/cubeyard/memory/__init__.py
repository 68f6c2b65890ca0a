"""The Flex allocator: carves device memory into blocks and accounts for every byte.

A device gives out a few large regions; a `FlexAllocator` carves blocks out of them. `Card` is a simulated device, which
counts memory and has none; `HostMemory` is memory of this process; a subclass of `Device` is your own.

>>> from cubeyard.memory import Card, FlexAllocator
>>> allocator = FlexAllocator(Card(16 << 30))
>>> weights = allocator.allocate(300 << 20)
>>> bias = allocator.allocate(1000)
>>> bias.size                                       # blocks are multiples of 128 bytes
1024
>>> print(weights.address)                          # a region, and an offset in it
0x400000000+0x0
>>> weights.free()                                  # or `del weights`, or `with allocator.allocate(...) as weights:`
>>> statistics = allocator.statistics()
>>> statistics.allocated_bytes.all.current, statistics.allocated_bytes.all.peak - (300 << 20)
(1024, 1024)

The configuration chooses policies, growth and limits, by keyword or as one line of text, as in Rust and C:

>>> FlexAllocator(Card(16 << 30), block="best-fit", growth="growable(16GiB)").config["block"]
'best-fit'
>>> FlexAllocator(Card(16 << 30), "block:best-fit,fallback_sizes:[8GiB;2GiB]").config["fallback_sizes"]
[8589934592, 2147483648]

| key | values | default |
|---|---|---|
| `fallback_sizes` | sizes of a new region, in the order in which they are tried | 12, 8, 4 GiB |
| `max_regions` | highest number of regions at a time, 1 to 64 | 12 |
| `alignment` | granule of blocks, a power of two from 128 to 2 MiB | 128 |
| `region` | `load-balancing`, `fill-first`, `thread-home` | `load-balancing` |
| `block` | `first-fit`, `best-fit`, `quick-fit`, `lifetime` | `first-fit` |
| `acquire` | `lazy`, `first`, `eager(COUNT)` | `lazy` |
| `release` | `never`, `when_idle(SIZE)` | `never` |
| `growth` | `fixed`, `growable(SIZE)`, `recycle(SIZE)` | `fixed` |
| `own_regions` | kinds that have regions of their own: `tensor`, `program`, `staging` | none |
| `history` | number of events in a snapshot | 0 |

When memory runs out, functions registered with `on_pressure` may free some. If that does not help, `OutOfMemory` tells
full from fragmented memory and from requests that are too large in any case, in its text and in its `details`.
`details["remedies"]` are the remedies that make room: each was tried on a copy of the allocator.

>>> from cubeyard.errors import OutOfMemory
>>> try:
...     allocator.allocate(14 << 30)
... except OutOfMemory as error:
...     print(error.details["shortage"], error.details["requested"], error.details["longest_block"])
too_large 15032385536 12884901888

Threads may share an allocator and its blocks. The GIL is not held while a thread waits for the allocator. In the child of
a fork, an allocator of the parent is refused with a `BusyError`.

Policies are chosen by name. A policy of your own is written in Rust (the traits of `cubeyard_memory::policy`): it runs
under the lock of a region, where Python cannot, since the garbage collector may free a block of the same region at any
line. To try out a policy in Python on recorded allocations, see `cubeyard.replay.Policy`.
"""

from __future__ import annotations

from cubeyard._native import Address, Allocation, Compaction, Pin
from cubeyard.memory._allocator import FlexAllocator, Region, Segment, Snapshot
from cubeyard.memory._device import Card, Device, HostMemory, MemoryInfo, Streams, TableInfo
from cubeyard.memory._statistics import PoolStatistics, Stat, Statistics

__all__ = [
    "Address",
    "Allocation",
    "Card",
    "Compaction",
    "Device",
    "FlexAllocator",
    "HostMemory",
    "MemoryInfo",
    "Pin",
    "PoolStatistics",
    "Region",
    "Segment",
    "Snapshot",
    "Stat",
    "Statistics",
    "Streams",
    "TableInfo",
]
