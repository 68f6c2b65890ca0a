"""Matrix products on the matrix unit."""

from __future__ import annotations

from typing import Any

from cubeyard.triton._elements import DTYPES
from cubeyard.triton._frame import Builder, Frame, Step, lowers
from cubeyard.triton._ir import Operation
from cubeyard.triton._values import Node, Uniform

__all__: list[str] = []


@lowers("tt.dot")
def product(build: Builder, operation: Operation) -> Step:
    """Lowers a matrix product, or one of each pair of two batches of matrices, that is added to an accumulator."""
    a, b, c = operation.operands
    left, right, of = build.types[a], build.types[b], build.types[c]
    result = operation.results[0]
    if len(of.shape) not in (2, 3):
        raise build.unsupported(operation, f"of {len(of.shape)} dimensions")

    def step(frame: Frame) -> None:
        tl, env = frame.tl, frame.env
        x, y = frame.whole(env[a], left.shape, left.element), frame.whole(env[b], right.shape, right.element)
        sums = env[c]
        if isinstance(sums, Uniform) and sums.value == 0:
            tile = _typed(tl, tl.dot(x, y), of.element)
        elif of.element in ("f32", "f64", "i32") and left.element != "i32":
            tile = tl.dot_add(x, y, frame.whole(sums, of.shape, of.element))
        else:
            tile = tl.add(_typed(tl, tl.dot(x, y), of.element), frame.whole(sums, of.shape, of.element))
        env[result] = Node(of.shape, of.element, tile=tile)

    return step


def _typed(tl: Any, tile: Any, element: str) -> Any:
    return tile if tile.dtype == DTYPES[element] else tl.cast(tile, DTYPES[element])
