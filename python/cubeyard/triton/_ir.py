"""Kernels as this package keeps them: operations with operands, attributes, types, regions and lines."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Block", "Kernel", "Line", "Operation", "Type", "pack", "unpack"]


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
    """Place in the author's file."""

    file: str
    line: int
    column: int

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
    operands: list[int]
    results: list[int]
    line: int
    attributes: dict[str, Any] = field(default_factory=dict)
    regions: list[Block] = field(default_factory=list)


@dataclass
class Kernel:
    """A kernel: a block whose arguments are those of the launch."""

    name: str
    body: Block
    types: list[Type]
    lines: list[Line]


def pack(kernel: Kernel) -> bytes:
    """Returns a kernel as bytes."""
    plain = {
        "name": kernel.name,
        "body": _plain_block(kernel.body),
        "types": [[one.element, list(one.shape), one.pointee] for one in kernel.types],
        "lines": [[one.file, one.line, one.column] for one in kernel.lines],
    }
    return json.dumps(plain).encode()


def unpack(data: bytes) -> Kernel:
    """Returns the kernel of bytes that `pack` made."""
    plain = json.loads(data)
    types = [Type(element, tuple(shape), pointee) for element, shape, pointee in plain["types"]]
    lines = [Line(*line) for line in plain["lines"]]
    return Kernel(plain["name"], _block(plain["body"]), types, lines)


def _plain_block(block: Block) -> list[Any]:
    return [block.arguments, [_plain(one) for one in block.operations]]


def _plain(one: Operation) -> list[Any]:
    regions = [_plain_block(region) for region in one.regions]
    return [one.name, one.operands, one.results, one.line, one.attributes, regions]


def _block(plain: list[Any]) -> Block:
    arguments, operations = plain
    return Block(arguments, [_operation(*one) for one in operations])


def _operation(
    name: str, operands: list[int], results: list[int], line: int, attributes: dict[str, Any], regions: list[Any]
) -> Operation:
    return Operation(name, operands, results, line, attributes, [_block(region) for region in regions])
