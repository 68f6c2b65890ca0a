"""Names that a function reads and writes, collected from its bytecode."""

from __future__ import annotations

import dis
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

__all__ = ["WHOLE", "Reads", "Use", "reads"]


@dataclass(frozen=True)
class Use:
    """Part of a variable that code reads: certain attributes, or the whole value."""

    whole: bool = False
    """Whether the value itself is passed on, e.g. to a function that may read any attribute."""
    attributes: tuple[tuple[str, Use], ...] = ()
    """Attributes that are read directly, with their own uses."""

    def __or__(self, other: Use) -> Use:
        both = dict(self.attributes)
        for name, use in other.attributes:
            both[name] = both[name] | use if name in both else use
        return Use(self.whole or other.whole, tuple(sorted(both.items(), key=lambda item: item[0])))


WHOLE = Use(whole=True)


@dataclass
class Reads:
    """Names that a function and its nested functions use."""

    globals: dict[str, Use] = field(default_factory=dict)
    """Global variables and builtins."""
    captured: dict[str, Use] = field(default_factory=dict)
    """Variables of enclosing functions."""
    imports: dict[str, Use] = field(default_factory=dict)
    """Imported modules by full name. A relative import has an empty name."""
    attributes: set[str] = field(default_factory=set)
    """Names of all attributes that are read, of any object."""
    stores: set[str] = field(default_factory=set)
    """Names of all attributes that are written or deleted, of any object."""
    writes: str | None = None
    """Name of an outer variable or attribute that the function writes, or None."""
    texts: set[str] = field(default_factory=set)
    """String constants in the code."""


@lru_cache(maxsize=1024)
def reads(code: types.CodeType) -> Reads:
    """Returns the names that a code object and its nested code objects use."""
    found = Reads()
    _collect(code, frozenset(code.co_freevars), found)
    return found


_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_CAPTURED = ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_STORES = ("STORE_ATTR", "DELETE_ATTR")
_WRITES = ("STORE_GLOBAL", "DELETE_GLOBAL")
_WRITES_CAPTURED = ("STORE_DEREF", "DELETE_DEREF")


def _collect(code: types.CodeType, outer: frozenset[str], found: Reads) -> None:
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    for at, step in enumerate(steps):
        name = step.argval
        if step.opname in _GLOBALS:
            _add(found.globals, name, _use(steps, at + 1, found))
        elif step.opname in _CAPTURED:
            if name in outer:
                _add(found.captured, name, _use(steps, at + 1, found))
        elif step.opname in (*_ATTRIBUTES, "LOAD_SUPER_ATTR", "IMPORT_FROM"):
            found.attributes.add(name)
        elif step.opname in _STORES:
            found.stores.add(name)
        elif step.opname in _WRITES or (step.opname in _WRITES_CAPTURED and name in outer):
            found.writes = name
        elif step.opname == "IMPORT_NAME":
            _import(steps, at, found)
        elif step.opname == "MATCH_CLASS":
            found.attributes |= set(_names_in_patterns(code))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _collect(constant, outer, found)
        elif isinstance(constant, str):
            found.texts.add(constant)


def _add(uses: dict[str, Use], name: str, use: Use) -> None:
    uses[name] = uses[name] | use if name in uses else use


def _use(steps: list[dis.Instruction], at: int, found: Reads) -> Use:
    """Returns the use of the value that the instruction before `at` loaded."""
    step = steps[at]
    if step.opname in _ATTRIBUTES:
        return Use(attributes=((step.argval, _use(steps, at + 1, found)),))
    if step.opname in _STORES:
        found.writes = step.argval
    return WHOLE


def _import(steps: list[dis.Instruction], at: int, found: Reads) -> None:
    """Records an import: the whole module, or the names after `from … import`."""
    name = steps[at].argval
    if steps[at - 2].argval != 0:
        name = ""
    taken = tuple((taken, WHOLE) for taken in _taken(steps, at + 1))
    _add(found.imports, name, Use(attributes=tuple(sorted(taken))) if taken else WHOLE)
    if not taken and "." in name:
        _add(found.imports, name.partition(".")[0], WHOLE)


def _taken(steps: list[dis.Instruction], at: int) -> Iterator[str]:
    while steps[at].opname == "IMPORT_FROM":
        yield steps[at].argval
        at += 2


def _names_in_patterns(code: types.CodeType) -> Iterator[str]:
    """Yields attribute names from class patterns such as `Point(x=0)`, which the bytecode stores in constant tuples."""
    for constant in code.co_consts:
        if isinstance(constant, tuple):
            yield from (name for name in constant if isinstance(name, str))
