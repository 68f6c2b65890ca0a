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
    """Size of a virtual function's firmware table: the number of entries, and the number of free entries."""

    entries: int
    free: int


class Card:
    """Simulated accelerator card, which counts memory but stores nothing.

    Args:
        memory: Capacity in bytes.
        mode: "physical" for a physical function, whose region ids are physical addresses; "virtual" for a virtual
            function, whose region ids are indices into the firmware's table.
        table: Number of entries in the firmware's table, 8 to 16 on today's cards.

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
        """Returns the free and total memory."""
        return MemoryInfo(*self._native.info())

    def table(self) -> TableInfo | None:
        """Returns the size of the firmware's table, or `None` for a physical function."""
        table = self._native.table()
        return None if table is None else TableInfo(*table)


class HostMemory:
    """Device backed by memory of this process, mapped on acquisition. Unix only.

    Args:
        limit: Maximum number of mapped bytes.

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
        """Returns the free and total memory."""
        return MemoryInfo(*self._native.info())

    def write(self, address: Address, data: bytes | bytearray | memoryview) -> None:
        """Copies `data` to an address. Raises `InputError` unless the whole range is memory of this device."""
        self._native.write(address, data if isinstance(data, bytes) else bytes(data))

    def read(self, address: Address, length: int) -> bytes:
        """Returns `length` bytes at an address. Raises `InputError` unless the whole range is memory of this device."""
        return self._native.read(address, length)


class Device(ABC):
    """Source of an allocator's regions, written in Python.

    The allocator calls these methods on the thread that uses it. It never runs two of `acquire`, `reserve` and `release` at
    once. The methods may free blocks and inspect the allocator. They may also allocate if there is room; a request that
    would need a new region raises `BusyError`. They must not wait for another thread that allocates.

    An exception becomes a `DeviceError` of the allocator's call, with the exception as its `__cause__`. That call allocates
    nothing. The allocator remains usable, and its next call tries the device again.

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
        """Returns the kind of region ids: "physical" addresses, or "virtual" indices into the firmware's table."""
        return "physical"

    @abstractmethod
    def acquire(self, size: int) -> int | None:
        """Acquires a region of exactly `size` bytes. Returns its id, or `None` if there is no room."""

    @abstractmethod
    def release(self, region_id: int, size: int) -> None:
        """Releases an acquired or reserved region and all memory committed to it."""

    @abstractmethod
    def info(self) -> MemoryInfo | tuple[int, int]:
        """Returns the free and total memory."""

    def table(self) -> TableInfo | tuple[int, int] | None:
        """Returns the total and free entries of the firmware's table, or `None` if regions occupy no entries."""
        return None

    def physical_address(self, region_id: int) -> int | None:
        """Returns the physical address of the start of a region, or `None` if it is unknown."""
        return region_id if self.mode() == "physical" else None

    def granule(self) -> int | None:
        """Returns the granule of committed memory, a power of two, or `None` if the device cannot commit memory."""
        return None

    def reserve(self, size: int) -> int | None:
        """Reserves `size` bytes of addresses without memory. Returns the region's id, or `None`."""
        return None

    def commit(self, region_id: int, offset: int, size: int) -> bool:
        """Commits memory to a range of a reserved region. Returns whether there was enough memory."""
        return False

    def decommit(self, region_id: int, offset: int, size: int) -> None:
        """Decommits the memory of a range of a reserved region."""

    def __del__(self) -> None:
        """Does nothing. Because of this finalizer, the garbage collector marks a device whose cycle it destroys.

        Exceptions from the methods of such a device are not failures.
        """


class Streams(ABC):
    """Events on a device's streams. A freed block is reused only when no stream can access it.

    An event is any object, such as a `torch.cuda.Event`. An exception becomes a `DeviceError`. Blocks that wait for the
    stream stay pending until the method succeeds again.
    """

    @abstractmethod
    def record(self, stream: int) -> Any:
        """Records an event after all work submitted to `stream` so far, and returns the event."""

    @abstractmethod
    def is_complete(self, event: Any) -> bool:
        """Returns whether the stream has passed the event. A stream passes its events in order."""

    @abstractmethod
    def wait(self, event: Any) -> None:
        """Waits until the stream has passed the event."""
