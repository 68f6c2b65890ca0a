"""Chains of element-wise operations, which the vector unit runs in one pass.

An element-wise result stays an expression until its elements are needed: by a store, a product, a change of shape, or as a
value carried by a loop. The pass that computes an expression also computes its parts with other uses, so nothing is
computed twice.
"""

from __future__ import annotations

from math import prod
from typing import Any

from cubeyard.triton._values import Node, Uniform, affine_tile, is_affine

__all__ = ["LONGEST", "pending", "term_of", "tile_of", "tiles_of"]

LONGEST = 48
"""Maximum number of operations in a chain. A longer chain is computed in parts."""


def pending(node: Any) -> bool:
    """Returns whether a value is an expression that is not computed yet."""
    return isinstance(node, Node) and node.lazy is not None and node.tile is None


def term_of(value: Any, tl: Any) -> Any:
    """Returns a value as an operand of an expression: another expression, a tile or a number."""
    if not isinstance(value, Node):
        return value.value if isinstance(value, Uniform) else value
    if value.tile is None and is_affine(value):
        value.tile = affine_tile(value, tl)
    if value.tile is None and value.moves:
        assert value.compute is not None, "a change of shape is an operation"
        value.tile = value.compute(tl, *(tile_of(one, tl) for one in value.operands))
    if value.tile is not None:
        return value.tile
    if value.lazy is None:
        _express(value, tl)
    return value.lazy


def _express(node: Node, tl: Any) -> None:
    """Builds the expression of a node."""
    assert node.compute is not None, "a node without a tile is an operation"
    terms = [term_of(one, tl) for one in node.operands]
    _compute_smaller(node, terms, tl)
    node.size = 1 + sum(one.size for one in node.operands if pending(one))
    if node.size > LONGEST:
        tiles_of([one for one in node.operands if pending(one)], tl)
        node.size = 1
    lazies = [one if isinstance(one, int | float) else one.lazy() for one in (term_of(one, tl) for one in node.operands)]
    before, tl.place = tl.place, node.at or tl.place
    node.lazy = node.compute(tl, *lazies)
    tl.place = before


def _compute_smaller(node: Node, terms: list[Any], tl: Any) -> None:
    """Computes operands that are smaller than the result, to avoid recomputing them for each part of the result."""
    sizes = [1 if isinstance(term, int | float) else prod(term.shape) for term in terms]
    largest = max(sizes)
    for one, size in zip(node.operands, sizes, strict=True):
        if size < largest and pending(one):
            tiles_of([one], tl)


def tile_of(value: Any, tl: Any) -> Any:
    """Returns a value as an operand of a command: a number, or a tile that may broadcast."""
    term = term_of(value, tl)
    if pending(value):
        tiles_of([value], tl)
        return value.tile
    return term


def tiles_of(nodes: list[Node], tl: Any) -> None:
    """Computes expressions in one pass, together with their parts that have other uses."""
    wanted = list(dict.fromkeys([*nodes, *_shared(nodes)]))
    before, tl.place = tl.place, nodes[0].at or tl.place
    tiles = tl.eval_all([one.lazy for one in wanted])
    tl.place = before
    for one, tile in zip(wanted, tiles, strict=True):
        one.tile = tile
    for one in wanted:
        one.lazy = None
        if not one.known:
            one.operands, one.compute = (), None


def _shared(nodes: list[Node]) -> list[Node]:
    """Returns the parts of expressions that have uses outside the expressions."""
    counts: dict[Node, int] = {}
    left = list(nodes)
    while left:
        for part in left.pop().operands:
            if pending(part) and not part.known:
                counts[part] = counts.get(part, 0) + 1
                if counts[part] == 1:
                    left.append(part)
    return [part for part, count in counts.items() if part.uses > count]
