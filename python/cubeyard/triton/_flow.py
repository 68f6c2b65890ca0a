"""Loops, branches and assertions: recorded over known values, live over loaded values."""

from __future__ import annotations

from typing import Any

import numpy as np

from cubeyard.errors import CubeyardError
from cubeyard.triton._frame import Builder, Flow, Frame, Step, Steps, lowers, run, run_plain
from cubeyard.triton._ir import Operation
from cubeyard.triton._memory import known
from cubeyard.triton._values import Node, array_of

__all__: list[str] = []


def _carried(frame: Frame, block: Steps, results: list[int]) -> list[Any]:
    """Returns the values that a block passes on, and drops the block's own references to them."""
    env = frame.env
    values = [env[one] for one in results]
    frame.settle_all(values)
    for one in block.own_results:
        env[one] = None
    return values


def _set(frame: Frame, places: list[int], values: list[Any]) -> None:
    for place, value in zip(places, values, strict=True):
        frame.env[place] = value


@lowers("scf.for")
def loop(build: Builder, operation: Operation) -> Step:
    """Lowers a counted loop."""
    block = build.steps(operation.regions[0])
    low, high, by, *initial = operation.operands
    counter, carried = block.arguments[0], block.arguments[1:]

    def flow(frame: Frame) -> Flow:
        env = frame.env
        bounds = []
        for one in (low, high, by):
            bounds.append((yield from known(env[one])))
        values = [env[one] for one in initial]
        for number in range(*bounds):
            env[counter] = number
            _set(frame, carried, values)
            del values
            if block.plain:
                run_plain(block, frame)
            else:
                yield from run(block, frame)
            values = _carried(frame, block, block.results)
        _set(frame, block.arguments, [None] * len(block.arguments))
        _set(frame, operation.results, values)

    return flow


@lowers("tt.assert")
def asserted(build: Builder, operation: Operation) -> Step:
    """Lowers an assertion. Known values are checked immediately, others when the machine has computed them with data."""
    condition, line = operation.operands[0], str(build.line(operation))
    text = operation.attributes.get("message") or "no message"

    def flow(frame: Frame) -> Flow:
        value = frame.env[condition]
        if isinstance(value, Node) and not value.known and not frame.live:
            frame.note("assert", "tl.device_assert of computed values is not checked without data")
            return
        value = yield from known(value)
        if not np.all(array_of(value)):
            raise CubeyardError(f"{line}: tl.device_assert failed in program {frame.pid}: {text}")

    return flow


@lowers("scf.if")
def branch(build: Builder, operation: Operation) -> Step:
    """Lowers a branch."""
    blocks = [build.steps(region) for region in operation.regions]
    condition = operation.operands[0]

    def flow(frame: Frame) -> Flow:
        chosen = yield from known(frame.env[condition])
        if not chosen and len(blocks) == 1:
            return
        block = blocks[0 if chosen else 1]
        if block.plain:
            run_plain(block, frame)
        else:
            yield from run(block, frame)
        _set(frame, operation.results, _carried(frame, block, block.results))

    return flow


@lowers("scf.while")
def repeated(build: Builder, operation: Operation) -> Step:
    """Lowers a `while` loop."""
    before, body = (build.steps(region) for region in operation.regions)

    def flow(frame: Frame) -> Flow:
        values = [frame.env[one] for one in operation.operands]
        while True:
            _set(frame, before.arguments, values)
            yield from run(before, frame)
            condition, *values = _carried(frame, before, before.results)
            goes_on = yield from known(condition)
            if not goes_on:
                break
            _set(frame, body.arguments, values)
            yield from run(body, frame)
            values = _carried(frame, body, body.results)
        _set(frame, operation.results, values)

    return flow
