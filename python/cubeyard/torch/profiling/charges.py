"""Time of operators and copies of tensors without data, by the rules of those with data (csrc/timing.cpp, crates/torch/src/copies.rs)."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from cubeyard import _native
from cubeyard.machine.topology import Topology
from cubeyard.torch import _loader
from cubeyard.torch._costs import COPIES
from cubeyard.torch._timeline import TimelineSpan
from cubeyard.torch.operators import Cost

__all__ = ["Links", "copy_cost", "launched", "operators_take_time"]


@contextmanager
def operators_take_time() -> Iterator[None]:
    """Lets operators take simulated time in the block, also if CUBEYARD_TIME is off."""
    former = _native.torch_is_timed()
    _native.torch_set_timed(True)
    try:
        yield
    finally:
        _native.torch_set_timed(former)


def launched(device: int, name: str, picoseconds: int) -> TimelineSpan:
    """Adds an operator to the current stream, on all PEs of the device. Returns its span."""
    stream = _stream(device)
    span = _native.torch_launch(device, stream, _pes(device), picoseconds)
    return TimelineSpan("operator", name, _track(device, stream), *span)


def copy_cost(moved: int, picoseconds: int) -> Cost:
    """Returns the cost of a copy: nothing is faster than its bytes over the link."""
    return Cost(picoseconds, "pcie", moved, bound_ps=picoseconds)


class Links:
    """PCIe links of the SIPs, each with the times up to which its two directions are busy."""

    def __init__(self) -> None:
        self._busy: dict[tuple[int, str], int] = {}

    def copy(self, source: torch.Tensor, target: torch.Tensor, waits: bool) -> tuple[TimelineSpan, int] | None:
        """Adds a copy to the current streams of its devices. Returns its span and bytes; None for a copy within a device.

        Args:
            source: The tensor that is read.
            target: The tensor that is written.
            waits: Whether the host waits for a copy to or from it.
        """
        if source.device == target.device:
            return None
        ends = [(tensor.device.index or 0, way) for tensor, way in ((source, "out"), (target, "in")) if _is_on_device(tensor)]
        on_device = source if _is_on_device(source) else target
        moved = on_device.numel() * on_device.element_size()
        span = self._added(ends, moved)
        device = ends[-1][0]
        if waits and len(ends) == 1:
            _native.torch_wait(_native.torch_stream_time(device, _stream(device)))
        number = 2 if len(ends) == 2 else int(ends[0][1] == "out")
        return TimelineSpan("copy", COPIES[number], _track(device, _stream(device)), *span), moved

    def _added(self, ends: list[tuple[int, str]], moved: int) -> tuple[int, int]:
        device = ends[-1][0]
        stream = _stream(device)
        for other, _ in ends[:-1]:
            _native.torch_stream_wait(device, stream, _native.torch_stream_time(other, _stream(other)))
        _native.torch_stream_wait(device, stream, max(self._busy.get(end, 0) for end in ends))
        span = _native.torch_launch(device, stream, [], -(-moved * 10**12 // _figures().pcie_bytes_per_s_per_sip))
        for end in ends:
            self._busy[end] = span[1]
            _native.torch_stream_wait(end[0], _stream(end[0]), span[1])
        return span


def _is_on_device(tensor: torch.Tensor) -> bool:
    return bool(tensor.device.type == _loader.name)


def _stream(device: int) -> int:
    return int(torch._C._accelerator_getStream(device).stream_id)


def _track(device: int, stream: int) -> str:
    return f"{_loader.name}:{device} stream {stream}"


@functools.cache
def _figures() -> Any:
    return Topology._of(_native.torch_topology()).figures()


@functools.cache
def _pes(device: int) -> list[tuple[int, int, int]]:
    """Returns the numbers of the PEs of a device: SIP, cube and PE."""
    figures = _figures()
    return [(device, cube, pe) for cube in range(figures.cubes_per_sip) for pe in range(figures.pes_per_cube)]
