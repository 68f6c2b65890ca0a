"""Memory of the devices: figures, limits, history and snapshots, as in `torch.cuda.memory`.

Figures are exact and of one moment. A device may be given as a `torch.device`, a text or a number; the current one if
omitted.

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
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch

from cubeyard.errors import InputError, TorchDeviceError
from cubeyard.torch import _device, _loader, _streams, _summary
from cubeyard.torch._device import Device
from cubeyard.torch._history import _dump_snapshot as _dump_snapshot
from cubeyard.torch._history import _record_memory_history as _record_memory_history
from cubeyard.torch._history import _snapshot as _snapshot

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
]

_raw: dict[int, torch.Tensor] = {}


def _native(device: Device) -> Any:
    return _device._native_device(_device._index(device))


def memory_stats(device: Device = None) -> OrderedDict[str, int]:
    """Returns the statistics of a device's allocator, with the keys of `torch.accelerator.memory_stats`, in their order.

    Each of `allocation`, `segment`, `active`, `inactive_split`, `allocated_bytes`, `reserved_bytes`, `active_bytes`,
    `inactive_split_bytes` and `requested_bytes` has the parts `all`, `small_pool` (requests below 1 MiB) and `large_pool`,
    and each of these `current`, `peak`, `allocated` and `freed`, such as "active_bytes.all.peak".
    """
    return OrderedDict(sorted(_native(device).statistics().items()))


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, Any]:
    """Returns the statistics with a dictionary for each part of a key."""
    nested: dict[str, Any] = {}
    for key, value in memory_stats(device).items():
        *parts, last = key.split(".")
        place = nested
        for part in parts:
            place = place.setdefault(part, {})
        place[last] = value
    return nested


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """Returns the statistics as a table for people.

    Args:
        device: The device; the current one if omitted.
        abbreviated: Whether to leave out the split into small and large requests.
    """
    index = _device._index(device)
    return _summary.table(f"{_loader.name}:{index}", memory_stats(index), get_memory_info(index), abbreviated)


def _figure(device: Device, key: str) -> int:
    return int(_native(device).statistics()[key])


def memory_allocated(device: Device = None) -> int:
    """Returns the bytes of tensors, in whole blocks."""
    return _figure(device, "allocated_bytes.all.current")


def max_memory_allocated(device: Device = None) -> int:
    """Returns the highest number of bytes of tensors since the last reset."""
    return _figure(device, "allocated_bytes.all.peak")


def memory_reserved(device: Device = None) -> int:
    """Returns the bytes that the allocator has acquired from the device."""
    return _figure(device, "reserved_bytes.all.current")


def max_memory_reserved(device: Device = None) -> int:
    """Returns the highest number of bytes that the allocator had acquired since the last reset."""
    return _figure(device, "reserved_bytes.all.peak")


def reset_peak_memory_stats(device: Device = None) -> None:
    """Takes the present values for the peaks."""
    _native(device).reset_peak_statistics()


def reset_max_memory_allocated(device: Device = None) -> None:
    """Takes the present values for the peaks: all of them, as `reset_peak_memory_stats`."""
    reset_peak_memory_stats(device)


def reset_max_memory_reserved(device: Device = None) -> None:
    """Takes the present values for the peaks: all of them, as `reset_peak_memory_stats`."""
    reset_peak_memory_stats(device)


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Sets the sums of what came and went, and the counters, to zero."""
    _native(device).reset_accumulated_statistics()


def empty_cache() -> None:
    """Returns all memory that is wholly free to the devices: of every device that was used."""
    _device._lazy_init()
    for index in range(_device.device_count()):
        _native(index).trim()


def get_memory_info(device: Device = None) -> tuple[int, int]:
    """Returns the bytes of a device that nobody has acquired, and all that it has."""
    free, total = _native(device).info()
    return int(free), int(total)


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Returns the bytes of a device that nobody has acquired, and all that it has: as `get_memory_info`."""
    return get_memory_info(device)


def set_per_process_memory_fraction(fraction: float, device: Device = None) -> None:
    """Limits what the allocator may acquire to a part of the device's memory.

    Args:
        fraction: The part, from 0 to 1. What is acquired already stays.
        device: The device; the current one if omitted.
    """
    if isinstance(fraction, bool) or not isinstance(fraction, int | float):
        raise TypeError(f"fraction is {fraction!r}: expected a number from 0 to 1")
    if not 0 <= fraction <= 1:
        raise InputError(f"fraction is {fraction!r}: expected a number from 0 to 1")
    _native(device).set_limit(float(fraction))


def get_per_process_memory_fraction(device: Device = None) -> float:
    """Returns the part of the device's memory that the allocator may acquire; 1.0 unless it was set."""
    native = _native(device)
    return float(native.limit() / native.info()[1])


def on_pressure(callback: Callable[[Any], object], device: Device = None) -> None:
    """Registers a function that is called when memory has run out, before an `OutOfMemoryError` is raised.

    It may drop tensors; then the request is tried once more. Functions are called in the order in which they were
    registered, on the thread that allocates, with no lock of the allocator held. Python's garbage collector is the first of
    them. An exception is reported as one that cannot be raised (`sys.unraisablehook`).

    Args:
        callback: The function. Its argument is the report: a `cubeyard.errors.OutOfMemory` that was not raised.
        device: The device; the current one if omitted.
    """
    if not callable(callback):
        raise InputError(f"callback is {callback!r}: expected a function")
    _native(device).on_pressure(callback)


def caching_allocator_alloc(size: int, device: Device = None, stream: torch.Stream | None = None) -> int:
    """Allocates memory that is no tensor's; returns its pointer, which the host cannot access.

    Args:
        size: Number of bytes, at least 1.
        device: The device; the current one if omitted.
        stream: The stream that it will be used on; the current one if omitted.
    """
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise InputError(f"size is {size!r}: expected a number of bytes, at least 1")
    index = _device._index(device)
    with _device.device(index), _streams.stream(stream):
        tensor = torch.empty(size, dtype=torch.uint8, device=torch.device(_loader.name, index))
    _raw[tensor.data_ptr()] = tensor
    return int(tensor.data_ptr())


def caching_allocator_delete(mem_ptr: int) -> None:
    """Frees memory of `caching_allocator_alloc`."""
    if mem_ptr not in _raw:
        raise InputError(f"mem_ptr is {mem_ptr!r}: expected a pointer of caching_allocator_alloc that was not freed")
    del _raw[mem_ptr]


def host_memory_stats() -> OrderedDict[str, int]:
    """Returns the statistics of pinned host memory, with keys as in `torch.cuda.host_memory_stats`."""
    _device._lazy_init()
    values = torch.ops.ahbm._host_statistics()
    return OrderedDict(sorted(zip(_HOST_KEYS, values, strict=True)))


_HOST_KEYS = tuple(
    f"{count}.{figure}"
    for count in ("active_requests", "active_bytes", "allocations", "allocated_bytes")
    for figure in ("current", "peak", "allocated", "freed")
)


def empty_host_cache() -> None:
    """Returns pinned host memory that is free to the system."""
    _device._lazy_init()
    torch.ops.ahbm._empty_host_cache()


def _refuse_sharing(name: str) -> None:
    """Lets `share_memory_` raise for tensors and modules of the device.

    PyTorch takes every device but the CPU for one whose memory is shared by itself, as CUDA's is. A queue would then
    pickle the tensor on a thread of its own, and whoever waits for it would wait forever.

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
