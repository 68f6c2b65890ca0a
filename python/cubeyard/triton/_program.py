"""Programs: compiled kernels as functions that run on PEs."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from cubeyard._native import KernelKey
from cubeyard.errors import InputError
from cubeyard.kernels.kernel import Kernel

# Each of them registers the operations that it lowers.
from cubeyard.triton import _atomics, _descriptors, _elementwise, _flow, _memory, _reduce, _shapes  # noqa: F401
from cubeyard.triton._analysis import Facts, facts, recognized
from cubeyard.triton._chains import tile_of
from cubeyard.triton._frame import Builder, Frame, Steps, run, run_plain, uses_of
from cubeyard.triton._ir import Kernel as KernelBody

__all__ = ["SCHEDULES", "LaunchedKernel", "Notes", "Program", "Schedule", "Work", "find_schedule"]

Schedule = Callable[[int, int, int], range]
"""Returns the programs of a PE, given its number, the number of PEs, and the number of programs."""


def waves(pe: int, pes: int, programs: int) -> range:
    """Gives programs to the PEs in turn: the first to the first PE, and again from the first PE when all have one."""
    return range(pe, programs, pes)


def blocks(pe: int, pes: int, programs: int) -> range:
    """Gives each PE programs that follow each other, as a placement by rows gives it rows."""
    share = -(-programs // pes)
    return range(min(pe * share, programs), min((pe + 1) * share, programs))


SCHEDULES: dict[str, Schedule] = {"waves": waves, "blocks": blocks}
"""Schedules by name."""


def find_schedule(schedule: str | Schedule) -> Schedule:
    """Returns a schedule by name, or the given function."""
    if callable(schedule):
        return schedule
    if schedule not in SCHEDULES:
        raise InputError(f"schedule={schedule!r}: expected one of {', '.join(SCHEDULES)}, or a function")
    return SCHEDULES[schedule]


def _position(number: int, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    """Returns the position of a program in the grid; the first axis counts fastest."""
    x, y, _ = grid
    return number % x, number // x % y, number // (x * y)


Description = tuple[list[int], list[int], float]
"""Shape, strides in elements, and what is read outside of a tensor."""

_MOST_KERNELS = 16
"""Launches of a program whose recordings are kept."""

Notes = set[tuple[str, str, str]]
"""Line, kind and text of what the pattern of a kernel costs on this machine."""


@dataclass
class Work:
    """One launch: the arguments, the grid, and the programs of each PE."""

    values: dict[int, Any]
    """Known arguments by their value's number."""
    pointers: list[int]
    """Numbers of the values that are addresses, in the order of the arguments."""
    places: list[tuple[int, int]]
    """For each of them, the number of its tensor, and its offset in bytes there."""
    described: dict[int, Description]
    """Descriptors that the host made, of those values."""
    grid: tuple[int, int, int]
    schedule: Schedule
    live: bool
    name: str | None
    """Name of the schedule; None for a function of the caller."""
    sips: int = 1
    """SIPs that take part; if there are several, the last argument of the kernel is the position of its SIP."""
    notes: Notes = field(default_factory=set)
    masks: dict[Any, Any] = field(default_factory=dict)
    reserved: dict[int, list[Any]] = field(default_factory=dict)
    """Atomic operations by address, in the order of their arrival."""


class LaunchedKernel(Kernel):
    """A kernel for launches with the same numbers, grid and schedule, whose recordings are reused for the same tensors."""

    def __init__(self, function: Callable[..., Any], name: str, work: Work) -> None:
        """Makes the kernel of a launch, and of others like it."""
        super().__init__(function, live=work.live, name=name)
        self.work, self._own = work, KernelKey()

    def _key(self) -> KernelKey:
        return KernelKey() if self.live else self._own


class Program:
    """A compiled kernel."""

    def __init__(self, name: str, data: bytes) -> None:
        """Reads a kernel; operations without a counterpart are errors when it is launched first."""
        self.name = name
        self.kernel: KernelBody = pickle.loads(data)
        self.kernel.body = recognized(self.kernel.body, uses_of(self.kernel.body))
        self._steps: dict[bool, Steps] = {}
        self._kernels: dict[Hashable, LaunchedKernel] = {}

    def kernel_of(self, work: Work) -> LaunchedKernel:
        """Returns the kernel of a launch: that of an earlier one with the same numbers, if its programs were recorded."""
        if work.live or work.name is None:
            return LaunchedKernel(self.function(work), self.name, work)
        key = (work.grid, work.name, repr(work.values), tuple(work.pointers), tuple(work.places), repr(work.described), work.sips)
        kernel = self._kernels.pop(key, None) or LaunchedKernel(self.function(work), self.name, work)
        self._kernels[key] = kernel
        if len(self._kernels) > _MOST_KERNELS:
            del self._kernels[next(iter(self._kernels))]
        return kernel

    @cached_property
    def facts(self) -> Facts:
        """Facts that are known before the kernel runs."""
        return facts(self.kernel)

    def steps(self, live: bool) -> Steps:
        """Returns the kernel as steps, to be recorded or to run live."""
        if live not in self._steps:
            self._steps[live] = Builder(self.kernel, live, self.facts.wanted).steps(self.kernel.body)
        return self._steps[live]

    def function(self, work: Work) -> Callable[..., Any]:
        """Returns the kernel of a launch, to be called by a PE with the launch's tensors."""
        steps = self.steps(work.live)
        return _live(self.kernel, steps, work) if work.live else _recorded(self.kernel, steps, work)


def _frame(kernel: KernelBody, work: Work, tensors: tuple[Any, ...], tl: Any) -> tuple[Frame, range]:
    """Returns the frame of a PE with its arguments, and its programs."""
    grid = work.grid
    frame = Frame(tl, kernel.line, len(kernel.types), grid, (work.masks, work.notes, work.reserved), work.live)
    for value, given in work.values.items():
        frame.env[value] = given
    for value, (number, offset) in zip(work.pointers, work.places, strict=True):
        frame.env[value] = tensors[number].whole.address + offset
    for value, description in work.described.items():
        frame.env[value] = _descriptors.Descriptor(frame.env[value], *description)
    within, cubes = tl.num_programs(0), tl.num_programs(1)
    sip = int(tensors[-1]) if work.sips > 1 else 0
    number = (sip * cubes + tl.program_id(1)) * within + tl.program_id(0)
    return frame, work.schedule(number, within * cubes * work.sips, grid[0] * grid[1] * grid[2])


def _recorded(kernel: KernelBody, steps: Steps, work: Work) -> Callable[..., Any]:
    def recorded(*tensors: Any, tl: Any) -> None:
        frame, programs = _frame(kernel, work, tensors, tl)
        for number in programs:
            frame.pid = _position(number, work.grid)
            if steps.plain:
                run_plain(steps, frame)
            else:
                for wanted in run(steps, frame):
                    raise AssertionError(f"a recorded kernel waits for {wanted}")

    return recorded


def _live(kernel: KernelBody, steps: Steps, work: Work) -> Callable[..., Any]:
    async def live(*tensors: Any, tl: Any) -> None:
        frame, programs = _frame(kernel, work, tensors, tl)
        for number in programs:
            frame.pid = _position(number, work.grid)
            await _driven(run(steps, frame), frame)

    return live


def _driven(flow: Any, frame: Frame) -> Coroutine[Any, Any, None]:
    """Runs a program to its end, and gives it the elements for which it waits."""

    async def drive() -> None:
        elements: Any = None
        while True:
            try:
                wanted = flow.send(elements)
            except StopIteration:
                return
            elements = await frame.tl.value(tile_of(wanted, frame.tl))

    return drive()
