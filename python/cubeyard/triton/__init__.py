"""Triton: kernels as their authors wrote them, on the simulated machine."""

from __future__ import annotations

from cubeyard.triton._arguments import Placed, place
from cubeyard.triton._record import Recording, TritonRun, record

__all__ = ["Placed", "Recording", "TritonRun", "place", "record"]
