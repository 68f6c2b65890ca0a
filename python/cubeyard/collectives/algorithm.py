"""Collective algorithms implemented as Python modules (ADR-0047 D3)."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from cubeyard.errors import InputError
from cubeyard.tensors.channels import port_number

__all__ = ["Algorithm", "finder"]

KINDS = {"ring_1d": 0, "torus_2d": 1, "mesh_2d_no_wrap": 2}


class Algorithm:
    """Module with `kernel(tensor, *arguments, rank, kind, w, h, tl)` and `kernel_args(ranks, elements, cube_w, cube_h)`.

    The module may define `wires(ranks)` for its own channels, and `order(ranks)` for the order of its additions.
    """

    def __init__(self, module: ModuleType, cube_w: int, cube_h: int) -> None:
        for name in ("kernel", "kernel_args"):
            if not callable(getattr(module, name, None)):
                raise InputError(f"a module with a function `{name}`")
        self.module = module
        self.cubes = (cube_w, cube_h)

    def wires(self, ranks: int) -> list[tuple[int, int, int, int]] | None:
        """Returns the channels of the module's `wires(ranks)` as (rank, port, rank, port), or None if it has none."""
        wires = getattr(self.module, "wires", None)
        if wires is None:
            return None
        return [(a, port_number(out), b, port_number(into)) for a, out, b, into in wires(ranks)]

    def order(self, ranks: int) -> list[Any] | None:
        """Returns the reduction trees of the module's `order(ranks)`, one per equal part of a PE's elements.

        A tree is a rank or a pair of trees. None if the module states no order; the algorithm is then simulated with values.
        """
        order = getattr(self.module, "order", None)
        if order is None:
            return None
        stated = order(ranks)
        return stated if isinstance(stated, list) else [stated]

    def body(self, grid: Sequence[int], wraps: Sequence[bool]) -> Callable[..., None]:
        """Returns the kernel that the process group launches, with input, output and rank numbers as arguments."""
        ranks = 1
        for length in grid:
            ranks *= length
        kind = getattr(self.module, "TOPO_NAME_TO_KIND", KINDS)[_name(grid, wraps)]
        w, h = (grid[0], grid[1]) if len(grid) > 1 else (grid[0], 1)

        def body(tensor: Any, output: Any, first: int, cubes: int, pes: int, tl: Any) -> None:
            if not tensor.held:
                return
            rank = first + tl.program_id(1) * cubes + tl.program_id(0) * pes
            elements = 1
            for length in tensor.shape:
                elements *= length
            arguments = self.module.kernel_args(ranks, elements, *self.cubes)
            self.module.kernel(output, *arguments, rank, kind, w, h, tl=tl)

        return body


def finder(cube_w: int, cube_h: int) -> Callable[[str], Algorithm | None]:
    """Returns a function that finds an algorithm by its module name."""

    def find(name: str) -> Algorithm | None:
        try:
            known = importlib.util.find_spec(name) is not None
        except (ImportError, ValueError):
            known = False
        return Algorithm(importlib.import_module(name), cube_w, cube_h) if known else None

    return find


def _name(grid: Sequence[int], wraps: Sequence[bool]) -> str:
    if len(grid) < 2:
        return "ring_1d"
    return "torus_2d" if any(wraps) else "mesh_2d_no_wrap"
