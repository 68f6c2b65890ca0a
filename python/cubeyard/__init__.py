"""The memory system of an AI accelerator: an allocator to ship, and a machine to simulate."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cubeyard import errors, memory, model, replay
    from cubeyard._bench import Bench, bench
    from cubeyard._compare import RunComparison, compare
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
    "RunComparison",
    "Sweep",
    "Tensor",
    "Topology",
    "Validation",
    "__version__",
    "bench",
    "benches",
    "compare",
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

if not TYPE_CHECKING:
    # Names are imported at their first use: `import torch` looks into this package for its device `ahbm`, and must not
    # wait for the simulator.
    _HOMES = {
        "_bench": ("Bench", "bench"),
        "_compare": ("RunComparison", "compare"),
        "_native": ("__version__",),
        "_probe": ("PatternResult", "ProbeResult", "probe", "probe_cases"),
        "_ray": ("RayExecutor",),
        "_run": ("Record", "Run", "benches", "run"),
        "_sweep": ("Sweep", "sweep"),
        "_validate": ("Validation", "validate"),
        "context": ("Context",),
        "errors": ("CubeyardError",),
        "kernel": ("Kernel", "LaunchReport", "jit"),
        "machine": ("Machine",),
        "placement": ("Placement",),
        "tensor": ("Tensor",),
        "topology": ("Topology",),
    }
    _HOME = {name: home for home, names in _HOMES.items() for name in names}
    _MODULES = frozenset({*_HOMES, "memory", "model", "replay", "reports", "triton"})

    def __getattr__(name):
        from importlib import import_module

        if name in _MODULES:
            return import_module(f"cubeyard.{name}")
        if name not in _HOME:
            raise AttributeError(f"module 'cubeyard' has no attribute {name!r}")
        value = getattr(import_module(f"cubeyard.{_HOME[name]}"), name)
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*globals(), *__all__})
