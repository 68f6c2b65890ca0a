"""The machine that an argument `topology` names."""

from __future__ import annotations

import os
from typing import Any

from cubeyard import _native
from cubeyard.errors import InputError

__all__ = ["resolve"]


def resolve(topology: Any) -> _native.Topology:
    """Returns a machine: the default one for None, or that of a file.

    Raises:
        InputError: The argument is something else, or the file cannot be read or is wrong.
    """
    if isinstance(topology, _native.Topology):
        return topology
    if topology is None:
        return _native.Topology.read("default", "")
    if not isinstance(topology, (str, os.PathLike)):
        raise InputError(f"topology={topology!r}: expected None or a path, found {type(topology).__name__}")
    try:
        with open(topology, encoding="utf-8") as file:
            return _native.Topology.read(os.fspath(topology), file.read())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"topology={topology!r}: cannot be read: {error}") from error
