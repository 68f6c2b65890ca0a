"""History of device memory: recording and snapshots."""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any, Literal, cast

from cubeyard.errors import InputError
from cubeyard.torch import _device
from cubeyard.torch._device import Device

_histories: dict[int, tuple[Any, ...]] = {}


def _record_memory_history(
    enabled: Literal["all", "state"] | None = "all",
    context: Literal["all", "alloc", "state"] | None = "all",
    stacks: Literal["all", "python"] = "all",
    max_entries: int = sys.maxsize,
    device: Device = None,
    clear_history: bool = False,
) -> None:
    """Starts or stops recording events and the call sites of allocations.

    Args:
        enabled: "all" for events and call sites, "state" for the call sites of live blocks only, `None` to stop.
        context: `None` to record no call sites. All other values record the call site of each allocation.
        stacks: For compatibility. Only Python frames are recorded.
        max_entries: Maximum number of events to keep, the most recent ones.
        device: The device; all devices by default.
        clear_history: Whether to drop earlier events.
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
            _device._native_device(index).record_history(limit, context is not None)
        _histories[index] = history


def _check(name: str, value: object, expected: tuple[object, ...]) -> None:
    if value not in expected:
        raise InputError(f"{name} is {value!r}: expected one of {', '.join(map(repr, expected))}")


def _snapshot(device: Device = None, augment_with_fx_traces: bool = False) -> dict[str, Any]:
    """Returns the state of the allocators: all regions and blocks, and the recorded events.

    Args:
        device: The device; all devices by default.
        augment_with_fx_traces: For compatibility. Must be `False`.
    """
    if augment_with_fx_traces:
        raise InputError("augment_with_fx_traces is True: expected False, because FX frames are not recorded")
    _device._lazy_init()
    count = _device.device_count()
    whole: dict[str, Any] = {}
    for index in range(count) if device is None else [_device._index(device)]:
        part = cast("dict[str, Any]", pickle.loads(_device._native_device(index).pickled()))
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
        # The viewer cannot read a later protocol.
        pickle.dump(snapshot, file, protocol=4)
