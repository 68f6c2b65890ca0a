"""Operations as steps: functions that a PE calls in order on the values of a program."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from cubeyard.errors import CubeyardError
from cubeyard.triton._chains import pending, term_of, tile_of, tiles_of
from cubeyard.triton._elements import DTYPES, SIZES
from cubeyard.triton._ir import Block, Kernel, Line, Operation
from cubeyard.triton._recall import addresses, recalled
from cubeyard.triton._values import Node

__all__ = ["Builder", "Frame", "LOWERINGS", "Step", "Steps", "UnsupportedError", "full_tile", "lowers", "run", "run_plain", "uses_of"]


class UnsupportedError(CubeyardError):
    """Signals a Triton operation without a counterpart on this machine."""


class Frame:
    """State of a program that runs on its PE."""

    __slots__ = ("env", "grid", "live", "masks", "notes", "pid", "refs", "reserved", "tl")

    def __init__(self, tl: Any, line: Line, values: int, grid: tuple[int, ...], shared: Any, live: bool) -> None:
        self.tl = tl
        tl.place = line
        self.env: list[Any] = [None] * values
        self.grid, self.live = grid, live
        self.pid: tuple[int, ...] = (0, 0, 0)
        self.refs: dict[str, Any] = {}
        self.masks, self.notes, self.reserved = shared

    def note(self, kind: str, text: str) -> None:
        """Records a remark about the cost of the current operation's pattern on this machine."""
        self.notes.add((str(self.tl.place), kind, text))

    def reference(self, element: str, address: int, shape: Any) -> Any:
        """Returns a reference to contiguous elements that start at an address."""
        if element not in self.refs:
            self.refs[element] = self.tl.ref(0, (1,), DTYPES[element])
        return self.refs[element].at(address // SIZES[element], shape)

    def settled(self, value: Any) -> Any:
        """Computes a result that is not known, so its operands can be dropped."""
        if isinstance(value, Node) and not value.known and value.tile is None:
            tile_of(value, self.tl)
        return value

    def expressed(self, value: Any) -> Any:
        """Builds the expression of a result that is not known, for later computation."""
        if isinstance(value, Node) and not value.known and value.tile is None and value.lazy is None:
            term_of(value, self.tl)
        return value

    def settle_all(self, values: list[Any]) -> None:
        """Computes results. Results of equal shape share a pass."""
        shapes: dict[Any, list[Any]] = {}
        for value in values:
            if pending(value) and not value.known:
                shapes.setdefault(tuple(value.lazy.shape), []).append(value)
        for nodes in shapes.values():
            tiles_of(list(dict.fromkeys(nodes)), self.tl)

    def whole(self, value: Any, shape: Any, element: str) -> Any:
        """Returns a value as a tile of the full shape, without broadcasting."""
        return full_tile(self.tl, tile_of(value, self.tl), shape, element)


def full_tile(tl: Any, tile: Any, shape: Any, element: str) -> Any:
    """Returns a tile of the full shape, from a number or from a tile that broadcasts to it."""
    if isinstance(tile, int | float):
        return tl.full(shape, tile, DTYPES[element])
    return tile if tuple(tile.shape) == tuple(shape) else tl.broadcast_to(tile, shape)


Flow = Generator[Any, Any, None]
"""Operation that may wait. It yields a tile and receives the tile's elements."""

Step = Callable[[Frame], Flow | None]
"""Operation as a function of a frame. Returns a generator if it may wait."""


class Steps:
    """Block as a list of steps, each with its line and the values that are dead after it."""

    __slots__ = ("arguments", "own_results", "plain", "results", "steps")

    def __init__(self, arguments: list[int], results: list[int]) -> None:
        self.arguments, self.results = arguments, results
        self.steps: list[tuple[Line | None, Step, tuple[int, ...]]] = []
        """No line for steps that give the machine no command and never fail."""
        self.own_results: tuple[int, ...] = ()
        self.plain = True


def run(block: Steps, frame: Frame) -> Flow:
    """Runs a block."""
    env, tl = frame.env, frame.tl
    for line, step, dead in block.steps:
        if line is not None:
            tl.place = line
        flow = step(frame)
        if flow is not None:
            yield from flow
        for value in dead:
            env[value] = None


def run_plain(block: Steps, frame: Frame) -> None:
    """Runs a block whose steps never wait."""
    env, tl = frame.env, frame.tl
    for line, step, dead in block.steps:
        if line is not None:
            tl.place = line
        if step(frame) is not None:
            raise CubeyardError(f"{line}: expected addresses, masks and conditions that are known before the kernel runs")
        for value in dead:
            env[value] = None


LOWERINGS: dict[str, Callable[[Builder, Operation], Step]] = {}
"""Lowering functions by operation name. Each makes a step from an operation."""


def lowers(*names: str) -> Callable[[Callable[[Builder, Operation], Step]], Callable[[Builder, Operation], Step]]:
    """Registers the lowering function of these operations."""

    def register(function: Callable[[Builder, Operation], Step]) -> Callable[[Builder, Operation], Step]:
        for name in names:
            LOWERINGS[name] = function
        return function

    return register


_TERMINATORS = ("scf.yield", "scf.condition", "tt.return", "tt.reduce.return", "tt.scan.return", "tt.map_elementwise.return")
_QUIET = ("arith.constant", "tt.get_program_id", "tt.make_range")
_FLOWS = ("scf.for", "scf.if", "scf.while", "tt.atomic_rmw", "tt.atomic_cas", "tt.atomic_load",
          "tt.atomic_store", "tt.atomic_poll", "tt.make_tensor_descriptor",
          "tt.descriptor_load", "tt.descriptor_store", "tt.assert", "tt.print", "tt.call")  # fmt: skip


class Builder:
    """Builder of a kernel's steps."""

    def __init__(self, kernel: Kernel, live: bool, wanted: frozenset[int] = frozenset()) -> None:
        self.kernel, self.types, self.live, self.wanted = kernel, kernel.types, live, wanted
        self.uses = uses_of(kernel.body)
        self.escaping = _escaping(kernel.body)
        self.addresses = addresses(kernel)

    def line(self, operation: Operation) -> Line:
        """Returns the source line of an operation, or the kernel's line if the operation has none."""
        return operation.line if operation.line.line else self.kernel.line

    def unsupported(self, operation: Operation, detail: str = "") -> UnsupportedError:
        """Returns the error for an operation without a counterpart."""
        detail = detail or operation.attributes.get("symbol", "")
        what = f" {detail}" if detail else ""
        return UnsupportedError(f"{self.line(operation)}: Triton's operation {operation.name}{what} has no counterpart here")

    def steps(self, block: Block) -> Steps:
        """Builds the steps of a block."""
        last = block.operations[-1] if block.operations else None
        results = last.operands if last is not None and last.name in _TERMINATORS else []
        made = Steps(block.arguments, results)
        body = block.operations[:-1] if last is not None and last.name in _TERMINATORS else block.operations
        defined = [value for operation in body for value in operation.results]
        made.own_results = tuple(set(results) & set(defined))
        dead = _last_uses(body, defined, set(results))
        for operation, gone in zip(body, dead, strict=True):
            quiet = operation.name in _QUIET or not self.addresses.isdisjoint(operation.results)
            made.steps.append((None if quiet else self.line(operation), self.step(operation), gone))
            made.plain = made.plain and not self.live and operation.name not in _FLOWS
        return made

    def step(self, operation: Operation) -> Step:
        """Builds the step of an operation."""
        make = LOWERINGS.get(operation.name)
        if make is None:
            raise self.unsupported(operation)
        step = make(self, operation)
        return recalled(step, operation) if operation.results and operation.results[0] in self.addresses else step


def _all_operands(operation: Operation) -> set[int]:
    """Returns the values that an operation uses, including those used in its regions."""
    used = set(operation.operands)
    for region in operation.regions:
        for inner in region.operations:
            used |= _all_operands(inner)
    return used


def uses_of(block: Block) -> dict[int, int]:
    """Returns how often each value is used as an operand."""
    counts: dict[int, int] = {}
    for operation in block.operations:
        for value in operation.operands:
            counts[value] = counts.get(value, 0) + 1
        for region in operation.regions:
            for value, count in uses_of(region).items():
                counts[value] = counts.get(value, 0) + count
    return counts


def _escaping(block: Block) -> set[int]:
    """Returns the values used in blocks nested inside their own, possibly many times."""
    found: set[int] = set()
    for operation in block.operations:
        for region in operation.regions:
            used = {value for inner in region.operations for value in _all_operands(inner)}
            found |= (used - _defined(region)) | _escaping(region)
    return found


def _defined(block: Block) -> set[int]:
    """Returns the values defined in a block and its nested blocks."""
    found = {*block.arguments, *(value for operation in block.operations for value in operation.results)}
    return found.union(*(_defined(region) for operation in block.operations for region in operation.regions))


def _last_uses(body: list[Operation], defined: list[int], kept: set[int]) -> list[tuple[int, ...]]:
    """Returns for each operation the values that no later operation of the block uses."""
    pending = set(defined) - kept
    dead: list[tuple[int, ...]] = []
    for operation in reversed(body):
        gone = (_all_operands(operation) | set(operation.results)) & pending
        pending -= gone
        dead.append(tuple(gone))
    return dead[::-1]
