"""Streams and events in simulated time.

Operators on any stream compute immediately, in program order. Their simulated time keeps their stream busy, as that of
Triton kernels, copies and sleeps does. An event is complete when the host's clock has passed the end of all earlier work
on its stream. Waiting for an event advances the clock to that time.
"""

from __future__ import annotations

from typing import Any

import torch

from cubeyard.errors import InputError
from cubeyard.torch import _device, _loader, _timeline
from cubeyard.torch._device import Device


class Stream(torch.Stream):
    """Stream of a device. Its work is done in order.

    Args:
        device: The device; the current device by default.
        priority: Stored without effect, because simulated streams do not compete. Lower numbers mean higher priority.
        **given: `stream_id`, `device_index` and `device_type` of an existing stream.
    """

    def __new__(cls, device: Device = None, priority: int = 0, **given: Any) -> Stream:
        if given:
            stream: Stream = super().__new__(cls, priority=priority, **given)
        else:
            at = torch.device(_loader.name, _device._index(device))
            stream = super().__new__(cls, device=at, priority=priority)
        return stream

    def __repr__(self) -> str:
        return f"<torch.{_loader.name}.Stream {self.stream_id} of {_loader.name}:{self.device_index}>"


class _EventType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch.Event) and instance.device.type == _loader.name


class Event(metaclass=_EventType):
    """Event on a stream. An instance is a `torch.Event`, because PyTorch's functions accept no subclass of it.

    Args:
        enable_timing: Whether to support `elapsed_time`, in simulated milliseconds.
        blocking: For compatibility, no effect.
        interprocess: Not supported.
        device: The device; the current device by default.
    """

    def __new__(
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, device: Device = None
    ) -> Any:
        if interprocess:
            raise InputError("interprocess is True: events of this device cannot be shared with other processes")
        at = torch.device(_loader.name, _device._index(device))
        return torch.Event(at, enable_timing=enable_timing, blocking=blocking)


class stream:
    """Context manager that makes a stream and its device current.

    Args:
        stream: The stream; `None` for no change.
    """

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> torch.Stream | None:
        if self.stream is not None:
            self._device = _device.current_device()
            self._former = current_stream(self.stream.device_index)
            set_stream(self.stream)
        return self.stream

    def __exit__(self, *_error: object) -> None:
        if self.stream is not None:
            set_stream(self._former)
            _device.set_device(self._device)


StreamContext = stream


def set_stream(stream: torch.Stream | None) -> None:
    """Makes a stream and its device current in this thread."""
    if stream is not None:
        _device.set_device(stream.device_index)
        torch._C._accelerator_setStream(stream)


def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
    set_stream(Stream(stream_id=stream_id, device_index=device_index, device_type=device_type))


def current_stream(device: Device = None) -> Stream:
    """Returns this thread's current stream on a device."""
    found = torch._C._accelerator_getStream(_device._index(device))
    return Stream(stream_id=found.stream_id, device_index=found.device_index, device_type=found.device_type)


def default_stream(device: Device = None) -> Stream:
    """Returns the default stream of a device."""
    kind = int(torch._C._autograd.DeviceType.PrivateUse1)
    return Stream(stream_id=0, device_index=_device._index(device), device_type=kind)


def _get_current_raw_stream(device: Device = None) -> int:
    return int(current_stream(device).stream_id)


def _sleep(nanoseconds: float) -> None:
    """Adds simulated work of this duration to the current stream."""
    if isinstance(nanoseconds, bool) or not isinstance(nanoseconds, int | float) or not 0 <= nanoseconds < 1 << 50:
        raise InputError(f"nanoseconds is {nanoseconds!r}: expected a number from 0 to {(1 << 50) - 1}")
    _device._lazy_init()
    torch.ops.ahbm._sleep(round(nanoseconds * 1000))
    _note_sleep(round(nanoseconds * 1000))


def _note_sleep(picoseconds: int) -> None:
    """Adds the sleep that was just submitted to the active timelines."""
    from cubeyard import _native

    device = _device.current_device()
    stream = _get_current_raw_stream(device)
    end = _native.torch_stream_time(device, stream)
    _timeline.note("sleep", "sleep", device, stream, (end - picoseconds, end))


def clock() -> float:
    """Returns the host's clock in simulated nanoseconds: the total time spent waiting for devices."""
    _device._lazy_init()
    # Imported here: `import torch` imports this module even without the native module. The line above reports that error.
    from cubeyard import _native

    torch.ops.ahbm._warn_if_untimed()
    return _native.torch_now() / 1000
