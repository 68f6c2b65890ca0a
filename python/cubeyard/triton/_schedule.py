"""Schedules: the programs of a grid that each PE runs, in order."""

from __future__ import annotations

from collections.abc import Callable

from cubeyard.errors import InputError

__all__ = ["SCHEDULES", "find", "program"]

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


def find(schedule: str | Schedule) -> Schedule:
    """Returns a schedule by name, or the given function."""
    if callable(schedule):
        return schedule
    if schedule not in SCHEDULES:
        raise InputError(f"schedule={schedule!r}: expected one of {', '.join(SCHEDULES)}, or a function")
    return SCHEDULES[schedule]


def program(number: int, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    """Returns the position of a program in the grid; the first axis counts fastest."""
    x, y, _ = grid
    return number % x, number // x % y, number // (x * y)
