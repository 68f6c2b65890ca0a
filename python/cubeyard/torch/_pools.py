"""Pools and tags of device memory, in the manner of `torch.cuda.MemPool`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from cubeyard.errors import InputError
from cubeyard.torch import _device, _history, _loader
from cubeyard.torch._device import Device

if TYPE_CHECKING:
    from cubeyard.memory import Pool, Tag


class MemPool:
    """A pool of one device: its tensors lie in regions of their own.

    When the last reference is gone, its tensors stay valid, and its memory is returned as soon as they are gone. By default
    a device of less than 12 GiB is one region, which leaves none for a pool: let memory grow, with
    `CUBEYARD_ALLOC_CONF=preset:grow`.

    Args:
        name: Name in reports.
        limit: Maximum number of bytes that the pool acquires; `None` for no limit.
        device: The device; the current device by default.

    >>> import torch
    >>> pool = torch.ahbm.MemPool("weights")
    >>> with torch.ahbm.use_mem_pool(pool):
    ...     x = torch.empty(1000, device="ahbm")
    >>> pool.memory_stats()["allocated_bytes.all.current"]
    4096
    """

    def __init__(self, name: str = "pool", *, limit: int | None = None, device: Device = None) -> None:
        self._index = _device._index(device)
        self._pool: Pool = _device._native_device(self._index).pool(name, limit)
        self._uses = 0

    @property
    def id(self) -> tuple[int, int]:
        """Number of the pool, as `segment_pool_id` in snapshots."""
        return 0, self._pool.id

    @property
    def name(self) -> str:
        """Name in reports."""
        return self._pool.name

    @property
    def device(self) -> torch.device:
        """Device of the pool."""
        return torch.device(_loader.name, self._index)

    @property
    def allocator(self) -> None:
        """None: the memory comes from the allocator of the device."""
        return None

    @property
    def limit(self) -> int | None:
        """Maximum number of bytes that the pool acquires. A pool that has more keeps it."""
        return self._pool.limit

    @limit.setter
    def limit(self, limit: int | None) -> None:
        self._pool.limit = limit

    def use_count(self) -> int:
        """Returns the number of references: the pool itself, and the `use_mem_pool` blocks that are active."""
        return 1 + self._uses

    def memory_stats(self) -> dict[str, int]:
        """Returns the statistics of the pool, with the keys of `torch.ahbm.memory_stats`."""
        return self._pool.statistics().to_dict()

    def snapshot(self, include_traces: bool = True) -> list[dict[str, Any]]:
        """Returns the pool's regions and blocks, as in the `segments` of a snapshot.

        Args:
            include_traces: For compatibility. Segments have no trace entries.
        """
        segments = _history._snapshot(self._index)["segments"]
        return [segment for segment in segments if tuple(segment["segment_pool_id"]) == self.id]

    def empty_cache(self) -> int:
        """Returns the pool's free memory to the device, and the number of its bytes."""
        return self._pool.trim()

    def pause(self) -> int:
        """Returns the memory of the pool's tensors to the device, and keeps their addresses.

        The contents are lost: write them again after `resume()`. Memory must grow (`CUBEYARD_ALLOC_CONF=preset:grow`). Returns
        the number of bytes.
        """
        return self._pool.pause()

    def resume(self) -> int:
        """Brings back the memory of the pool's tensors at their addresses, or raises `OutOfMemory` and changes nothing."""
        return self._pool.resume()

    def __repr__(self) -> str:
        return f"<MemPool of {self.device}, {self._pool!r}>"


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: Device = None) -> Iterator[None]:
    """Routes the allocations of this thread on the pool's device to the pool.

    Tensors that another thread allocates, such as gradients in `backward`, do not go to the pool.

    Args:
        pool: The pool.
        device: The device of the pool, for compatibility.
    """
    if not isinstance(pool, MemPool):
        raise InputError(f"pool is {pool!r}: expected a torch.ahbm.MemPool")
    if device is not None and _device._index(device) != pool._index:
        raise InputError(f"device is {device!r}: expected {pool.device}, the device of the pool")
    with pool._pool:
        pool._uses += 1
        try:
            yield
        finally:
            pool._uses -= 1


def memory_tag(name: str, *, soft: int | None = None, hard: int | None = None, device: Device = None) -> Tag:
    """Returns the tag of a name: the bytes of the tensors that carry it, with budgets.

    Inside `with`, the tensors that this thread allocates carry the tag. A tensor that would exceed the hard budget raises
    `torch.OutOfMemoryError`. When the soft budget is exceeded, the functions of `on_pressure` are called.

    Args:
        name: Name of the tag.
        soft: Bytes above which `on_pressure` functions and subscribers are called. If `soft` or `hard` is given, both are set.
        hard: Bytes above which tensors are refused.
        device: The device; the current device by default.

    >>> import torch
    >>> with torch.ahbm.memory_tag("cache", hard=1 << 20) as cache:
    ...     x = torch.empty(1000, device="ahbm")
    >>> cache.allocated
    4096
    """
    tag: Tag = _device._native_device(_device._index(device)).tag(name, soft, hard)
    return tag
