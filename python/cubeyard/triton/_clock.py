"""Simulated time of launches: on the streams of PyTorch's device, or beside them.

A launch on tensors of the device takes time of a stream. Other launches take no time that anyone else sees; `timed`
collects their times.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from cubeyard.errors import InputError
from cubeyard.triton._arguments import is_descriptor

__all__ = ["Place", "charge", "current_device", "current_stream", "device_module", "measured", "place_of", "set_current_device", "timed"]

Place = tuple[int, int]
"""Number of a device of PyTorch, and of one of its streams."""

_MODES = ("min", "max", "mean", "median", "all")
_times: ContextVar[list[int] | None] = ContextVar("times", default=None)


def device_module() -> Any:
    """Returns the module of PyTorch's device, or None if no program of this process has used the device."""
    module = sys.modules.get("cubeyard.torch._device")
    return module if module is not None and module.is_initialized() else None


def current_device() -> int:
    """Returns the number of PyTorch's current device; 0 if the device is not in use."""
    device = device_module()
    return 0 if device is None else int(device.current_device())


def set_current_device(number: int) -> None:
    """Makes a device PyTorch's current device, if the device is in use."""
    device = device_module()
    if device is not None:
        device.set_device(number)


def current_stream(device: int) -> int:
    """Returns the number of PyTorch's current stream on a device; 0 if the device is not in use."""
    if device_module() is None:
        return 0
    import torch

    return int(torch._C._accelerator_getStream(device).stream_id)


def place_of(arguments: Iterable[Any], stream: Any) -> Place | None:
    """Returns where a launch takes time: the first tensor's device, and a stream. None without tensors of the device.

    Args:
        arguments: the arguments of the launch.
        stream: the stream for a launch on the current device. On another one, its current stream is used.
    """
    if device_module() is None:
        return None
    device = next((one for one in map(_device_of, arguments) if one is not None), None)
    if device is None:
        return None
    current = current_stream(device)
    if stream is None or stream == current or device != current_device():
        return device, current
    return device, _checked(device, stream)


def _checked(device: int, stream: Any) -> int:
    """Returns the number of a stream that the caller gave. Raises InputError, before the launch, if there is none."""
    from cubeyard import _native

    _native.torch_launch(device, int(stream), [], 0, 0)
    return int(stream)


def _device_of(argument: Any) -> int | None:
    """Returns the number of the device that holds an argument, or None."""
    from cubeyard.torch import _loader

    given = argument.base if is_descriptor(argument) else argument
    if not hasattr(given, "untyped_storage"):
        return None
    device = given.device if hasattr(given, "device") else given.untyped_storage().device
    return int(device.index) if device.type == _loader.name else None


def charge(place: Place | None, launch: Any, report: Any) -> None:
    """Takes the time of a performed launch.

    Args:
        place: where it takes time. None for a launch that only `timed` sees.
        launch: the launch.
        report: its `LaunchReport`.
    """
    if place is None:
        times = _times.get()
        if times is not None:
            times.append(report.max_ps)
        return
    from cubeyard import _native
    from cubeyard.torch import _timeline

    device, stream = place
    settings = launch.settings
    pes = _numbers(tuple(report.pes), device if settings.sips == (0,) else None)
    span = _native.torch_launch(device, stream, pes, report.max_ps, _host_ps(settings.topology))
    _timeline.note("launch", launch.program.name, device, stream, span, pes)


def _host_ps(topology: Any) -> int | None:
    """Returns the host's time for each launch on a machine that the caller gave, or None for the device's own."""
    if topology is None:
        return None
    from cubeyard.machine.topology import resolve

    nanoseconds: float = resolve(topology)["host.launch_ns"]
    return round(nanoseconds * 1000)


@functools.lru_cache(maxsize=64)
def _numbers(names: tuple[str, ...], sip: int | None) -> list[tuple[int, int, int]]:
    """Returns the numbers of SIP, cube and PE from the names of PEs. A given SIP replaces the SIP of the names."""
    found = [tuple(map(int, re.findall(r"\d+", name))) for name in names]
    return [(of if sip is None else sip, cube, pe) for of, cube, pe in found]


@contextmanager
def timed() -> Iterator[list[int]]:
    """Collects the times of launches that take no time of a stream, in picoseconds."""
    times: list[int] = []
    outer = _times.get()
    token = _times.set(times)
    try:
        yield times
    finally:
        _times.reset(token)
        if outer is not None:
            outer.extend(times)


def measured(
    kernel_call: Callable[[], Any],
    warmup: Any = None,
    rep: Any = None,
    grad_to_none: Any = None,
    quantiles: Any = None,
    return_mode: str = "mean",
    **_: Any,
) -> Any:
    """Calls a function once. Returns the simulated time of the call in milliseconds, as `triton.testing.do_bench` does.

    The time is that between two events around the call on PyTorch's current stream, after all earlier work of the
    device, plus the times of launches on other arrays. Simulated time is exact, so one call is enough.

    Args:
        kernel_call: the function.
        warmup: not used.
        rep: not used.
        grad_to_none: tensors whose gradients are dropped before the call.
        quantiles: quantiles to return: a list, or a number if there is one quantile. All are equal.
        return_mode: `all` for a list of one time. `min`, `max`, `mean` and `median` are equal.
    """
    if return_mode not in _MODES:
        raise InputError(f"return_mode={return_mode!r}: expected one of {', '.join(_MODES)}")
    for tensor in grad_to_none or ():
        tensor.grad = None
    with timed() as times:
        passed = _watch()
        kernel_call()
    milliseconds = (sum(times) + passed()) / 1e9
    if quantiles is not None:
        return milliseconds if len(quantiles) == 1 else [milliseconds] * len(quantiles)
    return [milliseconds] if return_mode == "all" else milliseconds


def _watch() -> Callable[[], int]:
    """Waits for the current device. Returns a function that gives the time passed on its current stream since."""
    device, stream = current_device(), current_stream(current_device())
    of = device_module()
    if of is not None:
        of.synchronize(device)
    start = _time(device, stream)
    return lambda: _time(device, stream) - start


def _time(device: int, stream: int) -> int:
    """Returns the time at which a stream completes its work; 0 if the device is not in use."""
    if device_module() is None:
        return 0
    from cubeyard import _native

    return _native.torch_stream_time(device, stream)
