"""The machines of a process: one for NumPy arrays, and one whose HBM is the memory of PyTorch's devices."""

from __future__ import annotations

import functools
from typing import Any

from cubeyard import _native
from cubeyard.machine.topology import Topology
from cubeyard.tensors.context import Context

__all__ = ["machine_of", "topology_of"]


def machine_of(device: int | None, data: bool) -> Context:
    """Returns the machine for launches on tensors of a PyTorch device, or on arrays. It stays for the process."""
    return _machine(device is not None, data)


def topology_of(given: Any, device: int | None) -> Any:
    """Returns the given machine. By default, launches on a PyTorch device use the machine of its environment."""
    return given if given is not None or device is None else Topology._of(_native.torch_topology())


@functools.cache
def _machine(is_shared: bool, data: bool) -> Context:
    return Context(topology_of(None, 0 if is_shared else None), data=data)
