"""Trials of Triton's autotuner: they take no time of streams, and configurations with one effect are tried once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from cubeyard.triton._arguments import OnDevice
from cubeyard.triton._clock import device_module

if TYPE_CHECKING:
    # Triton's driver imports this module, and must not wait for the simulator.
    from cubeyard.kernels.kernel import LaunchReport
    from cubeyard.triton._launch import Launch

__all__ = ["attempted", "tuned", "without_charge"]

_tuning: ContextVar[tuple[str, dict[Hashable, LaunchReport]] | None] = ContextVar("tuning", default=None)
"""Name of the kernel whose configurations are being tried, and its launches so far."""


def tuned(run: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps the launch of a tuned kernel, which tries its configurations if it has not seen such arguments."""

    @functools.wraps(run)
    def launched(tuner: Any, *arguments: Any, **named: Any) -> Any:
        before, tuner._ahbm_trials = getattr(tuner, "_ahbm_trials", None), {}
        try:
            return run(tuner, *arguments, **named)
        finally:
            tuner._ahbm_trials = before

    return launched


def without_charge(benchmark: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function that tries a kernel. The clocks forget the time of its launches when it returns."""

    @functools.wraps(benchmark)
    def tried(tuner: Any, *arguments: Any, **named: Any) -> Any:
        if getattr(tuner, "_ahbm_trials", None) is None:
            # If the first launch of the process is a tuned one, it makes the driver within `run`, which is not wrapped yet.
            tuner._ahbm_trials = {}
        token = _tuning.set((tuner.base_fn.__name__, tuner._ahbm_trials))
        try:
            with _trial():
                return benchmark(tuner, *arguments, **named)
        finally:
            _tuning.reset(token)

    tried.__cubeyard__ = True  # type: ignore[attr-defined]
    return tried


def attempted(launch: Launch, run: Callable[[], LaunchReport]) -> LaunchReport:
    """Runs a launch. A trial that equals an earlier one of the same tuning has its report, and is not run again.

    Such trials differ in `num_warps`, `num_stages` and other options that have no effect here. Their kernels, numbers and
    addresses are equal, so their time is. Kernels whose time depends on data are always run.
    """
    tuning = _tuning.get()
    if tuning is None or launch.program.name != tuning[0] or launch.program.facts.live:
        return run()
    if not all(isinstance(one, OnDevice) for one in launch.tensors):
        return run()
    addresses = tuple(one.address for one in launch.tensors)
    key = (launch.program, launch.grid, repr(launch.values), repr(launch.described), addresses)
    if key not in tuning[1]:
        tuning[1][key] = run()
    return tuning[1][key]


@contextmanager
def _trial() -> Iterator[None]:
    if device_module() is None:
        yield
        return
    from cubeyard import _native

    _native.torch_begin_trial()
    try:
        yield
    finally:
        _native.torch_end_trial()
