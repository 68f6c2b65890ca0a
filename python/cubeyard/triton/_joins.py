"""Operations that join tensors, or split one: `tl.join`, `tl.split`, `tl.interleave` and `tl.cat`.

Each is a copy in the TCM: one command for the first part and one for each other part. Known tensors stay known.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cubeyard.triton._frame import Builder, Frame, Step, full_tile, lowers
from cubeyard.triton._ir import Operation
from cubeyard.triton._shapes import moved
from cubeyard.triton._values import Node, Uniform

__all__: list[str] = []


@lowers("tt.join")
def joined(build: Builder, operation: Operation) -> Step:
    """Lowers the join of two tensors along a new last dimension of length 2."""
    of, result = build.types[operation.results[0]], operation.results[0]
    before = build.types[operation.operands[0]].shape

    def compute(tl: Any, x: Any, y: Any) -> Any:
        first, second = (tl.reshape(full_tile(tl, one, before, of.element), [*before, 1]) for one in (x, y))
        return tl.paste(tl.broadcast_to(first, of.shape), [0] * len(before) + [1], second)

    def vector(*given: Any) -> Any:
        return np.stack([np.broadcast_to(one, before) for one in given], -1)

    def step(frame: Frame) -> None:
        values = tuple(frame.env[operand] for operand in operation.operands)
        frame.env[result] = moved(frame, of, values, compute, vector)

    return step


@lowers("tt.cat")
def concatenated(build: Builder, operation: Operation) -> Step:
    """Lowers the concatenation of two tensors along the first dimension. Triton allows any order; this is the order given."""
    of, result = build.types[operation.results[0]], operation.results[0]
    before = build.types[operation.operands[0]].shape

    def compute(tl: Any, x: Any, y: Any) -> Any:
        first, second = (tl.reshape(full_tile(tl, one, before, of.element), [1, *before]) for one in (x, y))
        both = tl.paste(tl.broadcast_to(first, [2, *before]), [1] + [0] * len(before), second)
        return tl.reshape(both, of.shape)

    def vector(*given: Any) -> Any:
        return np.concatenate([np.broadcast_to(one, before) for one in given])

    def step(frame: Frame) -> None:
        values = tuple(frame.env[operand] for operand in operation.operands)
        frame.env[result] = moved(frame, of, values, compute, vector)

    return step


@lowers("tt.split")
def split(build: Builder, operation: Operation) -> Step:
    """Lowers the split of a tensor along its last dimension, which has length 2."""
    of, operand = build.types[operation.results[0]], operation.operands[0]
    before = build.types[operand].shape

    def half(at: int) -> tuple[Any, Any]:
        """Returns the functions that take a half, of tiles and of arrays."""

        def compute(tl: Any, x: Any) -> Any:
            whole = full_tile(tl, x, before, of.element)
            return tl.reshape(tl.slice(whole, [0] * len(of.shape) + [at], [*of.shape, 1]), of.shape)

        return compute, lambda x: np.broadcast_to(x, before)[..., at]

    halves = [(result, *half(at)) for at, result in enumerate(operation.results)]

    def step(frame: Frame) -> None:
        value = frame.env[operand]
        for result, compute, vector in halves:
            if isinstance(value, Uniform):
                frame.env[result] = Uniform(of.shape, of.element, value.value) if of.shape else value.value
            else:
                frame.env[result] = _number(moved(frame, of, (value,), compute, vector))

    return step


def _number(value: Node) -> Any:
    """Returns a known scalar as a number, and any other value unchanged."""
    return value.elements().item() if value.known and not value.shape else value
