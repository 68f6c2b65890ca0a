"""The memory system of an AI accelerator: an allocator to ship, and a machine to simulate."""

from __future__ import annotations

from cubeyard import errors
from cubeyard._native import __version__
from cubeyard.context import Context
from cubeyard.errors import CubeyardError
from cubeyard.kernel import Kernel, LaunchReport, jit
from cubeyard.placement import Placement
from cubeyard.tensor import Tensor

__all__ = [
    "Context",
    "CubeyardError",
    "Kernel",
    "LaunchReport",
    "Placement",
    "Tensor",
    "__version__",
    "errors",
    "jit",
]
