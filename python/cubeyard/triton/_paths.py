"""Jumps between the blocks of a function, and their conversion to branches.

A `return` inside an `if` makes a function of several blocks with jumps between them. Triton allows no `return` inside a
loop, so the jumps have no cycles. A conditional jump becomes an `scf.if`. Its paths end where they meet again, so each
block is read once. If a path may return before, the branch also tells whether its path goes on.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field

from cubeyard.triton._ir import Block, Line, Operation, Type
from cubeyard.triton._tokens import UNKNOWN, Tokens

__all__ = ["MAP_RETURN", "End", "Graph", "Paths"]

MAP_RETURN = "tt.map_elementwise.return"
"""Return of a function of single elements, which is a region of several blocks if it has a `return` inside an `if`."""

_ENTRY = "^entry"
_RETURNS = ("tt.return", MAP_RETURN)


@dataclass
class Graph:
    """Jumps between the blocks of a function."""

    starts: dict[str, int] = field(default_factory=dict)
    """Position of the token after each label."""
    successors: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, tokens: list[str], start: int, end: int, within: int) -> Graph:
        """Finds the labels of a function or region, and the jumps to them. `within` braces are open around its blocks."""
        graph, block, depth = cls(), _ENTRY, 0
        for at in range(start, end):
            token = tokens[at]
            depth += {"{": 1, "}": -1}.get(token, 0)
            if token[0] != "^" or depth != within:
                continue
            if tokens[at - 1] in (",", "cf.br"):
                graph.successors.setdefault(block, []).append(token)
            else:
                block = token
                graph.starts[block] = at + 1
        return graph

    def reached(self, start: str, without: str | None) -> set[str]:
        """Returns the blocks that a path from `start` may reach without passing a block."""
        found: set[str] = set()
        left = [start]
        while left:
            block = left.pop()
            if block != without and block not in found:
                found.add(block)
                left += self.successors.get(block, [])
        return found

    def meeting(self, one: str, other: str, end: str | None) -> tuple[str | None, bool]:
        """Returns the first block where the paths from two blocks meet, and whether a path may return before it.

        Args:
            one: first block of a path.
            other: first block of the other path.
            end: block where both paths end in any case.
        """
        common = (self.reached(one, end) & self.reached(other, end)) - {end}
        for block in sorted(common, key=lambda block: -len(self.reached(block, end))):
            before = self.reached(one, block), self.reached(other, block)
            if not before[0] & before[1] and end not in before[0] | before[1]:
                return block, any(not self.successors.get(passed) for passed in before[0] | before[1])
        return None, False


@dataclass(frozen=True)
class End:
    """End of a path: the function's return, or the block where the path meets another."""

    returned: list[Type]
    """Types of the values that the function returns."""
    label: str | None = None
    """Block where the path meets another, or None at the function's return."""
    joined: list[Type] = field(default_factory=list)
    """Types of the values that the block takes."""
    may_return: bool = True
    """Whether the path may return before the block."""

    @property
    def types(self) -> list[Type]:
        """Types of the values at the end: whether the path goes on, the values of the block, and the values returned."""
        if self.label is None:
            return self.returned
        return [Type("i1"), *self.joined, *self.returned] if self.may_return else self.joined


class Paths(Tokens):
    """Reader of functions: their blocks, as one block with branches."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.graph = Graph()
        self.types: list[Type] = []
        functions = [at + 1 for at, token in enumerate(self.tokens) if token == "tt.func"]
        self.functions = list(zip(functions, [*functions[1:], len(self.tokens)], strict=True))

    @abstractmethod
    def operation(self) -> Operation:
        """Reads an operation."""

    @abstractmethod
    def value(self, name: str) -> int:
        """Returns the number of a defined value."""

    @abstractmethod
    def type(self) -> Type:
        """Reads a type."""

    @abstractmethod
    def bind(self, names: list[str], values: list[int]) -> None:
        """Gives names to values."""

    def fresh(self, of: Type) -> int:
        """Makes a value without a name. It is empty unless an operation sets it."""
        self.types.append(of)
        return len(self.types) - 1

    def path(self, arguments: list[int], end: End) -> Block:
        """Reads operations up to the end of a path. Follows jumps."""
        block = Block(arguments, [])
        while self.peek() not in ("cf.br", "cf.cond_br", *_RETURNS):
            block.operations.append(self.operation())
        if self.peek() in _RETURNS:
            last = self.operation()
            block.operations += self.ended(end, last.line, last.operands)
            return block
        conditional = self.take() == "cf.cond_br"
        condition = self.value(self.take()) if conditional else 0
        targets = self.targets()
        if conditional:
            block.operations += self.fork(condition, targets, end, self.line())
        else:
            block.operations += self.jump(*targets[0], end)
        return block

    def ended(self, end: End, line: Line, values: list[int], at_label: bool = False) -> list[Operation]:
        """Returns the operations that end a path, at a return or at the block where it meets another."""
        if end.label is None:
            return [Operation("tt.return", line, values)]
        if not end.may_return:
            return [Operation("scf.yield", line, values)]
        goes_on = self.fresh(Type("i1"))
        constant = Operation("arith.constant", line, results=[goes_on], attributes={"value": at_label})
        missing = [self.fresh(of) for of in (end.returned if at_label else end.joined)]
        values = [*values, *missing] if at_label else [*missing, *values]
        return [constant, Operation("scf.yield", line, [goes_on, *values])]

    def targets(self) -> list[tuple[str, list[int]]]:
        """Reads `^a(%x, %y : types), ^b`. Returns each label with its argument values."""
        found = []
        while self.peek() != "loc":
            token = self.take()
            if token[0] == "^":
                found.append((token, [self.value(one) for one in self.until(",", "loc") if one[0] == "%"]))
        return found

    def jump(self, label: str, values: list[int], end: End) -> list[Operation]:
        """Reads the path from a label to its end, with the given values as the block's arguments."""
        if label == end.label:
            return self.ended(end, UNKNOWN, values, at_label=True)
        names, _ = self.head(label)
        self.bind(names, values)
        return self.path([], end).operations

    def head(self, label: str) -> tuple[list[str], list[Type]]:
        """Moves to the operations of a block. Returns the names and types of its arguments."""
        if label not in self.graph.starts:
            raise self.odd(label)
        self.at = self.graph.starts[label]
        found = self.parameters() if self.peek() == "(" else []
        self.expect(":")
        return [name for name, _ in found], [of for _, of in found]

    def parameters(self) -> list[tuple[str, Type]]:
        """Reads `(%a: type {…} loc(…), …)`. Returns the names with their types."""
        found = []
        self.expect("(")
        while not self.accept(")"):
            name = self.take()
            self.expect(":")
            found.append((name, self.type()))
            self.until(",", ")")
            self.accept(",")
        return found

    def fork(self, condition: int, targets: list[tuple[str, list[int]]], end: End, line: Line) -> list[Operation]:
        """Reads both paths of a conditional jump, and what follows where they meet."""
        label, may_return = self.graph.meeting(targets[0][0], targets[1][0], end.label)
        if label is None:
            return self.branch(condition, [self.whole(target, end) for target in targets], end, line)
        inner = End(end.returned, label, self.head(label)[1], may_return)
        paths = [self.whole(target, inner) for target in targets]
        values = [self.fresh(of) for of in inner.types]
        made = Operation("scf.if", line, [condition], values, regions=paths)
        if not may_return:
            return [made, *self.jump(label, values, end)]
        goes_on, joined, returned = values[0], values[1 : 1 + len(inner.joined)], values[1 + len(inner.joined) :]
        after = [self.whole((label, joined), end), Block([], self.ended(end, line, returned))]
        return [made, *self.branch(goes_on, after, end, line)]

    def whole(self, target: tuple[str, list[int]], end: End) -> Block:
        """Reads a path from a jump to its end, as a block."""
        return Block([], self.jump(*target, end))

    def branch(self, condition: int, paths: list[Block], end: End, line: Line) -> list[Operation]:
        """Returns a branch whose paths both reach the end, and the operation that ends the block around it."""
        values = [self.fresh(of) for of in end.types]
        name = "tt.return" if end.label is None else "scf.yield"
        return [Operation("scf.if", line, [condition], values, regions=paths), Operation(name, line, values)]
