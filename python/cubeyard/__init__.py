"""The memory system of an AI accelerator: an allocator to ship, and a machine to simulate."""

from __future__ import annotations

from cubeyard import errors, memory, model, replay
from cubeyard._bench import Bench, bench
from cubeyard._native import __version__
from cubeyard._probe import PatternResult, ProbeResult, probe, probe_cases
from cubeyard._ray import RayExecutor
from cubeyard._run import Record, Run, benches, run
from cubeyard._sweep import Sweep, sweep
from cubeyard._validate import Validation, validate
from cubeyard.context import Context
from cubeyard.errors import CubeyardError
from cubeyard.kernel import Kernel, LaunchReport, jit
from cubeyard.machine import Machine
from cubeyard.placement import Placement
from cubeyard.tensor import Tensor
from cubeyard.topology import Topology

__all__ = [
    "Bench",
    "Context",
    "CubeyardError",
    "Kernel",
    "LaunchReport",
    "Machine",
    "PatternResult",
    "Placement",
    "ProbeResult",
    "RayExecutor",
    "Record",
    "Run",
    "Sweep",
    "Tensor",
    "Topology",
    "Validation",
    "__version__",
    "bench",
    "benches",
    "errors",
    "jit",
    "memory",
    "model",
    "probe",
    "probe_cases",
    "replay",
    "run",
    "sweep",
    "validate",
]
