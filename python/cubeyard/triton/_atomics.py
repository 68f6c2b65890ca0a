"""Atomic operations.

The machine has no atomic unit. A PE reserves the addresses of an atomic operation, reads them, writes the new elements and
reads those back, so that they are in memory, before another PE may reserve them. A PE that finds them reserved reads
them again. Without data nothing waits: the times of one read and one write are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cubeyard.triton._chains import tile_of
from cubeyard.triton._elements import UNSIGNED
from cubeyard.triton._frame import Builder, Flow, Frame, Step, lowers
from cubeyard.triton._ir import Operation
from cubeyard.triton._memory import is_never, known, load, store
from cubeyard.triton._values import Node, Uniform, array_of

__all__: list[str] = []

_NOTE = "an atomic operation is a read, a write and a read back, one PE at a time: the machine has no atomic unit"

_KINDS = {"add": "add", "fadd": "add", "max": "maximum", "min": "minimum", "and": "and_", "or": "or_", "xor": "xor",
          "umax": "maximum", "umin": "minimum"}  # fmt: skip
"""Operations of the vector unit that combine the old and the given elements."""


@lowers("tt.atomic_rmw")
def modified(build: Builder, operation: Operation) -> Step:
    """Lowers an atomic operation that combines memory with a value."""
    kind = operation.attributes["words"][0]
    of = build.types[operation.results[0]]
    if kind != "exch" and kind not in _KINDS:
        raise build.unsupported(operation, kind)

    def combine(tl: Any, old: Any, given: list[Any]) -> Any:
        value = tile_of(given[0], tl)
        if kind == "exch":
            return value
        if kind[0] == "u":
            unsigned = UNSIGNED[of.element]
            return tl.cast(getattr(tl, _KINDS[kind])(tl.cast(old, unsigned), tl.cast(value, unsigned)), of.element)
        return getattr(tl, _KINDS[kind])(old, value)

    pointer, value, *mask = operation.operands
    return _atomic(build, operation, pointer, [value], mask, combine)


@lowers("tt.atomic_cas")
def exchanged(build: Builder, operation: Operation) -> Step:
    """Lowers an atomic exchange of elements that equal given ones."""
    pointer, compared, value = operation.operands

    def combine(tl: Any, old: Any, given: list[Any]) -> Any:
        wanted, new = (tile_of(one, tl) for one in given)
        return tl.where(tl.eq(old, wanted), new, old)

    return _atomic(build, operation, pointer, [compared, value], [], combine, compared)


def _atomic(
    build: Builder, operation: Operation, pointer: int, values: list[int], masks: list[int], combine: Callable[..., Any],
    changes: int | None = None,
) -> Step:  # fmt: skip
    """Lowers an atomic operation; one on a single element other than `changes`, if given, writes nothing."""
    of, result = build.types[operation.results[0]], operation.results[0]
    call, line = build.call(operation), str(build.line(operation))

    def read(frame: Frame, at: Any, mask: Any) -> Any:
        frame.tl.call = call
        return load(frame, line, of.element, of.shape, at, mask)

    def write(frame: Frame, at: Any, mask: Any, old: Any) -> None:
        tile = frame.whole(old, of.shape, of.element)
        new = combine(frame.tl, tile, [frame.env[one] for one in values])
        node = new if isinstance(new, int | float) else Node(of.shape, of.element, tile=new)
        store(frame, line, of.element, of.shape, at, node, mask)

    def change(frame: Frame, at: Any, mask: Any) -> Any:
        old = read(frame, at, mask)
        elements = yield from known(old)
        frame.tl.call = call
        if not (changes is not None and not of.shape and elements != frame.env[changes]):
            write(frame, at, mask, old)
            yield read(frame, at, mask)
        return elements

    def flow(frame: Frame) -> Flow:
        frame.notes.add((line, "atomic", _NOTE))
        at = yield from known(frame.env[pointer])
        mask = (yield from known(frame.env[masks[0]])) if masks else None
        if is_never(mask):
            frame.env[result] = 0 if not of.shape else Uniform(of.shape, of.element, 0)
            return
        mask = None if isinstance(mask, bool | int) else mask
        if "relaxed" not in operation.attributes["words"]:
            # Stores before it are in memory before another PE sees it.
            frame.tl.fence()
        if not frame.live:
            old = read(frame, at, mask)
            write(frame, at, mask, old)
            frame.env[result] = old
            return
        turn = _in_turn(frame.reserved, _places(at, mask, of.shape), lambda: read(frame, at, mask))
        yield from turn.wait()
        frame.env[result] = yield from change(frame, at, mask)
        turn.end()

    return flow


class _Turn:
    """The turn of a PE to change some addresses, in the order of arrival."""

    def __init__(self, queues: list[list[Any]], read: Callable[[], Any]) -> None:
        self.queues, self.read = queues, read
        for queue in queues:
            queue.append(self)

    def wait(self) -> Flow:
        """Waits for the turn; a PE that waits reads again, which takes the time of a read."""
        while any(queue[0] is not self for queue in self.queues):
            yield self.read()

    def end(self) -> None:
        """Gives the turn to the next PE."""
        for queue in self.queues:
            queue.remove(self)


def _in_turn(reserved: dict[int, list[Any]], places: set[int], read: Callable[[], Any]) -> _Turn:
    return _Turn([reserved.setdefault(place, []) for place in places], read)


def _places(pointer: Any, mask: Any, shape: tuple[int, ...]) -> set[int]:
    """Returns the addresses of an atomic operation."""
    addresses = np.broadcast_to(array_of(pointer), shape)
    if mask is not None:
        addresses = addresses[np.broadcast_to(array_of(mask), shape)]
    return set(np.unique(addresses).tolist())
