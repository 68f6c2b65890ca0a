"""Orders in which algorithms combine the values of ranks, learned from what the machine computes.

Floating-point sums depend on their order. An algorithm combines each element by a binary tree over the ranks, and
elements differ: a ring begins each piece at another rank. Few ranks have few trees, so values can be chosen for which
every tree has another result. Where the machine combines such values, its results show the tree of each element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from cubeyard._world import numbers

__all__ = ["MOST_RANKS", "Order", "left_to_right", "learn"]

Array = np.ndarray[Any, Any]
Tree = Any
"""A rank, or a pair of trees."""

MOST_RANKS = 6
"""Ranks whose trees are few enough to be told apart: 945."""

CANDIDATES = 64
"""Values of the ranks among which to choose, and powers of two over which they spread."""
SPREAD = 6


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


def learn(op: str, dtype: str, ranks: int, simulate: Callable[[Array], list[Array]]) -> list[Order]:
    """Returns the orders of the outputs of an operation.

    Args:
        op: its reduction, of floats.
        dtype: its element type.
        ranks: number of ranks, at most `MOST_RANKS`.
        simulate: performs the operation with one value for each rank, and returns the outputs.

    Raises:
        LookupError: Results are those of no tree.
    """
    probes, signatures = _probes(op, dtype, ranks)
    runs = [simulate(probe) for probe in probes]
    return [_of_results(ranks, signatures, list(outputs)) for outputs in zip(*runs, strict=True)]


def _of_results(ranks: int, signatures: Array, outputs: Sequence[Array]) -> Order:
    seen, which = np.unique(np.stack(outputs, axis=1), axis=0, return_inverse=True)
    which = which.reshape(-1)
    trees = []
    for row in seen:
        (found,) = np.nonzero((signatures == row).all(axis=1))
        if len(found) != 1:
            raise LookupError("results of no order of additions")
        trees.append(_trees(ranks)[found[0]])
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


@cache
def _trees(ranks: int) -> tuple[Tree, ...]:
    """Returns all binary trees over the ranks, whose branches have no order.

    >>> _trees(3)
    (((0, 2), 1), (0, (1, 2)), ((0, 1), 2))
    >>> [len(_trees(ranks)) for ranks in range(2, 6)]
    [1, 3, 15, 105]
    """
    trees: list[Tree] = [0]
    for rank in range(1, ranks):
        trees = [grown for tree in trees for grown in _grown(tree, rank)]
    return tuple(trees)


def _grown(tree: Tree, leaf: int) -> Iterator[Tree]:
    """Yields the trees with one leaf more."""
    if isinstance(tree, tuple):
        a, b = tree
        yield from ((grown, b) for grown in _grown(a, leaf))
        yield from ((a, grown) for grown in _grown(b, leaf))
    yield (tree, leaf)


@cache
def _probes(op: str, dtype: str, ranks: int) -> tuple[list[Array], Array]:
    """Returns values of each rank for some runs, and what each tree makes of them."""
    rng = np.random.default_rng(ranks)
    shape = (ranks, CANDIDATES)
    drawn = rng.choice([-1.0, 1.0], shape) * rng.uniform(1, 2, shape) * 2.0 ** rng.integers(0, SPREAD, shape)
    held = numbers.raw(_cast(drawn, dtype), dtype).reshape(ranks, -1)
    inputs = [numbers.values(row, dtype) for row in held]
    results = np.stack(
        [numbers.finish(op, dtype, ranks, _evaluate(tree, op, dtype, inputs)) for tree in _trees(ranks)]
    )
    chosen: list[int] = []
    while (distinct := len(np.unique(results[:, chosen], axis=0))) < len(results):
        tried = [len(np.unique(results[:, [*chosen, column]], axis=0)) for column in range(CANDIDATES)]
        if max(tried) == distinct:
            raise LookupError(f"orders of {ranks} ranks that cannot be told apart in {dtype}")
        chosen.append(int(np.argmax(tried)))
    return [np.array([row[column] for row in inputs]) for column in chosen], results[:, chosen]


def _cast(array: Array, dtype: str) -> Array:
    if dtype == "bf16":
        return (array.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return array.astype(numbers.TYPES[dtype])


def _evaluate(tree: Tree, op: str, dtype: str, inputs: Sequence[Array]) -> Array:
    if not isinstance(tree, tuple):
        return inputs[tree]
    a, b = (_evaluate(branch, op, dtype, inputs) for branch in tree)
    return numbers.join(op, dtype, a, b)
