"""Launches: place arrays on a machine, run the programs on PEs, and read results back."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from cubeyard import _native
from cubeyard.errors import InputError
from cubeyard.kernels.kernel import LaunchReport, launch, launch_together, numbers
from cubeyard.tensors.context import Context
from cubeyard.tensors.placement import Placement
from cubeyard.tensors.tensor import Tensor
from cubeyard.triton._arguments import ROWS, OnDevice, Placed, is_descriptor, is_tensor, of_torch
from cubeyard.triton._elements import number
from cubeyard.triton._homes import shares
from cubeyard.triton._program import Description, LaunchedKernel, Notes, Program, Schedule, Shares, Work, find_schedule
from cubeyard.triton._sharing import Memory, memories

__all__ = ["Launch", "Settings", "prepared"]

Grid = tuple[int, int, int]


@dataclass(frozen=True)
class Settings:
    """Settings of launches, given to `cubeyard.triton.record`."""

    topology: Any = None
    schedule: str | Schedule = "homes"
    data: bool = True
    placement: Placement = ROWS
    cubes: Any = None
    pes: Any = None
    sips: tuple[int, ...] = (0,)


@dataclass
class Launch:
    """Launch that is ready to run."""

    program: Program
    grid: Grid
    settings: Settings
    values: dict[int, Any]
    pointers: list[int]
    tensors: list[Any]
    """Placed arrays, tensors of PyTorch's device and tensors of this package, in the order of `pointers`."""
    names: list[str] = field(default_factory=list)
    """Argument names of `tensors`."""
    described: dict[int, Description] = field(default_factory=dict)
    """Descriptors made by the host, for the `pointers` that are not plain addresses."""

    def context(self) -> Context | None:
        """Returns the context of the tensors of this package among the arguments, or None."""
        found = {id(one.context): one.context for one in self.tensors if isinstance(one, Tensor)}
        if len(found) > 1:
            raise InputError(f"kernel {self.program.name}: expected tensors of one context, found {len(found)} contexts")
        return next(iter(found.values()), None)

    def device(self) -> int | None:
        """Returns the number of PyTorch's device that holds the memory of the launch, or None.

        Raises:
            InputError: An argument is elsewhere.
        """
        found = [(name, one) for name, one in zip(self.names, self.tensors, strict=True) if isinstance(one, OnDevice)]
        if not found:
            return None
        first, device = found[0][0], found[0][1].device
        for name, one in zip(self.names, self.tensors, strict=True):
            if not isinstance(one, OnDevice):
                raise InputError(f"argument {name}: it is not on the device of argument {first}, ahbm:{device}: expected one device")
            if one.device != device:
                raise InputError(f"argument {name}: it is on ahbm:{one.device}, and argument {first} on ahbm:{device}: expected one device")
        return device

    def run(self, context: Context, notes: Notes) -> LaunchReport:
        """Runs the launch on a context. Arrays are placed there, and written arrays are read back."""
        device = self.device()
        return self._run_placed(context, notes) if device is None else self._run_shared(context, notes, device)

    def _run_shared(self, context: Context, notes: Notes, device: int) -> LaunchReport:
        """Runs the launch on memory that PyTorch's device shares with the machine."""
        context._native.share_torch(device)
        addresses = [_native.DeviceAddress(one.address) for one in self.tensors]
        sips = (device,) if self.settings.sips == (0,) else self.settings.sips
        shares = self._shares(context, [one.address for one in self.tensors], sips)
        kernel = self._kernel([(number, 0) for number in range(len(addresses))], shares)
        report = self._launched(context, kernel, addresses, sips)
        notes |= kernel.work.notes
        return report

    def _shares(self, context: Context, addresses: list[int | None], sips: tuple[int, ...]) -> Shares | None:
        """Returns the programs of each PE by their homes. None for other schedules, and if the homes are not known."""
        of = self.settings
        offsets = self.program.offsets(self.values, self.grid) if of.schedule == "homes" else None
        if offsets is None:
            return None
        base = addresses[self.pointers.index(offsets[0])]
        if base is None:
            return None
        targets = [(sip, numbers("cubes", of.cubes), numbers("pes", of.pes)) for sip in sips]
        pes, homes = _native.holders(context._native, [base + one for one in offsets[1]], targets)
        if not any(one is not None for one in homes):
            return None
        return shares(tuple(homes), pes, self.program.is_long)

    def _kernel(self, places: list[tuple[int, int]], shares: Shares | None) -> LaunchedKernel:
        kernel = self.program.kernel_of(self._work(places, shares))
        self._check(kernel.work.live)
        return kernel

    def _launched(self, context: Context, kernel: LaunchedKernel, arguments: list[Any], sips: tuple[int, ...]) -> LaunchReport:
        of = self.settings
        if len(sips) == 1:
            return launch(context._native, kernel, *arguments, sip=sips[0], cubes=of.cubes, pes=of.pes)
        return launch_together(context._native, kernel, arguments, sips, of.cubes, of.pes)

    def _run_placed(self, context: Context, notes: Notes) -> LaunchReport:
        """Runs the launch on arrays and tensors of this package: places arrays and reads written ones back."""
        shared, places = memories(self.names, self.tensors)
        of = self.settings
        tensors = [one.deployed(context, of.data, _spread(one.placement() or of.placement, of.sips)) for one in shared]
        bases = [tensors[number].va_base for number, _ in places]
        addresses = [None if base is None else base + offset for base, (_, offset) in zip(bases, places, strict=True)]
        kernel = self._kernel(places, self._shares(context, addresses, of.sips))
        report = self._launched(context, kernel, [one._native for one in tensors], of.sips)
        notes |= kernel.work.notes
        if self.settings.data:
            self._read_back(shared, tensors)
        return report

    def _work(self, places: list[tuple[int, int]], shares: Shares | None) -> Work:
        of = self.settings
        live, named = bool(self.program.facts.live) and of.data, of.schedule if isinstance(of.schedule, str) else None
        given = (self.values, self.pointers, places, self.described)
        return Work(*given, self.grid, find_schedule(of.schedule, shares), live, named, shares, len(of.sips))

    def _check(self, live: bool) -> None:
        if self.program.facts.decided and not live:
            raise InputError(f"{self.program.facts.live}, which are unknown without data: set data=True")

    def _read_back(self, shared: list[Memory], tensors: list[Tensor]) -> None:
        """Writes results into the arrays of the launch."""
        written, arguments = self.program.facts.written, self.program.kernel.body.arguments
        for one, tensor in zip(shared, tensors, strict=True):
            values = [self.pointers[part.position] for part in one.parts]
            if one.parts and (written is None or any(arguments.index(value) in written for value in values)):
                one.read_back(tensor)


def prepared(program: Program, grid: Grid, settings: Settings, given: list[tuple[str, Any]]) -> Launch:
    """Divides the named arguments of a launch into memory and numbers, following the order of the kernel's arguments."""
    launch = Launch(program, grid, settings, {}, [], [])
    left, taken = iter(program.kernel.body.arguments), 0
    for (name, argument), value in zip(given, left, strict=False):
        of, taken = program.kernel.types[value], taken + 1
        if of.element == "desc":
            _describe(launch, name, value, argument, list(islice(left, 2 * len(of.shape))))
        elif of.element == "ptr":
            _point(launch, name, value, argument)
        else:
            launch.values[value] = _number(name, argument, of.element)
    if taken < len(given) or next(left, None) is not None:
        wanted = len(program.kernel.body.arguments)
        raise InputError(f"kernel {program.name}: expected {wanted} arguments as in Triton's IR, found {len(given)}")
    return launch


def _point(launch: Launch, name: str, value: int, argument: Any) -> None:
    """Adds a memory argument."""
    if not is_tensor(argument):
        raise InputError(f"argument {name}: expected an array or a tensor, found {type(argument).__name__}")
    launch.pointers.append(value)
    launch.tensors.append(_placed(name, argument))
    launch.names.append(name)


def _describe(launch: Launch, name: str, value: int, argument: Any, after: list[int]) -> None:
    """Adds a descriptor. Its shape and strides are the arguments after it."""
    if not is_descriptor(argument) or not is_tensor(argument.base):
        raise InputError(f"argument {name}: expected a TensorDescriptor of an array, found {type(argument).__name__}")
    shape, strides = ([int(one) for one in of] for of in (argument.shape, argument.strides))
    _point(launch, name, value, argument.base)
    launch.described[value] = (shape, strides, math.nan if argument.padding == "nan" else 0)
    launch.values.update(zip(after, shape + strides, strict=True))


def _spread(placement: Placement, sips: tuple[int, ...]) -> Placement:
    """Extends a placement to the SIPs of a launch, by rows or copies, unless the placement names SIPs itself."""
    if placement.sips != (0,) or sips == (0,):
        return placement
    rows = "row_wise" if "row_wise" in (placement.cube, placement.pe) else placement.sip
    return replace(placement, sip=rows, sips=sips)


def _placed(name: str, argument: Any) -> Any:
    if isinstance(argument, Placed | Tensor):
        return argument
    return Placed(argument, None) if isinstance(argument, np.ndarray) else of_torch(name, argument)


def _number(name: str, argument: Any, element: str) -> Any:
    """Converts a number to the type that Triton compiled for it. A `u64` has the bits of an `i64`."""
    try:
        return number(argument.item() if isinstance(argument, np.generic) else argument, element)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"argument {name}: expected a number for {element}, found {argument!r}") from None
