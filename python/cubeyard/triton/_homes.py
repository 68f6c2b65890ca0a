"""Homes of programs: the PE that holds most of what a program stores, or else of what it loads.

The addresses of the largest store outside of loops are computed for every program, without the rest of the kernel. They
are offsets from one argument, so equal launches share them. A program without such a store has the home of its largest
load.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from cubeyard.errors import CubeyardError
from cubeyard.triton._elements import SIZES
from cubeyard.triton._frame import Builder, Frame, Step
from cubeyard.triton._ir import Block, Kernel, Line, Operation
from cubeyard.triton._values import Bools, Index, Node, Uniform

__all__ = ["Anchor", "anchors", "is_long", "shares"]

_LONG = ("scf.for", "scf.while", "tt.dot", "tt.call")
"""Operations of kernels whose programs take so long that each PE should have equally many."""


class Anchor:
    """Access whose addresses follow from one argument, the program ids and known numbers."""

    def __init__(self, kernel: Kernel, access: Operation, argument: int, steps: list[Operation]) -> None:
        """Takes an access, the value number of its argument, and the operations that compute its addresses and mask."""
        build = Builder(kernel, False)
        self.kernel, self.argument = kernel, argument
        self.steps: list[Step] = [build.step(one) for one in steps]
        self.pointer, self.mask = access.operands[0], _mask(access)

    def offsets(self, values: dict[int, Any], pointers: Sequence[int], grid: tuple[int, int, int]) -> list[int] | None:
        """Returns the middle of the access of each program, as bytes after the argument. None if one is not known."""
        frame = Frame(_Nothing(), self.kernel.line, len(self.kernel.types), grid, ({}, set(), {}), False)
        found = []
        x, y, z = grid
        for number in range(x * y * z):
            for value, given in [*values.items(), *((one, 0) for one in pointers)]:
                frame.env[value] = given
            frame.pid = (number % x, number // x % y, number // (x * y))
            try:
                for step in self.steps:
                    if step(frame) is not None:
                        return None
                found.append(_middle(frame.env[self.pointer], None if self.mask is None else frame.env[self.mask]))
            except (AttributeError, CubeyardError, _Unknown):
                return None
        return found


class _Unknown(Exception):
    """Signals addresses that are not known before the machine runs."""


class _Nothing:
    """Language without operations. Known values need none."""

    place: Line


def _mask(access: Operation) -> int | None:
    at = 2 if access.name == "tt.store" else 1
    return access.operands[at] if len(access.operands) > at else None


def _middle(pointer: Any, mask: Any) -> int:
    """Returns the middle of the addresses that a mask selects."""
    if isinstance(pointer, Uniform):
        return int(pointer.value)
    if isinstance(pointer, Index):
        used = mask.axes if isinstance(mask, Bools) else (None,) * len(pointer.shape)
        lengths = [length if of is None else max(int(np.count_nonzero(of)), 1) for length, of in zip(pointer.shape, used, strict=True)]
        middles = [of * (length - 1) // 2 if type(of) is int else int(of[length // 2]) for of, length in zip(pointer.axes, lengths, strict=True)]
        return pointer.base + sum(middles)
    if isinstance(pointer, Node):
        if not pointer.known:
            raise _Unknown
        return int(pointer.elements().reshape(-1)[pointer.elements().size // 2])
    return int(pointer)


def anchors(kernel: Kernel) -> list[Anchor]:
    """Returns the accesses outside of loops and branches that may decide: stores, then loads, the largest first."""
    found = []
    for name in ("tt.store", "tt.load"):
        accesses = [one for one in kernel.body.operations if one.name == name]
        accesses.sort(key=lambda one: -_bytes(kernel, one))
        found += [anchor for anchor in (_anchor(kernel, one) for one in accesses) if anchor is not None]
    return found


def _bytes(kernel: Kernel, access: Operation) -> int:
    of = kernel.types[access.operands[0]]
    return int(np.prod(of.shape, dtype=np.int64)) * SIZES[of.pointee]


def _anchor(kernel: Kernel, access: Operation) -> Anchor | None:
    """Returns an anchor if the addresses and the mask of an access follow from known values and one pointer."""
    made = {result: one for one in kernel.body.operations for result in one.results}
    pointers = {one for one in kernel.body.arguments if kernel.types[one].element == "ptr"}
    wanted = [access.operands[0], *([] if _mask(access) is None else [_mask(access)])]
    behind: dict[int, Operation] = {}
    bases: set[int] = set()
    while wanted:
        value = wanted.pop()
        if value in pointers:
            bases.add(value)
        elif value in made and id(made[value]) not in behind:
            one = made[value]
            if one.regions or one.name in ("tt.load", "tt.dot") or one.name.startswith("tt.atomic"):
                return None
            behind[id(one)] = one
            wanted += one.operands
    if len(bases) != 1:
        return None
    return Anchor(kernel, access, bases.pop(), [one for one in kernel.body.operations if id(one) in behind])


def is_long(block: Block) -> bool:
    """Returns whether programs loop, multiply matrices or call functions."""
    return any(one.name in _LONG or any(map(is_long, one.regions)) for one in block.operations)


@lru_cache(256)
def shares(homes: tuple[int | None, ...], pes: int, is_even: bool) -> tuple[tuple[int, ...], ...]:
    """Gives each program to its home, or to the nearest PE with room.

    Args:
        homes: the home of each program, None for any PE.
        pes: the number of PEs.
        is_even: whether no PE gets more programs than an even share. Otherwise a home may have twice an even share of the
            homes: programs that only move data are done sooner beside their data than elsewhere.
    """
    programs, known = len(homes), {one for one in homes if one is not None}
    most = -(-programs // pes)
    if not is_even and known:
        most = max(most, 2 * -(-programs // len(known)))
    found: list[list[int]] = [[] for _ in range(pes)]
    left = []
    for program, home in enumerate(homes):
        if home is not None and len(found[home]) < most:
            found[home].append(program)
        else:
            left.append((program, home))
    room = [pe for pe in range(pes) if len(found[pe]) < most]
    for program, home in left:
        pe = _nearest(room, program % pes if home is None else home)
        found[pe].append(program)
        if len(found[pe]) == most:
            room.remove(pe)
    return tuple(tuple(sorted(one)) for one in found)


def _nearest(room: list[int], home: int) -> int:
    """Returns the PE with room whose number is nearest."""
    at = bisect_left(room, home)
    return min(room[max(at - 1, 0) : at + 1], key=lambda pe: abs(pe - home))
