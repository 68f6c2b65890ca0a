"""Operations that make values, or only change shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cubeyard.triton._chains import tile_of
from cubeyard.triton._elements import of_bits
from cubeyard.triton._frame import Builder, Frame, Step, full_tile, lowers
from cubeyard.triton._ir import Operation, Type
from cubeyard.triton._values import Bools, Index, Node, Uniform, is_known, of_elements

__all__ = ["moved"]


def _fixed(result: int, value: Any) -> Step:
    def step(frame: Frame) -> None:
        frame.env[result] = value

    return step


@lowers("arith.constant")
def constant(build: Builder, operation: Operation) -> Step:
    """Lowers a constant."""
    of = build.types[operation.results[0]]
    value = operation.attributes["value"]
    if isinstance(value, dict):
        value = of_bits(value["bits"], of.element)
    if of.element == "i1":
        value = bool(value)
    return _fixed(operation.results[0], Uniform(of.shape, of.element, value) if of.shape else value)


@lowers("tt.make_range")
def numbered(build: Builder, operation: Operation) -> Step:
    """Lowers a range of integers."""
    of = build.types[operation.results[0]]
    start, result = operation.attributes["start"], operation.results[0]
    if of.shape == (1,):
        return _fixed(result, Uniform((1,), of.element, start))

    if result in build.addresses:
        return _fixed(result, Index(of.shape, of.element, start, (1,)))

    def step(frame: Frame) -> None:
        # New for each execution, because its computed tile belongs to this PE.
        frame.env[result] = Index(of.shape, of.element, start, (1,))

    return step


@lowers("tt.get_program_id")
def program(build: Builder, operation: Operation) -> Step:
    """Lowers the index of the program along an axis."""
    axis, result = "xyz".index(operation.attributes["words"][0]), operation.results[0]

    def step(frame: Frame) -> None:
        frame.env[result] = frame.pid[axis]

    return step


@lowers("tt.get_num_programs")
def programs(build: Builder, operation: Operation) -> Step:
    """Lowers the number of programs along an axis."""
    axis, result = "xyz".index(operation.attributes["words"][0]), operation.results[0]

    def step(frame: Frame) -> None:
        frame.env[result] = frame.grid[axis]

    return step


@lowers("tt.splat")
def splat(build: Builder, operation: Operation) -> Step:
    """Lowers the conversion of a scalar to a tensor."""
    of, operand, result = build.types[operation.results[0]], operation.operands[0], operation.results[0]
    ones = [1] * len(of.shape)

    def step(frame: Frame) -> None:
        value = frame.env[operand]
        if isinstance(value, Node):
            tile = frame.tl.reshape(tile_of(value, frame.tl), ones)
            frame.env[result] = Node(of.shape, of.element, tile=tile)
        else:
            frame.env[result] = Uniform(of.shape, of.element, value)

    return step


@lowers("tt.unsplat")
def unsplat(build: Builder, operation: Operation) -> Step:
    """Lowers the conversion of a one-element tensor to a scalar."""
    of, operand, result = build.types[operation.results[0]], operation.operands[0], operation.results[0]

    def step(frame: Frame) -> None:
        value = frame.env[operand]
        if isinstance(value, Uniform):
            frame.env[result] = value.value
        elif is_known(value):
            frame.env[result] = value.elements().item()
        else:
            frame.env[result] = Node((), of.element, tile=frame.tl.reshape(tile_of(value, frame.tl), []))

    return step


@lowers("tt.broadcast")
def broadcast(build: Builder, operation: Operation) -> Step:
    """Lowers a broadcast, which later operations perform implicitly."""
    of, operand, result = build.types[operation.results[0]], operation.operands[0], operation.results[0]

    uses = build.uses.get(result, 0)

    def step(frame: Frame) -> None:
        frame.env[result] = _broadcast(frame.env[operand], of.shape, frame, uses)

    return step


def _broadcast(value: Any, shape: tuple[int, ...], frame: Frame, uses: int) -> Any:
    if isinstance(value, Uniform):
        return Uniform(shape, value.element, value.value)
    made: dict[str, Any] = {"compute": value.compute, "operands": value.operands, "vector": value.vector, "at": value.at}
    made["moves"] = value.moves
    if isinstance(value, Index):
        axes = tuple(of if old == new else 0 for of, old, new in zip(value.axes, value.shape, shape, strict=True))
        index = Index(shape, value.element, value.base, axes, **made)
        index.tile = value.tile
        return index
    if isinstance(value, Bools):
        bools = Bools(shape, value.axes, **made)
        bools.tile, bools.array = value.tile, value.array
        return bools
    if value.known and value.vector is None:
        return of_elements(np.broadcast_to(value.elements(), shape), value.element, value.tile)
    if value.known:
        return Node(shape, value.element, **made)
    if value.tile is not None:
        return Node(shape, value.element, tile=value.tile)
    return frame.expressed(Node(shape, value.element, compute=lambda tl, x: x, operands=(value,), uses=uses))


@lowers("tt.expand_dims")
def expanded(build: Builder, operation: Operation) -> Step:
    """Lowers the insertion of a dimension of length 1."""
    of, operand, result = build.types[operation.results[0]], operation.operands[0], operation.results[0]
    axis = operation.attributes["axis"]

    def step(frame: Frame) -> None:
        frame.env[result] = _expanded(frame.env[operand], of.shape, axis, frame)

    return step


def _expanded(value: Any, shape: tuple[int, ...], axis: int, frame: Frame) -> Any:
    if isinstance(value, Uniform):
        return Uniform(shape, value.element, value.value)

    def compute(tl: Any, x: Any) -> Any:
        sizes = list(x.shape)
        return tl.reshape(x, [*sizes[:axis], 1, *sizes[axis:]])

    made: dict[str, Any] = {"compute": compute, "operands": (value,), "vector": lambda x: np.expand_dims(x, axis)}
    made["moves"] = True
    if isinstance(value, Index):
        return Index(shape, value.element, value.base, (*value.axes[:axis], 0, *value.axes[axis:]), **made)
    if isinstance(value, Bools):
        return Bools(shape, (*value.axes[:axis], None, *value.axes[axis:]), **made)
    if not value.known:
        return Node(shape, value.element, tile=compute(frame.tl, tile_of(value, frame.tl)))
    return Node(shape, value.element, **made)


@lowers("tt.trans")
def transposed(build: Builder, operation: Operation) -> Step:
    """Lowers a permutation of dimensions."""
    of, operand, result = build.types[operation.results[0]], operation.operands[0], operation.results[0]
    order, before = operation.attributes["order"], build.types[operation.operands[0]].shape

    def compute(tl: Any, x: Any) -> Any:
        return tl.permute(full_tile(tl, x, before, of.element), order)

    def vector(x: Any) -> Any:
        return np.broadcast_to(x, before).transpose(order)

    def step(frame: Frame) -> None:
        value = frame.env[operand]
        if isinstance(value, Uniform):
            frame.env[result] = Uniform(of.shape, of.element, value.value)
        elif isinstance(value, Index):
            frame.env[result] = Index(of.shape, of.element, value.base, tuple(value.axes[at] for at in order))
        else:
            frame.env[result] = moved(frame, of, (value,), compute, vector)

    return step


def moved(frame: Frame, of: Type, values: tuple[Any, ...], compute: Callable[..., Any], vector: Callable[..., Any]) -> Node:
    """Returns a tensor of moved elements: known if its sources are, else computed immediately."""
    if all(map(is_known, values)):
        return Node(of.shape, of.element, compute=compute, operands=values, vector=vector, moves=True)
    return Node(of.shape, of.element, tile=compute(frame.tl, *(tile_of(value, frame.tl) for value in values)))


@lowers("tt.reshape")
def reshaped(build: Builder, operation: Operation) -> Step:
    """Lowers a change of shape."""
    of, operand, result = build.types[operation.results[0]], operation.operands[0], operation.results[0]
    before = build.types[operation.operands[0]].shape

    def compute(tl: Any, x: Any) -> Any:
        return tl.reshape(full_tile(tl, x, before, of.element), of.shape)

    def vector(x: Any) -> Any:
        return np.broadcast_to(x, before).reshape(of.shape)

    def step(frame: Frame) -> None:
        value = frame.env[operand]
        if isinstance(value, Uniform):
            frame.env[result] = Uniform(of.shape, of.element, value.value)
        else:
            frame.env[result] = moved(frame, of, (value,), compute, vector)

    return step


@lowers("ttg.barrier", "gpu.barrier")
def nothing(build: Builder, operation: Operation) -> Step:
    """Lowers barriers between the threads of a program, which have no effect because a PE has one thread."""

    def step(frame: Frame) -> None:
        return None

    return step
