"""Fingerprints of mutable values and of files."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Hashable
from functools import lru_cache
from typing import Any, Protocol

from cubeyard._fingerprint.trust import Unknown

__all__ = ["file_of", "mutable"]

LARGEST = 1 << 26
"""Maximum size of a file to hash, in bytes."""


class Walk(Protocol):
    """Walk that computes the fingerprints of the parts of a value."""

    def value(self, value: Any) -> Hashable:
        """Returns the fingerprint of a value."""
        ...

    def all(self, values: Any) -> list[Hashable]:
        """Returns the fingerprints of several values."""
        ...

    def named(self, values: dict[str, Any]) -> list[Hashable]:
        """Returns (name, fingerprint) of each value."""
        ...


def mutable(walk: Walk, value: Any) -> Hashable:
    """Returns the fingerprint of the contents of a container, an array or an object.

    Raises:
        Unknown: Part of the contents is not accessible.
    """
    kind = type(value)
    if kind is list:
        return ("list", *walk.all(value))
    if kind is dict:
        return ("dict", *((walk.value(key), walk.value(held)) for key, held in value.items()))
    if kind is set:
        return ("set", *sorted(walk.all(value), key=repr))
    if kind is bytearray:
        return ("bytearray", bytes(value))
    if _is_array(value):
        return ("array", value.dtype.str, value.shape, hashlib.sha256(value.tobytes()).hexdigest())
    if _is_plain(kind):
        return ("object", walk.value(kind), *walk.named(vars(value)))
    raise Unknown(f"an object of class {kind.__qualname__}")


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray and not value.dtype.hasobject


def _is_plain(kind: type) -> bool:
    """Returns whether instances of a class keep all their state in `__dict__`."""
    own = [vars(scope) for scope in kind.__mro__ if scope is not object]
    return all("__dict__" in held or "__slots__" not in held for held in own) and kind.__basicsize__ == _Object.__basicsize__


class _Object:
    """Object with a `__dict__` and no other state."""


def file_of(text: str) -> str | None:
    """Returns the hash of the file that a string names as `FILE` or `FILE::NAME`, or None if no such file exists.

    Raises:
        Unknown: The file is too large, or cannot be read.
    """
    path = text.partition("::")[0]
    if not path or "\0" in path or len(path) > 1024 or not os.path.isfile(path):
        return None
    known = os.stat(path)
    if known.st_size > LARGEST:
        raise Unknown(f"{path}, a file of more than {LARGEST >> 20} MiB")
    return _hash(os.path.abspath(path), known.st_mtime_ns, known.st_size)


@lru_cache(maxsize=256)
def _hash(path: str, _changed: int, _size: int) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read(LARGEST + 1)).hexdigest()
    except OSError as error:
        raise Unknown(f"{path}: {error.strerror}") from error
