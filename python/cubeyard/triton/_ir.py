"""Kernels as this package keeps them: operations with operands, attributes, types, regions and lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["FORMAT", "Block", "Kernel", "Line", "Operation", "Type"]

FORMAT = 5
"""Number of these classes, which changes with them: Triton's cache keeps kernels by `pickle`."""


@dataclass(frozen=True)
class Type:
    """Type of a value: elements of one type in a shape; scalars have an empty one."""

    element: str
    """`i1` to `i64`, `f16`, `f32`, …; `ptr` for pointers, `desc` for descriptors."""
    shape: tuple[int, ...] = ()
    pointee: str = ""
    """Type of the elements that a pointer or descriptor refers to."""


@dataclass(frozen=True)
class Line:
    """Place in the author's file; line 0 is an unknown one."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file.rsplit('/', 1)[-1]}:{self.line}"


@dataclass
class Block:
    """Operations in order, with the values that are given to them."""

    arguments: list[int]
    operations: list[Operation]


@dataclass
class Operation:
    """An operation; values are numbers, whose types the kernel knows."""

    name: str
    line: Line
    operands: list[int] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    """Attributes by name; those without a name, such as the relation of a comparison, are the list `words`."""
    regions: list[Block] = field(default_factory=list)


@dataclass
class Kernel:
    """A kernel: a block whose arguments are those of the launch."""

    name: str
    line: Line
    """The first line of its operations that is known."""
    body: Block
    types: list[Type]
