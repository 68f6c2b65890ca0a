"""Atomic operations that only read memory: loads, and polls for an expected element."""

from __future__ import annotations

import numpy as np

from cubeyard.triton._atomics import read_atomic
from cubeyard.triton._elements import NUMPY
from cubeyard.triton._frame import Builder, Flow, Frame, Step, lowers
from cubeyard.triton._ir import Operation, Type
from cubeyard.triton._memory import boxes, is_never, known
from cubeyard.triton._values import Uniform, array_of

__all__: list[str] = []


@lowers("tt.atomic_load")
def loaded(build: Builder, operation: Operation) -> Step:
    """Lowers an atomic load. Lanes that the mask leaves out have 0."""
    (pointer, *masks), result = operation.operands, operation.results[0]
    of, order = build.types[result], _order(operation)

    def flow(frame: Frame) -> Flow:
        at = yield from known(frame.env[pointer])
        mask = (yield from known(frame.env[masks[0]])) if masks else None
        if is_never(mask):
            frame.env[result] = Uniform(of.shape, of.element, 0) if of.shape else 0
            return
        mask = None if isinstance(mask, bool | int) else mask
        node = read_atomic(frame, list(boxes(frame, of.element, of.shape, at, mask, shared=False)), of, order)
        frame.env[result] = (yield from known(node)) if frame.live else node

    return flow


@lowers("tt.atomic_poll")
def polled(build: Builder, operation: Operation) -> Step:
    """Lowers a poll: reads until all elements have their expected values. Without data it is one read."""
    if "timeout" in operation.attributes["words"]:
        raise build.unsupported(operation, "with a timeout")
    (pointer, expected), result = operation.operands, operation.results[0]
    wanted, shape, order = build.types[expected], build.types[result].shape, _order(operation)
    of = Type(wanted.element, shape)

    def flow(frame: Frame) -> Flow:
        at = yield from known(frame.env[pointer])
        parts = list(boxes(frame, of.element, shape, at, None, shared=False))
        value = (yield from known(frame.env[expected])) if frame.live else None
        while True:
            node = read_atomic(frame, parts, of, order)
            if not frame.live:
                break
            found = yield from known(node)
            if np.all(np.asarray(array_of(found), NUMPY[of.element]) == array_of(value)):
                break
        frame.env[result] = Uniform(shape, "i1", True) if shape else True

    return flow


def _order(operation: Operation) -> str:
    return "acquire" if "acquire" in operation.attributes["words"] else "relaxed"
