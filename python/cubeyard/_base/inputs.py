"""Input files, given as a path or as plain data."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cubeyard import _native
from cubeyard.errors import InputError

__all__ = ["LONGEST", "name", "names", "read", "text_of"]

LONGEST = 1 << 26
"""Maximum size of a text file, in bytes."""


def name(argument: str, given: Any) -> str:
    """Checks that an argument is a string and returns it.

    Raises:
        InputError: `given` is not a string.
    """
    if not isinstance(given, str):
        raise InputError(f"{argument}={given!r}: expected a name, found {type(given).__name__}")
    return given


def names(argument: str, given: Any) -> list[str]:
    """Returns a list of names, from None, one name or several.

    >>> names("case", None), names("case", "a"), names("case", ("a", "b"))
    ([], ['a'], ['a', 'b'])

    Raises:
        InputError: `given` is neither None, a string nor an iterable of strings.
    """
    if given is None or isinstance(given, str):
        return [] if given is None else [given]
    if not isinstance(given, Iterable):
        raise InputError(f"{argument}={given!r}: expected a name or several, found {type(given).__name__}")
    return [name(argument, item) for item in given]


def text_of(argument: str, given: Any) -> tuple[str, str]:
    """Returns the name and text of a YAML input: a file's path, or a dictionary or list of the same structure.

    >>> text_of("pattern", {"transfers": [{"op": "read", "bytes": "16 KiB"}]})
    ('pattern', '{transfers: [{op: read, bytes: 16384}]}')

    Raises:
        InputError: `given` has another type, or the file cannot be read.
    """
    if isinstance(given, (str, os.PathLike)):
        return os.fspath(given), read(argument, os.fspath(given))
    if isinstance(given, (Mapping, Sequence)) and not isinstance(given, bytes):
        return argument, _native.yaml_text(given, argument)
    raise InputError(f"{argument}={given!r}: expected a path, a dictionary or a list")


def read(argument: str, path: str, hint: str = "") -> str:
    """Reads a UTF-8 text file.

    Raises:
        InputError: The file cannot be read or is too long. The message ends with `hint`.
    """
    try:
        with open(path, "rb") as file:
            text = file.read(LONGEST + 1)
        if len(text) > LONGEST:
            raise ValueError(f"expected a file of at most {LONGEST >> 20} MiB, found a larger one")
        return text.decode("utf-8")
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{argument}: {path}: {problem}{hint}") from error
