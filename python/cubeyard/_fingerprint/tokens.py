"""Fingerprint parts for objects and code. Their `repr` is the same in every process."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any

__all__ = ["Code", "Same"]


class Same:
    """Object compared by identity, with a `repr` that is the same in every process."""

    __slots__ = ("of", "text")

    def __init__(self, of: Any, text: str) -> None:
        self.of, self.text = of, text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.of is other.of

    def __hash__(self) -> int:
        return id(self.of)

    def __repr__(self) -> str:
        return f"<{self.text}>"


class Code:
    """Code of a function. Its `repr` omits line numbers, so edits elsewhere in the file do not change it."""

    __slots__ = ("of",)

    def __init__(self, of: types.CodeType) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Code) and self.of == other.of

    def __hash__(self) -> int:
        return hash(self.of)

    def __repr__(self) -> str:
        code = self.of
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        return repr((code.co_code, counts, names, code.co_exceptiontable, _constants(code.co_consts)))


def _constants(constants: Iterable[Any]) -> list[Any]:
    """Converts code constants to values whose `repr` is the same in every process."""
    return [
        Code(value) if isinstance(value, types.CodeType)
        else sorted(_constants(value), key=repr) if isinstance(value, frozenset)
        else tuple(_constants(value)) if isinstance(value, tuple)
        else value
        for value in constants
    ]
