"""Tokens of Triton's IR, and the source lines that it names."""

from __future__ import annotations

import os
import re
from functools import cache

from cubeyard.errors import CubeyardError
from cubeyard.triton._ir import Line

__all__ = ["UNKNOWN", "Tokens"]

_NESTED = r"<(?:[^<>]|<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>)*>"
_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"|//.*'  # a string, a comment
    rf"|(?:tensor|!tt\.\w+){_NESTED}"  # a type
    r'|%[\w$.-]+(?:#\d+)?|[#^!][\w$.-]+|@(?:"[^"]*"|[\w$.-]+)'  # a value; an alias, a label or another type; a symbol
    r"|->|-?\d+\.\d+(?:[eE][-+]?\d+)?|-?[\w$.]+"  # an arrow, a float, a word or an integer
    r"|\S"
)
_OPEN, _CLOSE = frozenset("([{<"), frozenset(")]}>")

UNKNOWN = Line("", 0)
"""Line of operations made by the compiler."""


class Tokens:
    """Token stream of a text, with a current position."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = [token for token in _TOKEN.findall(text) if not token.startswith("//")]
        self.at = 0
        aliases = (at for at, one in enumerate(self.tokens) if one.startswith("#loc") and self.tokens[at + 1] == "=")
        self.aliases = {self.tokens[at]: at + 2 for at in aliases}
        self.lines: dict[str, Line] = {}

    def peek(self) -> str:
        """Returns the next token without taking it."""
        return self.tokens[self.at]

    def take(self) -> str:
        """Takes and returns the next token."""
        self.at += 1
        return self.tokens[self.at - 1]

    def accept(self, token: str) -> bool:
        """Takes the next token if it equals `token`. Returns whether it did."""
        found = self.tokens[self.at] == token
        self.at += found
        return found

    def expect(self, token: str) -> None:
        """Takes the next token, which must equal `token`."""
        if not self.accept(token):
            raise self.odd(f"expected {token}")

    def until(self, *ends: str) -> list[str]:
        """Takes tokens up to one of `ends` outside brackets."""
        start, depth = self.at, 0
        while depth or self.tokens[self.at] not in ends:
            depth += (self.tokens[self.at] in _OPEN) - (self.tokens[self.at] in _CLOSE)
            self.at += 1
        return self.tokens[start : self.at]

    def past(self, end: str) -> list[str]:
        """Takes tokens through `end` outside brackets. Returns the tokens before it."""
        found = self.until(end)
        self.at += 1
        return found

    def odd(self, what: str) -> CubeyardError:
        """Returns the error for an unknown form of text."""
        import triton

        near = " ".join(self.tokens[max(self.at - 8, 0) : self.at + 8])
        return CubeyardError(f"IR of triton {triton.__version__}: unknown form: {what}, near {near}")

    def line(self) -> Line:
        """Reads a location `loc(…)`."""
        self.expect("loc")
        self.expect("(")
        found = self._location()
        self.past(")")
        return found

    def _location(self) -> Line:
        """Reads a location. Inside Triton's own functions, the result is the line of the call."""
        token = self.take()
        if token[0] == "#":
            return self._defined(token)
        if token == "callsite":
            self.expect("(")
            inner = self._location()
            self.past("at")
            outer = self._location()
            self.past(")")
            return outer if inner == UNKNOWN or _is_of_triton(inner.file) else inner
        if token[0] == '"' and self.accept(":"):
            return _line(token[1:-1], int(self.take()))
        if token[0] == '"' and self.accept("("):
            inner = self._location()
            self.past(")")
            return inner
        return UNKNOWN

    def _defined(self, alias: str) -> Line:
        """Returns the line of an alias, which is defined elsewhere in the text."""
        if alias not in self.lines:
            here, self.at = self.at, self.aliases[alias]
            self.lines[alias] = self.line()
            self.at = here
        return self.lines[alias]


@cache
def _line(file: str, line: int) -> Line:
    """Returns a unique object per line, because the commands of a PE identify lines by object."""
    return Line(file, line)


def _is_of_triton(file: str) -> bool:
    return f"{os.sep}triton{os.sep}language{os.sep}" in file
