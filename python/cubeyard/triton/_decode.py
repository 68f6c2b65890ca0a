"""Decoding of Triton's IR (TTIR), from the text that the compiler prints."""

from __future__ import annotations

import re
from typing import Any

from cubeyard.errors import CubeyardError
from cubeyard.triton import _libdevice, _locations
from cubeyard.triton._ir import Block, Kernel, Line, Operation, Type, pack

__all__ = ["FORMAT", "decode", "pack"]

FORMAT = 4
"""Number of the format of `pack`, which changes with it, so that old files in Triton's cache are not read."""

_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
_RESULTS = re.compile(r"^((?:%[\w$.-]+(?::\d+)?(?:, )?)+) = ")
_NAME = re.compile(r'^"?([a-z_]+\.[\w.]+)"?')
_ATTRIBUTE = re.compile(r"([A-Za-z_][\w.]*) = (array<i32: [^>]*>|dense<[^>]*>|\"[^\"]*\"|[^,{}>]+)")
_TARGET = re.compile(r"(\^[\w$.-]+)(\([^)]*\))?")
_TEXT = re.compile(r', "((?:[^"\\]|\\.)*)"')


def decode(text: str) -> Kernel:
    """Returns the kernel of a module's text.

    Raises:
        CubeyardError: The text has a form that the compiler was not known to print.
    """
    return _Decoder(text).kernel()


class _Decoder:
    """Lines of the text, the position in them, and the values that were defined."""

    def __init__(self, text: str) -> None:
        self.locations = _locations.Locations(text)
        self.rows = [row.strip() for row in text.splitlines() if not row.startswith("#loc")]
        self.at = 0
        self.types: list[Type] = []
        self.scopes: list[dict[str, int]] = [{}]
        self.lines: list[Line] = []

    def kernel(self) -> Kernel:
        while not self.rows[self.at].startswith("tt.func"):
            self.at += 1
        head = self.rows[self.at]
        found = re.search(r"@([\w$.-]+|\"[^\"]*\")\(", head)
        if found is None:
            raise self.odd(head)
        self.at += 1
        body = self.path(self.arguments(_balanced(head[found.end() - 1 :], "(", ")")))
        return Kernel(found[1].strip('"'), body, self.types, self.lines)

    def arguments(self, listed: str) -> list[int]:
        """Defines the values of a list `%a: type loc(…), …`."""
        pairs = [part.split(": ", 1) for part in _split(listed)]
        return [self.define(name, _type(re.sub(r" \{.*\}$", "", _without_location(of)[0]))) for name, of in pairs]

    def define(self, name: str, of: Type) -> int:
        self.types.append(of)
        self.scopes[-1][name] = len(self.types) - 1
        return len(self.types) - 1

    def value(self, name: str) -> int:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
            if name + "#0" in scope:
                return scope[name + "#0"]
        raise self.odd(f"{name}: a value that is not defined")

    def block(self, arguments: list[int]) -> Block:
        """Reads operations up to the line that closes their block."""
        block = Block(arguments, [])
        while not self.rows[self.at].startswith("}"):
            block.operations.append(self.operation())
        return block

    def path(self, arguments: list[int]) -> Block:
        """Reads the operations from here to a return; a jump is followed, and a choice of two is a branch with both paths."""
        block = Block(arguments, [])
        while not self.rows[self.at].startswith(("cf.", "tt.return")):
            block.operations.append(self.operation())
        text, location = _without_location(self.rows[self.at])
        targets = _TARGET.findall(text)
        if not targets:
            block.operations.append(self.operation())
        elif text.startswith("cf.br "):
            block.operations += self.jump(*targets[0]).operations
        else:
            condition = self.value(_VALUE.findall(text)[0])
            paths = [self.jump(*target) for target in targets]
            block.operations.append(Operation("scf.if", [condition], [], self.line(location), {}, paths))
        return block

    def jump(self, label: str, given: str) -> Block:
        """Reads the path that begins at a label, whose arguments have the given values."""
        at = next((at for at, row in enumerate(self.rows) if re.match(rf"\{label}[:(]", row)), None)
        if at is None:
            raise self.odd(label)
        values = [self.value(one) for one in _VALUE.findall(given)]
        row = self.rows[at]
        names = [part.split(": ", 1)[0] for part in _split(_balanced(row[len(label) :], "(", ")"))] if values else []
        self.at = at + 1
        with self.scope():
            self.scopes[-1].update(zip(names, values, strict=True))
            return self.path([])

    def operation(self) -> Operation:
        row = self.rows[self.at]
        self.at += 1
        text, location = _without_location(row)
        found = _RESULTS.match(text)
        results = [] if found is None else _result_names(found[1])
        text = text if found is None else text[found.end() :]
        name = _NAME.match(text)
        if name is None:
            raise self.odd(row)
        rest = text[name.end() :]
        opens = rest.endswith("{") or rest.endswith("({")
        if opens:
            return self.with_regions(name[1], rest, results, row)
        message, rest = _message(name[1], rest)
        head, types = _types_of(rest)
        operands = [self.value(one) for one in _VALUE.findall(head)]
        made = Operation(name[1], operands, [], self.line(location), _attributes(name[1], head, types))
        if message:
            made.attributes["message"] = message
        if made.name == "tt.extern_elementwise":
            made.name = _libdevice.counterpart(made.attributes["symbol"]) or made.name
        made.results = self.results(name[1], results, types, operands)
        return made

    def results(self, name: str, names: list[str], types: str, operands: list[int]) -> list[int]:
        given = [self.types[one] for one in operands]
        made = _result_types(name, types, given, len(names))
        return [self.define(one, of) for one, of in zip(names, made, strict=True)]

    def with_regions(self, name: str, rest: str, results: list[str], row: str) -> Operation:
        made = Operation(name, [], [], 0)
        if name == "scf.for":
            types = self.loop(made, rest)
        elif name == "scf.if":
            types = self.branches(made, rest)
        elif name == "scf.while":
            types = self.repeated(made, rest)
        elif name in ("tt.reduce", "tt.scan"):
            types = self.combined(made, rest)
        else:
            raise CubeyardError(f"{_locations.of_line(self, row)}: Triton's operation {name} has no counterpart here")
        made.results = [self.define(one, of) for one, of in zip(results, types, strict=True)]
        return made

    def loop(self, made: Operation, rest: str) -> list[Type]:
        """Reads `scf.for %i = %a to %b step %c iter_args(%x = %y) -> (types) : i32 {`."""
        head, _, index_type = rest.rstrip("{ ").rpartition(" : ")
        given, _, listed = head.partition("->")
        names = _VALUE.findall(given)
        made.attributes["unsigned"] = rest.startswith(" unsigned")
        carried = names[4:]
        made.operands = [self.value(one) for one in [*names[1:4], *carried[1::2]]]
        types = [_type(one) for one in _split(_balanced(listed.strip(), "(", ")"))] if listed else []
        with self.scope():
            arguments = [self.define(names[0], _type(index_type))]
            arguments += [self.define(one, of) for one, of in zip(carried[::2], types, strict=True)]
            made.regions = [self.block(arguments)]
        self.close(made)
        return types

    def branches(self, made: Operation, rest: str) -> list[Type]:
        """Reads `scf.if %c -> (types) {` with its two blocks."""
        given, _, listed = rest.rstrip("{ ").partition("->")
        made.operands = [self.value(one) for one in _VALUE.findall(given)]
        types = [_type(one) for one in _split(_balanced(listed.strip(), "(", ")"))] if listed else []
        with self.scope():
            made.regions = [self.block([])]
        if self.rows[self.at].startswith("} else"):
            self.at += 1
            with self.scope():
                made.regions.append(self.block([]))
        self.close(made)
        return types

    def repeated(self, made: Operation, rest: str) -> list[Type]:
        """Reads `scf.while (%x = %y) : (types) -> types {` with its condition and its body."""
        given, _, listed = rest.rstrip("{ ").rpartition(" : ") if " : " in rest else ("", "", "")
        names = _VALUE.findall(given)
        made.operands = [self.value(one) for one in names[1::2]]
        before, _, after = listed.partition("->")
        first = [_type(one) for one in _split(_listed(before))]
        types = [_type(one) for one in _split(_listed(after))]
        with self.scope():
            condition = self.block([self.define(one, of) for one, of in zip(names[::2], first, strict=True)])
        self.at += 1
        with self.scope():
            made.regions = [condition, self.block(self.head())]
        self.close(made)
        return types

    def combined(self, made: Operation, rest: str) -> list[Type]:
        """Reads `"tt.reduce"(%x) <{axis = 0 : i32}> ({` with its block and types."""
        made.operands = [self.value(one) for one in _VALUE.findall(rest)]
        made.attributes = _pairs(rest)
        with self.scope():
            made.regions = [self.block(self.head())]
        types = self.close(made).rpartition("->")[2]
        return [_type(one) for one in _split(_listed(types))]

    def head(self) -> list[int]:
        """Defines the arguments of a block that begins with `^bb0(…):`, if it does."""
        row = self.rows[self.at]
        if not row.startswith("^"):
            return []
        self.at += 1
        return self.arguments(_balanced(row[row.index("(") :], "(", ")"))

    def close(self, made: Operation) -> str:
        """Reads the line that closes an operation with regions; returns it without its location."""
        text, location = _without_location(self.rows[self.at])
        self.at += 1
        made.line = self.line(location)
        made.attributes.update(_pairs(text))
        return text

    def scope(self) -> _Scope:
        return _Scope(self.scopes)

    def line(self, location: str) -> int:
        line = self.locations.line(location)
        if not self.lines or self.lines[-1] != line:
            self.lines.append(line)
        return len(self.lines) - 1

    def odd(self, row: str) -> CubeyardError:
        from cubeyard.triton import _version

        return CubeyardError(f"IR of triton {_version.found()}, line {self.at}: a form that is not known: {row}")


class _Scope:
    """Values of a block, which are forgotten at its end."""

    def __init__(self, scopes: list[dict[str, int]]) -> None:
        self.scopes = scopes

    def __enter__(self) -> None:
        self.scopes.append({})

    def __exit__(self, *_: object) -> None:
        self.scopes.pop()


def _message(name: str, rest: str) -> tuple[str, str]:
    """Returns the text of an assertion, and its operation without it: a text may hold anything."""
    found = _TEXT.search(rest) if name == "tt.assert" else None
    return ("", rest) if found is None else (found[1], rest[: found.start()] + rest[found.end() :])


def _result_names(text: str) -> list[str]:
    """Returns the names of the results `%a`, `%a:2` (`%a#0` and `%a#1`), or `%a, %b`."""
    names: list[str] = []
    for one in text.split(", "):
        name, _, count = one.partition(":")
        names += [f"{name}#{index}" for index in range(int(count))] if count else [name]
    return names


def _balanced(text: str, opening: str, closing: str) -> str:
    """Returns the text within the first pair of brackets, which may hold others."""
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter == opening) - (letter == closing)
        if depth == 0:
            return text[1:at]
    return text[1:]


def _split(text: str) -> list[str]:
    """Splits at commas that are outside of all brackets."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        if letter in "(<[{":
            depth += 1
        elif letter in ")]}" or (letter == ">" and text[at - 1] != "-"):
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()] if text[start:].strip() else parts


def _listed(text: str) -> str:
    """Returns the types of `(a, b)` or of `a`."""
    text = text.strip()
    return _balanced(text, "(", ")") if text.startswith("(") else text


def _without_location(text: str) -> tuple[str, str]:
    """Returns a line without its last `loc(…)`, and what was in it."""
    at = text.rfind(" loc(")
    while at > 0 and text.count("(", at) != text.count(")", at):
        at = text.rfind(" loc(", 0, at)
    return (text, "") if at < 0 else (text[:at].rstrip(), text[at + 5 : -1])


def _types_of(rest: str) -> tuple[str, str]:
    """Splits an operation into its operands and attributes, and its types."""
    depth = 0
    for at in range(len(rest) - 1, 0, -1):
        letter = rest[at]
        depth += (letter in ")]}>" and not rest.startswith("->", at - 1)) - (letter in "([{<")
        if depth == 0 and rest.startswith(" : ", at):
            return rest[:at], rest[at + 3 :]
    return rest, ""


def _pairs(text: str) -> dict[str, Any]:
    return {name: _attribute(value) for name, value in _ATTRIBUTE.findall(text)}


def _attribute(value: str) -> Any:
    """Returns an attribute: a number, a list of numbers, a truth value or a word."""
    value = value.strip()
    if value.startswith("array<"):
        return [int(one) for one in value[value.index(":") + 1 : -1].split(",")]
    plain = value.split(" : ")[0]
    if plain in ("true", "false"):
        return plain == "true"
    return int(plain) if re.fullmatch(r"-?\d+", plain) else plain.strip('"')


def _attributes(name: str, head: str, types: str) -> dict[str, Any]:
    """Returns the attributes of an operation; words without a name are in `words`."""
    if name == "arith.constant":
        return {"value": _literal(head, types)}
    made = _pairs(head)
    plain = re.sub(r"<?\{.*\}>?", "", _VALUE.sub("", head))
    words = [word.strip() for word in re.split(r"[,\[\]\s]+", plain) if word.strip() and "=" not in word]
    made["words"] = words
    if name == "tt.make_tensor_descriptor":
        made["rank"] = head[: head.index("]")].count("%") - 1
    if name.startswith("tt.descriptor_"):
        made["indices"] = head[head.index("[") : head.index("]")].count("%")
    return made


def _literal(head: str, types: str) -> Any:
    """Returns the value of a constant: one number, or a list for a tensor of several."""
    text = re.sub(r"\{.*\}", "", head).strip()
    if text.startswith("dense<"):
        text = text[6:-1]
    if text in ("true", "false"):
        return text == "true"
    element = _type(types).element
    if text.startswith(("[", '"')):
        raise CubeyardError(f"a constant of several elements: {text[:60]}")
    if text.startswith("0x") and element[0] != "i":
        return {"bits": int(text, 16)}
    return float(text) if element[0] != "i" else int(text, 0)


def _type(text: str) -> Type:
    """Returns the type of a text such as `tensor<64x32x!tt.ptr<f16>>`."""
    text = text.strip()
    if text.startswith("!tt.tensordesc<") or text.startswith("<"):
        inner = text[text.index("<") + 1 : -1].removeprefix("tensor<").rstrip(">").split(",")[0]
        *sizes, element = inner.split("x")
        return Type("desc", tuple(map(int, sizes)), element)
    if text.startswith("!tt.ptr<"):
        return Type("ptr", (), _pointee(text))
    if not text.startswith("tensor<"):
        return Type(text)
    inner = text[7:-1]
    listed = re.match(r"(?:\d+x)*", inner)
    shape = tuple(int(one) for one in listed[0].split("x")[:-1]) if listed else ()
    element = inner[listed.end() if listed else 0 :]
    if element.startswith("!tt.ptr<"):
        return Type("ptr", shape, _pointee(element))
    return Type(element, shape)


def _pointee(text: str) -> str:
    inner = text[8:].rstrip(">").split(",")[0]
    return "ptr" if inner.startswith("!") else inner


def _result_types(name: str, types: str, operands: list[Type], count: int) -> list[Type]:
    """Returns the types of the results of an operation, of which the text names some."""
    if count == 0:
        return []
    arrow = re.split(r" -> | to ", types)
    if name == "tt.make_tensor_descriptor":
        return [_type(_split(types)[-1])]
    if len(arrow) > 1:
        found = [_type(one) for one in _split(_listed(arrow[-1]))]
        return found * count if len(found) < count else found
    if name in ("arith.cmpi", "arith.cmpf"):
        return [Type("i1", operands[0].shape)]
    if name == "tt.load":
        return [Type(operands[0].pointee, operands[0].shape)]
    if name == "tt.addptr":
        return [operands[0]]
    if name == "arith.constant" and not types:
        return [Type("i1")]
    if name == "arith.select":
        return [operands[1]]
    listed = _split(types)
    return [_type(listed[-1])] * count if len(listed) < count else [_type(one) for one in listed[-count:]]
