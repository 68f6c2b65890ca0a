"""The machine that an argument `topology` names, for native calls."""

from __future__ import annotations

from typing import Any

from cubeyard import _native
from cubeyard.machine import topology as topologies

__all__ = ["resolve"]


def resolve(topology: Any) -> _native.Topology:
    """Returns the native machine of anything that stands for one.

    Raises:
        InputError: The argument is something else, or the file cannot be read or is wrong.
    """
    if isinstance(topology, _native.Topology):
        return topology
    return topologies.resolve(topology)._native
