"""Simulation of operations on a machine whose SIPs are the ranks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cubeyard import _native
from cubeyard._algorithm import finder
from cubeyard._base import inputs
from cubeyard._world import numbers, order
from cubeyard._world.operation import Operation
from cubeyard.errors import InputError
from cubeyard.machine.topology import Topology
from cubeyard.tensors.context import Context
from cubeyard.tensors.placement import Placement

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
class Fabric:
    """The machine. Operations that are equal are simulated once for their time.

    Numbers are computed in the order that the algorithm states. A user's own algorithm states none: where the order
    matters, every call is simulated.
    """

    topology: Topology
    ccl: tuple[str, str]
    """Name and text of a `ccl.yaml`."""
    size: int
    """Number of ranks."""
    _worlds: dict[bool, _Simulated] = field(default_factory=dict)
    _timings: dict[Operation, Timing] = field(default_factory=dict)
    _orders: dict[Operation, list[order.Order] | None] = field(default_factory=dict)
    """Orders of the outputs of reductions; None where they are not stated."""
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
        is_stated = not _is_ordered(operation) or self._orders.get(operation) is not None
        return operation in self._timings and is_stated

    def timing(self, operation: Operation) -> Timing:
        """Returns the duration of an operation."""
        if operation not in self._timings:
            timing, _ = self._run(self._world(data=False), operation, None)
            self._timings[operation] = timing
        return self._timings[operation]

    def reduce(self, operation: Operation, inputs: Sequence[Array]) -> tuple[Timing, list[Array]]:
        """Performs a reduction.

        Args:
            operation: the reduction.
            inputs: bytes of each rank's input.

        Returns:
            The duration, and the bytes of each rank's output; of a `reduce` those of its root.
        """
        parts = _outputs(operation, inputs)
        if not _is_ordered(operation) and not _has_two_zeros(operation, inputs):
            orders: list[order.Order] | None = [order.left_to_right(operation.size)] * len(parts)
        else:
            orders = self._stated(operation, len(parts))
        if orders is not None:
            return self.timing(operation), self._computed(operation, orders, parts)
        timing, results = self._run(self._world(data=True), operation, inputs)
        return self._timings.setdefault(operation, timing), results

    def _stated(self, operation: Operation, outputs: int) -> list[order.Order] | None:
        """Returns the order of each output, if the algorithm states it."""
        if operation not in self._orders:
            stated = self._world(data=False).orders(operation)
            one = None if stated is None else [order.stated(trees, runs) for trees, runs in stated]
            # All ranks of an `all_reduce` get the same output.
            self._orders[operation] = one and (one if len(one) == outputs else one * outputs)
        return self._orders[operation]

    @staticmethod
    def _computed(operation: Operation, orders: list[order.Order], parts: list[list[Array]]) -> list[Array]:
        """Returns the outputs in their orders; equal ones are computed once."""
        op, dtype = operation.op, operation.dtype
        made: list[Array] = []
        for place, (each, inputs) in enumerate(zip(orders, parts, strict=True)):
            if place and operation.name != "reduce_scatter":
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

    def orders(self, operation: Operation) -> Any:
        """Returns the trees and the runs of each different output of a reduction; None if they are not stated."""
        if operation.count == 0:
            return [([0], [])]
        held = self._tensors(operation, operation.ranks[0], None)[0]._native
        return self.native.orders(self._group(operation.ranks), operation.name, held, operation.op, operation.root)

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
    given = inputs.text_of("CUBEYARD_CCL", ccl) if ccl else ("ccl.yaml", "")
    fabric = Fabric(topology, given, size)
    fabric.start()
    return fabric


def sips_of_environment() -> int:
    """Returns the number of SIPs of the machine that the environment names."""
    return int(_topology()["sips"]["count"])


def _topology() -> Topology:
    return Topology._of(_native.torch_topology())
