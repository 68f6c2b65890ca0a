"""Kernels in Python that issue the same commands as those in Rust of `crates/kernels`.

Tiles are freed when their last reference goes, and their memory is reused then. A loop therefore deletes the tiles of
one round before the next, as a scope of Rust does; otherwise they would live until their names are assigned again.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import TypeVar

import cubeyard
from cubeyard.kernel import Lazy, Ref, Tile, Tl

Item = TypeVar("Item")

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


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """Takes each item of an iterator before the one before it is handed out: if items are loads, one is under way."""
    rest = iter(items)
    following = list(itertools.islice(rest, 1))
    while following:
        item, following = following.pop(), list(itertools.islice(rest, 1))
        yield item
        del item


def of_rows(tl: Tl, reduction: Lazy, columns: int) -> Lazy:
    """Returns a reduction of rows so that an expression can spread it over the rows again.

    It stays in the pass if a row fits in a strip of the vector unit, and has a pass of its own otherwise.
    """
    return reduction if columns <= tl.strip_elements() else tl.eval(reduction).lazy()


@cubeyard.jit
def layer_norm(x: Ref, gamma: Ref, beta: Ref, y: Ref, tile: int, tl: Tl) -> None:
    """Normalises each row, `tile` rows at a time; narrow types are computed in `f32`.

    The mean of the next rows is computed before these are normalised, in one pass.
    """
    scale, shift = _wide(tl, tl.load(gamma)), _wide(tl, tl.load(beta))
    columns = x.shape[1]
    # Sums of narrow rows are a product with ones, which the matrix unit computes while the vector unit normalises.
    ones = tl.full((columns, 1), 1, x.dtype) if x.dtype in ("f16", "bf16") else None
    for tokens, mean, out in ahead(_means(tl, x, y, tile, ones)):
        scaled = tl.fma(_normalised(tl, tokens, mean), scale, shift)
        tl.store(out, tl.eval(tl.cast(scaled, out.dtype)))
        del scaled, mean, tokens


def _means(tl: Tl, x: Ref, y: Ref, tile: int, ones: Tile | None) -> Iterator[tuple[Tile, Lazy, Ref]]:
    """Loads the rows of each tile, with their means."""
    for start in range(0, x.shape[0], tile):
        rows = tl.load(x[start : start + tile])
        total = tl.sum(tl.cast(rows.lazy(), "f32"), 1, keep=True) if ones is None else tl.dot(rows, ones).lazy()
        yield rows, total * (1.0 / x.shape[1]), y[start : start + tile]
        del rows, total


def _normalised(tl: Tl, x: Tile, mean: Lazy) -> Lazy:
    """Scales each row to mean 0 and variance 1."""
    columns = x.shape[1]
    centred = tl.cast(x.lazy(), "f32") - of_rows(tl, mean, columns)
    variance = tl.sum(centred * centred, 1, keep=True) * (1.0 / columns)
    return centred * of_rows(tl, tl.rsqrt(variance + EPSILON), columns)


def _wide(tl: Tl, tile: Tile) -> Tile:
    """Casts a tile to `f32`; free if it has that type."""
    return tile if tile.dtype == "f32" else tl.cast(tile, "f32")


@cubeyard.jit
def rms_norm(x: Ref, gamma: Ref, y: Ref, tile: int, tl: Tl) -> None:
    """Divides each row by the root of the mean of its squares, `tile` rows at a time; narrow types are computed in `f32`."""
    scale, columns = _wide(tl, tl.load(gamma)), x.shape[1]
    starts = range(0, x.shape[0], tile)
    for rows, out in ahead((tl.load(x[start : start + tile]), y[start : start + tile]) for start in starts):
        wide = tl.cast(rows.lazy(), "f32")
        mean = tl.sum(wide * wide, 1, keep=True) * (1.0 / columns)
        factor = of_rows(tl, tl.rsqrt(mean + EPSILON), columns)
        tl.store(out, tl.eval(tl.cast(wide * factor * scale, out.dtype)))
        del factor, mean, wide, rows


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
    weights. When a greater score arrives, both sums fade.
    """

    def __init__(self, tl: Tl, rows: int, size: int) -> None:
        """Starts rows without scores, whose values have `size` elements; scores are divided by the root of `size`."""
        self.greatest = tl.full((rows, 1), NEVER, "f32")
        self.weights = tl.zeros((rows, 1), "f32")
        self.values = tl.zeros((rows, size), "f32")
        # A product of weights and values that is not added yet, and the factor by which the sum before fades.
        self.added: tuple[Tile, Tile] | None = None
        # A factor, so that `exp2` can be used in place of `exp`.
        self.scale = math.log2(math.e) / math.sqrt(size)

    def add(self, tl: Tl, scores: Lazy, values: Tile) -> None:
        """Adds a block of scores: a pass over the scores, a product, and a pass that adds it.

        The last comes after the scores of the next block, so that the vector unit does not wait for the product.
        """
        greatest = tl.maximum(of_rows(tl, tl.max(scores, 1, keep=True), scores.shape[1]), self.greatest)
        fade = tl.exp2((self.greatest - greatest) * self.scale)
        weights = tl.exp2(tl.fma(scores, self.scale, greatest * -self.scale))
        total = tl.fma(self.weights.lazy(), fade, tl.sum(weights, 1, keep=True))
        narrow, total_, fade_, greatest_ = tl.eval_all([tl.cast(weights, values.dtype), total, fade, greatest])
        del total, weights, fade, greatest
        if self.added is not None:
            product, faded = self.added
            self.values = tl.eval(tl.fma(self.values.lazy(), faded, product))
            del product, faded
        self.added = tl.dot(narrow, values), fade_
        self.weights, self.greatest = total_, greatest_
        del narrow, total_, fade_, greatest_

    def result(self, tl: Tl, dtype: str) -> Tile:
        """Returns the sums of the values, with weights normalised to 1."""
        values = self.values.lazy()
        if self.added is not None:
            product, fade = self.added
            values = tl.fma(values, fade, product)
        return tl.eval(tl.cast(values / self.weights, dtype))


@cubeyard.jit
def flash_attention(
    q: Ref, k: Ref, v: Ref, out: Ref, size: int, q_block: int, k_block: int, causal: int, tl: Tl
) -> None:
    """Computes attention for the heads that a PE holds, without storing the matrix of all scores.

    Each tensor has a row for each head. A row of Q, V or the output is a matrix with a row per token; a row of K is a
    sequence of blocks, each a matrix with a column per token, so that nothing must be transposed. The scores of a block
    are computed before the softmax of the block before, and a block of the output after the softmax of the next.
    """
    total, ended = None, None
    for scores, values, last in ahead(_scores(tl, (q, k, v, out), size, (q_block, k_block), causal == 1)):
        total = total or SoftmaxSum(tl, scores.shape[0], size)
        total.add(tl, scores, values)
        if ended is not None:
            tl.store(ended[1], ended[0].result(tl, out.dtype))
        ended, total = ((total, last), None) if last is not None else (None, total)
        del scores, values
    if ended is not None:
        tl.store(ended[1], ended[0].result(tl, out.dtype))


def _scores(
    tl: Tl, tensors: tuple[Ref, ...], size: int, blocks: tuple[int, int], causal: bool
) -> Iterator[tuple[Lazy, Tile, Ref | None]]:
    """Computes the scores of every block of Q with each block of K that it sees.

    They come with the values of the block, and with the block of the output if they are its last ones.
    """
    tokens = tensors[0].shape[1] // size
    for head in range(tensors[0].shape[0]):
        q, k, v, out = (tensor.at(head * tokens * size, (tokens, size)) for tensor in tensors)
        for start in range(0, tokens, blocks[0]):
            rows = min(blocks[0], tokens - start)
            query = tl.load(q.block((start, 0), (rows, size)))
            end = start + rows if causal else tokens
            for first in range(0, end, blocks[1]):
                count = min(blocks[1], tokens - first)
                keys = tl.load(k.at(first * size, (size, count)))
                values = tl.load(v.block((first, 0), (count, size)))
                scores = _hidden(tl, tl.dot(query, keys), start, first, causal)
                del keys
                last = out.block((start, 0), (rows, size)) if first + blocks[1] >= end else None
                yield scores, values, last
                del scores, values
            del query


def _hidden(tl: Tl, scores: Tile, q: int, k: int, causal: bool) -> Lazy:
    """Masks the scores of tokens in the future, if attention is causal."""
    rows, columns = scores.shape
    if not causal or k + columns <= q + 1:
        return scores.lazy()
    own = tl.reshape(tl.arange(q, rows, "f32"), (rows, 1))
    others = tl.reshape(tl.arange(k, columns, "f32"), (1, columns))
    return tl.where(own.lazy() >= others, scores, NEVER)
