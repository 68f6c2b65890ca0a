"""Device memory: statistics, limits, history and snapshots, as in `torch.cuda.memory`.

Statistics are exact and consistent. A device is a `torch.device`, a string or a number; the current device by default.

>>> import torch
>>> torch.ahbm.reset_peak_memory_stats()
>>> before = torch.ahbm.memory_allocated()
>>> x = torch.empty(1000, device="ahbm")                 # 4000 bytes, in a block of 4096
>>> torch.ahbm.memory_allocated() - before
4096
>>> del x
>>> torch.ahbm.memory_allocated() - before
0
"""

from __future__ import annotations

import functools
import os
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from cubeyard.errors import InputError, TorchDeviceError
from cubeyard.torch import _device, _loader, _streams, _summary
from cubeyard.torch._device import Device
from cubeyard.torch._history import _dump_snapshot as _dump_snapshot
from cubeyard.torch._history import _record_memory_history as _record_memory_history
from cubeyard.torch._history import _snapshot as _snapshot

if TYPE_CHECKING:
    from cubeyard.memory import Event, Subscription

__all__ = [
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "empty_cache",
    "empty_host_cache",
    "get_memory_info",
    "get_per_process_memory_fraction",
    "host_memory_stats",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "on_pressure",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_reserved",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
    "subscribe",
    "subscribe_rmm_log",
    "unlock_regions",
]

_raw: dict[int, torch.Tensor] = {}


def _native(device: Device) -> Any:
    return _device._native_device(_device._index(device))


def memory_stats(device: Device = None) -> OrderedDict[str, int]:
    """Returns the allocator statistics of a device, sorted by key, with the keys of `torch.accelerator.memory_stats`.

    The statistics are `allocation`, `segment`, `active`, `inactive_split`, `allocated_bytes`, `reserved_bytes`,
    `active_bytes`, `inactive_split_bytes` and `requested_bytes`. Each has the pools `all`, `small_pool` (requests below
    1 MiB) and `large_pool`. Each pool has `current`, `peak`, `allocated` and `freed`, e.g. "active_bytes.all.peak".
    """
    return OrderedDict(sorted(_native(device).statistics().items()))


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, Any]:
    """Returns the statistics as nested dictionaries, one level per part of a key."""
    nested: dict[str, Any] = {}
    for key, value in memory_stats(device).items():
        *parts, last = key.split(".")
        place = nested
        for part in parts:
            place = place.setdefault(part, {})
        place[last] = value
    return nested


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """Returns the statistics as a human-readable table.

    Args:
        device: The device; the current device by default.
        abbreviated: Whether to omit the split into small and large requests.
    """
    index = _device._index(device)
    return _summary.table(f"{_loader.name}:{index}", memory_stats(index), get_memory_info(index), abbreviated)


def _figure(device: Device, key: str) -> int:
    return int(_native(device).statistics()[key])


def memory_allocated(device: Device = None) -> int:
    """Returns the size of all tensors in bytes, rounded up to blocks."""
    return _figure(device, "allocated_bytes.all.current")


def max_memory_allocated(device: Device = None) -> int:
    """Returns the peak size of all tensors in bytes, since the last reset."""
    return _figure(device, "allocated_bytes.all.peak")


def memory_reserved(device: Device = None) -> int:
    """Returns the number of bytes that the allocator has acquired from the device."""
    return _figure(device, "reserved_bytes.all.current")


def max_memory_reserved(device: Device = None) -> int:
    """Returns the peak number of bytes acquired from the device, since the last reset."""
    return _figure(device, "reserved_bytes.all.peak")


def reset_peak_memory_stats(device: Device = None) -> None:
    """Resets all peaks to the current values."""
    _native(device).reset_peak_statistics()


def reset_max_memory_allocated(device: Device = None) -> None:
    """Resets all peaks to the current values, as `reset_peak_memory_stats` does."""
    reset_peak_memory_stats(device)


def reset_max_memory_reserved(device: Device = None) -> None:
    """Resets all peaks to the current values, as `reset_peak_memory_stats` does."""
    reset_peak_memory_stats(device)


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Resets the accumulated increases and decreases, and the counters, to zero."""
    _native(device).reset_accumulated_statistics()


def empty_cache() -> None:
    """Waits for the work of the devices, and returns all completely free memory to them."""
    _device._lazy_init()
    for index in range(_device.device_count()):
        _device.synchronize(index)
        _native(index).trim()


def get_memory_info(device: Device = None) -> tuple[int, int]:
    """Returns the number of bytes not yet acquired from a device, and the total."""
    free, total = _native(device).info()
    return int(free), int(total)


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Returns the number of bytes not yet acquired from a device, and the total, as `get_memory_info` does."""
    return get_memory_info(device)


def set_per_process_memory_fraction(fraction: float, device: Device = None) -> None:
    """Limits the memory that the allocator may acquire to a fraction of the device's memory.

    Args:
        fraction: The fraction, from 0 to 1. Memory that is already acquired is kept.
        device: The device; the current device by default.
    """
    if isinstance(fraction, bool) or not isinstance(fraction, int | float):
        raise TypeError(f"fraction is {fraction!r}: expected a number from 0 to 1")
    if not 0 <= fraction <= 1:
        raise InputError(f"fraction is {fraction!r}: expected a number from 0 to 1")
    _native(device).set_limit(float(fraction))


def get_per_process_memory_fraction(device: Device = None) -> float:
    """Returns the fraction of the device's memory that the allocator may acquire; 1.0 by default."""
    native = _native(device)
    return float(native.limit() / native.info()[1])


def unlock_regions(device: Device = None) -> None:
    """Lets the allocator forget that the device refused a region, so that the device is asked again."""
    _native(device).unlock_regions()


def on_pressure(callback: Callable[[Any], object], device: Device = None) -> Subscription:
    """Registers a callback for when memory runs out, before `OutOfMemoryError` is raised.

    The callback may drop tensors; the request is then tried once more. Callbacks run in order of registration, on the
    allocating thread, without a lock of the allocator. Python's garbage collector is the first callback. An exception is
    reported through `sys.unraisablehook`. `unsubscribe()` of the result takes the callback back.

    Args:
        callback: The function. Its argument is the report: a `cubeyard.errors.OutOfMemory` that was not raised.
        device: The device; the current device by default.
    """
    subscription: Subscription = _native(device).on_pressure(callback)
    return subscription


def subscribe(callback: Callable[[Event], object], device: Device = None) -> Subscription:
    """Registers a function to be called with every `cubeyard.memory.Event` of the allocator, until the subscription ends.

    Events arrive one at a time, in one order for all threads, before the call that caused them returns. The function must not
    wait for another thread that uses the device. An exception is reported through `sys.unraisablehook`. From the first
    subscription on, calls of the allocator release the GIL.

    Args:
        callback: The function.
        device: The device; the current device by default.

    >>> import torch
    >>> sizes = []
    >>> with torch.ahbm.subscribe(lambda event: sizes.append(event.requested) if event.action == "alloc" else None):
    ...     x = torch.empty(1000, device="ahbm")
    >>> sizes
    [4000]
    """
    subscription: Subscription = _native(device).subscribe(callback)
    return subscription


def subscribe_rmm_log(path: str | os.PathLike[str], device: Device = None) -> Subscription:
    """Writes allocations and frees to a file, as RAPIDS RMM's logs are written, until the subscription ends.

    `cubeyard.replay` reads such a file.

    Args:
        path: The file, which is created anew.
        device: The device; the current device by default.
    """
    subscription: Subscription = _native(device).subscribe_rmm_log(path)
    return subscription


def caching_allocator_alloc(size: int, device: Device = None, stream: torch.Stream | None = None) -> int:
    """Allocates memory outside any tensor. Returns its pointer, which the host cannot access.

    Args:
        size: Number of bytes, at least 1.
        device: The device; the current device by default.
        stream: The stream that will use the memory; the current stream by default.
    """
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise InputError(f"size is {size!r}: expected a number of bytes, at least 1")
    index = _device._index(device)
    with _device.device(index), _streams.stream(stream):
        tensor = torch.empty(size, dtype=torch.uint8, device=torch.device(_loader.name, index))
    _raw[tensor.data_ptr()] = tensor
    return int(tensor.data_ptr())


def caching_allocator_delete(mem_ptr: int) -> None:
    """Frees memory allocated by `caching_allocator_alloc`."""
    if mem_ptr not in _raw:
        raise InputError(f"mem_ptr is {mem_ptr!r}: expected a pointer from caching_allocator_alloc that is not freed yet")
    del _raw[mem_ptr]


def host_memory_stats() -> OrderedDict[str, int]:
    """Returns the statistics of pinned host memory, with the keys of `torch.cuda.host_memory_stats`."""
    _device._lazy_init()
    values = torch.ops.ahbm._host_statistics()
    return OrderedDict(sorted(zip(_HOST_KEYS, values, strict=True)))


_HOST_KEYS = tuple(
    f"{count}.{figure}"
    for count in ("active_requests", "active_bytes", "allocations", "allocated_bytes")
    for figure in ("current", "peak", "allocated", "freed")
)


def empty_host_cache() -> None:
    """Returns free pinned host memory to the system."""
    _device._lazy_init()
    torch.ops.ahbm._empty_host_cache()


def _refuse_sharing(name: str) -> None:
    """Makes `share_memory_` raise for tensors and modules on the device.

    PyTorch assumes that the memory of every device except the CPU is shared already, as CUDA's is. A queue would then pickle
    the tensor on a background thread, and its receiver would wait forever.

    Args:
        name: Name of the device.
    """
    original = torch.UntypedStorage.share_memory_

    @functools.wraps(original)
    def share_memory_(self: torch.UntypedStorage, *arguments: Any, **keywords: Any) -> Any:
        if self.device.type == name:
            raise TorchDeviceError(
                f"memory of the device {name!r} cannot be shared with other processes: "
                "share a copy on the CPU, such as tensor.cpu().share_memory_()"
            )
        return original(self, *arguments, **keywords)

    torch.UntypedStorage.share_memory_ = share_memory_
