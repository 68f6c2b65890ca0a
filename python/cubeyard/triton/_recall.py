"""Addresses and masks that loops and programs compute again: equal operands have the result of the first time."""

from __future__ import annotations

from typing import Any

from cubeyard.triton._ir import Block, Kernel, Operation
from cubeyard.triton._values import Bools, Index, Node, Uniform

__all__ = ["addresses", "recalled"]

_PURE = frozenset([
    "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.make_range", "tt.addptr", "arith.addi", "arith.subi", "arith.muli", "arith.divsi",
    "arith.remsi", "arith.cmpi", "arith.andi", "arith.ori", "arith.extsi",
])  # fmt: skip
_MOST = 4096
"""Maximum number of results that an operation keeps."""
_TRIES = 512
"""Number of executions after which an operation is no longer looked up, if its operands were always new."""


def addresses(kernel: Kernel) -> frozenset[int]:
    """Returns the tensors that serve as addresses and masks alone. They never become tiles, so their values can be shared."""
    operations = list(_all(kernel.body))
    made = {result: one for one in operations for result in one.results}
    found = {value for value, one in made.items() if one.name in _PURE and kernel.types[value].shape}
    users: dict[int, list[tuple[Operation, int]]] = {value: [] for value in found}
    for one in operations:
        for place, operand in enumerate(one.operands):
            if operand in users:
                users[operand].append((one, place))
    while others := {value for value in found if not all(_is_address(one, place, found, made) for one, place in users[value])}:
        found -= others
    # Results refer to their operands, and these to theirs.
    while others := {value for value in found if not _is_apart(made[value], found, made, kernel)}:
        found -= others
    return frozenset(found)


def _is_apart(operation: Operation, found: set[int], made: dict[int, Operation], kernel: Kernel) -> bool:
    """Returns whether no operand ever becomes a tile. A tile must not be kept with a result."""
    def constant(value: int) -> bool:
        return value in made and made[value].name == "arith.constant"

    return all(one in found or constant(one) or not kernel.types[one].shape for one in operation.operands)


def _all(block: Block) -> Any:
    for one in block.operations:
        yield one
        for region in one.regions:
            yield from _all(region)


def _is_address(user: Operation, place: int, found: set[int], made: dict[int, Operation]) -> bool:
    """Returns whether an operation uses an operand as an address or a mask, and not its elements."""
    if user.name == "tt.load":
        # Elements that are loaded beside a tile for the others are chosen by the mask as a tile.
        constant = len(user.operands) < 3 or (user.operands[2] in made and made[user.operands[2]].name == "arith.constant")
        return place == 0 or (place == 1 and constant)
    if user.name == "tt.store":
        return place in (0, 2)
    return user.name in _PURE and user.results[0] in found


def recalled(step: Any, operation: Operation) -> Any:
    """Wraps the step of an operation on addresses. Tensors among its operands are compared by identity, numbers by value."""
    results: dict[Any, Any] = {}
    operands, result, tries = operation.operands, operation.results[0], _TRIES
    if not 0 < len(operands) < 3:
        return step
    first, last, is_one = operands[0], operands[-1], len(operands) == 1

    def recall(frame: Any) -> None:
        nonlocal tries
        if tries == 0:
            step(frame)
            return
        env = frame.env
        key = env[first] if is_one else (env[first], env[last])
        found = results.get(key)
        if found is not None:
            env[result], tries = found, -1
            return
        step(frame)
        tries -= 1
        found = env[result]
        if tries != 0 and isinstance(found, Index | Uniform | Bools) and _is_kept(env[first]) and _is_kept(env[last]):
            if len(results) >= _MOST:
                results.clear()
            results[key] = found
        elif tries == 0:
            results.clear()

    return recall


def _is_kept(operand: Any) -> bool:
    """Returns whether an operand may be kept: a number, or a tensor that is known and has no tile."""
    return not isinstance(operand, Node) or (operand.known and operand.tile is None)
