"""Devices: the sources of an allocator's regions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal, NamedTuple

from cubeyard._native import Address, MemoryDevice


class MemoryInfo(NamedTuple):
    """Memory of a device, in bytes."""

    free: int
    total: int


class TableInfo(NamedTuple):
    """The firmware's table of a virtual function: the number of its entries, and of free ones."""

    entries: int
    free: int


class Card:
    """A simulated accelerator card: memory that is counted, not stored.

    Args:
        memory: Memory in bytes.
        mode: "physical" for a physical function, in which the id of a region is its physical address; "virtual" for a
            virtual function, in which it is an index into the firmware's table.
        table: Number of entries of that table, 8 to 16 on today's cards.

    >>> from cubeyard.memory import Card, FlexAllocator
    >>> card = Card(16 << 30, mode="virtual", table=8)
    >>> allocator = FlexAllocator(card)
    >>> block = allocator.allocate(1 << 20)
    >>> print(block.address, hex(allocator.physical_address(block.address)))
    0x0+0x0 0x400000000
    >>> card.info(), card.table()
    (MemoryInfo(free=4294967296, total=17179869184), TableInfo(entries=8, free=7))
    """

    def __init__(self, memory: int, *, mode: Literal["physical", "virtual"] = "physical", table: int = 0) -> None:
        self._native = MemoryDevice.card(memory, mode, table)

    def info(self) -> MemoryInfo:
        """Returns the free and the total memory."""
        return MemoryInfo(*self._native.info())

    def table(self) -> TableInfo | None:
        """Returns the state of the firmware's table; `None` for a physical function."""
        table = self._native.table()
        return None if table is None else TableInfo(*table)


class HostMemory:
    """A device whose memory is this process's own, mapped when it is acquired. Unix only.

    Args:
        limit: Highest number of bytes that are mapped at a time.

    >>> from cubeyard.memory import FlexAllocator, HostMemory
    >>> host = HostMemory(64 << 20)
    >>> allocator = FlexAllocator(host, fallback_sizes=[16 << 20])
    >>> block = allocator.allocate(1000)
    >>> host.write(block.address, b"hello")
    >>> host.read(block.address, 5)
    b'hello'
    """

    def __init__(self, limit: int) -> None:
        self._native = MemoryDevice.host_memory(limit)

    def info(self) -> MemoryInfo:
        """Returns the free and the total memory."""
        return MemoryInfo(*self._native.info())

    def write(self, address: Address, data: bytes | bytearray | memoryview) -> None:
        """Copies `data` to an address; an `InputError` where that is not all memory of this device."""
        self._native.write(address, data if isinstance(data, bytes) else bytes(data))

    def read(self, address: Address, length: int) -> bytes:
        """Returns `length` bytes from an address on; an `InputError` where that is not all memory of this device."""
        return self._native.read(address, length)


class Device(ABC):
    """A device written in Python: what gives an allocator its regions.

    The allocator calls these functions on the thread that uses it, and never two of `acquire`, `reserve` and `release` at
    a time. They may free blocks and look at the allocator, and may allocate where there is room; a request that would need
    a region raises `BusyError` there. They must not wait for another thread that allocates.

    An exception becomes a `DeviceError`, raised by the call of the allocator, with the exception as its `__cause__`. The
    allocator remains usable: nothing is allocated by that call, and the device is asked again by the next one.

    >>> from cubeyard.memory import Device, FlexAllocator, MemoryInfo
    >>> class Shelf(Device):
    ...     def __init__(self, total):
    ...         self.total, self.regions, self.next = total, {}, 1 << 32
    ...     def info(self):
    ...         return MemoryInfo(self.total - sum(self.regions.values()), self.total)
    ...     def acquire(self, size):
    ...         if size > self.info().free:
    ...             return None
    ...         region, self.next = self.next, self.next + size
    ...         self.regions[region] = size
    ...         return region
    ...     def release(self, region_id, size):
    ...         del self.regions[region_id]
    >>> allocator = FlexAllocator(Shelf(1 << 30), fallback_sizes=["256MiB"])
    >>> print(allocator.allocate(1000).address)
    0x100000000+0x0
    """

    def mode(self) -> Literal["physical", "virtual"]:
        """Returns the meaning of the ids of its regions: physical addresses, or indices into the firmware's table."""
        return "physical"

    @abstractmethod
    def acquire(self, size: int) -> int | None:
        """Acquires a region of exactly `size` bytes; returns its id, or `None` where there is no room."""

    @abstractmethod
    def release(self, region_id: int, size: int) -> None:
        """Releases a region, acquired or reserved, with all memory that is committed to it."""

    @abstractmethod
    def info(self) -> MemoryInfo | tuple[int, int]:
        """Returns the free and the total memory."""

    def table(self) -> TableInfo | tuple[int, int] | None:
        """Returns the number of entries of the firmware's table and of free ones; `None` where regions take no entry."""
        return None

    def physical_address(self, region_id: int) -> int | None:
        """Returns the physical address of a region's start; `None` where it is unknown."""
        return region_id if self.mode() == "physical" else None

    def granule(self) -> int | None:
        """Returns the granule in which memory can be committed, a power of two; `None` where it cannot."""
        return None

    def reserve(self, size: int) -> int | None:
        """Reserves a region of `size` bytes of addresses without memory; returns its id, or `None`."""
        return None

    def commit(self, region_id: int, offset: int, size: int) -> bool:
        """Commits memory to a part of a reserved region; returns whether there was enough."""
        return False

    def decommit(self, region_id: int, offset: int, size: int) -> None:
        """Decommits the memory of a part of a reserved region."""

    def __del__(self) -> None:
        """Does nothing. With it, the garbage collector marks a device whose cycle it takes apart: what the functions of such a
        device raise is no failure."""


class Streams(ABC):
    """Events on the streams of a device, so that a freed block is used again only when no stream can touch it.

    An event is any object, such as a `torch.cuda.Event`. An exception becomes a `DeviceError`; until the function works
    again, blocks that wait for that stream stay as they are.
    """

    @abstractmethod
    def record(self, stream: int) -> Any:
        """Records an event after everything that was given to `stream` so far; returns it."""

    @abstractmethod
    def is_complete(self, event: Any) -> bool:
        """Returns whether the stream has passed the event. Events of one stream are passed in order."""

    @abstractmethod
    def wait(self, event: Any) -> None:
        """Waits until the stream has passed the event."""
