"""Devices: their number, the current device, their properties, and their state in this process."""

from __future__ import annotations

import functools
import gc
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from cubeyard.errors import InputError
from cubeyard.torch import _loader

Device: TypeAlias = torch.device | str | int | None
"""Device, given as a `torch.device`, a string or a number; `None` for the current device."""

_initialized = False
_initializing = threading.Lock()
_forked = False
_collecting = threading.RLock()
_after_init: list[Callable[[], None]] = []
"""Functions to call once devices can be used."""


@dataclass(frozen=True)
class DeviceProperties:
    """Properties of a device."""

    name: str
    """Human-readable name of the device."""
    total_memory: int
    """Allocatable memory in bytes."""
    bounded_by: str
    """Resource that limits the memory: the SIP's HBM, or a share of the host's memory."""
    mode: str
    """Kind of region ids: "PF" for physical addresses, "VF" for indices into the firmware's table."""
    sip: int
    """Number of the SIP in the machine."""
    multi_processor_count: int
    """Number of PEs, under the name used by GPU code."""


def is_available() -> bool:
    """Returns whether devices can be used. False for an invalid environment; the first use then raises the error."""
    try:
        return not _forked and device_count() > 0
    except InputError:
        return False


def device_count() -> int:
    """Returns the number of devices, one per SIP of the machine, or 0 if the device cannot be used."""
    if not _loader.is_loaded():
        return 0
    from cubeyard import _native

    return _native.torch_device_count()


def is_initialized() -> bool:
    """Returns whether this process has used a device."""
    return _initialized and not _forked


def init() -> None:
    """Prepares the devices, as their first use does. Raises the reason if the device cannot be used."""
    _lazy_init()


def _lazy_init() -> None:
    """Prepares the devices. PyTorch calls this before it makes the first tensor on a device."""
    global _initialized
    if _initialized:
        return
    _loader.use()
    with _initializing:
        if not _initialized:
            _collect_under_pressure()
            os.register_at_fork(after_in_child=_after_fork)
            # PyTorch calls this function again before it returns a generator.
            _initialized = True
            for action in _after_init:
                action()


def _collect_under_pressure() -> None:
    """Runs Python's garbage collector when memory runs out. Nothing else frees tensors in reference cycles."""
    for index in range(device_count()):
        _native_device(index).on_pressure(_collect)


def _collect(_report: object) -> None:
    # If another thread is already collecting, `gc.collect` returns at once, so this thread waits for it. The wait is
    # bounded, because finalizers on that thread may wait for this one.
    mine = _collecting.acquire(timeout=1)
    try:
        gc.collect()
    finally:
        if mine:
            _collecting.release()


def _after_fork() -> None:
    global _forked
    _forked = True


def _is_in_bad_fork() -> bool:
    """Returns whether this process was forked after its parent used a device, so it cannot use one."""
    return _forked


def _index(device: Device = None) -> int:
    """Returns the number of a device."""
    _lazy_init()
    if device is None:
        return current_device()
    given = torch.device(device) if isinstance(device, str) else device
    index = given
    if isinstance(given, torch.device):
        if given.type != _loader.name:
            raise InputError(f"device is {str(device)!r}: expected a device of type {_loader.name!r}")
        index = current_device() if given.index is None else given.index
    if not isinstance(index, int) or isinstance(index, bool):
        raise InputError(f"device is {device!r}: expected a number, a string such as '{_loader.name}:0', or a torch.device")
    count = device_count()
    if not 0 <= index < count:
        raise InputError(
            f"device is {index}: expected 0 to {count - 1}, because this machine has {count} SIPs. To change that number, "
            f"set the variable CUBEYARD_SIPS before the program starts"
        )
    return index


def current_device() -> int:
    """Returns the number of this thread's current device."""
    _lazy_init()
    return int(torch._C._accelerator_getDeviceIndex())


def set_device(device: Device) -> None:
    """Makes a device this thread's current device."""
    torch._C._accelerator_setDeviceIndex(_index(device))


def _exchange_device(device: int) -> int:
    """Makes a device current unless its number is negative. Returns the previous device."""
    if device < 0:
        return -1
    return int(torch._C._accelerator_exchangeDevice(_index(device)))


def _maybe_exchange_device(device: int) -> int:
    return _exchange_device(device)


class device:
    """Context manager that makes a device current.

    Args:
        device: The device; `None` or a negative number for no change.
    """

    def __init__(self, device: Device) -> None:
        nothing = device is None or (isinstance(device, int) and device < 0)
        self.idx = -1 if nothing else _index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _exchange_device(self.idx)

    def __exit__(self, *_error: object) -> None:
        _maybe_exchange_device(self.prev_idx)


class device_of(device):
    """Context manager that makes the device of a tensor or storage current. No effect for tensors elsewhere.

    Args:
        obj: The tensor or storage.
    """

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.device.type == _loader.name else None)


def get_device_properties(device: Device = None) -> DeviceProperties:
    """Returns the properties of a device."""
    index = _index(device)
    return DeviceProperties(**_native_device(index).describe(), sip=index)


def get_device_capability(device: Device = None) -> tuple[int, int]:
    """Returns (0, 0). The device has no CUDA capability, so code that checks it takes its generic path."""
    _index(device)
    return 0, 0


def get_device_name(device: Device = None) -> str:
    """Returns the name of a device."""
    return get_device_properties(device).name


def synchronize(device: Device = None) -> None:
    """Waits until all streams of a device have finished. The host's clock advances to their end."""
    torch._C._accelerator_synchronizeDevice(_index(device))


def can_device_access_peer(device: Device, peer_device: Device) -> bool:
    """Returns whether a device can access another's memory. True for every other device: copies use host memory."""
    return _index(device) != _index(peer_device)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Returns the element types that `torch.autocast` supports on the device."""
    return [torch.float16, torch.bfloat16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Returns True: the CPU computes bfloat16 elements."""
    return True


@functools.cache
def _native_device(index: int) -> Any:
    """Returns the device of the native module."""
    from cubeyard import _native

    return _native.TorchDevice(index)
