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

import gc
import os
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Literal, cast

import torch

from cubeyard.errors import InputError
from cubeyard.torch import _device, _loader
from cubeyard.torch._device import Device

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

_histories: dict[int, tuple[Any, ...]] = {}
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


def memory_allocated(device: Device = None) -> int:
    """Returns the bytes of tensors, in whole blocks."""
    return memory_stats(device)["allocated_bytes.all.current"]


def max_memory_allocated(device: Device = None) -> int:
    """Returns the highest number of bytes of tensors since the last reset."""
    return memory_stats(device)["allocated_bytes.all.peak"]


def memory_reserved(device: Device = None) -> int:
    """Returns the bytes that the allocator has acquired from the device."""
    return memory_stats(device)["reserved_bytes.all.current"]


def max_memory_reserved(device: Device = None) -> int:
    """Returns the highest number of bytes that the allocator had acquired since the last reset."""
    return memory_stats(device)["reserved_bytes.all.peak"]


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


def _collect_under_pressure() -> None:
    """Lets Python's garbage collector run where memory has run out: tensors in cycles are freed by nothing else."""
    for index in range(_device.device_count()):
        _device._native_device(index).on_pressure(lambda _report: gc.collect())


def caching_allocator_alloc(size: int, device: Device = None, stream: torch.Stream | None = None) -> int:
    """Allocates memory that is no tensor's; returns its pointer, which the host cannot access.

    Args:
        size: Number of bytes, at least 1.
        device: The device; the current one if omitted.
        stream: The stream that it will be used on; the current one if omitted.
    """
    from cubeyard.torch import _streams

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


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """Returns the statistics as a table for people.

    Args:
        device: The device; the current one if omitted.
        abbreviated: Whether to leave out the split into small and large requests.
    """
    index = _device._index(device)
    stats = memory_stats(index)
    free, total = get_memory_info(index)
    pools = [("all", "")] if abbreviated else [("all", ""), ("large_pool", "  from 1 MiB"), ("small_pool", "  below 1 MiB")]
    rule = "+" + "-" * 24 + ("+" + "-" * 13) * 4 + "+"
    width = len(rule) - 4
    head = f"Memory of {_loader.name}:{index}, {_bytes(free).strip()} of {_bytes(total).strip()} not acquired"
    told = f"out of memory: {stats['num_ooms']}   retries: {stats['num_alloc_retries']}   waits: "
    told += f"{stats['num_sync_all_streams']}"
    wide = "+" + "-" * (width + 2) + "+"
    lines = [wide, f"| {head:<{width}} |", f"| {told:<{width}} |", rule]
    lines += [_row("", ["current", "peak", "increase", "decrease"]), rule]
    for key, title, show in _ROWS:
        for pool, part in pools:
            figures = [stats[f"{key}.{pool}.{figure}"] for figure in ("current", "peak", "allocated", "freed")]
            lines.append(_row(part or title, [show(figure) for figure in figures]))
        lines.append(rule)
    return "\n".join(lines) + "\n"


def _row(title: str, cells: list[str]) -> str:
    return f"| {title:<22} |" + "".join(f" {cell:>11} |" for cell in cells)


def _bytes(number: int) -> str:
    """Formats a number of bytes with its unit, e.g. `1.5 MiB`."""
    size, units = float(number), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{number} B" if units[0] == "B" else f"{size:.1f} {units[0]}"


_ROWS: list[tuple[str, str, Callable[[int], str]]] = [
    ("allocated_bytes", "allocated", _bytes),
    ("requested_bytes", "requested", _bytes),
    ("active_bytes", "active", _bytes),
    ("reserved_bytes", "reserved", _bytes),
    ("inactive_split_bytes", "free in used regions", _bytes),
    ("allocation", "allocations", str),
    ("active", "active blocks", str),
    ("segment", "regions", str),
    ("inactive_split", "free ranges", str),
]


def _record_memory_history(
    enabled: Literal["all", "state"] | None = "all",
    context: Literal["all", "alloc", "state"] | None = "all",
    stacks: Literal["all", "python"] = "all",
    max_entries: int = sys.maxsize,
    device: Device = None,
    clear_history: bool = False,
) -> None:
    """Starts or stops recording events, and the places in the program that allocate.

    Args:
        enabled: "all" for events and places, "state" for the places of live blocks only, `None` to stop.
        context: `None` for no places. All other values are one: the place of an allocation is recorded.
        stacks: For compatibility: frames are those of Python.
        max_entries: Highest number of events that are kept, the last ones.
        device: The device; all of them if omitted.
        clear_history: Whether to drop events that were recorded before.
    """
    _check("enabled", enabled, ("all", "state", None))
    _check("context", context, ("all", "alloc", "state", None))
    _check("stacks", stacks, ("all", "python"))
    if isinstance(max_entries, bool) or not isinstance(max_entries, int) or max_entries < 1:
        raise InputError(f"max_entries is {max_entries!r}: expected a number of events, at least 1")
    _device._lazy_init()
    for index in range(_device.device_count()) if device is None else [_device._index(device)]:
        history = (enabled, context, max_entries)
        if clear_history or _histories.get(index) != history:
            limit = 0 if enabled is None else 1 if enabled == "state" else max_entries
            _native(index).record_history(limit, context is not None)
        _histories[index] = history


def _check(name: str, value: object, expected: tuple[object, ...]) -> None:
    if value not in expected:
        raise InputError(f"{name} is {value!r}: expected one of {', '.join(map(repr, expected))}")


def _snapshot(device: Device = None, augment_with_fx_traces: bool = False) -> dict[str, Any]:
    """Returns the state of the allocators: all regions and blocks, and the events that were recorded.

    Args:
        device: The device; all of them if omitted.
        augment_with_fx_traces: For compatibility: only `False`.
    """
    if augment_with_fx_traces:
        raise InputError("augment_with_fx_traces is True: expected False, for frames of FX are not recorded")
    _device._lazy_init()
    count = _device.device_count()
    whole: dict[str, Any] = {}
    for index in range(count) if device is None else [_device._index(device)]:
        part = cast("dict[str, Any]", pickle.loads(_native(index).pickled()))
        if _histories.get(index, ("all",))[0] == "state":
            part["device_traces"] = [[] for _ in part["device_traces"]]
        if not whole:
            whole = {**part, "segments": [], "device_traces": [[] for _ in range(count)]}
        whole["segments"] += part["segments"]
        whole["device_traces"][index] = part["device_traces"][index]
    return whole


def _dump_snapshot(filename: str | os.PathLike[str] = "dump_snapshot.pickle", augment_with_fx_traces: bool = False) -> None:
    """Writes a snapshot of all devices to a file, for PyTorch's memory viewer and for `cubeyard replay`."""
    snapshot = _snapshot(augment_with_fx_traces=augment_with_fx_traces)
    with open(filename, "wb") as file:
        # The viewer reads no later version.
        pickle.dump(snapshot, file, protocol=4)
