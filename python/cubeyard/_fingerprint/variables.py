"""Outer variables that a function reads."""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Iterator
from typing import Any

from cubeyard._fingerprint import trust
from cubeyard._fingerprint.reads import WHOLE, Reads, Use
from cubeyard._fingerprint.trust import Unknown

__all__ = ["captured", "variables"]


def variables(function: types.FunctionType, read: Reads) -> Iterator[tuple[str, Any, Use]]:
    """Yields the outer variables that a function reads, as (name, value, use)."""
    for name, use in read.imports.items():
        yield name, _imported(name, use), use
    for name, value in captured(function).items():
        # `super()` reads `__class__` without naming it.
        if name in read.captured or name == "__class__":
            yield name, value, read.captured.get(name, WHOLE)
    for name, use in read.globals.items():
        if name != "__name__":
            yield name, _global(function, name), use


def captured(function: types.FunctionType) -> dict[str, Any]:
    """Returns the captured variables of a function by name."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: _content(cell) for name, cell in cells}


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return _Empty


class _Empty:
    """Placeholder for an unassigned variable."""


def _imported(name: str, use: Use) -> Any:
    module = sys.modules.get(name)
    if module is None or any(taken not in vars(module) for taken, _ in use.attributes):
        raise Unknown(f"import {name}")
    return module


def _global(function: types.FunctionType, name: str) -> Any:
    if name in function.__globals__:
        return function.__globals__[name]
    if name in trust.BUILTINS:
        raise Unknown(name)
    return getattr(builtins, name, _Empty)
