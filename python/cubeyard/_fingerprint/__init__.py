"""Fingerprints of functions: equal where calling again does the same.

A recording of a kernel is reused only where recording again would give the same program, and the record of a sweep
only where running again would give the same figures. Beside the arguments, which the callers compare, that depends on
everything that the function can reach. A fingerprint holds

- plain immutable values by value, with their types,
- functions by their code, defaults, captured variables, attributes, and the global variables that the code names,
- modules by the attributes that are read of them: those that follow their names directly or, for a module that is
  passed on, all whose names any code here reads,
- classes by their methods, descriptors and special attributes, and by all others whose names any code here reads,
- nothing else: a function that reads or writes anything mutable or unknown has no fingerprint.

`fingerprint` is for recordings. `Source` has the same for records in files: a hash that is equal in other processes. It
takes mutable values by their contents, some modules by their versions, and files whose names are written in the code
by their bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from cubeyard._fingerprint.tokens import Code
from cubeyard._fingerprint.trust import Unknown
from cubeyard._fingerprint.walk import settled

__all__ = ["Source", "fingerprint"]


def fingerprint(function: Any) -> Hashable | None:
    """Returns a value that is equal where a function would issue the same commands; None where that is unknown.

    >>> def scale(x, tl):
    ...     return factor * x
    >>> factor = 2
    >>> two = fingerprint(scale)
    >>> factor = 3
    >>> two == fingerprint(scale)
    False
    >>> factor = 2
    >>> two == fingerprint(scale)
    True
    >>> factor = [2]
    >>> fingerprint(scale) is None
    True
    """
    try:
        return settled(function, False)
    except (Unknown, RecursionError):
        return None


@dataclass(frozen=True)
class Source:
    """A function as records name it."""

    hash: str
    """16 hexadecimal digits, equal in every process where the function would do the same, if nothing is unknown."""
    unknown: str | None
    """Something that the function reads and that may change without being noticed; None if there is nothing."""

    @staticmethod
    def of(function: Any) -> Source:
        """Makes the hash of everything that a function reads; of its code alone, where something is unknown."""
        try:
            return Source(_hash(settled(function, True)), None)
        except Unknown as error:
            unknown = str(error)
        except RecursionError:
            unknown = "values that refer to each other too deeply"
        code = getattr(function, "__code__", None)
        return Source(_hash(type(function).__qualname__ if code is None else Code(code)), unknown)


def _hash(of: Hashable) -> str:
    return hashlib.sha256(repr(of).encode()).hexdigest()[:16]
