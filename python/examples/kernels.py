"""Kernels in Python that issue the same commands as those in Rust of `crates/kernels`.

Tiles are freed when their last reference goes, and their memory is reused then. A loop therefore deletes the tiles of
one round before the next, as a scope of Rust does; otherwise they would live until their names are assigned again.
"""

from __future__ import annotations

import math

import cubeyard
from cubeyard.kernel import Ref, Tile, Tl

EPSILON = 1e-5
"""Added to the variance, so that a row of equal elements does not divide by 0."""

NEVER = -1e30
"""A score below all others, yet far enough from the least `f32` that differences stay finite."""


@cubeyard.jit
def vector_add(x: Ref, y: Ref, z: Ref, block: int, tl: Tl) -> None:
    """Adds two vectors, block by block; the last block is masked."""
    for index in range(tl.cdiv(x.shape[0], block)):
        start = index * block
        mask = x.inside(start, block)
        left = tl.load(x.block(start, block), mask=mask)
        right = tl.load(y.block(start, block), mask=mask)
        tl.store(z.block(start, block), left + right, mask=mask)
        del right, left


@cubeyard.jit
def softmax(x: Ref, y: Ref, tile: int, tl: Tl) -> None:
    """Applies softmax to each row, `tile` rows at a time."""
    for start in range(0, x.shape[0], tile):
        rows = x[start : start + tile]
        powers = tl.softmax(tl.load(rows), 1)
        tl.store(y[start : start + tile], powers)
        del powers


@cubeyard.jit
def layer_norm(x: Ref, gamma: Ref, beta: Ref, y: Ref, tile: int, tl: Tl) -> None:
    """Normalises each row, `tile` rows at a time; narrow types are computed in `f32`."""
    scale, shift = _cast(tl, tl.load(gamma), "f32"), _cast(tl, tl.load(beta), "f32")
    for start in range(0, x.shape[0], tile):
        normal = _normalised(tl, _cast(tl, tl.load(x[start : start + tile]), "f32"))
        scaled = tl.fma(normal, scale, shift)
        tl.store(y[start : start + tile], _cast(tl, scaled, y.dtype))
        del scaled, normal


def _normalised(tl: Tl, x: Tile) -> Tile:
    """Scales each row to mean 0 and variance 1."""
    each = 1.0 / x.shape[1]
    mean = tl.sum(x, 1, keep=True) * each
    centred = x - mean
    variance = tl.sum(centred * centred, 1, keep=True) * each
    return centred * tl.rsqrt(variance + EPSILON)


def _cast(tl: Tl, tile: Tile, dtype: str) -> Tile:
    """Casts a tile; free if it has that type."""
    return tile if tile.dtype == dtype else tl.cast(tile, dtype)


@cubeyard.jit
def gemm(a: Ref, b: Ref, c: Ref, m: int, k: int, n: int, tl: Tl) -> None:
    """Multiplies by one tiled operation; both operands are streamed from memory."""
    tl.gemm(a, b).store(c)


@cubeyard.jit
def gemm_blocked(a: Ref, b: Ref, c: Ref, m: int, k: int, n: int, tl: Tl) -> None:
    """Multiplies block by block: the sum of a block stays in the TCM until it is complete."""
    for row in range(0, a.shape[0], m):
        for column in range(0, b.shape[1], n):
            total = None
            for step in range(0, a.shape[1], k):
                left, right = tl.load(a[row : row + m, step : step + k]), tl.load(b[step : step + k, column : column + n])
                total = tl.dot(left, right) if total is None else tl.dot_add(left, right, total)
                del right, left
            if total is not None:
                tl.store(c[row : row + m, column : column + n], total)
            del total


class SoftmaxSum:
    """A sum of values weighted by the softmax of their scores, which arrive block by block.

    It holds for each row the greatest score, the sum of the weights relative to it, and the sum of the values with these
    weights. When a greater score arrives, both sums are rescaled.
    """

    def __init__(self, tl: Tl, rows: int, size: int) -> None:
        """Starts rows without scores, whose values have `size` elements; scores are divided by the root of `size`."""
        self.greatest = tl.full((rows, 1), NEVER, "f32")
        self.weights = tl.zeros((rows, 1), "f32")
        self.values = tl.zeros((rows, size), "f32")
        # A factor, so that `exp2` can be used in place of `exp`.
        self.scale = math.log2(math.e) / math.sqrt(size)

    def add(self, tl: Tl, scores: Tile, values: Tile) -> None:
        """Adds a block of scores. Independent operations are interleaved, because each waits for its operands."""
        greatest = tl.maximum(self.greatest, tl.max(scores, 1, keep=True))
        shift = greatest * -self.scale
        difference = self.greatest - greatest
        powers = tl.fma(scores, self.scale, shift)
        step = difference * self.scale
        weights = tl.exp2(powers)
        fade = tl.exp2(step)
        narrow = tl.cast(weights, values.dtype)
        faded, total = self.values * fade, tl.sum(weights, 1, keep=True)
        self.values = tl.dot_add(narrow, values, faded)
        self.weights = tl.fma(self.weights, fade, total)
        self.greatest = greatest
        del total, faded, narrow, fade, weights, step, powers, difference, shift

    def result(self, tl: Tl, dtype: str) -> Tile:
        """Returns the sums of the values, with weights normalised to 1."""
        return tl.cast(tl.div(self.values, self.weights), dtype)


@cubeyard.jit
def flash_attention(
    q: Ref, k: Ref, v: Ref, out: Ref, size: int, q_block: int, k_block: int, causal: int, tl: Tl
) -> None:
    """Computes attention for the heads that a PE holds, without storing the matrix of all scores.

    Each tensor has a row for each head. A row of Q, V or the output is a matrix with a row per token; a row of K is a
    sequence of blocks, each a matrix with a column per token, so that nothing must be transposed.
    """
    tokens = q.shape[1] // size
    for head in range(q.shape[0]):
        of_head = [tensor.at(head * tokens * size, (tokens, size)) for tensor in (q, k, v, out)]
        for start in range(0, tokens, q_block):
            _attend(tl, of_head, start, (q_block, k_block), causal == 1)


def _attend(tl: Tl, head: list[Ref], start: int, blocks: tuple[int, int], causal: bool) -> None:
    """Computes one block of the output of a head."""
    q, k, v, out = head
    tokens, size = q.shape
    rows = min(blocks[0], tokens - start)
    query = tl.load(q.block((start, 0), (rows, size)))
    total = SoftmaxSum(tl, rows, size)
    for first in range(0, start + rows if causal else tokens, blocks[1]):
        count = min(blocks[1], tokens - first)
        keys = tl.load(k.at(first * size, (size, count)))
        values = tl.load(v.block((first, 0), (count, size)))
        scores = _hidden(tl, tl.dot(query, keys), start, first, causal)
        total.add(tl, scores, values)
        del scores, values, keys
    result = total.result(tl, out.dtype)
    tl.store(out.block((start, 0), (rows, size)), result)
    del result, total, query


def _hidden(tl: Tl, scores: Tile, q: int, k: int, causal: bool) -> Tile:
    """Masks the scores of tokens in the future, if attention is causal."""
    rows, columns = scores.shape
    if not causal or k + columns <= q + 1:
        return scores
    own = tl.reshape(tl.arange(q, rows, "f32"), (rows, 1))
    others = tl.reshape(tl.arange(k, columns, "f32"), (1, columns))
    return tl.where(tl.ge(own, others), scores, NEVER)
