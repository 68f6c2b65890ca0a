"""Times of described kernels, simulated by the machine of PyTorch's device."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cubeyard import _native
from cubeyard.machine.topology import Topology
from cubeyard.torch.operators.description import Description
from cubeyard.torch.operators.spec import TensorSpec

__all__ = ["bandwidth", "pages", "time"]

KEPT = 65_536
"""Number of different kernels whose times are kept."""

Tensor = tuple[tuple[int, ...], tuple[int, ...], str, int]

Simulator = Callable[[str, list[Tensor], list[Tensor], dict[str, Any]], Mapping[str, Any]]
"""Function from a family, its operands, results and options to the fields of a `Cost`."""


@functools.lru_cache(KEPT)
def time(kernel: Description) -> Mapping[str, Any]:
    """Returns the fields of one kernel's `Cost`.

    Raises:
        InputError: The machine has no kernel for this description.
    """
    options = {name: list(value) if isinstance(value, tuple) else value for name, value in kernel.options}
    return simulator(kernel.family, _lists(kernel.operands), _lists(kernel.results), options)


def _simulate(family: str, operands: list[Tensor], results: list[Tensor], options: dict[str, Any]) -> Mapping[str, Any]:
    return _native.operator_time(_native_topology(), family, operands, results, options)


simulator: Simulator = _simulate
"""Function that simulates a kernel; tests put another one in its place."""


def _lists(specs: Iterable[TensorSpec]) -> list[Tensor]:
    return [(spec.shape, spec.strides, spec.dtype, spec.element_bytes) for spec in specs]


@functools.cache
def _native_topology() -> _native.Topology:
    return _native.torch_topology()


@functools.cache
def bandwidth() -> int:
    """Returns the bandwidth of a SIP's HBM in one direction, in bytes per second."""
    figures = Topology._of(_native_topology()).figures()
    return figures.hbm_bytes_per_s_per_pe * figures.pes_per_cube * figures.cubes_per_sip


@functools.cache
def pages() -> tuple[int, int]:
    """Returns the number of a SIP's PEs, over which pages are dealt, and the bytes of a page."""
    figures = Topology._of(_native_topology()).figures()
    return figures.pes_per_cube * figures.cubes_per_sip, int(_native_topology().values()["hbm"]["page_bytes"])
