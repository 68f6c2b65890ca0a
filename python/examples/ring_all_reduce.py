"""An all-reduce around a ring of PEs, with the commands of the ring in `crates/collectives`.

It is a reduce-scatter and an all-gather. In the first, part `i` starts at rank `i + 1` and is combined with the inputs on
its way, until it is complete at rank `i`; in the second it travels around once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import cubeyard
from cubeyard.kernel import Kernel, Ref, Tile, Tl

Range = tuple[int, int]
NEXT, LAST = "E", "W"
LINE = 64
"""Bytes of a line of the TCM; tiles occupy whole lines."""


def ring_all_reduce(ranks: int, piece: int) -> Kernel:
    """Returns a kernel that sums a vector over `ranks` PEs, in messages of at most `piece` elements."""

    @cubeyard.jit
    def ring_all_reduce(x: Ref, y: Ref, first: int, per_cube: int, per_pe: int, tl: Tl) -> None:
        rank = tl.program_id(1) * per_cube
        rank = first + rank + tl.program_id(0) * per_pe
        elements = 1
        for length in x.shape:
            elements *= length
        whole, out = x.at(0, elements), y.at(0, elements)
        rounds = _rounds(tl, whole, -(-elements // ranks), piece)
        for number in range(rounds):
            _one_round(tl, whole, out, rank, (ranks, piece), (number, rounds))

    return ring_all_reduce


def _rounds(tl: Tl, x: Ref, held: int, piece: int) -> int:
    """Returns the rounds in which the parts fit in a quarter of the TCM."""
    tile = -(-piece * _size(x.dtype) // LINE) * LINE
    return max(1, -(-(-(-held // piece) * tile) // max(1, tl.scratch_bytes() // 4)))


def _size(dtype: str) -> int:
    """Returns the bytes of an element."""
    return {"f32": 4, "f16": 2, "bf16": 2, "f64": 8, "i32": 4}[dtype]


def _part(elements: int, index: int, count: int) -> Range:
    """Returns the range of part `index` of `count`; parts differ by at most one element."""
    return elements * index // count, elements * (index + 1) // count


def _pieces(elements: int, rank: int, ring: tuple[int, int], round_: tuple[int, int]) -> list[Range]:
    """Returns the messages of a rank's part in a round."""
    ranks, piece = ring
    start, end = _part(elements, rank, ranks)
    low, high = _part(end - start, *round_)
    return [(at, min(at + piece, start + high)) for at in range(start + low, start + high, piece)]


def _one_round(tl: Tl, x: Ref, y: Ref, rank: int, ring: tuple[int, int], round_: tuple[int, int]) -> None:
    """Sums a share of each part, and hands it to all ranks."""
    ranks, elements = ring[0], x.shape[0]

    def pieces(places: int) -> list[Range]:
        return _pieces(elements, (rank - places) % ranks, ring, round_)

    whole = _scatter(tl, x, ranks, pieces)
    for span, tile in whole:
        tl.store(_at(y, span), tile)
        del tile
    _gather(tl, y, ranks, pieces, whole)


def _at(buffer: Ref, span: Range) -> Ref:
    return buffer.at(span[0], span[1] - span[0])


def _receive(tl: Tl, like: Ref, span: Range) -> Tile:
    return tl.recv_async(LAST, span[1] - span[0], like.dtype)


def _turns(leaving: list[Range], coming: list[Range]) -> Iterator[tuple[int, Range | None, Range | None]]:
    """Alternates between sending and receiving: if all ranks sent first, they would deadlock once the slots are full."""
    for at in range(max(len(leaving), len(coming))):
        yield at, leaving[at] if at < len(leaving) else None, coming[at] if at < len(coming) else None


Held = list[tuple[Range, Tile]]


def _scatter(tl: Tl, x: Ref, ranks: int, pieces: Callable[[int], list[Range]]) -> Held:
    """Returns this rank's part of the sum."""
    passing: list[Tile | None] = [None] * len(pieces(1))
    joined: Held = []
    for step in range(1, ranks):
        joined = []
        for at, leaving, coming in _turns(pieces(step), pieces(step + 1)):
            if leaving is not None:
                # A tile that originates here is loaded when it leaves; loading all at first would delay the rest.
                tile, passing[at] = passing[at], None
                tl.send(NEXT, tl.load(_at(x, leaving)) if tile is None else tile)
                del tile
            if coming is not None:
                mine = tl.load(_at(x, coming))
                come = _receive(tl, x, coming)
                joined.append((coming, tl.add(mine, come)))
                del come, mine
        passing = [tile for _, tile in joined]
    return joined if ranks > 1 else [(span, tl.load(_at(x, span))) for span in pieces(0)]


def _gather(tl: Tl, y: Ref, ranks: int, pieces: Callable[[int], list[Range]], own: Held) -> None:
    """Passes complete parts around, and stores those that arrive."""
    passing: list[Tile | None] = [tile for _, tile in own]
    for step in range(1, ranks):
        come: list[Tile | None] = []
        for at, leaving, coming in _turns(pieces(step - 1), pieces(step)):
            if leaving is not None:
                tile, passing[at] = passing[at], None
                assert tile is not None
                tl.send(NEXT, tile)
                del tile
            if coming is not None:
                received = _receive(tl, y, coming)
                tl.store(_at(y, coming), received)
                come.append(received)
                del received
        passing = come
