"""Loads of arbitrary addresses along the axis with the longest runs."""

from __future__ import annotations

import numpy as np

from cubeyard.triton._elements import Array

__all__ = ["fast_axis", "with_last"]


def fast_axis(addresses: Array, chosen: Array) -> int:
    """Returns the axis along which a load has the fewest runs: the last one, unless another has less than half of them."""
    last = addresses.ndim - 1
    counts = [_runs(addresses, chosen, axis) for axis in range(addresses.ndim)]
    best = min(range(addresses.ndim), key=lambda axis: (counts[axis], -axis))
    return best if 2 * counts[best] + 1 < counts[last] else last


def with_last(rank: int, axis: int) -> list[int]:
    """Returns the order of axes with one of them at the end. Others keep their order."""
    return [*(at for at in range(rank) if at != axis), axis]


def _runs(addresses: Array, chosen: Array, axis: int) -> int:
    """Estimates the runs along an axis: lines with chosen elements, and changes of the stride between chosen elements."""
    lines, picked = np.moveaxis(addresses, axis, -1), np.moveaxis(chosen, axis, -1)
    steps, both = np.diff(lines), picked[..., 1:] & picked[..., :-1]
    breaks = int((both & (steps <= 0)).sum()) + int((picked[..., :-1] & ~picked[..., 1:]).sum())
    if steps.shape[-1] > 1:
        breaks += int(((np.diff(steps) != 0) & both[..., 1:] & both[..., :-1] & (steps[..., 1:] > 0)).sum())
    return int(picked.any(-1).sum()) + breaks
