"""Idioms: groups of operations that are one operation of the machine.

A softmax is written in Triton as the greatest element, the exponentials of the differences, their sum and a quotient. The
vector unit has it as one operation, which takes two passes instead of four.
"""

from __future__ import annotations

from cubeyard.triton._frame import Builder, Frame, Step, lowers
from cubeyard.triton._ir import Block, Operation
from cubeyard.triton._values import Node

__all__ = ["SOFTMAX", "recognized"]

SOFTMAX = "ahbm.softmax"
"""Name of the operation that stands for a softmax."""

_SHAPES = ("tt.splat", "tt.broadcast", "tt.expand_dims")


class _Uses:
    """Operations of a block by their results, and the number of uses of each value."""

    def __init__(self, block: Block, uses: dict[int, int]) -> None:
        self.made = {result: operation for operation in block.operations for result in operation.results}
        self.uses = uses

    def of(self, value: int, *names: str) -> Operation | None:
        """Returns the operation that made a value, if it has one of these names."""
        found = self.made.get(value)
        return found if found is not None and found.name in names else None

    def spread(self, value: int) -> tuple[int, list[Operation]]:
        """Returns the value that was brought to another shape, with the operations that did so and nothing else."""
        passed: list[Operation] = []
        while (found := self.of(value, *_SHAPES)) is not None and self.uses.get(value) == 1:
            passed.append(found)
            value = found.operands[0]
        return value, passed


def recognized(block: Block, uses: dict[int, int]) -> Block:
    """Returns a block with its idioms replaced, those of blocks inside of it included."""
    known = _Uses(block, uses)
    gone: set[int] = set()
    made: dict[int, Operation] = {}
    for operation in block.operations:
        found = _softmax(operation, known)
        if found is not None:
            made[id(operation)], replaced = found
            gone |= {id(one) for one in replaced}
    operations = [made.get(id(one), one) for one in block.operations if id(one) not in gone]
    for one in operations:
        if one.name.startswith("scf."):
            one.regions = [recognized(region, uses) for region in one.regions]
    return Block(block.arguments, operations)


def _combines(operation: Operation | None, *names: str) -> bool:
    """Returns whether a reduction combines elements by one of these operations alone."""
    return operation is not None and [one.name for one in operation.regions[0].operations[:-1]] in [[name] for name in names]


def _softmax(quotient: Operation, known: _Uses) -> tuple[Operation, list[Operation]] | None:
    """Returns the softmax that ends with a quotient, and the operations that it replaces."""
    if quotient.name != "arith.divf":
        return None
    powers = known.of(quotient.operands[0], "math.exp")
    below, spread_sum = known.spread(quotient.operands[1])
    total = known.of(below, "tt.reduce")
    if powers is None or total is None or not _combines(total, "arith.addf") or total.operands != powers.results:
        return None
    difference = known.of(powers.operands[0], "arith.subf")
    if difference is None:
        return None
    above, spread_most = known.spread(difference.operands[1])
    most = known.of(above, "tt.reduce")
    x = difference.operands[0]
    if most is None or most.operands != [x] or not _combines(most, "arith.maxnumf", "arith.maximumf"):
        return None
    wanted = [(powers, 2), (difference, 1), (total, 1), (most, 1)]
    if most.attributes["axis"] != total.attributes["axis"] or any(known.uses.get(one.results[0]) != n for one, n in wanted):
        return None
    replaced = [powers, difference, total, most, *spread_sum, *spread_most]
    return Operation(SOFTMAX, quotient.line, [x], quotient.results, {"axis": most.attributes["axis"]}), replaced


@lowers(SOFTMAX)
def softmax(build: Builder, operation: Operation) -> Step:
    """Lowers a softmax."""
    operand, result, axis = operation.operands[0], operation.results[0], operation.attributes["axis"]
    of = build.types[operand]

    def step(frame: Frame) -> None:
        tile = frame.whole(frame.env[operand], of.shape, of.element)
        frame.env[result] = Node(of.shape, of.element, tile=frame.tl.softmax(tile, axis))

    return step
