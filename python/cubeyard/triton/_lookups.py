"""Gathers and histograms: comparisons with every index, reduced in one pass of the vector unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cubeyard.triton._elements import DTYPES, SIZES
from cubeyard.triton._frame import Builder, Frame, Step, lowers
from cubeyard.triton._ir import Operation
from cubeyard.triton._values import Node

__all__: list[str] = []

_SIZES = {dtype: SIZES[element] for element, dtype in DTYPES.items()}
_GATHER = "MATH has no gather: each index is compared with all elements of its row"
_HISTOGRAM = "MATH has no histogram: each element is compared with every bin"


@lowers("tt.gather")
def gathered(build: Builder, operation: Operation) -> Step:
    """Lowers the selection of elements along an axis by a tensor of indices."""
    (source, index), result = operation.operands, operation.results[0]
    of, before, places = build.types[result], build.types[source], build.types[index]
    axis = operation.attributes["axis"]
    order = [*(at for at in range(len(of.shape)) if at != axis), axis]

    def compute(tl: Any, x: Any, at: Any, numbers: Any) -> Any:
        return tl.xor_sum(tl.where(tl.eq(at, numbers), x, 0), len(of.shape))

    def step(frame: Frame) -> None:
        tl = frame.tl
        frame.note("gather", _GATHER)
        x = _with_last(tl, frame.whole(frame.env[source], before.shape, before.element), order)
        at = _with_last(tl, _wide(tl, frame.whole(frame.env[index], places.shape, places.element)), order)
        x = _bits(tl, x)
        rows, (length, count) = list(at.shape)[:-1], (x.shape[-1], at.shape[-1])
        numbers = tl.reshape(tl.arange(0, length, at.dtype), [1] * len(rows) + [1, length])
        given = (tl.reshape(x, [*rows, 1, length]), tl.reshape(at, [*rows, count, 1]), numbers)
        found = _typed(tl, _computed(frame, compute, given), of.element)
        back = [order.index(one) for one in range(len(order))]
        frame.env[result] = Node(of.shape, of.element, tile=_with_last(tl, found, back))

    return step


def _bits(tl: Any, tile: Any) -> Any:
    """Returns the bits of elements as integers."""
    into = f"i{8 * _SIZES[tile.dtype]}"
    return tl.cast(tile, into) if tile.dtype == "bool" else tile if tile.dtype == into else tl.bitcast(tile, into)


def _typed(tl: Any, tile: Any, element: str) -> Any:
    """Returns the elements that integers are the bits of."""
    into = DTYPES[element]
    return tl.cast(tile, into) if into == "bool" else tile if tile.dtype == into else tl.bitcast(tile, into)


def _with_last(tl: Any, tile: Any, order: list[int]) -> Any:
    return tile if order == sorted(order) else tl.permute(tile, order)


def _wide(tl: Any, tile: Any) -> Any:
    """Converts narrow indices, whose type may not hold all indices of a row."""
    return tl.cast(tile, "i32") if tile.dtype in ("i8", "i16") else tile


def _computed(frame: Frame, compute: Any, tiles: Sequence[Any]) -> Any:
    """Computes an expression of tiles in one pass."""
    return frame.tl.eval_all([compute(frame.tl, *(tile.lazy() for tile in tiles))])[0]


@lowers("tt.histogram")
def counted(build: Builder, operation: Operation) -> Step:
    """Lowers a histogram: the number of elements that equal each index of the result."""
    source, *mask = operation.operands
    result, before, of = operation.results[0], build.types[source], build.types[operation.results[0]]
    bins, count = of.shape[0], before.shape[0]

    def compute(tl: Any, x: Any, numbers: Any, *chosen: Any) -> Any:
        same = tl.eq(x, numbers)
        return tl.sum(tl.cast(tl.and_(same, chosen[0]) if chosen else same, DTYPES[of.element]), 1)

    def step(frame: Frame) -> None:
        tl = frame.tl
        frame.note("histogram", _HISTOGRAM)
        x = _wide(tl, frame.whole(frame.env[source], before.shape, before.element))
        numbers = tl.reshape(tl.arange(0, bins, x.dtype), [bins, 1])
        given = [tl.reshape(x, [1, count]), numbers]
        given += [tl.reshape(frame.whole(frame.env[one], before.shape, "i1"), [1, count]) for one in mask]
        frame.env[result] = Node(of.shape, of.element, tile=_computed(frame, compute, given))

    return step
