"""Simulation of operations on a machine whose SIPs are the ranks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cubeyard import Context, Placement, _given, _native
from cubeyard._algorithm import finder
from cubeyard._world import numbers, order
from cubeyard._world.operation import Operation
from cubeyard.errors import InputError
from cubeyard.topology import Topology

__all__ = ["Fabric", "Timing", "from_environment", "sips_of_environment"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Timing:
    """Duration of an operation."""

    algorithm: str
    ps: int
    bytes: int
    """Size as `cubeyard ccl` counts it: the larger of a rank's input and output."""


@dataclass
class _Known:
    """What earlier calls of an operation have shown."""

    timing: Timing
    orders: list[order.Order] | None = None
    """Order of each output; None until it is learned."""
    is_unknown: bool = False
    """Whether the order cannot be learned, so that every call is simulated."""
    simulated: int = 0


@dataclass
class Fabric:
    """The machine. Operations that are equal are simulated once for their time, and then computed.

    Numbers are those of the algorithm. Where its order of additions matters it is learned at the second call of an
    operation, and compared with what the machine computes from the values of that call.
    """

    topology: Topology
    ccl: tuple[str, str]
    """Name and text of a `ccl.yaml`."""
    size: int
    """Number of ranks."""
    _worlds: dict[bool, _Simulated] = field(default_factory=dict)
    _known: dict[Operation, _Known] = field(default_factory=dict)
    runs: int = 0
    """Number of simulations."""

    def start(self) -> None:
        """Installs the channels of the group of all ranks.

        Raises:
            CubeyardError: The file or the number of ranks does not fit the machine.
        """
        self._world(data=False)

    def is_known(self, operation: Operation) -> bool:
        """Returns whether the next call of an operation needs no simulation."""
        known = self._known.get(operation)
        return known is not None and (not _is_ordered(operation) or known.orders is not None)

    def timing(self, operation: Operation) -> Timing:
        """Returns the duration of an operation."""
        known = self._known.get(operation)
        if known is None:
            world = self._world(data=False)
            timing, _ = self._run(world, operation, None)
            known = self._known[operation] = _Known(timing)
        return known.timing

    def reduce(self, operation: Operation, inputs: Sequence[Array]) -> tuple[Timing, list[Array]]:
        """Performs a reduction.

        Args:
            operation: the reduction.
            inputs: bytes of each rank's input.

        Returns:
            The duration, and the bytes of each rank's output; of a `reduce` those of its root.
        """
        if not _is_ordered(operation) and not _has_two_zeros(operation, inputs):
            whole = _outputs(operation, inputs)
            plain = order.left_to_right(operation.size)
            return self.timing(operation), self._computed(operation, [plain] * len(whole), whole)
        known = self._known.get(operation)
        if known is not None and known.orders is not None:
            return known.timing, self._computed(operation, known.orders, _outputs(operation, inputs))
        timing, results = self._run(self._world(data=True), operation, inputs)
        known = self._known.setdefault(operation, _Known(timing))
        known.simulated += 1
        if known.simulated > 1 and not known.is_unknown:
            self._learn(operation, known, inputs, results)
        return timing, results

    def _learn(self, operation: Operation, known: _Known, inputs: Sequence[Array], results: list[Array]) -> None:
        """Learns the order of an operation, unless that does not explain what the machine has computed."""
        known.is_unknown = True
        if operation.size > order.MOST_RANKS or not _is_ordered(operation):
            return
        elements = len(inputs[0]) // numbers.TYPES[operation.dtype].itemsize

        def simulate(values: Array) -> list[Array]:
            filled = [numbers.raw(np.full(elements, value), operation.dtype) for value in values]
            _, outputs = self._run(self._world(data=True), operation, filled)
            return [numbers.values(output, operation.dtype) for output in outputs]

        try:
            orders = order.learn(operation.op, operation.dtype, operation.size, simulate)
        except LookupError:
            return
        computed = self._computed(operation, orders, _outputs(operation, inputs))
        if all(np.array_equal(a, b) for a, b in zip(computed, results, strict=True)):
            known.orders, known.is_unknown = orders, False

    @staticmethod
    def _computed(operation: Operation, orders: list[order.Order], parts: list[list[Array]]) -> list[Array]:
        """Returns the outputs in their orders; equal ones are computed once."""
        op, dtype = operation.op, operation.dtype
        made: list[Array] = []
        for place, (each, inputs) in enumerate(zip(orders, parts, strict=True)):
            if place and operation.name != "reduce_scatter" and _same(each, orders[0]):
                made.append(made[0])
                continue
            read = [numbers.values(array, dtype) for array in inputs]
            made.append(numbers.raw(each.combine(op, dtype, read), dtype) if len(read) > 1 else inputs[0])
        return made

    def _run(self, world: _Simulated, operation: Operation, inputs: Sequence[Array] | None) -> Any:
        """Simulates an operation; a world in which one has failed is not used again."""
        self.runs += 1
        try:
            return world.run(operation, inputs)
        except BaseException:
            self._worlds.clear()
            raise

    def _world(self, *, data: bool) -> _Simulated:
        if data not in self._worlds:
            self._worlds[data] = _Simulated(self.topology, self.ccl, self.size, data)
        return self._worlds[data]


class _Simulated:
    """A context with process groups, whose ranks call together."""

    def __init__(self, topology: Topology, ccl: tuple[str, str], size: int, data: bool) -> None:
        self.context = Context(topology, data=data)
        self.native = _native.World(self.context._native)
        self.native.init("ahbm", *ccl, size, finder(*self.native.cubes()))
        self.native.start()
        self.world = tuple(range(size))
        self.groups: dict[tuple[int, ...], int] = {}

    def run(self, operation: Operation, inputs: Sequence[Array] | None) -> tuple[Timing, list[Array]]:
        if operation.count == 0 and operation.name != "barrier":
            return Timing("none", 0, 0), [np.empty(0, np.uint8)] * operation.size
        given: Sequence[Array | None] = [None] * operation.size if inputs is None else inputs
        tensors = [self._tensors(operation, sip, held) for sip, held in zip(operation.ranks, given, strict=False)]
        ranks = self._meet(operation, tensors)
        algorithm, kernel_ps, _, _ = ranks[0].report() or ("none", 0, 0, 0)
        timing = Timing(algorithm, kernel_ps, _bytes(operation))
        return timing, [] if inputs is None else self._results(operation, tensors)

    def _meet(self, operation: Operation, tensors: list[list[Any]]) -> list[Any]:
        """Lets all ranks make their calls, and performs them."""
        if operation.name == "send":
            group, calls = None, [("send", operation.ranks[1]), ("recv", operation.ranks[0])]
        else:
            group, calls = self._group(operation.ranks), [(operation.name, operation.root)] * operation.size
        made = [
            self.native.post(rank, group, name, [tensor._native for tensor in held], operation.op, peer, "")
            for rank, (name, peer), held in zip(operation.ranks, calls, tensors, strict=True)
        ]
        self.native.check()
        self.native.meet()
        return made

    def _group(self, ranks: tuple[int, ...]) -> int | None:
        if ranks == self.world:
            return None
        if ranks not in self.groups:
            self.groups[ranks] = self.native.new_group(0, list(ranks))
        return self.groups[ranks]

    def _tensors(self, operation: Operation, sip: int, held: Array | None) -> list[Any]:
        """Returns a rank's tensors on its SIP: the input and, where it is another, the output."""
        where = Placement(cube="row_wise", pe="row_wise", sips=[sip])
        tensors = [self.context.zeros(shape, operation.dtype).to(where) for shape in operation.shapes()]
        if held is not None and tensors:
            shape = tensors[0].shape
            array = _arranged(operation, held, tensors[0])
            tensors[0].copy_(array.reshape(shape))
        return tensors

    def _results(self, operation: Operation, tensors: list[list[Any]]) -> list[Array]:
        """Returns the bytes of the outputs of a reduction."""
        read = [tensors[operation.root]] if operation.name == "reduce" else tensors
        return [held[-1].numpy().reshape(-1).view(np.uint8) for held in read]


def _arranged(operation: Operation, held: Array, tensor: Any) -> Array:
    """Returns a rank's input as the machine has it: of a divided one, every PE holds its share of each part."""
    array: Array = held.view(numbers.TYPES[operation.dtype])
    if operation.name != "reduce_scatter":
        return array
    parts, out = array.reshape(operation.size, operation.count), np.empty_like(array)
    row = operation.size * array.itemsize
    for shard in tensor.shards:
        first, end = shard.offset // row, (shard.offset + shard.nbytes) // row
        out[first * operation.size : end * operation.size] = parts[:, first:end].reshape(-1)
    return out


def _outputs(operation: Operation, inputs: Sequence[Array]) -> list[list[Array]]:
    """Returns, for each output of a reduction, what all ranks give to it."""
    if operation.name == "reduce":
        return [list(inputs)]
    if operation.name == "all_reduce":
        return [list(inputs)] * operation.size
    part = len(inputs[0]) // operation.size
    return [[held[place * part : (place + 1) * part] for held in inputs] for place in range(operation.size)]


def _is_ordered(operation: Operation) -> bool:
    """Returns whether the result of a reduction depends on the order of its additions."""
    return operation.size > 2 and operation.dtype in numbers.FLOATS and operation.op in {"sum", "avg", "prod"}


def _has_two_zeros(operation: Operation, inputs: Sequence[Array]) -> bool:
    """Returns whether a minimum or maximum is between 0 and -0, of which the first is taken."""
    if operation.dtype not in numbers.FLOATS or operation.op not in {"min", "max"}:
        return False
    read = [numbers.values(held, operation.dtype) for held in inputs]
    negative = [(array == 0) & np.signbit(array) for array in read]
    return any(mask.any() for mask in negative)


def _same(a: order.Order, b: order.Order) -> bool:
    if a is b:
        return True
    return a.trees == b.trees and all(np.array_equal(x, y) for x, y in zip(a.places, b.places, strict=True))


def _bytes(operation: Operation) -> int:
    widest = max((int(np.prod(shape)) for shape in operation.shapes()), default=0)
    return widest * numbers.TYPES[operation.dtype].itemsize


def from_environment(size: int) -> Fabric:
    """Returns the machine that CUBEYARD_TOPOLOGY, CUBEYARD_SIPS and CUBEYARD_CCL name, with its channels installed.

    Raises:
        CubeyardError: One of them is wrong, or the machine has fewer SIPs than there are ranks.
    """
    topology = _topology()
    sips = topology["sips"]["count"]
    if size > sips:
        source = os.environ.get("CUBEYARD_TOPOLOGY", "").strip() or "the default machine"
        raise InputError(
            f"the world has {size} ranks, and a rank is a SIP: {source} has {sips}. Set CUBEYARD_SIPS={size}, or "
            f"CUBEYARD_TOPOLOGY to a topology file with at least {size} SIPs, or start at most {sips} ranks"
        )
    ccl = os.environ.get("CUBEYARD_CCL", "").strip()
    given = _given.text_of("CUBEYARD_CCL", ccl) if ccl else ("ccl.yaml", "")
    fabric = Fabric(topology, given, size)
    fabric.start()
    return fabric


def sips_of_environment() -> int:
    """Returns the number of SIPs of the machine that the environment names."""
    return int(_topology()["sips"]["count"])


def _topology() -> Topology:
    return Topology._of(_native.torch_topology())
