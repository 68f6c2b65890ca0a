"""Static facts about a kernel, and idioms: groups of operations that the machine performs as one.

A Triton softmax consists of a maximum, the exponentials of the differences, their sum and a quotient. The vector unit
performs it as one operation, with two passes instead of four.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cubeyard.triton import _index
from cubeyard.triton._frame import Builder, Frame, Step, lowers
from cubeyard.triton._ir import Block, Kernel, Operation, Type
from cubeyard.triton._tiles import names
from cubeyard.triton._values import Node

__all__ = ["Facts", "facts", "recognized"]

_LOADED = ("tt.load", "tt.atomic_rmw", "tt.atomic_cas", "tt.atomic_load", "tt.dot", "tt.descriptor_load", "tt.reduce", "tt.scan",
           "ahbm.softmax", "tt.gather", "tt.histogram", "tt.map_elementwise")  # fmt: skip
_ATOMICS = ("tt.atomic_rmw", "tt.atomic_cas", "tt.atomic_load", "tt.atomic_store", "tt.atomic_poll")
_ELEMENTWISE = frozenset(names())
_FLOWS = ("scf.", "tt.call")
"""First letters of the operations whose regions are part of the program."""
_WRITES = ("tt.store", "tt.descriptor_store", "tt.atomic_rmw", "tt.atomic_cas", "tt.atomic_store")


@dataclass(frozen=True)
class Facts:
    """Static facts about a kernel."""

    live: str
    """Reason, with its line, why the kernel runs live with its PE; empty if the kernel is recorded."""
    decided: bool
    """Whether addresses, masks or conditions depend on loaded values."""
    wanted: frozenset[int]
    """Values whose elements the kernel must wait for, since addresses, masks or conditions depend on them."""
    written: frozenset[int] | None
    """Indices of the arguments that the kernel writes, or None if addresses come from memory."""
    atomics: bool
    """Whether the kernel has atomic operations."""


def facts(kernel: Kernel) -> Facts:
    """Returns the facts of a kernel."""
    all_of = list(_operations(kernel.body))
    sources = _sources(all_of)
    loaded = _loaded([one for one in all_of if one.name in _LOADED or _is_computed(one, kernel.types)], sources)
    deciding = [(one, value) for one in all_of for value in _decides(one) if value in loaded]
    atomics = [one for one in all_of if one.name in _ATOMICS]
    reason = ""
    if deciding:
        reason = f"{deciding[0][0].line}: {deciding[0][0].name} depends on loaded values"
    elif asserting := [one for one in all_of if one.name == "tt.assert" and one.operands[0] in loaded]:
        reason = f"{asserting[0].line}: tl.device_assert depends on loaded values"
    elif printing := [one for one in all_of if one.name == "tt.print"]:
        reason = f"{printing[0].line}: tl.device_print prints while the kernel runs"
    elif atomics:
        reason = f"{atomics[0].line}: {atomics[0].name} depends on the order of programs"
    wanted = _behind({value for _, value in deciding}, sources)
    return Facts(reason, bool(deciding), frozenset(wanted), _written(kernel, all_of, sources), bool(atomics))


def _operations(block: Block) -> Iterator[Operation]:
    for operation in block.operations:
        yield operation
        for region in operation.regions:
            yield from _operations(region)


def _decides(operation: Operation) -> list[int]:
    """Returns the operands that determine control flow or an address."""
    of = operation.operands
    if operation.name == "scf.for":
        return of[:3]
    if operation.name in ("scf.if", "scf.condition", "tt.atomic_cas", "tt.atomic_poll"):
        return of[:1]
    if operation.name == "tt.atomic_load":
        return of
    if operation.name in ("tt.atomic_rmw", "tt.atomic_store"):
        return [of[0], *of[2:3]]
    if operation.name in ("tt.load", "tt.store"):
        return [of[0], *(of[1:2] if operation.name == "tt.load" else of[2:3])]
    if operation.name == "tt.make_tensor_descriptor":
        return of
    if operation.name in ("tt.descriptor_load", "tt.descriptor_store"):
        return of[: 1 + operation.attributes["listed"]]
    return []


def _sources(operations: list[Operation]) -> dict[int, set[int]]:
    """Returns the direct sources of each value: operands, and values passed between blocks."""
    made: dict[int, set[int]] = {}
    for operation in operations:
        for result in operation.results:
            made.setdefault(result, set()).update(operation.operands)
        if operation.regions and operation.name.startswith(_FLOWS):
            _handed_on(operation, made)
    return made


def _handed_on(operation: Operation, made: dict[int, set[int]]) -> None:
    ends = [region.operations[-1].operands if region.operations else [] for region in operation.regions]
    arguments = operation.regions[0].arguments
    pairs: list[tuple[list[int], list[int]]] = []
    if operation.name == "scf.for":
        made.setdefault(arguments[0], set()).update(operation.operands[:3])
        pairs = [(arguments[1:], operation.operands[3:]), (arguments[1:], ends[0]), (operation.results, ends[0])]
    elif operation.name == "tt.call":
        pairs = [(arguments, operation.operands), (operation.results, ends[0])]
    elif operation.name == "scf.if":
        pairs = [(operation.results, end) for end in ends]
    elif operation.name == "scf.while":
        after = operation.regions[1].arguments
        pairs = [(arguments, operation.operands), (arguments, ends[1]), (after, ends[0][1:]), (operation.results, ends[0][1:])]
        for result in operation.results:
            made.setdefault(result, set()).add(ends[0][0])
    for into, out in pairs:
        for one, other in zip(into, out, strict=False):
            made.setdefault(one, set()).add(other)


def _is_computed(operation: Operation, types: list[Type]) -> bool:
    """Returns whether only the machine can perform an operation, even on known tensors."""
    if operation.name not in _ELEMENTWISE or not types[operation.results[0]].shape:
        return False
    of, source = types[operation.results[0]], types[operation.operands[0]]
    return _index.vector(operation.name, of.element, operation.attributes.get("words", []), source.element) is None


def _loaded(operations: list[Operation], sources: dict[int, set[int]]) -> set[int]:
    """Returns the values that depend on the results of the given operations."""
    found = {result for one in operations for result in one.results}
    grown = True
    while grown:
        grown = False
        for value, of in sources.items():
            if value not in found and of & found:
                found.add(value)
                grown = True
    return found


def _behind(values: set[int], sources: dict[int, set[int]]) -> set[int]:
    """Returns the given values and all their direct and indirect sources."""
    found, left = set(values), list(values)
    while left:
        for one in sources.get(left.pop(), ()):
            if one not in found:
                found.add(one)
                left.append(one)
    return found


def _written(kernel: Kernel, operations: list[Operation], sources: dict[int, set[int]]) -> frozenset[int] | None:
    places = {one.operands[0] for one in operations if one.name in _WRITES}
    behind = _behind(places, sources)
    if any(one.name == "tt.int_to_ptr" and one.results[0] in behind for one in operations):
        return None
    arguments = kernel.body.arguments
    return frozenset(
        at for at, one in enumerate(arguments) if one in behind and kernel.types[one].element in ("ptr", "desc")
    )


SOFTMAX = "ahbm.softmax"
"""Name of the operation that replaces a softmax."""

_SHAPES = ("tt.splat", "tt.broadcast", "tt.expand_dims")


class _Uses:
    """Operations of a block by result, and the number of uses of each value."""

    def __init__(self, block: Block, uses: dict[int, int]) -> None:
        self.made = {result: operation for operation in block.operations for result in operation.results}
        self.uses = uses

    def of(self, value: int, *names: str) -> Operation | None:
        """Returns the operation that produces a value, if it has one of these names."""
        found = self.made.get(value)
        return found if found is not None and found.name in names else None

    def spread(self, value: int) -> tuple[int, list[Operation]]:
        """Returns the value before its changes of shape, and these operations. Stops at a value with other uses."""
        passed: list[Operation] = []
        while (found := self.of(value, *_SHAPES)) is not None and self.uses.get(value) == 1:
            passed.append(found)
            value = found.operands[0]
        return value, passed


def recognized(block: Block, uses: dict[int, int]) -> Block:
    """Returns a block with its idioms replaced, including those in nested blocks."""
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
        if one.name.startswith(_FLOWS):
            one.regions = [recognized(region, uses) for region in one.regions]
    return Block(block.arguments, operations)


def _combines(operation: Operation | None, *names: str) -> bool:
    """Returns whether a reduction combines elements with exactly one of these operations."""
    return operation is not None and [one.name for one in operation.regions[0].operations[:-1]] in [[name] for name in names]


def _softmax(quotient: Operation, known: _Uses) -> tuple[Operation, list[Operation]] | None:
    """Returns the softmax that ends with a quotient, and the operations that it replaces, or None."""
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
