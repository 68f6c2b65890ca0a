"""Reports of PyTorch programs: time by operator, module and line, and memory over time."""

from cubeyard.torch.profiling.report import Profile
from cubeyard.torch.profiling.runs import Simulation, profile, simulate

__all__ = ["Profile", "Simulation", "profile", "simulate"]
