"""Commands of a PE that are attributed to lines of the author's file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import FunctionType
from typing import Any

__all__ = ["Voice", "located", "moved"]

Call = Callable[..., Any]
"""A function that calls another with its arguments, from a line of the author's file."""


def _called(function: Any, *arguments: Any) -> Any: return function(*arguments)  # noqa: E704  # fmt: skip


def moved(function: Any, file: str, line: int) -> FunctionType:
    """Returns a copy of a function that is defined at a line of another file, for tracebacks and commands."""
    code = function.__code__.replace(co_filename=file, co_firstlineno=max(line, 1))
    made = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


@cache
def located(file: str, line: int) -> Call:
    """Returns a function that calls another from a line of a file; the machine names the innermost line of Python."""
    return moved(_called, file, line)


class Voice:
    """`tl` of a PE, with the line of the author's file that its commands belong to."""

    __slots__ = ("call", "tl")

    def __init__(self, tl: Any, call: Call) -> None:
        self.tl, self.call = tl, call

    @contextmanager
    def at(self, call: Call) -> Iterator[None]:
        """Attributes commands to another line for a while."""
        before, self.call = self.call, call
        try:
            yield
        finally:
            self.call = before

    def __getattr__(self, name: str) -> Any:
        function, call = getattr(self.tl, name), self.call
        return lambda *arguments: call(function, *arguments)
