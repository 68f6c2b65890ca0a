"""Decoded kernels: operations with operands, attributes, types, regions and source lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["FORMAT", "SIZES", "Block", "Kernel", "Line", "Operation", "Type"]

FORMAT = 10
"""Version of these classes, increased with every change. Triton's cache stores pickled kernels."""


SIZES = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "f16": 2, "bf16": 2, "f32": 4, "f64": 8, "f8E4M3FN": 1,
         "f8E5M2": 1, "ptr": 8}  # fmt: skip
"""Size of an element in memory, in bytes."""


@dataclass(frozen=True)
class Type:
    """Type of a value: element type and shape. The shape of a scalar is empty."""

    element: str
    """`i1` to `i64`, `f16`, `f32`, …; `ptr` for pointers, `desc` for descriptors."""
    shape: tuple[int, ...] = ()
    pointee: str = ""
    """Element type that a pointer or descriptor refers to."""


@dataclass(frozen=True)
class Line:
    """Source line of the kernel's author. Line 0 is unknown."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file.rsplit('/', 1)[-1]}:{self.line}"


@dataclass
class Block:
    """Sequence of operations with its arguments."""

    arguments: list[int]
    operations: list[Operation]


@dataclass
class Operation:
    """Operation on values. A value is an index into the kernel's list of types."""

    name: str
    line: Line
    operands: list[int] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    """Attributes by name. The list `words` holds those without a name, such as the relation of a comparison."""
    regions: list[Block] = field(default_factory=list)


@dataclass
class Kernel:
    """Kernel: a block whose arguments are the launch arguments."""

    name: str
    line: Line
    """First known line of its operations."""
    body: Block
    types: list[Type]
