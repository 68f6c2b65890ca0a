"""Functions of single elements that are applied to tensors: `tl.map_elementwise`.

The vector unit runs the operations of the function on whole tiles. It runs both sides of a branch and selects the result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cubeyard.triton._chains import tile_of
from cubeyard.triton._frame import LOWERINGS, Builder, Frame, Step, UnsupportedError, lowers
from cubeyard.triton._ir import Block, Operation
from cubeyard.triton._tiles import names, tiles
from cubeyard.triton._values import Node, Uniform

__all__: list[str] = []

_PLAIN = {*names(), "arith.constant"}
_RETURNS = ("tt.map_elementwise.return", "tt.return", "scf.yield")


@lowers("tt.map_elementwise")
def mapped(build: Builder, operation: Operation) -> Step:
    """Lowers a function that is applied to each element."""
    shape, block = build.types[operation.operands[0]].shape, operation.regions[0]
    if operation.attributes.get("pack", 1) != 1:
        raise build.unsupported(operation, f"with pack={operation.attributes['pack']}")
    function = _Function(build, block, shape)

    def step(frame: Frame) -> None:
        env, before = frame.env, [frame.env[value] for value in function.captured]
        for argument, operand in zip(block.arguments, operation.operands, strict=True):
            env[argument] = env[operand]
        for value, scalar in zip(function.captured, before, strict=True):
            env[value] = _spread(frame, scalar, shape, build.types[value].element)
        made = function.run(block, frame)
        for value, scalar in zip(function.captured, before, strict=True):
            env[value] = scalar
        for value in function.defined:
            env[value] = None
        for result, value in zip(operation.results, made, strict=True):
            env[result] = value

    return step


def _spread(frame: Frame, value: Any, shape: tuple[int, ...], element: str) -> Any:
    """Returns a scalar as a tensor. None is a value that no path sets."""
    if value is None:
        return None
    if not isinstance(value, Node):
        return Uniform(shape, element, value)
    return Node(shape, element, tile=frame.tl.reshape(tile_of(value, frame.tl), [1] * len(shape)))


class _Function:
    """Function of elements whose values are tensors of one shape."""

    def __init__(self, build: Builder, block: Block, shape: tuple[int, ...]) -> None:
        self.outer, self.steps = build, dict[int, Step]()
        self.defined, used = set[int](), set[int]()
        self._collect(block, used)
        self.captured = sorted(used - self.defined)
        inner = self.defined | used
        types = [replace(of, shape=shape) if at in inner else of for at, of in enumerate(build.types)]
        self.build = Builder(replace(build.kernel, types=types), build.live, build.wanted)
        self._make(block)

    def _collect(self, block: Block, used: set[int]) -> None:
        self.defined |= set(block.arguments)
        for operation in block.operations:
            used |= set(operation.operands)
            self.defined |= set(operation.results)
            for region in operation.regions:
                self._collect(region, used)

    def _make(self, block: Block) -> None:
        for operation in block.operations:
            if operation.name in _PLAIN:
                self.steps[id(operation)] = LOWERINGS[operation.name](self.build, operation)
            elif operation.name == "scf.if":
                for region in operation.regions:
                    self._make(region)
            elif operation.name not in _RETURNS:
                raise self._unsupported(operation)

    def _unsupported(self, operation: Operation) -> UnsupportedError:
        return self.outer.unsupported(operation, "in tl.map_elementwise")

    def run(self, block: Block, frame: Frame) -> list[Any]:
        """Runs a block, and returns the values that it passes on."""
        for operation in block.operations:
            frame.tl.place = self.outer.line(operation)
            if operation.name in _RETURNS:
                return [frame.env[one] for one in operation.operands]
            if operation.name == "scf.if":
                for result, value in zip(operation.results, self._branches(operation, frame), strict=True):
                    frame.env[result] = value
            else:
                self.steps[id(operation)](frame)
        return []

    def _branches(self, operation: Operation, frame: Frame) -> list[Any]:
        """Runs both sides of a branch and selects the results."""
        condition = frame.env[operation.operands[0]]
        sides = [self.run(region, frame) for region in operation.regions]
        if len(sides) == 1:
            return []
        if isinstance(condition, Uniform):
            return sides[0 if condition.value else 1]
        return [self._selected(condition, *pair) for pair in zip(*sides, strict=True)]

    def _selected(self, condition: Any, one: Any, other: Any) -> Any:
        if one is None or other is None:
            # A path that returns has no values for the block where others meet, and the reverse.
            return other if one is None else one
        select = tiles("arith.select", one.element, [], "i1")
        return Node(condition.shape, one.element, compute=select, operands=(condition, one, other))
