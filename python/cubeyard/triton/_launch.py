"""Launches: arrays are placed on a machine, PEs run the programs, and results are read back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cubeyard import _dtype
from cubeyard.context import Context
from cubeyard.errors import InputError
from cubeyard.kernel import Kernel, LaunchReport
from cubeyard.placement import Placement
from cubeyard.tensor import Tensor
from cubeyard.triton._arguments import ROWS, Placed, is_tensor, memory, of_torch
from cubeyard.triton._elements import is_float, rounded
from cubeyard.triton._program import Notes, Program, Work
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

    def context(self) -> Context | None:
        """Returns the context of the tensors of this package among the arguments."""
        found = {id(one.context): one.context for one in self.tensors if isinstance(one, Tensor)}
        if len(found) > 1:
            raise InputError(f"kernel {self.program.name}: expected tensors of one context, found those of {len(found)}")
        return next(iter(found.values()), None)

    def run(self, context: Context, notes: Notes) -> LaunchReport:
        """Runs it on a context: places arrays, launches the kernel, and reads back what it wrote."""
        live = bool(self.program.facts.live) and self.settings.data
        self._check(live)
        work = Work(self.values, self.pointers, self.grid, find(self.settings.schedule), live, notes)
        tensors = [self._deployed(context, one) for one in self.tensors]
        kernel = Kernel(self.program.function(work), live=live, name=self.program.name)
        report = context.launch(kernel, *tensors, cubes=self.settings.cubes, pes=self.settings.pes)
        if self.settings.data:
            self._read_back(tensors)
        return report

    def _check(self, live: bool) -> None:
        if self.program.facts.decided and not live:
            raise InputError(f"{self.program.facts.live}, which are not known without data: set data=True")

    def _deployed(self, context: Context, given: Any) -> Tensor:
        if isinstance(given, Tensor):
            return given
        flat = memory(given.array)
        if self.settings.data:
            made = context.from_numpy(flat, given.dtype)
        else:
            made = context.empty(flat.shape, given.dtype or _dtype.name_of(flat.dtype))
        return made.to(given.placement or self.settings.placement)

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
    for name, value in zip(program.kernel.names, program.kernel.body.arguments, strict=True):
        if name not in given:
            raise InputError(f"kernel {program.name}: argument {name} has no counterpart among {', '.join(given)}")
        argument, of = given[name], program.kernel.types[value]
        if of.element == "ptr" and is_tensor(argument):
            launch.pointers.append(value)
            launch.tensors.append(_placed(argument))
        elif of.element == "ptr":
            raise InputError(f"argument {name}: expected an array or a tensor, found {type(argument).__name__}")
        else:
            launch.values[value] = _number(argument, of.element)
    return launch


def _placed(argument: Any) -> Any:
    if isinstance(argument, Placed | Tensor):
        return argument
    return Placed(argument, None) if isinstance(argument, np.ndarray) else of_torch(argument)


def _number(argument: Any, element: str) -> Any:
    plain = argument.item() if isinstance(argument, np.generic) else argument
    if is_float(element):
        return rounded(float(plain), element)
    return bool(plain) if element == "i1" else int(plain)
