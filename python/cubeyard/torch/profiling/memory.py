"""Memory of a run: every storage has a block of a real allocator, with or without data."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch

from cubeyard import _native
from cubeyard.errors import OutOfMemory
from cubeyard.memory import Card, FlexAllocator
from cubeyard.torch import _device, _loader
from cubeyard.torch.profiling.records import Block, Holder, MemoryLog, Site

__all__ = ["DataMemory", "Memory", "ShapeMemory", "allocator_of", "holders", "shortage"]

BEFORE = Site()


def allocator_of(capacity: int) -> FlexAllocator:
    """Returns an allocator with the settings of PyTorch's devices, on a card that stores nothing."""
    sizes = [12 << 30, 8 << 30, 4 << 30, 1 << 30, 256 << 20]
    if capacity < sizes[0]:
        sizes.insert(0, capacity)
    given = os.environ.get("CUBEYARD_ALLOC_CONF", "").strip()
    text = f"fallback_sizes:[{';'.join(map(str, sizes))}]"
    return FlexAllocator(Card(capacity), f"{text},{given}" if given else text)


class Memory:
    """Log of the blocks of all devices.

    Args:
        now: Returns the place of the operator that is running in this thread, and its name.
    """

    def __init__(self, now: Callable[[], tuple[str, Site]]) -> None:
        self._now = now
        self._count = 0
        self.lock = threading.RLock()
        self.logs = {number: MemoryLog(number) for number in range(_device.device_count())}

    def begin(self) -> None:
        """Begins the log."""

    def end(self) -> None:
        """Ends the log. Later frees are not in it."""

    def after(self, tensors: list[torch.Tensor]) -> None:
        """Notes the results of an operator."""

    def mark(self, tensor: torch.Tensor, kind: str) -> None:
        """Notes the purpose of a tensor's block."""

    def _noted(self, device: int, stream: int, size: int) -> Block:
        operator, site = self._now()
        with self.lock:
            block = Block(self._count, size, operator, site, device)
            self._count += 1
        self._change(block, stream, size)
        return block

    def _change(self, block: Block, stream: int, change: int) -> None:
        time = _native.torch_stream_time(block.device, stream)
        with self.lock:
            self.logs[block.device].changes.append((time, change, block))


class ShapeMemory(Memory):
    """Memory of tensors without data: each storage takes a block of an allocator of its own.

    Args:
        now: Returns the place of the operator that is running in this thread, and its name.
        capacity: Bytes of each device.
    """

    def __init__(self, now: Callable[[], tuple[str, Site]], capacity: int) -> None:
        super().__init__(now)
        self._capacity = capacity
        self._allocators: dict[int, FlexAllocator] = {}
        self._live: dict[int, tuple[Any, Block, int]] = {}
        self._active = False

    def begin(self) -> None:
        self._active = True

    def end(self) -> None:
        self._active = False
        for number, allocator in self._allocators.items():
            self.logs[number].reserved_peak = allocator.statistic("reserved_bytes.all.peak")

    def after(self, tensors: list[torch.Tensor]) -> None:
        for tensor in tensors:
            storage = tensor.untyped_storage()
            known = self._live.get(storage._cdata)
            if known is None:
                self._take(storage, tensor.device.index or 0)
            elif known[2] != storage.nbytes():
                self._release(storage._cdata)
                self._take(storage, tensor.device.index or 0)

    def mark(self, tensor: torch.Tensor, kind: str) -> None:
        known = self._live.get(tensor.untyped_storage()._cdata)
        if known is not None:
            known[1].kind = kind

    def _take(self, storage: torch.UntypedStorage, device: int) -> None:
        key, size = storage._cdata, storage.nbytes()
        stream = _stream(device)
        taken = self._allocator(device).allocate(size, stream=stream) if size else None
        block = self._noted(device, stream, taken.size if taken else 0)
        self._live[key] = (taken, block, size)
        weakref.finalize(storage, self._release, key).atexit = False

    def _release(self, key: int) -> None:
        known = self._live.pop(key, None)
        if known is None:
            return
        taken, block, _ = known
        if taken is not None:
            taken.free()
            if self._active:
                self._change(block, _stream(block.device), -block.size)

    def _allocator(self, device: int) -> FlexAllocator:
        if device not in self._allocators:
            self._allocators[device] = allocator_of(self._capacity)
            # As on the device with data, cycles of dead objects are the first to go.
            self._allocators[device].on_pressure(lambda _pressure: gc.collect())
        return self._allocators[device]


class DataMemory(Memory):
    """Memory of tensors with data: the log has the events of the devices' own allocators."""

    def __init__(self, now: Callable[[], tuple[str, Site]]) -> None:
        super().__init__(now)
        self._live: dict[tuple[int, int], Block] = {}
        self._fresh: list[tuple[int, Block]] = []
        self._pointers: dict[tuple[int, int], Block] = {}
        self._subscriptions: list[Any] = []

    def begin(self) -> None:
        for number, log in self.logs.items():
            device = _device._native_device(number)
            log.first = device.statistics()["allocated_bytes.all.current"]
            self._subscriptions.append(device.subscribe(self._watcher(number)))

    def end(self) -> None:
        for subscription in self._subscriptions:
            subscription.unsubscribe()
        self._subscriptions.clear()
        for number, log in self.logs.items():
            log.reserved_peak = _device._native_device(number).statistics()["reserved_bytes.all.peak"]

    def after(self, tensors: list[torch.Tensor]) -> None:
        # An event has an address of the allocator, and not the tensor's. So results get the new blocks of their sizes.
        with self.lock:
            fresh, self._fresh = self._fresh, []
        for tensor in tensors:
            storage = tensor.untyped_storage()
            found = next((item for item in fresh if item[0] == storage.nbytes()), None)
            if found is not None:
                fresh.remove(found)
                self._pointers[_key(tensor)] = found[1]

    def mark(self, tensor: torch.Tensor, kind: str) -> None:
        known = self._pointers.get(_key(tensor))
        if known is not None:
            known.kind = kind

    def _watcher(self, device: int) -> Callable[[Any], None]:
        def watch(event: Any) -> None:
            key = (device, event.flat)
            if event.action == "alloc":
                block = self._live[key] = self._noted(device, event.stream, event.size)
                self._fresh.append((event.requested, block))
            elif event.action == "free_requested":
                known = self._live.pop(key, None)
                block = known or Block(-1, event.size, "", BEFORE, device, "before the run")
                self._change(block, event.stream, -event.size)

        return watch


def _key(tensor: torch.Tensor) -> tuple[int, int]:
    """Returns the number of a tensor's device, and the address of its storage."""
    return tensor.device.index or 0, tensor.untyped_storage().data_ptr()


def _stream(device: int) -> int:
    """Returns the number of this thread's current stream on a device."""
    return int(torch._C._accelerator_getStream(device).stream_id)


def shortage(error: OutOfMemory, log: MemoryLog) -> str:
    """Returns the text of an error of memory, with the holders of the most bytes."""
    live: dict[int, Block] = {}
    for _, change, block in log.changes:
        if change > 0:
            live[block.number] = block
        else:
            live.pop(block.number, None)
    rows = [f"  {row.bytes:>16,} bytes  {row.kind}, {row.module or 'outside of modules'}, {row.line}" for row in holders(list(live.values()))[:10]]
    return "\n".join([f"{_loader.name}:{log.device}: {error}", "holders of the most bytes:", *rows])


def holders(blocks: list[Block], first: int = 0) -> list[Holder]:
    """Returns the blocks by kind, module, operator and line, the largest first.

    Args:
        blocks: The blocks.
        first: Bytes from before the run.
    """
    found: dict[tuple[str, str, str, str], list[int]] = {}
    for block in blocks:
        key = (kind_of(block), block.site.module, block.operator, block.site.line)
        sums = found.setdefault(key, [0, 0])
        sums[0] += block.size
        sums[1] += 1
    rows = [Holder(*key, *sums) for key, sums in found.items()]
    if first:
        rows.append(Holder("before the run", "", "", "", first, 0))
    return sorted(rows, key=lambda row: (-row.bytes, row.kind, row.module, row.operator, row.line))


def kind_of(block: Block) -> str:
    """Returns the purpose of a block: what it was marked as, else by the phase that allocated it."""
    if block.kind:
        return block.kind
    if block.site.phase != "forward":
        return "temporary"
    return "activation" if block.site.modules else "other"
