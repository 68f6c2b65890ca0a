"""Orders in which algorithms combine the values of ranks.

Floating-point sums depend on their order. An algorithm combines each element by a binary tree over the ranks, and
elements differ: a ring begins each piece at another rank. Every algorithm of the library states its trees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cubeyard._world import numbers

__all__ = ["Order", "left_to_right", "stated"]

Array = np.ndarray[Any, Any]
Tree = Any
"""A rank, or a pair of trees: the first operand and the second."""


@dataclass(frozen=True)
class Order:
    """Tree of every element."""

    trees: tuple[Tree, ...]
    places: tuple[Any, ...]
    """Elements of each tree: an index of the array."""

    def combine(self, op: str, dtype: str, inputs: Sequence[Array]) -> Array:
        """Returns the combination of the ranks' arrays, in this order."""
        if len(self.trees) == 1:
            return numbers.finish(op, dtype, len(inputs), _evaluate(self.trees[0], op, dtype, inputs))
        out = np.empty_like(inputs[0])
        for tree, place in zip(self.trees, self.places, strict=True):
            if isinstance(place, tuple):
                runs, of, length = place
                parts = [array.reshape(-1, runs, length)[:, of] for array in inputs]
                out.reshape(-1, runs, length)[:, of] = _evaluate(tree, op, dtype, parts)
            else:
                out[place] = _evaluate(tree, op, dtype, [array[place] for array in inputs])
        return numbers.finish(op, dtype, len(inputs), out)


def left_to_right(ranks: int) -> Order:
    """Returns the order of the ranks, for combinations whose order does not matter."""
    tree: Tree = 0
    for rank in range(1, ranks):
        tree = (tree, rank)
    return Order((tree,), (slice(None),))


def stated(trees: Sequence[Tree], runs: Sequence[tuple[int, int, int]]) -> Order:
    """Returns the order of an output.

    Args:
        trees: the different trees of its elements.
        runs: start and end of elements, ascending and without a gap, and the number of their tree.

    >>> stated([(0, 1), (1, 0)], [(0, 2, 0), (2, 4, 1), (4, 6, 0), (6, 8, 1)]).places
    ((2, 0, 2), (2, 1, 2))
    >>> [place.tolist() for place in stated([(0, 1), (1, 0)], [(0, 1, 1), (1, 3, 0)]).places]
    [[1, 2], [0]]
    """
    if not runs:
        return Order((), ())
    which = np.repeat([tree for _, _, tree in runs], [end - start for start, end, _ in runs])
    return Order(tuple(trees), tuple(_places(which, len(trees))))


def _places(which: Array, kinds: int) -> Iterator[Any]:
    """Yields the elements of each kind: as runs of one length that repeat, or as indices."""
    starts = np.concatenate(([0], np.nonzero(np.diff(which))[0] + 1, [len(which)]))
    lengths, sequence = np.diff(starts), which[starts[:-1]]
    repeats = len(sequence) % kinds == 0 and (lengths == lengths[0]).all()
    if repeats and (sequence.reshape(-1, kinds) == sequence[:kinds]).all():
        for kind in range(kinds):
            yield (kinds, int(np.nonzero(sequence[:kinds] == kind)[0][0]), int(lengths[0]))
    else:
        for kind in range(kinds):
            yield np.nonzero(which == kind)[0]


def _evaluate(tree: Tree, op: str, dtype: str, inputs: Sequence[Array]) -> Array:
    if not isinstance(tree, tuple):
        return inputs[tree]
    a, b = (_evaluate(branch, op, dtype, inputs) for branch in tree)
    return numbers.join(op, dtype, a, b)
