"""Memory system of an AI accelerator: a production allocator and a machine simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cubeyard import errors, memory, model, replay
    from cubeyard._native import __version__
    from cubeyard.collectives.sweep import CollectiveSweep, ccl
    from cubeyard.errors import CubeyardError
    from cubeyard.kernels.kernel import Kernel, LaunchReport, jit
    from cubeyard.machine.probe import PatternResult, ProbeResult, probe, probe_cases
    from cubeyard.machine.topology import Topology
    from cubeyard.machine.validate import Validation, validate
    from cubeyard.serving import Service, serve
    from cubeyard.study.bench import Bench, bench
    from cubeyard.study.compare import RunComparison, compare
    from cubeyard.study.levers import Lever, Levers, levers
    from cubeyard.study.machine import Machine
    from cubeyard.study.run import Record, Run, benches, run
    from cubeyard.study.sweep import Sweep, sweep
    from cubeyard.study.workers import RayExecutor
    from cubeyard.tensors.context import Context
    from cubeyard.tensors.placement import Placement
    from cubeyard.tensors.tensor import Tensor

__all__ = [
    "Bench",
    "CollectiveSweep",
    "Context",
    "CubeyardError",
    "Kernel",
    "LaunchReport",
    "Lever",
    "Levers",
    "Machine",
    "PatternResult",
    "Placement",
    "ProbeResult",
    "RayExecutor",
    "Record",
    "Run",
    "RunComparison",
    "Service",
    "Sweep",
    "Tensor",
    "Topology",
    "Validation",
    "__version__",
    "bench",
    "benches",
    "ccl",
    "compare",
    "errors",
    "jit",
    "levers",
    "memory",
    "model",
    "probe",
    "probe_cases",
    "replay",
    "run",
    "serve",
    "sweep",
    "validate",
]

if not TYPE_CHECKING:
    # Names are imported on first use: `import torch` loads this package for its device `ahbm`, and must not wait for the
    # simulator.
    _HOMES = {
        "_native": ("__version__",),
        "collectives.sweep": ("CollectiveSweep", "ccl"),
        "errors": ("CubeyardError",),
        "kernels.kernel": ("Kernel", "LaunchReport", "jit"),
        "machine.probe": ("PatternResult", "ProbeResult", "probe", "probe_cases"),
        "machine.topology": ("Topology",),
        "machine.validate": ("Validation", "validate"),
        "serving": ("Service", "serve"),
        "study.bench": ("Bench", "bench"),
        "study.compare": ("RunComparison", "compare"),
        "study.levers": ("Lever", "Levers", "levers"),
        "study.machine": ("Machine",),
        "study.run": ("Record", "Run", "benches", "run"),
        "study.sweep": ("Sweep", "sweep"),
        "study.workers": ("RayExecutor",),
        "tensors.context": ("Context",),
        "tensors.placement": ("Placement",),
        "tensors.tensor": ("Tensor",),
    }
    _HOME = {name: home for home, names in _HOMES.items() for name in names}
    _FLOORS = frozenset(home.partition(".")[0] for home in _HOMES)
    _MODULES = _FLOORS | {"channels", "kernel", "memory", "model", "replay", "reports", "triton"}

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
