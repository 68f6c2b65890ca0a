"""Atomic operations that change memory.

The machine has no atomic unit. A PE reserves the addresses of an atomic operation, reads the elements, writes the new ones,
and reads them back to ensure that they are in memory, or waits for the acknowledgement of the write, as the key
`pe.core.atomics` of the topology says. Then another PE may reserve the addresses. A PE that finds them
reserved reads them again. Lanes of one tile with the same address take turns in row-major order. Each turn has its own
read, write and read-back. Without data, no PE waits; only the time of a read and a write per turn is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cubeyard.triton._chains import tile_of
from cubeyard.triton._elements import SIZES, UNSIGNED, Array, bits_of, is_float
from cubeyard.triton._frame import Builder, Flow, Frame, Step, lowers
from cubeyard.triton._ir import Operation, Type
from cubeyard.triton._memory import Box, boxes, known, load_boxes, store_boxes
from cubeyard.triton._tiles import unsigned_operand
from cubeyard.triton._values import Node, Uniform, array_of, of_elements

__all__ = ["read_atomic"]

_NOTE = "an atomic operation is a read, a write and a read back, one PE at a time: the machine has no atomic unit"
_TURNS = "lanes of a tile that have the same address take turns: an atomic operation for each turn"

_KINDS = {"add": "add", "fadd": "add", "max": "maximum", "min": "minimum", "and": "and_", "or": "or_", "xor": "xor",
          "umax": "maximum", "umin": "minimum"}  # fmt: skip
"""Vector unit operations that combine the old and the given elements."""

Combine = Callable[[Frame, Any, list[Any]], Any]
"""Function that computes the new elements, as a tile or a number, from the old elements and the operands."""


@lowers("tt.atomic_rmw")
def modified(build: Builder, operation: Operation) -> Step:
    """Lowers an atomic operation that combines memory with a value."""
    kind = operation.attributes["words"][0]
    of = build.types[operation.results[0]]
    if kind != "exch" and kind not in _KINDS:
        raise build.unsupported(operation, kind)

    def combine(frame: Frame, old: Any, given: list[Any]) -> Any:
        tl, value = frame.tl, tile_of(given[0], frame.tl)
        if kind == "exch":
            return value
        if kind[0] == "u":
            new = getattr(tl, _KINDS[kind])(tl.cast(old, UNSIGNED[of.element]), unsigned_operand(tl, value, of.element))
            return tl.cast(new, of.element)
        return getattr(tl, _KINDS[kind])(old, value)

    _, value, *mask = operation.operands
    return _Atomic(build, operation, [value], mask, combine).flow


@lowers("tt.atomic_store")
def stored(build: Builder, operation: Operation) -> Step:
    """Lowers an atomic store: an exchange without a result, since another PE may be changing the element."""
    _, value, *mask = operation.operands
    return _Atomic(build, operation, [value], mask, lambda frame, old, given: tile_of(given[0], frame.tl)).flow


@lowers("tt.atomic_cas")
def exchanged(build: Builder, operation: Operation) -> Step:
    """Lowers an atomic compare-and-swap, which compares elements bit by bit."""
    _, compared, value = operation.operands
    of = build.types[operation.results[0]]

    def combine(frame: Frame, old: Any, given: list[Any]) -> Any:
        tl, (wanted, new) = frame.tl, (tile_of(one, frame.tl) for one in given)
        if not is_float(of.element):
            return tl.where(tl.eq(old, wanted), new, old)
        bits, whole = f"i{8 * SIZES[of.element]}", frame.whole(given[0], of.shape, of.element)
        return tl.where(tl.eq(tl.bitcast(old, bits), tl.bitcast(whole, bits)), new, old)

    return _Atomic(build, operation, [compared, value], [], combine, compared).flow


class _Atomic:
    """Atomic operation. With `compared`, a single element with other bits is not written."""

    def __init__(
        self, build: Builder, operation: Operation, values: list[int], masks: list[int], combine: Combine, compared: int | None = None
    ) -> None:
        self.pointer, self.values, self.masks = operation.operands[0], values, masks
        self.combine, self.compared = combine, compared
        self.of, self.results = build.types[values[-1]], operation.results
        words = operation.attributes["words"]
        self.relaxed = "relaxed" in words
        self.acquires = "acquire" if {"acquire", "acq_rel"} & {*words} else "relaxed"
        self.releases = "release" if {"release", "acq_rel"} & {*words} else "relaxed"

    def flow(self, frame: Frame) -> Flow:
        """Runs the operation."""
        frame.note("atomic", _NOTE)
        at = yield from known(frame.env[self.pointer])
        mask = (yield from known(frame.env[self.masks[0]])) if self.masks else None
        mask = None if isinstance(mask, bool | int) and mask else mask
        addresses, chosen = _lanes(at, mask, self.of.shape)
        if not chosen.any():
            self.found(frame, Uniform(self.of.shape, self.of.element, 0) if self.of.shape else 0)
            return
        if not self.relaxed:
            # Earlier stores must be in memory before another PE sees the result.
            frame.tl.fence()
        turns = [self.boxes(frame, at, one) for one in _turns(addresses, chosen, mask)]
        if len(turns) > 1:
            frame.note("turns", _TURNS)
        if frame.live:
            yield from self.in_turn(frame, turns, _places(addresses[chosen], SIZES[self.of.element]))
        else:
            self.without_data(frame, turns)

    def found(self, frame: Frame, value: Any) -> None:
        """Sets the result, if the operation has one."""
        for result in self.results:
            frame.env[result] = value

    def boxes(self, frame: Frame, at: Any, mask: Any) -> list[Box]:
        """Returns the boxes of the tile that one turn changes."""
        return list(boxes(frame, self.of.element, self.of.shape, at, mask, shared=False))

    def in_turn(self, frame: Frame, turns: list[list[Box]], places: set[int]) -> Flow:
        """Waits for the PE's turn, then changes memory once per turn of its lanes."""
        turn = _in_turn(frame.reserved, places, lambda: self.read(frame, turns[0], "relaxed"))
        yield from turn.wait()
        tile = None
        for parts in turns:
            tile, elements = yield from self.change(frame, parts, tile)
            self.found(frame, elements)
        turn.end()

    def without_data(self, frame: Frame, turns: list[list[Box]]) -> None:
        """Reads and writes once per turn, without waiting."""
        tile = None
        for parts in turns:
            old = self.read(frame, parts, self.acquires, tile)
            self.write(frame, parts, old)
            tile = old.tile
            self.found(frame, old)

    def change(self, frame: Frame, parts: list[Box], into: Any) -> Any:
        """Reads, waits for the elements, writes, and waits for the write. Returns the old tile and its elements."""
        old = self.read(frame, parts, self.acquires, into)
        elements = yield from known(old)
        if self.compared is not None and not self.of.shape:
            wanted = yield from known(frame.env[self.compared])
            if bits_of(elements, self.of.element) != bits_of(wanted, self.of.element):
                return old.tile, elements
        self.write(frame, parts, old)
        if frame.tl.atomics() == "acknowledged":
            frame.tl.fence()
            yield old
        else:
            yield self.read(frame, parts, "relaxed")
        return old.tile, elements

    def read(self, frame: Frame, parts: list[Box], order: str, into: Any = None) -> Node:
        """Reads boxes into the given tile, or into a new one."""
        return read_atomic(frame, parts, self.of, order, into)

    def write(self, frame: Frame, parts: list[Box], old: Node) -> None:
        """Computes the new elements of boxes from the old ones, and writes them."""
        shape, element = self.of.shape, self.of.element
        new = self.combine(frame, frame.whole(old, shape, element), [frame.env[one] for one in self.values])
        node = new if isinstance(new, int | float) else Node(shape, element, tile=new)

        def store_box(tl: Any, box: Box, part: Any) -> None:
            tl.store_atomic(box.reference, part, self.releases, box.mask)

        store_boxes(frame, parts, frame.whole(node, shape, element), store_box)


def read_atomic(frame: Frame, parts: list[Box], of: Type, order: str, into: Any = None) -> Node:
    """Reads boxes as a part of an atomic operation, into the given tile or into a new one."""

    def load_box(tl: Any, box: Box, fill: float) -> Any:
        return tl.load_atomic(box.reference, order, box.mask)

    return Node(of.shape, of.element, tile=load_boxes(frame, parts, of.shape, of.element, 0, into, load_box))


class _Turn:
    """Turn of a PE to change some addresses, in order of arrival."""

    def __init__(self, queues: list[list[Any]], read: Callable[[], Any]) -> None:
        self.queues, self.read = queues, read
        for queue in queues:
            queue.append(self)

    def wait(self) -> Flow:
        """Waits for the turn. A waiting PE reads again, which takes the time of a read."""
        while any(queue[0] is not self for queue in self.queues):
            yield self.read()

    def end(self) -> None:
        """Passes the turn to the next PE."""
        for queue in self.queues:
            queue.remove(self)


def _in_turn(reserved: dict[int, list[Any]], places: set[int], read: Callable[[], Any]) -> _Turn:
    return _Turn([reserved.setdefault(place, []) for place in places], read)


def _lanes(pointer: Any, mask: Any, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Returns the addresses of all lanes, and whether each lane participates."""
    chosen = np.broadcast_to(True if mask is None else array_of(mask).astype(bool), shape)
    return np.broadcast_to(array_of(pointer), shape), chosen


def _turns(addresses: Array, chosen: Array, mask: Any) -> Iterator[Any]:
    """Yields one mask per turn. Turn n has the n-th lane of each address, in row-major order."""
    if addresses.size == 1:
        # A lock or a counter, which loops of kernels ask often.
        yield mask
        return
    lanes = np.flatnonzero(chosen)
    _, places = np.unique(addresses.ravel()[lanes], return_inverse=True)
    order = np.argsort(places, kind="stable")
    firsts = np.searchsorted(places[order], places[order])
    numbers = np.empty_like(order)
    numbers[order] = np.arange(len(order)) - firsts
    if not numbers.any():
        yield mask
        return
    for number in range(numbers.max() + 1):
        part = np.zeros(addresses.shape, np.bool_)
        part.flat[lanes[numbers == number]] = True
        yield of_elements(part, "i1")


def _places(addresses: Array, size: int) -> set[int]:
    """Returns the places that an atomic operation reserves: pairs of bytes, since elements have at least two bytes."""
    return {place + at for place in np.unique(addresses).tolist() for at in range(0, size, 2)}
