"""Devices: their number, the current one, their properties, and their state in this process."""

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
"""A device: `torch.device`, its text, its number, or `None` for the current device."""

_initialized = False
_initializing = threading.Lock()
_forked = False
_collecting = threading.RLock()
_after_init: list[Callable[[], None]] = []
"""Functions that are called once devices can be used."""


@dataclass(frozen=True)
class DeviceProperties:
    """Properties of a device."""

    name: str
    """Name of the device for people."""
    total_memory: int
    """Bytes that can be allocated."""
    bounded_by: str
    """Reason why these are not more: the SIP's HBM, or a share of the host's memory."""
    mode: str
    """Meaning of the ids of regions: "PF" for physical addresses, "VF" for indices into the firmware's table."""
    sip: int
    """Number of its SIP in the machine."""
    multi_processor_count: int
    """Number of its PEs, under the name that code for GPUs asks for."""


def is_available() -> bool:
    """Returns whether devices can be used: not if the environment asks for what cannot be, of which the first use tells."""
    try:
        return not _forked and device_count() > 0
    except InputError:
        return False


def device_count() -> int:
    """Returns the number of devices, one for each SIP of the machine; 0 where the device cannot be used."""
    if not _loader.is_loaded():
        return 0
    from cubeyard import _native

    return _native.torch_device_count()


def is_initialized() -> bool:
    """Returns whether a device was used in this process."""
    return _initialized and not _forked


def init() -> None:
    """Prepares the devices for use, as the first use does; raises the reason if the device cannot be used."""
    _lazy_init()


def _lazy_init() -> None:
    """Prepares the devices for use. PyTorch calls this before it makes the first tensor on one."""
    global _initialized
    if _initialized:
        return
    _loader.use()
    with _initializing:
        if not _initialized:
            _collect_under_pressure()
            os.register_at_fork(after_in_child=_after_fork)
            # PyTorch calls this function again before it gives out a generator.
            _initialized = True
            for action in _after_init:
                action()


def _collect_under_pressure() -> None:
    """Lets Python's garbage collector run where memory has run out: tensors in cycles are freed by nothing else."""
    for index in range(device_count()):
        _native_device(index).on_pressure(_collect)


def _collect(_report: object) -> None:
    # A collection that another thread has begun is waited for: `gc.collect` would return at once. Not for ever, since what
    # it frees may wait for this thread.
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
    """Returns whether this is a forked process whose parent had used a device, so that it cannot use one."""
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
        raise InputError(f"device is {device!r}: expected a number, a text such as '{_loader.name}:0', or a torch.device")
    count = device_count()
    if not 0 <= index < count:
        raise InputError(
            f"device is {index}: expected 0 to {count - 1}, for this machine has {count} SIPs. The variable "
            f"CUBEYARD_SIPS, set before the program starts, gives it another number of them"
        )
    return index


def current_device() -> int:
    """Returns the number of the current device of this thread."""
    _lazy_init()
    return int(torch._C._accelerator_getDeviceIndex())


def set_device(device: Device) -> None:
    """Makes a device the current one of this thread."""
    torch._C._accelerator_setDeviceIndex(_index(device))


def _exchange_device(device: int) -> int:
    """Makes a device the current one, if its number is not negative; returns the former."""
    if device < 0:
        return -1
    return int(torch._C._accelerator_exchangeDevice(_index(device)))


def _maybe_exchange_device(device: int) -> int:
    return _exchange_device(device)


class device:
    """A context in which a device is the current one.

    Args:
        device: The device; `None`, or a negative number, for no change.
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
    """A context in which the device of a tensor or storage is the current one; no change for one that is elsewhere.

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
    """Returns 0 and 0: the device has no version of CUDA's instructions, so code that asks for one takes its plain way."""
    _index(device)
    return 0, 0


def get_device_name(device: Device = None) -> str:
    """Returns the name of a device."""
    return get_device_properties(device).name


def synchronize(device: Device = None) -> None:
    """Waits until all streams of a device have done their work: the clock of the host passes its end."""
    torch._C._accelerator_synchronizeDevice(_index(device))


def can_device_access_peer(device: Device, peer_device: Device) -> bool:
    """Returns whether a device can read and write another's memory: all can, for copies go through the host's."""
    return _index(device) != _index(peer_device)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Returns the element types that `torch.autocast` can use on the device."""
    return [torch.float16, torch.bfloat16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Returns whether tensors can have bfloat16 elements: they can, as on the CPU, which computes."""
    return True


@functools.cache
def _native_device(index: int) -> Any:
    """Returns the device of the native module."""
    from cubeyard import _native

    return _native.TorchDevice(index)
