"""Address patterns as boxes with constant strides."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from types import NoneType
from typing import Any

import numpy as np

from cubeyard.triton._elements import Array

__all__ = ["of_array", "of_axes"]

Piece = tuple[tuple[int, ...], tuple[int, ...], int, tuple[int, ...], Any]
"""Start and lengths of a box, its address offset, its strides in elements, and its mask: limits, booleans or None."""

_Segment = tuple[int, int, int, int]
"""Start and length along an axis, the offset of the first element in bytes, and the stride in bytes."""


def of_axes(shape: tuple[int, ...], steps: tuple[Any, ...], masks: tuple[Any, ...], size: int, shared: bool) -> list[Piece]:
    """Splits addresses that are a sum of one function per axis.

    Args:
        shape: shape of the tile.
        steps: for each axis, its stride in bytes or the offsets along it.
        masks: for each axis, the booleans along it, or None if all are true.
        size: size of an element in bytes.
        shared: whether to access an axis with equal addresses once and broadcast the result.
    """
    if {*map(type, masks)} == {NoneType} and {*map(type, steps)} == {int}:
        return _of_strides(shape, steps, size, shared)
    return _split(shape, steps, masks, size, shared)


@lru_cache(4096)
def _of_strides(shape: tuple[int, ...], steps: tuple[int, ...], size: int, shared: bool) -> list[Piece]:
    """Splits unmasked addresses with one stride per axis. Cached, because loops repeat the same pattern."""
    return _split(shape, steps, (None,) * len(shape), size, shared)


def _split(shape: tuple[int, ...], steps: tuple[Any, ...], masks: tuple[Any, ...], size: int, shared: bool) -> list[Piece]:
    segments, limits = [], []
    for length, step, mask in zip(shape, steps, masks, strict=True):
        limit = _limit(mask, length)
        limits.append(limit)
        segments.append(_segments(length, step, length if limit is None else limit, mask is None and shared, size))
    return [_piece(chosen, limits, masks, size) for chosen in product(*segments)]


def _limit(mask: Any, length: int) -> int | None:
    """Returns the number of selected elements if they are the first ones, else None."""
    if mask is None:
        return length
    count = int(mask.sum())
    return count if mask[:count].all() else None


def _segments(length: int, step: Any, used: int, shared: bool, size: int) -> list[_Segment]:
    """Splits an axis into parts with a constant stride. Elements after the first `used` are ignored."""
    if type(step) is int:
        if step == 0 and shared:
            return [(0, 1, 0, 0)]
        if step >= 0 and step % size == 0:
            return [(0, length, 0, step)]
        step = np.arange(length, dtype=np.int64) * step
    parts = list(_runs(step[:used], size))
    if len(parts) == 1:
        return [(0, length, parts[0][2], parts[0][3])]
    return parts


def _runs(offsets: Array, size: int) -> Iterator[_Segment]:
    """Yields the longest parts with a constant stride, starting from the beginning."""
    at, count = 0, len(offsets)
    while at < count:
        end, step = at + 1, size
        if end < count:
            step = int(offsets[end] - offsets[at])
            if step > 0 and step % size == 0:
                differs = np.flatnonzero(np.diff(offsets[at:]) != step)
                end = at + 1 + (int(differs[0]) if len(differs) else count - at - 1)
            else:
                step = size
        yield at, end - at, int(offsets[at]), step
        at = end


def _piece(chosen: tuple[_Segment, ...], limits: list[int | None], masks: tuple[Any, ...], size: int) -> Piece:
    start = tuple(one[0] for one in chosen)
    lengths = tuple(one[1] for one in chosen)
    offset, strides = sum(one[2] for one in chosen), tuple(one[3] // size for one in chosen)
    return start, lengths, offset, strides, _box_mask(chosen, limits, masks)


def _box_mask(chosen: tuple[_Segment, ...], limits: list[int | None], masks: tuple[Any, ...]) -> Any:
    """Returns the mask of a box, or None if it needs none."""
    if all(limit is not None for limit in limits):
        ends = tuple(min(max((limit or 0) - one[0], 0), one[1]) for one, limit in zip(chosen, limits, strict=True))
        return None if ends == tuple(one[1] for one in chosen) else ends
    total = np.ones([one[1] for one in chosen], np.bool_)
    for axis, (one, mask) in enumerate(zip(chosen, masks, strict=True)):
        if mask is not None:
            total &= mask[one[0] : one[0] + one[1]].reshape([-1 if at == axis else 1 for at in range(len(chosen))])
    return total


def of_array(addresses: Array, chosen: Array, size: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], int, int]]:
    """Yields the runs along the last axis of arbitrary addresses: start, lengths, first address, stride in elements."""
    rank = addresses.ndim
    for row in np.ndindex(addresses.shape[:-1]):
        line, touched = addresses[row], chosen[row]
        for first, end in _true_runs(touched):
            for at, length, address, step in _runs(line[first:end], size):
                yield (*row, first + at), (1,) * (rank - 1) + (length,), address, step // size


def _true_runs(touched: Array) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], touched, [False])).astype(np.int8)))
    return [(int(first), int(end)) for first, end in edges.reshape(-1, 2)]
