"""Runs that are reported: `simulate` for a block of a program, `profile` for a call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import torch

from cubeyard import _native
from cubeyard._base import checks
from cubeyard.errors import InputError
from cubeyard.machine.topology import Topology
from cubeyard.torch import _costs, _device, _timeline
from cubeyard.torch.profiling.charges import operators_take_time
from cubeyard.torch.profiling.report import Mark, Profile, profile_between
from cubeyard.torch.profiling.recorder import Recorder
from cubeyard.torch.profiling.shapes import shapes_alone

__all__ = ["Simulation", "profile", "simulate"]

UNLIMITED = 1 << 50
"""Bytes of a device in a run that may take more memory than the machine has."""

_lock = threading.Lock()
_running: Simulation | None = None


class Simulation:
    """Run of a block of a program, which `simulate` begins. After the block, it has a report of the whole and of steps.

    Args:
        data: Whether tensors have data.
        capacity: Bytes of device memory.
        enforce: Whether memory beyond the capacity raises an error.
    """

    def __init__(self, data: bool, capacity: int, enforce: bool) -> None:
        self.data = data
        """Whether tensors have data."""
        self.capacity = capacity
        """Bytes of memory of each device."""
        self._recorder = Recorder(data, capacity if enforce else UNLIMITED)
        self._recorder.stepped = self._stepped
        self._stack = ExitStack()
        self._marks: list[Mark] = []
        self._end: Mark | None = None
        self._measuring = False

    def __enter__(self) -> Simulation:
        _claim(self)
        try:
            self._stack.callback(_release, self)
            timeline = self._stack.enter_context(_timeline.record_timeline())
            timeline.spans = _Spans(self._recorder.noted)
            self._stack.enter_context(operators_take_time())
            self._stack.enter_context(_costs.observed(self._recorder.charged))
            self._recorder.begin()
            self._stack.callback(self._recorder.end)
            if not self.data:
                self._stack.enter_context(shapes_alone(self._recorder.mark_parameter))
            self._stack.enter_context(self._recorder)
            self._marks.append(self._synchronized())
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end = self._synchronized()
        self._stack.close()

    @property
    def profile(self) -> Profile:
        """Report from the begin of the block to its end, or to the present."""
        end = self._end if self._end is not None else self._synchronized()
        return profile_between(self._recorder, self._marks[0], end, self.capacity)

    @property
    def steps(self) -> list[Profile]:
        """Reports of the steps: each ends with a call of an optimizer's `step()`. Without such a call, one of the whole."""
        if len(self._marks) == 1:
            return [self.profile]
        pairs = zip(self._marks, self._marks[1:], strict=False)
        return [profile_between(self._recorder, begin, end, self.capacity) for begin, end in pairs]

    def measure(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Profile:
        """Calls a function within the block, and returns the report of the call."""
        if self._measuring:
            raise InputError("profile() is called by a function that is being profiled: profile one of the two")
        self._measuring = True
        try:
            begin = self._synchronized()
            value = function(*args, **kwargs)
            return profile_between(self._recorder, begin, self._synchronized(), self.capacity, value)
        finally:
            self._measuring = False

    def _stepped(self) -> None:
        self._marks.append(self._mark(max(map(_end_of, range(_device.device_count())))))

    def _synchronized(self) -> Mark:
        """Returns the present place in the record, after the devices have finished their work."""
        for device in range(_device.device_count()):
            _device.synchronize(device)
        return self._mark(_native.torch_now())

    def _mark(self, time: int) -> Mark:
        changes = {number: len(log.changes) for number, log in self._recorder.memory.logs.items()}
        return Mark(time, len(self._recorder.operations), changes)


class _Spans(list[_timeline.TimelineSpan]):
    """Spans of a timeline, which are passed on when they are added."""

    def __init__(self, added: Callable[[_timeline.TimelineSpan], None]) -> None:
        super().__init__()
        self._added = added

    def append(self, span: _timeline.TimelineSpan) -> None:
        super().append(span)
        self._added(span)


def simulate(*, data: bool = True, capacity: int | None = None, enforce: bool = True) -> Simulation:
    """Begins a run whose operators take simulated time, and whose memory is recorded. Used as `with simulate() as run:`.

    Args:
        data: False for a run of shapes alone: tensors have no data, so a model of any size runs on a laptop. Models and
            inputs are made inside the block. An operator that needs the value of a tensor raises `InputError`.
        capacity: Bytes of memory of each device for a run without data; by default, the HBM of a SIP.
        enforce: False to let a run without data take more memory than there is; the report tells how much it needs.

    >>> import torch
    >>> with torch.ahbm.simulate(data=False) as run:
    ...     x = torch.empty(1 << 20, 1 << 10, device="ahbm")
    >>> run.profile.memory.peak_bytes
    4294967296
    """
    _device._lazy_init()
    if capacity is not None and data:
        raise InputError("capacity is for a run without data; CUBEYARD_DEVICE_MEMORY sets the memory of the devices")
    if not enforce and data:
        raise InputError("enforce=False is for a run without data: memory with data cannot exceed that of the device")
    if data:
        found = _device.get_device_properties(0).total_memory
    else:
        found = _hbm_bytes() if capacity is None else checks.count("capacity", capacity, UNLIMITED, 1)
    return Simulation(data, found, enforce)


def profile(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Profile:
    """Calls a function, and returns the report of the call: its time, its memory, and what limits it.

    Inside `with simulate(data=False)`, the call runs without data. The result of the call is `Profile.value`.

    Args:
        function: The function.
        *args: Its arguments.
        **kwargs: Its keyword arguments.

    >>> import torch
    >>> x = torch.ones(1 << 20, device="ahbm")
    >>> step = torch.ahbm.profile(lambda: x + x)
    >>> [row["operator"] for row in step.rows()]
    ['aten::add.Tensor']
    """
    if _running is not None:
        return _running.measure(function, *args, **kwargs)
    with simulate() as run:
        return run.measure(function, *args, **kwargs)


def _claim(simulation: Simulation) -> None:
    global _running
    with _lock:
        if _running is not None:
            raise InputError("simulate() is already running: a program has one run at a time; use profile() inside the block")
        if simulation._marks:
            raise InputError("this run has ended: call simulate() again")
        _running = simulation


def _release(simulation: Simulation) -> None:
    global _running
    with _lock:
        if _running is simulation:
            _running = None


def _end_of(device: int) -> int:
    """Returns the time at which a device's current stream has finished its work."""
    return _native.torch_stream_time(device, int(torch._C._accelerator_getStream(device).stream_id))


def _hbm_bytes() -> int:
    """Returns the HBM of a SIP in bytes."""
    figures = Topology._of(_native.torch_topology()).figures()
    return figures.hbm_bytes_per_pe * figures.pes_per_cube * figures.cubes_per_sip
