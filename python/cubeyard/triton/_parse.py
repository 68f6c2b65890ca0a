"""Parser of Triton's IR (TTIR) in the form that the compiler prints.

The parser reads text, because no supported version of the compiler's bindings exposes the whole IR. They lack the values of
float constants, lists of numbers, the lines of stores, and the targets of jumps (docs/decisions/0011-triton-ir.md).

Every operation ends with its location, and its types follow a colon. So one function reads all operations except loops,
branches, jumps, calls and constants: operands, words, attributes and regions, in any order.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from cubeyard.errors import CubeyardError
from cubeyard.triton._ir import Block, Kernel, Operation, Type
from cubeyard.triton._paths import MAP_RETURN, End, Graph, Paths
from cubeyard.triton._symbols import counterpart
from cubeyard.triton._tokens import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["parse"]


def parse(text: str) -> Kernel:
    """Parses the text of a module and returns its kernel.

    Raises:
        CubeyardError: The text has an unknown form.
    """
    parser = _Parser(text)
    try:
        return parser.kernel()
    except (LookupError, ValueError) as error:
        raise parser.odd(f"{type(error).__name__}: {error}") from error


class _Parser(Paths):
    """Parser state: the defined values."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.scopes: list[dict[str, int]] = [{}]
        self.first = UNKNOWN

    def define(self, name: str, of: Type) -> int:
        self.scopes[-1][name] = self.fresh(of)
        return self.scopes[-1][name]

    def bind(self, names: list[str], values: list[int]) -> None:
        self.scopes[-1].update(zip(names, values, strict=True))

    def value(self, name: str) -> int:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        raise self.odd(f"{name}: an undefined value")

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forgets values defined inside the `with` block."""
        self.scopes.append({})
        yield
        self.scopes.pop()

    def type(self) -> Type:
        """Reads a type, whose name may be missing."""
        token = self.take()
        if token == "<":
            token = f"<{self.past('>')[0]}>"
        return _type(token)

    def type_list(self) -> list[Type]:
        """Reads `(a, b)` or a single type."""
        if not self.accept("("):
            return [self.type()]
        found = []
        while not self.accept(")"):
            found.append(self.type())
            self.accept(",")
        return found

    def arguments(self) -> list[int]:
        """Reads `(%a: type {…} loc(…), …)` and defines the arguments."""
        return [self.define(*one) for one in self.parameters()]

    def bindings(self) -> list[str]:
        """Reads `(%x = %y, …)`. Returns the names of all pairs in one list."""
        self.expect("(")
        return [token for token in self.past(")") if token[0] == "%"]

    def kernel(self) -> Kernel:
        name, body = self.function(*self.functions[0], [])
        return Kernel(name, self.first, body, self.types)

    def function(self, start: int, end: int, returned: list[Type]) -> tuple[str, Block]:
        """Reads a function between two positions. Returns its name and its body."""
        self.at, self.graph = start, Graph.of(self.tokens, start, end, 1)
        while (name := self.take())[0] != "@":
            pass
        arguments = self.arguments()
        self.until("{")
        if self.is_dictionary():
            self.dictionary()
        self.past("{")
        return name[1:].strip('"'), self.path(arguments, End(returned))

    def call(self, made: Operation) -> list[Type]:
        """Reads `tt.call @name(%x) : (types) -> types`. The body of the function is the region of the call."""
        types = self.plain(made)
        [name] = [word for word in made.attributes["words"] if word[0] == "@"]
        start, end = next(one for one in self.functions if name in self.tokens[one[0] : one[0] + 3])
        before = self.at, self.graph, self.scopes, self.first
        self.scopes = [{}]
        made.regions = [self.function(start, end, types)[1]]
        self.at, self.graph, self.scopes, self.first = before
        return types

    def region(self, names: list[str], types: list[Type]) -> Block:
        """Reads a block in braces. Its arguments have these names, or the names in its label."""
        self.expect("{")
        with self.scope():
            block = Block([self.define(*one) for one in zip(names, types, strict=True)], [])
            if self.peek()[0] == "^":
                self.at += 1
                block.arguments = self.arguments()
                self.expect(":")
                end = self.end_of_braces()
                if "cf.cond_br" in self.tokens[self.at : end]:
                    return self.paths(block.arguments, end)
            while not self.accept("}"):
                block.operations.append(self.operation())
        return block

    def end_of_braces(self) -> int:
        """Returns the position of the brace that closes the current block."""
        at, depth = self.at, 1
        while depth:
            depth += {"{": 1, "}": -1}.get(self.tokens[at], 0)
            at += 1
        return at - 1

    def paths(self, arguments: list[int], end: int) -> Block:
        """Reads the blocks of a region up to its last brace. The labels of other regions are not visible in it."""
        outer, self.graph = self.graph, Graph.of(self.tokens, self.at, end, 0)
        block = self.path(arguments, End(self.returned_types(end)))
        self.graph, self.at = outer, end + 1
        return block

    def returned_types(self, end: int) -> list[Type]:
        """Returns the types of the values that a region with several blocks returns."""
        start, self.at = self.at, self.tokens.index(MAP_RETURN, self.at, end)
        found = []
        while self.peek() not in (":", "loc"):
            self.at += 1
        while not self.accept("loc"):
            self.at += 1
            found.append(self.type())
        self.at = start
        return found

    def operation(self) -> Operation:
        names = self.result_names()
        made = Operation(self.take().strip('"'), UNKNOWN)
        types = self.readers.get(made.name, _Parser.plain)(self, made)
        made.line = self.line()
        self.first = self.first if self.first.line else made.line
        if names:
            # One type may apply to all results.
            types = types[-len(names) :] if len(types) >= len(names) else types * len(names)
            made.results = [self.define(*one) for one in zip(names, types, strict=True)]
        return made

    def result_names(self) -> list[str]:
        """Reads the result names in `%a =`, `%a:2 =` (`%a#0` and `%a#1`) or `%a, %b =`."""
        names: list[str] = []
        while self.peek()[0] == "%":
            name = self.take()
            names += [f"{name}#{at}" for at in range(int(self.take()))] if self.accept(":") else [name]
            if not self.accept(","):
                self.expect("=")
        return names

    def plain(self, made: Operation) -> list[Type]:
        """Reads operands, words, attributes and regions in any order, then the types. Returns the result types."""
        words, listed = made.attributes.setdefault("words", []), 0
        while (token := self.peek()) not in (":", "loc"):
            if token == "{":
                self.braces(made)
                continue
            self.at += 1
            if token[0] == "%":
                made.operands.append(self.value(token))
            elif token[0] == '"':
                made.attributes["message"] = token[1:-1]
            elif token == "[":
                listed = len(made.operands)
            elif token == "]":
                made.attributes.setdefault("listed", len(made.operands) - listed)
            elif self.accept("="):
                made.attributes[token] = _attribute([self.take()])
            elif token[0] not in "(),<>*":
                words.append(token)
        return self.result_types(made)

    def braces(self, made: Operation) -> None:
        """Reads attributes or a region."""
        if self.is_dictionary():
            made.attributes.update(self.dictionary())
        else:
            made.regions.append(self.region([], []))

    def is_dictionary(self) -> bool:
        """Returns whether braces contain attributes rather than operations."""
        name, after = self.tokens[self.at + 1 : self.at + 3]
        return name == "}" or (name[0] not in "%^" and after in ("=", ",", "}"))

    def dictionary(self) -> dict[str, Any]:
        """Reads `{name = value : type, name, …}`."""
        found: dict[str, Any] = {}
        self.expect("{")
        while not self.accept("}"):
            name = self.take()
            found[name] = _attribute(self.until(",", "}")) if self.accept("=") else True
            self.accept(",")
        return found

    def result_types(self, made: Operation) -> list[Type]:
        """Reads types. Returns the result types, which follow an arrow or come last."""
        found: list[Type] = []
        arrow = False
        while (token := self.peek()) != "loc":
            if token not in ("->", "to") and token[0] not in ":(),*%":
                found.append(self.type())
                continue
            self.at += 1
            if token in ("->", "to"):
                found, arrow = [], True
            elif token[0] == "%":
                # `tt.print "text" : %x : type`
                made.operands.append(self.value(token))
        if made.name == "tt.extern_elementwise":
            made.name = counterpart(made.attributes["symbol"], self.types[made.operands[0]].element) or made.name
        return found if arrow else _implied(made, found, [self.types[one] for one in made.operands])

    def constant(self, made: Operation) -> list[Type]:
        """Reads `arith.constant 1.0 : f32` or `dense<1.0> : tensor<…>`."""
        if self.peek() == "{":
            self.dictionary()
        text = self.take()
        if text == "dense":
            self.expect("<")
            text = self.past(">")[0]
        if text[0] in '["':
            raise CubeyardError(f"expected a constant with one value, found several elements {' '.join(self.until('loc'))[:60]}")
        types = [self.type()] if self.accept(":") else [Type("i1")]
        made.attributes["value"] = _literal(text, types[0].element)
        return types

    def loop(self, made: Operation) -> list[Type]:
        """Reads `scf.for %i = %a to %b step %c iter_args(%x = %y) -> (types) : i32 {`."""
        self.accept("unsigned")
        counter, names, types = self.take(), [], list[Type]()
        for word in ("=", "to", "step"):
            self.expect(word)
            made.operands.append(self.value(self.take()))
        if self.accept("iter_args"):
            bound = self.bindings()
            names, made.operands = bound[::2], made.operands + [self.value(one) for one in bound[1::2]]
            self.expect("->")
            types = self.type_list()
        index = self.type() if self.accept(":") else Type("index")
        made.regions = [self.region([counter, *names], [index, *types])]
        self.plain(made)
        return types

    def branches(self, made: Operation) -> list[Type]:
        """Reads `scf.if %c -> (types) {` and its blocks."""
        made.operands = [self.value(self.take())]
        types = self.type_list() if self.accept("->") else []
        made.regions = [self.region([], [])]
        if self.accept("else"):
            made.regions.append(self.region([], []))
        self.plain(made)
        return types

    def repeated(self, made: Operation) -> list[Type]:
        """Reads `scf.while (%x = %y) : (types) -> types {`, its condition and its body."""
        bound = self.bindings() if self.peek() == "(" else []
        made.operands = [self.value(one) for one in bound[1::2]]
        self.expect(":")
        before = self.type_list()
        self.expect("->")
        types = self.type_list()
        made.regions = [self.region(bound[::2], before)]
        self.expect("do")
        made.regions.append(self.region([], []))
        self.plain(made)
        return types

    readers = {  # noqa: RUF012
        "arith.constant": constant, "scf.for": loop, "scf.if": branches, "scf.while": repeated, "tt.call": call,
    }  # fmt: skip


def _attribute(tokens: list[str]) -> Any:
    """Parses an attribute: an integer, a list of integers, a bool or a word."""
    first = tokens[0]
    if first == "array":
        return [int(one) for one in tokens[4:-1] if one != ","]
    if first in ("true", "false"):
        return first == "true"
    return int(first) if first.lstrip("-").isdigit() else first.strip('"')


def _literal(text: str, element: str) -> Any:
    """Parses a constant. A float may be written as its bits."""
    if text in ("true", "false"):
        return text == "true"
    if element[0] == "i":
        return int(text, 0)
    return {"bits": int(text, 16)} if text.startswith("0x") else float(text)


@cache
def _type(text: str) -> Type:
    """Parses a type such as `tensor<64x32x!tt.ptr<f16>>`."""
    if text.startswith(("!tt.tensordesc<", "<")):
        inner = text[text.index("<") + 1 : -1].removeprefix("tensor<").rstrip(">").split(",")[0]
        *sizes, element = inner.split("x")
        return Type("desc", tuple(map(int, sizes)), element)
    if text.startswith("!tt.ptr<"):
        inner = text[8:].rstrip(">").split(",")[0]
        return Type("ptr", (), "ptr" if inner.startswith("!") else inner)
    if not text.startswith("tensor<"):
        return Type(text)
    shape, element = [], text[7:-1]
    while element[0].isdigit():
        size, _, element = element.partition("x")
        shape.append(int(size))
    of = _type(element)
    return Type(of.element, tuple(shape), of.pointee)


def _implied(made: Operation, listed: list[Type], operands: list[Type]) -> list[Type]:
    """Derives the result types from the operand types, for operations whose text has only the latter."""
    if made.name in ("arith.cmpi", "arith.cmpf"):
        return [Type("i1", operands[0].shape)]
    if made.name == "tt.load":
        return [Type(operands[0].pointee, operands[0].shape)]
    if made.name == "tt.addptr":
        return operands[:1]
    if made.name == "arith.select":
        return operands[1:2]
    return listed
