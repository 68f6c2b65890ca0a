"""Launches: arrays are placed on a machine, PEs run the programs, and results are read back."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from cubeyard import _dtype
from cubeyard.context import Context
from cubeyard.errors import InputError
from cubeyard.kernel import LaunchReport, launch_together
from cubeyard.placement import Placement
from cubeyard.tensor import Tensor
from cubeyard.triton._arguments import ROWS, Placed, is_descriptor, is_tensor, memory, of_torch
from cubeyard.triton._elements import is_float, rounded
from cubeyard.triton._program import Description, Notes, Program, Work
from cubeyard.triton._schedule import Schedule, find

__all__ = ["Launch", "Settings", "prepared"]

Grid = tuple[int, int, int]


@dataclass(frozen=True)
class Settings:
    """Settings of launches, which `cubeyard.triton.record` sets."""

    topology: Any = None
    schedule: str | Schedule = "waves"
    data: bool = True
    placement: Placement = ROWS
    cubes: Any = None
    pes: Any = None
    sips: tuple[int, ...] = (0,)


@dataclass
class Launch:
    """A launch that is ready to run."""

    program: Program
    grid: Grid
    settings: Settings
    values: dict[int, Any]
    pointers: list[int]
    tensors: list[Any]
    """Placed arrays, and tensors of this package, in the order of `pointers`."""
    described: dict[int, Description] = field(default_factory=dict)
    """Descriptors that the host made: those of `pointers` that are not plain addresses."""

    def context(self) -> Context | None:
        """Returns the context of the tensors of this package among the arguments."""
        found = {id(one.context): one.context for one in self.tensors if isinstance(one, Tensor)}
        if len(found) > 1:
            raise InputError(f"kernel {self.program.name}: expected tensors of one context, found those of {len(found)}")
        return next(iter(found.values()), None)

    def run(self, context: Context, notes: Notes) -> LaunchReport:
        """Runs it on a context: places arrays, launches the kernel, and reads back what it wrote."""
        kernel = self.program.kernel_of(self._work())
        self._check(kernel.work.live)
        tensors = [self._deployed(context, one) for one in self.tensors]
        of = self.settings
        if len(of.sips) == 1:
            report = context.launch(kernel, *tensors, sip=of.sips[0], cubes=of.cubes, pes=of.pes)
        else:
            report = launch_together(context, kernel, tensors, of.sips, of.cubes, of.pes)
        notes |= kernel.work.notes
        if self.settings.data:
            self._read_back(tensors)
        return report

    def _work(self) -> Work:
        of = self.settings
        live, named = bool(self.program.facts.live) and of.data, of.schedule if isinstance(of.schedule, str) else None
        return Work(self.values, self.pointers, self.described, self.grid, find(of.schedule), live, named, len(of.sips))

    def _check(self, live: bool) -> None:
        if self.program.facts.decided and not live:
            raise InputError(f"{self.program.facts.live}, which are not known without data: set data=True")

    def _deployed(self, context: Context, given: Any) -> Tensor:
        if isinstance(given, Tensor):
            return given
        flat = memory(given.array)
        if self.settings.data:
            made = context.from_numpy(flat, given.element)
        else:
            made = context.empty(flat.shape, given.element or _dtype.name_of(flat.dtype))
        return made.to(_spread(given.placement or self.settings.placement, self.settings.sips))

    def _read_back(self, tensors: list[Tensor]) -> None:
        """Writes results into the arrays of the launch."""
        written = self.program.facts.written
        arguments = self.program.kernel.body.arguments
        for value, tensor, given in zip(self.pointers, tensors, self.tensors, strict=True):
            if isinstance(given, Tensor) or (written is not None and arguments.index(value) not in written):
                continue
            flat = memory(given.array)
            flat[...] = tensor.numpy().view(flat.dtype).reshape(flat.shape)


def prepared(program: Program, grid: Grid, settings: Settings, given: dict[str, Any]) -> Launch:
    """Sorts the arguments of a launch into memory and numbers."""
    launch = Launch(program, grid, settings, {}, [], [])
    left = iter(zip(program.kernel.names, program.kernel.body.arguments, strict=True))
    for name, value in left:
        if name not in given:
            raise InputError(f"kernel {program.name}: argument {name} has no counterpart among {', '.join(given)}")
        argument, of = given[name], program.kernel.types[value]
        if of.element == "desc":
            _describe(launch, name, value, argument, [after for _, after in islice(left, 2 * len(of.shape))])
        elif of.element == "ptr" and is_tensor(argument):
            launch.pointers.append(value)
            launch.tensors.append(_placed(argument))
        elif of.element == "ptr":
            raise InputError(f"argument {name}: expected an array or a tensor, found {type(argument).__name__}")
        else:
            launch.values[value] = _number(argument, of.element)
    return launch


def _describe(launch: Launch, name: str, value: int, argument: Any, after: list[int]) -> None:
    """Takes a descriptor, whose shape and strides are the arguments after it."""
    if not is_descriptor(argument) or not is_tensor(argument.base):
        raise InputError(f"argument {name}: expected a TensorDescriptor of an array, found {type(argument).__name__}")
    shape, strides = ([int(one) for one in of] for of in (argument.shape, argument.strides))
    launch.pointers.append(value)
    launch.tensors.append(_placed(argument.base))
    launch.described[value] = (shape, strides, math.nan if argument.padding == "nan" else 0)
    launch.values.update(zip(after, shape + strides, strict=True))


def _spread(placement: Placement, sips: tuple[int, ...]) -> Placement:
    """Returns a placement on the SIPs of a launch, unless it names SIPs itself: rows over all SIPs, or copies."""
    if placement.sips != (0,) or sips == (0,):
        return placement
    rows = "row_wise" if "row_wise" in (placement.cube, placement.pe) else placement.sip
    return replace(placement, sip=rows, sips=sips)


def _placed(argument: Any) -> Any:
    if isinstance(argument, Placed | Tensor):
        return argument
    return Placed(argument, None) if isinstance(argument, np.ndarray) else of_torch(argument)


def _number(argument: Any, element: str) -> Any:
    plain = argument.item() if isinstance(argument, np.generic) else argument
    if is_float(element):
        return rounded(float(plain), element)
    return bool(plain) if element == "i1" else int(plain)
