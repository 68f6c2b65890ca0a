"""The Flex allocator: carves device memory into blocks and accounts for every byte.

A device provides a few large regions; a `FlexAllocator` carves blocks out of them. `Card` is a simulated device that counts
memory but stores nothing. `HostMemory` is memory of this process. A subclass of `Device` is a device of your own.

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

The configuration selects policies, growth and limits. It is given by keywords or as one line of text, as in Rust and C:

>>> FlexAllocator(Card(16 << 30), block="best-fit", growth="growable(16GiB)").config["block"]
'best-fit'
>>> FlexAllocator(Card(16 << 30), "block:best-fit,fallback_sizes:[8GiB;2GiB]").config["fallback_sizes"]
[8589934592, 2147483648]

| key | values | default |
|---|---|---|
| `fallback_sizes` | sizes of a new region, in the order of the attempts | 12, 8, 4 GiB |
| `max_regions` | maximum number of regions, 1 to 1024 | 12 |
| `alignment` | granule of blocks, a power of two from 128 to 2 MiB | 128 |
| `region` | `load-balancing`, `fill-first`, `thread-home` | `load-balancing` |
| `block` | `first-fit`, `best-fit`, `quick-fit`, `lifetime` | `first-fit` |
| `acquire` | `lazy`, `first`, `eager(COUNT)` | `lazy` |
| `release` | `never`, `when_idle(SIZE)` | `never` |
| `growth` | `fixed`, `growable(SIZE)`, `recycle(SIZE)` | `fixed` |
| `own_regions` | kinds of blocks with separate regions: `tensor`, `program`, `staging` | none |
| `history` | maximum number of events in a snapshot | 0 |
| `sizes` | `listed`, `fitted` (a larger request has a region of its own; the rest is used), `all` | `listed` |
| `refusal` | after a refused region: `ask` the device again, `lock` | `ask` |
| `pools` | pools of requests that name none: `one`, `stream` (a pool for each stream) | `one` |
| `preset` | a named configuration, which the other keys change: `rfc`, `grow`, `card` | none |

A pool has regions of its own, and a tag counts bytes and limits them. Inside `with`, both apply to the allocations of this
thread; `allocate` takes them as arguments, too:

>>> weights, cache = allocator.pool("weights"), allocator.tag("cache", hard=1 << 30)
>>> with weights, cache:
...     block = allocator.allocate(1 << 20)
>>> [(pool.name, pool.allocated) for pool in allocator.pools()], cache.allocated
([('default', 1024), ('weights', 1048576)], 1048576)

When memory runs out, functions registered with `on_pressure` may free some. If that fails, the text and the `details` of
`OutOfMemory` distinguish full memory, fragmented memory, and requests that are too large in any case.
`details["remedies"]` are the remedies that make room: each was tried on a copy of the allocator.

>>> from cubeyard.errors import OutOfMemory
>>> try:
...     allocator.allocate(14 << 30)
... except OutOfMemory as error:
...     print(error.details["shortage"], error.details["requested"], error.details["longest_block"])
too_large 15032385536 12884901888

`subscribe` calls a function with every event, `subscribe_rmm_log` writes allocations and frees to a file that
`cubeyard.replay` reads, and `record_history` keeps the last events for snapshots:

>>> with allocator.subscribe(lambda event: print(event.action, event.requested, event.address)):
...     allocator.allocate(1000).free()
alloc 1000 0x400000000+0x0
free_requested 1000 0x400000000+0x0
free_completed 1000 0x400000000+0x0

Threads may share an allocator and its blocks. A thread that waits for the allocator does not hold the GIL. In a forked
child, an allocator of the parent raises `BusyError`.

Policies are selected by name. A policy of your own must be written in Rust (the traits of `cubeyard_memory::policy`). It
runs under the lock of a region. Python code cannot run there, because the garbage collector may free a block of the same
region at any line. To try out a Python policy on recorded allocations, see `cubeyard.replay.Policy`.
"""

from __future__ import annotations

from cubeyard._native import (
    Address,
    Allocation,
    AllocationToken,
    Compaction,
    Event,
    HistoryEntry,
    Launch,
    Operand,
    Pin,
    Pool,
    Program,
    Subscription,
    Tag,
    TokenBlock,
)
from cubeyard.memory._allocator import FlexAllocator, PoolFigures, Region, Segment, Snapshot
from cubeyard.memory._device import Card, Device, HostMemory, MemoryInfo, Streams, TableInfo
from cubeyard.memory._statistics import PoolStatistics, Stat, Statistics

__all__ = [
    "Address",
    "Allocation",
    "AllocationToken",
    "Card",
    "Compaction",
    "Device",
    "Event",
    "FlexAllocator",
    "HistoryEntry",
    "HostMemory",
    "Launch",
    "MemoryInfo",
    "Operand",
    "Pin",
    "Pool",
    "PoolFigures",
    "PoolStatistics",
    "Program",
    "Region",
    "Segment",
    "Snapshot",
    "Stat",
    "Statistics",
    "Streams",
    "Subscription",
    "TableInfo",
    "Tag",
    "TokenBlock",
]
