"""Fingerprints of functions: equal fingerprints imply equal behaviour.

A recording of a kernel is reused only if recording again would produce the same program. The record of a sweep is
reused only if another run would produce the same figures. Both depend on the arguments, which the callers compare, and on
everything that the function can reach. A fingerprint contains

- plain immutable values, with their types,
- functions: their code, defaults, captured variables, attributes, and the global variables that the code names,
- modules: the attributes that the code reads. If a module is passed to other code, all of its attributes count whose
  names any visited code reads,
- classes: their methods, descriptors and special attributes, and all other attributes whose names any visited code reads.

A function that reads or writes any other value, mutable or unknown, has no fingerprint.

`fingerprint` serves recordings. `Source` serves records in files: its hash is the same in every process. `Source` also
includes the contents of mutable values, the versions of some modules, and the bytes of files that string constants name.
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
    """Returns the fingerprint of a function, or None if its behaviour may change unnoticed.

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
    """Identity of a function in the records of a sweep."""

    hash: str
    """16 hexadecimal digits. If nothing is unknown, equal hashes imply equal behaviour, in any process."""
    unknown: str | None
    """Name of something that the function reads and that may change unnoticed, or None."""

    @staticmethod
    def of(function: Any) -> Source:
        """Hashes everything that a function reads. If a part is unknown, hashes only the code."""
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
