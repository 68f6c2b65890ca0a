"""Programs: compiled kernels as functions that run on PEs."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

from cubeyard._native import KernelKey
from cubeyard.errors import InputError
from cubeyard.kernels.kernel import Kernel

# Each module registers the operations that it lowers.
from cubeyard.triton import (  # noqa: F401
    _atomic_reads,
    _atomics,
    _descriptors,
    _elementwise,
    _flow,
    _joins,
    _lookups,
    _map,
    _memory,
    _print,
    _reduce,
    _shapes,
)
from cubeyard.triton._analysis import Facts, facts, recognized
from cubeyard.triton._chains import tile_of
from cubeyard.triton._frame import Builder, Frame, Steps, run, run_plain, uses_of
from cubeyard.triton._homes import Anchor, anchors, is_long
from cubeyard.triton._ir import Kernel as KernelBody

__all__ = ["SCHEDULES", "LaunchedKernel", "Notes", "Program", "Schedule", "Work", "find_schedule", "program_of"]

Shares = tuple[tuple[int, ...], ...]
"""Programs of each PE."""

Schedule = Callable[[int, int, int], Sequence[int]]
"""Function that returns the programs of a PE, from the PE's number, the number of PEs and the number of programs."""


def waves(pe: int, pes: int, programs: int) -> range:
    """Assigns programs to PEs round-robin."""
    return range(pe, programs, pes)


def blocks(pe: int, pes: int, programs: int) -> range:
    """Assigns consecutive programs to each PE, as a row-wise placement assigns rows."""
    share = -(-programs // pes)
    return range(min(pe * share, programs), min((pe + 1) * share, programs))


SCHEDULES: dict[str, Schedule] = {"homes": waves, "waves": waves, "blocks": blocks}
"""Schedules by name. `homes` is `waves` for programs without a home."""


def find_schedule(schedule: str | Schedule, shares: Shares | None = None) -> Schedule:
    """Returns a schedule by name, or the given function. Programs with homes have shares."""
    if callable(schedule):
        return schedule
    if schedule not in SCHEDULES:
        raise InputError(f"schedule={schedule!r}: expected one of {', '.join(SCHEDULES)}, or a function")
    return SCHEDULES[schedule] if shares is None else lambda pe, pes, programs: shares[pe]


def _position(number: int, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    """Returns the position of a program in the grid. The first axis varies fastest."""
    x, y, _ = grid
    return number % x, number // x % y, number // (x * y)


Description = tuple[list[int], list[int], float]
"""Shape, strides in elements, and padding value outside the tensor."""

_MOST_KERNELS = 16
"""Maximum number of a program's launches whose recordings are kept."""

Notes = set[tuple[str, str, str]]
"""Remarks about the cost of a kernel's patterns on this machine: line, kind and text."""


@dataclass
class Work:
    """One launch: the arguments, the grid, and the programs of each PE."""

    values: dict[int, Any]
    """Known arguments by value number."""
    pointers: list[int]
    """Value numbers of the addresses, in the order of the arguments."""
    places: list[tuple[int, int]]
    """For each address, the index of its tensor, and its offset there in bytes."""
    described: dict[int, Description]
    """Descriptors made by the host, by value number."""
    grid: tuple[int, int, int]
    schedule: Schedule
    live: bool
    name: str | None
    """Name of the schedule, or None for the caller's function."""
    shares: Shares | None = None
    """Programs of each PE, if they follow from the homes of programs."""
    sips: int = 1
    """Number of participating SIPs. With several, the kernel's last argument is the index of its SIP."""
    notes: Notes = field(default_factory=set)
    masks: dict[Any, Any] = field(default_factory=dict)
    reserved: dict[int, list[Any]] = field(default_factory=dict)
    """Atomic operations by address, in order of arrival."""


class LaunchedKernel(Kernel):
    """Kernel for launches with equal numbers, grid and schedule. Launches on the same tensors reuse its recordings."""

    def __init__(self, function: Callable[..., Any], name: str, work: Work) -> None:
        """Makes the kernel for a launch and for others like it."""
        super().__init__(function, live=work.live, name=name)
        self.work, self._own = work, KernelKey()

    def _key(self) -> KernelKey:
        return KernelKey() if self.live else self._own


def program_of(name: str, data: bytes) -> Program:
    """Returns the program of a decoded kernel. Compilations that differ in options without effect share it and its recordings."""
    found = _programs.get((name, data))
    if found is None:
        found = _programs[name, data] = Program(name, data)
    return found


class Program:
    """Compiled kernel, ready for launches."""

    def __init__(self, name: str, data: bytes) -> None:
        """Reads a kernel. Operations without a counterpart raise at the first launch."""
        self.name = name
        self.kernel: KernelBody = pickle.loads(data)
        self.kernel.body = recognized(self.kernel.body, uses_of(self.kernel.body))
        self._steps: dict[bool, Steps] = {}
        self._kernels: dict[Hashable, LaunchedKernel] = {}
        self._offsets: dict[Hashable, tuple[int, tuple[int, ...]] | None] = {}

    def kernel_of(self, work: Work) -> LaunchedKernel:
        """Returns the kernel of a launch. A recorded kernel of an equal earlier launch is reused."""
        if work.live or work.name is None:
            return LaunchedKernel(self.function(work), self.name, work)
        key = (work.grid, work.name, repr(work.values), tuple(work.pointers), tuple(work.places), repr(work.described), work.sips, work.shares)
        kernel = self._kernels.pop(key, None) or LaunchedKernel(self.function(work), self.name, work)
        self._kernels[key] = kernel
        if len(self._kernels) > _MOST_KERNELS:
            del self._kernels[next(iter(self._kernels))]
        return kernel

    def offsets(self, values: dict[int, Any], grid: tuple[int, int, int]) -> tuple[int, tuple[int, ...]] | None:
        """Returns a pointer, by value number, and for each program the bytes after it at which the program has its home.

        None if the kernel runs live, or its addresses are not known before.
        """
        key = (grid, repr(values))
        if key not in self._offsets:
            if len(self._offsets) >= _MOST_KERNELS:
                del self._offsets[next(iter(self._offsets))]
            pointers = [one for one in self.kernel.body.arguments if self.kernel.types[one].element == "ptr"]
            found = ((one.argument, one.offsets(values, pointers, grid)) for one in self._anchors)
            self._offsets[key] = next(((argument, tuple(of)) for argument, of in found if of is not None), None)
        return self._offsets[key]

    @cached_property
    def _anchors(self) -> list[Anchor]:
        return [] if self.facts.live else anchors(self.kernel)

    @cached_property
    def is_long(self) -> bool:
        """Whether programs loop or multiply matrices."""
        return is_long(self.kernel.body)

    @cached_property
    def facts(self) -> Facts:
        """Static facts about the kernel."""
        return facts(self.kernel)

    def steps(self, live: bool) -> Steps:
        """Returns the kernel's steps, for recording or for running live."""
        if live not in self._steps:
            self._steps[live] = Builder(self.kernel, live, self.facts.wanted).steps(self.kernel.body)
        return self._steps[live]

    def function(self, work: Work) -> Callable[..., Any]:
        """Returns the kernel function of a launch. Each PE calls it with the launch's tensors."""
        steps = self.steps(work.live)
        return _live(self.kernel, steps, work) if work.live else _recorded(self.kernel, steps, work)


_programs: WeakValueDictionary[tuple[str, bytes], Program] = WeakValueDictionary()
"""Programs of compiled kernels that are in use."""


def _frame(kernel: KernelBody, work: Work, tensors: tuple[Any, ...], tl: Any) -> tuple[Frame, Sequence[int]]:
    """Returns a PE's frame with its arguments, and the programs of the PE."""
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
            tl.begin_part()
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
    """Runs a program to its end and sends it the elements that it waits for."""

    async def drive() -> None:
        elements: Any = None
        while True:
            try:
                wanted = flow.send(elements)
            except StopIteration:
                return
            elements = await frame.tl.value(tile_of(wanted, frame.tl))

    return drive()
