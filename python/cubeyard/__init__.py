"""The memory system of an AI accelerator: an allocator to ship, and a machine to simulate."""

from __future__ import annotations

from cubeyard import errors
from cubeyard._native import __version__
from cubeyard.errors import CubeyardError

__all__ = ["CubeyardError", "__version__", "errors"]
