"""Reductions and scans along an axis, and matrix products."""

from __future__ import annotations

from math import inf
from typing import Any

from cubeyard.triton._chains import term_of
from cubeyard.triton._elements import DTYPES, scalar
from cubeyard.triton._frame import Builder, Frame, Step, Steps, lowers, run_plain
from cubeyard.triton._ir import Block, Operation, Type
from cubeyard.triton._values import Index, Node, Uniform

__all__: list[str] = []

_REDUCTIONS = {
    "arith.addf": "sum", "arith.addi": "sum", "arith.maxnumf": "max", "arith.maximumf": "max", "arith.maxsi": "max",
    "arith.minnumf": "min", "arith.minimumf": "min", "arith.minsi": "min", "arith.mulf": "prod", "arith.muli": "prod",
    "arith.xori": "xor_sum",
}  # fmt: skip
"""Vector unit reductions by the operation that combines two elements."""

_LEAST = {"arith.maxnumf": -inf, "arith.minnumf": inf}
"""Reductions that ignore NaN, with the value that replaces it. The vector unit would propagate NaN."""

_OF_BOOLS = {"arith.ori": "max", "arith.andi": "min"}
_SCANS = {"arith.addf": "cumsum", "arith.addi": "cumsum", "arith.mulf": "cumprod", "arith.muli": "cumprod"}


def _single(block: Block) -> str:
    """Returns the operation of a block that combines its two arguments with one operation, else an empty string."""
    body = block.operations[:-1]
    if len(body) == 1 and sorted(body[0].operands) == sorted(block.arguments):
        return body[0].name
    return ""


@lowers("tt.reduce")
def reduced(build: Builder, operation: Operation) -> Step:
    """Lowers a reduction: to the vector unit, or else to a tree that combines halves."""
    block, axis = operation.regions[0], operation.attributes["axis"]
    of = build.types[operation.operands[0]]
    name = _single(block)
    kind = _REDUCTIONS.get(name) or (_OF_BOOLS.get(name) if of.element == "i1" else None)
    if kind is not None:
        return _by_unit(build, operation, kind, axis)
    found = _extreme(build, block)
    halves = _by_halves(build, operation, build.steps(block), axis)
    return halves if found is None else _with_index(build, operation, found, axis, halves)


def _by_unit(build: Builder, operation: Operation, kind: str, axis: int) -> Step:
    operand, result = operation.operands[0], operation.results[0]
    before, of = build.types[operand], build.types[result]

    line = build.line(operation)
    least = _LEAST.get(_single(operation.regions[0]))

    def reduce(tl: Any, x: Any) -> Any:
        return getattr(tl, kind)(x if least is None else tl.where(tl.eq(x, x), x, least), axis)

    def step(frame: Frame) -> None:
        value = frame.env[operand]
        term = term_of(value, frame.tl)
        if isinstance(term, int | float) or tuple(term.shape) != before.shape:
            value = Node(before.shape, before.element, tile=frame.whole(value, before.shape, before.element))
        node = Node(of.shape, of.element, compute=reduce, operands=(value,), at=line)
        frame.env[result] = frame.settled(node)

    return step


_CHOICES = ("arith.cmpf", "arith.cmpi", "arith.andi", "arith.ori", "arith.select")
_ORDERS = [(3, 0, 5, 1), (5, 0, 3, 1), (4, 0, 4, 1), (3, 1, 5, 0), (5, 1, 3, 0), (4, 1, 4, 0)]
"""Two elements with their indices, in every relative order."""


def _extreme(build: Builder, block: Block) -> str | None:
    """Returns `max` or `min` if a block selects the greater or lesser of two elements with its index, the first if equal.

    The block may only compare its elements, compare its indices, and select among these four values. Then its result
    depends only on their relative order, so the function evaluates the block for every order.
    """
    if len(block.arguments) != 4 or not all(_is_choice(one, block) for one in block.operations[:-1]):
        return None
    for kind, sign in (("max", -1), ("min", 1)):
        chosen = [(sign * value, place) for value, place in (min((sign * x, i), (sign * y, j)) for x, i, y, j in _ORDERS)]
        if [_evaluated(build, block, given) for given in _ORDERS] == chosen:
            return kind
    return None


def _is_choice(operation: Operation, block: Block) -> bool:
    """Returns whether an operation compares elements or indices, combines such comparisons, or selects by one."""
    value, index, other, place = block.arguments
    if operation.name in ("arith.cmpf", "arith.cmpi"):
        return set(operation.operands) in ({value, other}, {index, place})
    return operation.name in _CHOICES


def _evaluated(build: Builder, block: Block, given: tuple[int, ...]) -> tuple[Any, ...] | None:
    """Evaluates a block on numbers. Returns None if it has operations without a scalar form."""
    env: dict[int, Any] = dict(zip(block.arguments, given, strict=True))
    for operation in block.operations[:-1]:
        of, words = build.types[operation.results[0]].element, operation.attributes.get("words", [])
        compute = scalar(operation.name, of, words, build.types[operation.operands[0]].element)
        if compute is None or not all(one in env for one in operation.operands):
            return None
        env[operation.results[0]] = compute(*(env[one] for one in operation.operands))
    return tuple(env.get(one) for one in block.operations[-1].operands)


def _with_index(build: Builder, operation: Operation, kind: str, axis: int, otherwise: Step) -> Step:
    """Finds the greatest or least element and its index, if the indices count along the axis."""
    (value, index), (best, place) = operation.operands, operation.results
    before, of, at = build.types[value], build.types[best], build.types[place]

    def step(frame: Frame) -> Any:
        numbers = frame.env[index]
        strides = tuple(int(one == axis) for one in range(len(before.shape)))
        if not (isinstance(numbers, Index) and numbers.base == 0 and numbers.axes == strides and at.element == "i32"):
            return otherwise(frame)
        tile = frame.whole(frame.env[value], before.shape, before.element)
        frame.env[best] = Node(of.shape, of.element, tile=getattr(frame.tl, kind)(tile, axis))
        frame.env[place] = Node(at.shape, at.element, tile=getattr(frame.tl, f"arg{kind}")(tile, axis))
        return None

    return step


def _by_halves(build: Builder, operation: Operation, block: Steps, axis: int) -> Step:
    """Combines the halves of an axis with the block of a reduction, until one element is left."""
    types = [build.types[one] for one in operation.operands]
    line = build.line(operation)

    def step(frame: Frame) -> None:
        tl, env = frame.tl, frame.env
        parts = [frame.whole(env[one], of.shape, of.element) for one, of in zip(operation.operands, types, strict=True)]
        frame.note("halves", "MATH lacks this reduction: halves are combined repeatedly")
        length = types[0].shape[axis]
        while length > 1:
            length //= 2
            shape = [length if at == axis else size for at, size in enumerate(types[0].shape)]
            middle = [length if at == axis else 0 for at in range(len(shape))]
            lower = [tl.slice(part, [0] * len(shape), shape) for part in parts]
            upper = [tl.slice(part, middle, shape) for part in parts]
            for argument, tile, of in zip(block.arguments, lower + upper, types * 2, strict=True):
                env[argument] = Node(tuple(shape), of.element, tile=tile)
            run_plain(block, frame)
            tl.place = line
            parts = [frame.whole(env[one], shape, of.element) for one, of in zip(block.results, types, strict=True)]
        for result, part in zip(operation.results, parts, strict=True):
            of = build.types[result]
            env[result] = Node(of.shape, of.element, tile=tl.reshape(part, of.shape))

    return step


@lowers("tt.scan")
def scanned(build: Builder, operation: Operation) -> Step:
    """Lowers a scan: to a running sum or product of the vector unit, or else to passes at distances 1, 2, 4 …"""
    kind = _SCANS.get(_single(operation.regions[0]))
    if kind is None or operation.attributes.get("reverse") or len(operation.operands) > 1:
        return _by_distances(build, operation, build.steps(operation.regions[0]))
    axis, operand, result = operation.attributes["axis"], operation.operands[0], operation.results[0]
    of = build.types[operand]

    def step(frame: Frame) -> None:
        tile = frame.whole(frame.env[operand], of.shape, of.element)
        frame.env[result] = Node(of.shape, of.element, tile=getattr(frame.tl, kind)(tile, axis))

    return step


def _by_distances(build: Builder, operation: Operation, block: Steps) -> Step:
    """Combines each element with the one at a distance before it (after it in reverse), for distances 1, 2, 4, …"""
    axis, reverse = operation.attributes["axis"], bool(operation.attributes.get("reverse"))
    types = [build.types[one] for one in operation.operands]
    line = build.line(operation)
    shape = types[0].shape

    def combined(frame: Frame, tiles: list[Any], distance: int) -> list[Any]:
        """Returns the tiles after one pass."""
        tl, env = frame.tl, frame.env
        part = tuple(size - distance if at == axis else size for at, size in enumerate(shape))
        first, later = [0] * len(shape), [distance if at == axis else 0 for at in range(len(shape))]
        lower, upper = ([tl.slice(tile, start, part) for tile in tiles] for start in (first, later))
        given = upper + lower if reverse else lower + upper
        for argument, tile, of in zip(block.arguments, given, types * 2, strict=True):
            env[argument] = Node(part, of.element, tile=tile)
        run_plain(block, frame)
        tl.place = line
        made = [frame.whole(env[one], part, of.element) for one, of in zip(block.results, types, strict=True)]
        return [tl.paste(tile, first if reverse else later, one) for tile, one in zip(tiles, made, strict=True)]

    def step(frame: Frame) -> None:
        frame.note("scan", "MATH lacks this scan: one pass for each doubling of the distance")
        tiles = [frame.whole(frame.env[one], shape, of.element) for one, of in zip(operation.operands, types, strict=True)]
        distance = 1
        while distance < shape[axis]:
            tiles = combined(frame, tiles, distance)
            distance *= 2
        for result, tile, of in zip(operation.results, tiles, types, strict=True):
            frame.env[result] = Node(of.shape, of.element, tile=tile)

    return step


@lowers("tt.dot")
def product(build: Builder, operation: Operation) -> Step:
    """Lowers a matrix product, optionally batched, with an accumulator."""
    a, b, c = operation.operands
    left, right, of = build.types[a], build.types[b], build.types[c]
    result = operation.results[0]
    if len(of.shape) not in (2, 3):
        raise build.unsupported(operation, f"of {len(of.shape)} dimensions")

    def step(frame: Frame) -> None:
        tl, env = frame.tl, frame.env
        x, y = frame.whole(env[a], left.shape, left.element), frame.whole(env[b], right.shape, right.element)
        sums = env[c]
        if not tl.has_gemm(DTYPES[left.element]):
            env[result] = Node(of.shape, of.element, tile=_by_vector_unit(frame, x, y, sums, of))
            return
        if isinstance(sums, Uniform) and sums.value == 0:
            tile = _typed(tl, tl.dot(x, y), of.element)
        elif of.element in ("f32", "f64", "i32") and left.element != "i32":
            tile = tl.dot_add(x, y, frame.whole(sums, of.shape, of.element))
        else:
            tile = tl.add(_typed(tl, tl.dot(x, y), of.element), frame.whole(sums, of.shape, of.element))
        env[result] = Node(of.shape, of.element, tile=tile)

    return step


def _by_vector_unit(frame: Frame, x: Any, y: Any, sums: Any, of: Type) -> Any:
    """Multiplies matrices of a type for which the matrix unit has no rate: all products and their sums in one pass."""
    tl, (*batch, rows, inner), columns = frame.tl, x.shape, y.shape[-1]
    frame.note("product", "GEMM has no rate for this type: MATH multiplies")
    turned = tl.permute(y, [*range(len(batch)), len(batch) + 1, len(batch)])
    left, right = tl.reshape(x, [*batch, rows, 1, inner]), tl.reshape(turned, [*batch, 1, columns, inner])
    total = tl.eval_all([tl.sum(tl.mul(left.lazy(), right.lazy()), len(batch) + 2)])[0]
    if isinstance(sums, Uniform) and sums.value == 0:
        return _typed(tl, total, of.element)
    return tl.add(_typed(tl, total, of.element), frame.whole(sums, of.shape, of.element))


def _typed(tl: Any, tile: Any, element: str) -> Any:
    return tile if tile.dtype == DTYPES[element] else tl.cast(tile, DTYPES[element])
