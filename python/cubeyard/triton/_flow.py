"""Loops, branches, calls and assertions: recorded over known values, live over loaded values."""

from __future__ import annotations

from typing import Any

import numpy as np

from cubeyard.errors import CubeyardError
from cubeyard.triton._frame import Builder, Flow, Frame, Step, Steps, lowers, run, run_plain
from cubeyard.triton._ir import Operation
from cubeyard.triton._memory import known
from cubeyard.triton._values import Node, array_of

__all__: list[str] = []

ROUNDS = 1 << 20
"""Most rounds of one loop in a program. A loop over known values runs on the host alone, where no limit of the machine ends it."""


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
    line = str(build.line(operation))

    def flow(frame: Frame) -> Flow:
        env = frame.env
        bounds = []
        for one in (low, high, by):
            bounds.append((yield from known(env[one])))
        numbers = _numbers(line, *map(int, bounds))
        values = [env[one] for one in initial]
        for number in numbers:
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


def _numbers(line: str, low: int, high: int, by: int) -> range:
    """Returns the numbers of a counted loop. Raises CubeyardError if the loop has no end that can be waited for."""
    if by <= 0:
        raise CubeyardError(f"{line}: a loop from {low} to {high} by {by}; expected a step above 0")
    rounds = max(0, -(-(high - low) // by))
    if rounds > ROUNDS:
        raise CubeyardError(f"{line}: a loop of {rounds} rounds; expected at most {ROUNDS}")
    return range(low, high, by)


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


@lowers("tt.call")
def called(build: Builder, operation: Operation) -> Step:
    """Lowers the call of a function that Triton does not inline, such as one with a `return` inside an `if`."""
    block = build.steps(operation.regions[0])

    def flow(frame: Frame) -> Flow:
        values = [frame.env[one] for one in operation.operands]
        frame.settle_all(values)
        _set(frame, block.arguments, values)
        if block.plain:
            run_plain(block, frame)
        else:
            yield from run(block, frame)
        values = _carried(frame, block, block.results)
        _set(frame, block.arguments, [None] * len(block.arguments))
        _set(frame, operation.results, values)

    return flow


@lowers("llvm.intr.assume")
def assumed(build: Builder, operation: Operation) -> Step:
    """Lowers an assumption (`tl.assume`), which has no effect: it only helps compilers for GPUs."""
    return lambda frame: None


@lowers("scf.while")
def repeated(build: Builder, operation: Operation) -> Step:
    """Lowers a `while` loop."""
    before, body = (build.steps(region) for region in operation.regions)
    line = str(build.line(operation))

    def flow(frame: Frame) -> Flow:
        values = [frame.env[one] for one in operation.operands]
        for _ in range(ROUNDS + 1):
            _set(frame, before.arguments, values)
            yield from run(before, frame)
            condition, *values = _carried(frame, before, before.results)
            goes_on = yield from known(condition)
            if not goes_on:
                break
            _set(frame, body.arguments, values)
            yield from run(body, frame)
            values = _carried(frame, body, body.results)
        else:
            raise CubeyardError(f"{line}: more than {ROUNDS} rounds of a loop: the kernel seems not to end")
        _set(frame, operation.results, values)

    return flow
