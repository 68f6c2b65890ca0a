"""Facts about a kernel that are known before it runs: whether loaded values decide anything, and what it writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cubeyard.triton._ir import Block, Kernel, Operation

__all__ = ["Facts", "facts"]

_LOADED = ("tt.load", "tt.atomic_rmw", "tt.atomic_cas", "tt.dot", "tt.descriptor_load", "tt.reduce", "tt.scan",
           "ahbm.softmax")  # fmt: skip
_ATOMICS = ("tt.atomic_rmw", "tt.atomic_cas")
_WRITES = ("tt.store", "tt.descriptor_store", *_ATOMICS)


@dataclass(frozen=True)
class Facts:
    """What is known of a kernel before it runs."""

    live: str
    """Why it runs step by step with its PE, with the line; empty if it is recorded."""
    decided: bool
    """Whether addresses, masks or conditions depend on loaded values."""
    wanted: frozenset[int]
    """Values whose elements the kernel waits for, because addresses, masks or conditions depend on them."""
    written: frozenset[int] | None
    """Positions of the arguments that it writes; None if addresses come from memory."""
    atomics: bool
    """Whether it has atomic operations."""


def facts(kernel: Kernel) -> Facts:
    """Returns the facts of a kernel."""
    all_of = list(_operations(kernel.body))
    sources = _sources(all_of)
    loaded = _loaded(all_of, sources)
    deciding = [(one, value) for one in all_of for value in _decides(one) if value in loaded]
    atomics = [one for one in all_of if one.name in _ATOMICS]
    reason = ""
    if deciding:
        reason = f"{deciding[0][0].line}: {deciding[0][0].name} depends on loaded values"
    elif asserting := [one for one in all_of if one.name == "tt.assert" and one.operands[0] in loaded]:
        reason = f"{asserting[0].line}: tl.device_assert depends on loaded values"
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
    """Returns the operands on which the course of the kernel, or an address, depends."""
    of = operation.operands
    if operation.name == "scf.for":
        return of[:3]
    if operation.name in ("scf.if", "scf.condition", "tt.atomic_cas"):
        return of[:1]
    if operation.name == "tt.atomic_rmw":
        return [of[0], *of[2:3]]
    if operation.name in ("tt.load", "tt.store"):
        return [of[0], *(of[1:2] if operation.name == "tt.load" else of[2:3])]
    if operation.name == "tt.make_tensor_descriptor":
        return of
    if operation.name in ("tt.descriptor_load", "tt.descriptor_store"):
        return of[: 1 + operation.attributes["listed"]]
    return []


def _sources(operations: list[Operation]) -> dict[int, set[int]]:
    """Returns for each value those that it is made of, or that are handed on to it."""
    made: dict[int, set[int]] = {}
    for operation in operations:
        for result in operation.results:
            made.setdefault(result, set()).update(operation.operands)
        if operation.regions and operation.name.startswith("scf."):
            _handed_on(operation, made)
    return made


def _handed_on(operation: Operation, made: dict[int, set[int]]) -> None:
    ends = [region.operations[-1].operands if region.operations else [] for region in operation.regions]
    arguments = operation.regions[0].arguments
    pairs: list[tuple[list[int], list[int]]] = []
    if operation.name == "scf.for":
        made.setdefault(arguments[0], set()).update(operation.operands[:3])
        pairs = [(arguments[1:], operation.operands[3:]), (arguments[1:], ends[0]), (operation.results, ends[0])]
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


def _loaded(operations: list[Operation], sources: dict[int, set[int]]) -> set[int]:
    """Returns the values that depend on memory."""
    found = {result for one in operations if one.name in _LOADED for result in one.results}
    grown = True
    while grown:
        grown = False
        for value, of in sources.items():
            if value not in found and of & found:
                found.add(value)
                grown = True
    return found


def _behind(values: set[int], sources: dict[int, set[int]]) -> set[int]:
    """Returns values with all that they are made of."""
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
