"""Tensor descriptors, which address blocks by position."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cubeyard.triton._elements import SIZES
from cubeyard.triton._frame import Builder, Flow, Frame, Step, lowers
from cubeyard.triton._ir import Operation
from cubeyard.triton._memory import known, load, store
from cubeyard.triton._values import Bools, Index, Node, Uniform

__all__: list[str] = []


class Descriptor:
    """Tensor in memory: the address of its first element, its shape, and its strides in elements."""

    __slots__ = ("base", "other", "shape", "strides")

    def __init__(self, base: int, shape: list[int], strides: list[int], other: float) -> None:
        self.base, self.shape, self.strides, self.other = base, shape, strides, other

    def block(self, start: list[int], lengths: tuple[int, ...], element: str) -> tuple[Any, Any]:
        """Returns the addresses of a block, and a mask of the elements inside the tensor."""
        size = SIZES[element]
        steps = tuple(stride * size for stride in self.strides)
        base = self.base + sum(at * step for at, step in zip(start, steps, strict=True))
        axes = []
        for at, length, limit in zip(start, lengths, self.shape, strict=True):
            numbers = np.arange(at, at + length)
            inside = (numbers >= 0) & (numbers < limit)
            axes.append(None if inside.all() else inside)
        pointer = Index(lengths, "ptr", base, steps)
        if all(axis is None for axis in axes):
            return pointer, None
        if any(axis is not None and not axis.any() for axis in axes):
            return pointer, Uniform(lengths, "i1", False)
        return pointer, Bools(lengths, tuple(axes))


def _all_known(frame: Frame, operands: list[int]) -> Any:
    """Waits for values that are not known yet. Use with `yield from`."""
    values = []
    for one in operands:
        values.append((yield from known(frame.env[one])))
    return values


@lowers("tt.make_tensor_descriptor")
def described(build: Builder, operation: Operation) -> Step:
    """Lowers the creation of a descriptor in a kernel."""
    result = operation.results[0]
    other = math.nan if operation.attributes.get("padding") in ("nan", 2) else 0

    def flow(frame: Frame) -> Flow:
        base, *rest = yield from _all_known(frame, operation.operands)
        count = len(rest) // 2
        frame.env[result] = Descriptor(base, rest[:count], rest[count : 2 * count], other)

    return flow


@lowers("tt.descriptor_load")
def loaded(build: Builder, operation: Operation) -> Step:
    """Lowers the load of a block through a descriptor."""
    descriptor, *indices = operation.operands
    of, block = build.types[operation.results[0]], build.types[descriptor]
    result = operation.results[0]

    def flow(frame: Frame) -> Flow:
        start = yield from _all_known(frame, indices)
        found: Descriptor = frame.env[descriptor]
        pointer, mask = found.block(start, block.shape, block.pointee)
        value = load(frame, block.pointee, block.shape, pointer, mask, found.other)
        if of.shape != block.shape and isinstance(value, Node):
            value = Node(of.shape, of.element, tile=frame.tl.reshape(value.tile, of.shape))
        frame.env[result] = value

    return flow


@lowers("tt.descriptor_store")
def stored(build: Builder, operation: Operation) -> Step:
    """Lowers the store of a block through a descriptor."""
    count = operation.attributes["listed"]
    descriptor, indices, source = operation.operands[0], operation.operands[1 : 1 + count], operation.operands[-1]
    block, of = build.types[descriptor], build.types[source]

    def flow(frame: Frame) -> Flow:
        start = yield from _all_known(frame, indices)
        value, found = frame.env[source], frame.env[descriptor]
        pointer, mask = found.block(start, block.shape, block.pointee)
        if of.shape != block.shape and isinstance(value, Node):
            value = Node(block.shape, of.element, tile=frame.tl.reshape(frame.whole(value, of.shape, of.element), block.shape))
        store(frame, block.pointee, block.shape, pointer, value, mask)

    return flow
