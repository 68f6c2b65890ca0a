"""Element-wise operations: immediate on known values, by the vector unit on tiles."""

from __future__ import annotations

from typing import Any

from cubeyard.errors import CubeyardError
from cubeyard.triton import _index
from cubeyard.triton._chains import tile_of
from cubeyard.triton._composed import on_numbers
from cubeyard.triton._elements import SIZES, scalar
from cubeyard.triton._frame import Builder, Frame, Step, lowers
from cubeyard.triton._ir import Line, Operation
from cubeyard.triton._tiles import names, tiles
from cubeyard.triton._values import Bools, Index, Node, Uniform

__all__: list[str] = []


KNOWN, NUMBERS = (Uniform, Index, Bools), (int, float)


def are(values: Any, kinds: Any) -> bool:
    """Returns whether all values have one of these classes. A loop is faster than `all` for two or three values."""
    for value in values:
        if not isinstance(value, kinds):
            return False
    return True


class Elementwise:
    """Operation in three forms: on numbers, on known arrays, and on tiles."""

    def __init__(self, build: Builder, operation: Operation) -> None:
        of = build.types[operation.results[0]]
        source = build.types[operation.operands[0]]
        words = operation.attributes.get("words", [])
        given = (operation.name, of.element, words, source.element)
        self.name, self.shape, self.element = operation.name, of.shape, of.element
        self.relation = words[0] if operation.name == "arith.cmpi" else ""
        self.scalar, self.vector, self.tiles = scalar(*given), _index.vector(*given), tiles(*given)
        if self.scalar is None and self.name.startswith("ahbm."):
            self.scalar = on_numbers(self.name, self.element, source.element)
        self.line, self.uses = build.line(operation), build.uses.get(operation.results[0], 0)
        if self.tiles is None and self.scalar is None:
            raise build.unsupported(operation)

    def __call__(self, *given: Any) -> Any:
        """Returns the result for tensors. Each operand has a type of `_values`."""
        if self.name == "arith.select" and not isinstance(given[0], Node | Uniform):
            return given[1] if given[0] else given[2]
        if self.name == "arith.select" and not given[0].shape:
            given = (self._spread(given[0]), *given[1:])
        if self.scalar is not None and are(given, Uniform):
            return Uniform(self.shape, self.element, self.scalar(*(one.value for one in given)))
        made: dict[str, Any] = {"compute": self.tiles, "operands": given, "vector": self.vector, "at": self.line}
        known = self._known(given, made)
        return Node(self.shape, self.element, uses=self.uses, **made) if known is None else known

    def _spread(self, condition: Node) -> Node:
        """Reshapes a one-element condition to the rank of the result."""
        ones = [1] * len(self.shape)
        return Node(self.shape, "i1", compute=lambda tl, x: tl.reshape(x, ones), operands=(condition,), moves=True)

    def _known(self, given: tuple[Any, ...], made: dict[str, Any]) -> Any:
        """Returns the result if it is a known index or mask, else None."""
        if self.name == "arith.select" and isinstance(given[0], Uniform):
            return given[1] if given[0].value else given[2]
        if not are(given, KNOWN):
            return None
        if self.relation and (always := _index.compared(given[0], given[1], self.relation)) is not None:
            return Uniform(self.shape, "i1", always)
        if self.name == "arith.andi" and self.element == "i1":
            found = _index.both(*given, **made)
            if found is not None:
                return found
        elif self.name in ("arith.addi", "arith.subi") and self.element != "i1":
            sign = -1 if self.name == "arith.subi" else 1
            return _index.added(given[0], given[1], self.element, sign, **made)
        elif self.name == "arith.muli" and _index.times(*given):
            return _index.multiplied(given[0], given[1], self.element, **made)
        elif self.name in ("arith.extsi", "tt.int_to_ptr", "tt.ptr_to_int") and isinstance(given[0], Index):
            return Index(self.shape, self.element, given[0].base, given[0].axes, **made)
        return None if self.vector is None else _index.pointwise(self.shape, self.element, given, **made)


@lowers(*names())
def elementwise(build: Builder, operation: Operation) -> Step:
    """Lowers an element-wise operation."""
    made = Elementwise(build, operation)
    result = operation.results[0]
    of_scalars, operands = made.scalar, operation.operands
    if not made.shape:
        return _on_scalars(made, of_scalars, operands, result, result in build.escaping)

    computed = result in build.escaping

    def step(frame: Frame) -> None:
        env = frame.env
        value = made(*[env[one] for one in operands])
        env[result] = frame.settled(value) if computed else frame.expressed(value)

    return step


def _on_scalars(made: Elementwise, compute: Any, operands: list[int], result: int, computed: bool) -> Step:
    """Computes known numbers immediately. Other scalars are one-element tiles."""

    def step(frame: Frame) -> None:
        given = [frame.env[one] for one in operands]
        if compute is not None and are(given, NUMBERS):
            frame.env[result] = compute(*given)
            return
        if made.name == "arith.select" and not isinstance(given[0], Node):
            frame.env[result] = given[1] if given[0] else given[2]
            return
        node = Node((), made.element, compute=made.tiles, operands=tuple(given), at=made.line, uses=made.uses)
        frame.env[result] = frame.settled(node) if computed else frame.expressed(node)

    return step


@lowers("tt.addptr")
def moved_pointer(build: Builder, operation: Operation) -> Step:
    """Lowers pointer arithmetic. Offsets count elements, addresses count bytes."""
    of = build.types[operation.results[0]]
    size, (pointer, offset), result = SIZES[of.pointee], operation.operands, operation.results[0]
    line, shape = build.line(operation), of.shape
    strides: dict[Any, Any] = {}

    def step(frame: Frame) -> None:
        env = frame.env
        base, by = env[pointer], env[offset]
        if type(base) is int and not isinstance(by, Node):
            env[result] = base + size * int(by)
        elif type(by) is Index and by.is_affine and (type(base) is Uniform or (type(base) is Index and base.is_affine)):
            # Programs and iterations differ in their first addresses, and seldom in their strides.
            start, before = (int(base.value), None) if isinstance(base, Uniform) else (base.base, base.axes)
            axes = strides.get((before, by.axes))
            if axes is None:
                axes = strides[before, by.axes] = _strides(before, by.axes, size)
            env[result] = Index(shape, "ptr", start + size * by.base, axes)
        else:
            env[result] = _moved(base, by, shape, size, line)

    return step


def _strides(before: tuple[int, ...] | None, offsets: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Returns the strides of addresses, from the strides of a base in bytes and of offsets in elements."""
    return tuple(own + size * more for own, more in zip(before or (0,) * len(offsets), offsets, strict=True))


def _moved(base: Any, by: Any, shape: tuple[int, ...], size: int, line: Line) -> Any:
    if isinstance(base, Index | Uniform) and isinstance(by, Index | Uniform):
        moved = _index.added(base, by, "ptr", size=size)
        return moved

    def addresses(x: Any, y: Any) -> Any:
        return x.astype("int64") + y.astype("int64") * size

    def compute(tl: Any, x: Any, y: Any) -> Any:
        return tl.add(x, tl.mul(tl.cast(y, "i64"), size))

    return Node(shape, "ptr", compute=compute, operands=(base, by), vector=addresses, at=line)


@lowers("tt.bitcast", "arith.bitcast")
def bits(build: Builder, operation: Operation) -> Step:
    """Lowers a bitcast: of pointers, which changes nothing, or between types of equal size."""
    source, of = build.types[operation.operands[0]], build.types[operation.results[0]]
    if source.element == of.element:
        return _renamed(operation.operands[0], operation.results[0])
    if "i1" in (source.element, of.element):
        raise build.unsupported(operation, f"from {source.element} to {of.element}")
    return elementwise(build, operation)


def _renamed(operand: int, result: int) -> Step:
    def step(frame: Frame) -> None:
        frame.env[result] = frame.env[operand]

    return step


def operand(value: Any, frame: Frame) -> Any:
    """Returns a value as a tile. Raises if the value is a number."""
    tile = tile_of(value, frame.tl)
    if isinstance(tile, int | float):
        raise CubeyardError(f"expected a tile, found the number {tile}")
    return tile
