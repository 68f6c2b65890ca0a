"""Timelines: what the devices did in simulated time, and how many bytes were allocated meanwhile."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cubeyard.torch import _costs, _kineto, _loader

__all__ = ["Timeline", "TimelineSpan", "note", "note_collective", "record_timeline"]

Pe = tuple[int, int, int]


@dataclass(frozen=True)
class TimelineSpan:
    """Operator, copy, launch, sleep or collective on a timeline."""

    kind: str
    """`operator`, `copy`, `launch`, `sleep` or `collective`."""
    name: str
    """Name of the operator, the kernel or the collective, or the kind of copy."""
    track: str
    """Stream of a device, or rank and process group of a collective."""
    begin_ps: int
    """Begin in picoseconds of simulated time."""
    end_ps: int
    """End in picoseconds of simulated time."""
    pes: tuple[Pe, ...] = ()
    """PEs of an operator or launch: the numbers of SIP, cube and PE."""
    source: str = ""
    """Source of an operator's time: the kernel that was simulated, or `estimate`."""
    lines: tuple[str, ...] = ()
    """Lines of the user's program, as `file:line`, that a launch of a compiled graph stands for."""

    @property
    def begin_ns(self) -> float:
        """Begin in nanoseconds."""
        return self.begin_ps / 1000

    @property
    def end_ns(self) -> float:
        """End in nanoseconds."""
        return self.end_ps / 1000

    @property
    def duration_ns(self) -> float:
        """Duration in nanoseconds."""
        return (self.end_ps - self.begin_ps) / 1000


@dataclass
class Timeline:
    """Work of the devices within a `with torch.ahbm.record_timeline()` block."""

    spans: list[TimelineSpan] = field(default_factory=list)
    """Operators, copies, launches, sleeps and collectives in the order in which they were submitted."""
    memory: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """For each device, times in picoseconds and the allocated bytes from each time on. Complete after the block."""

    def rows(self) -> list[dict[str, Any]]:
        """Returns one row per span, in the order of their begins."""
        spans = sorted(self.spans, key=lambda span: (span.begin_ps, span.track))
        return [
            {"track": span.track, "kind": span.kind, "name": span.name, "begin_ns": span.begin_ns, "end_ns": span.end_ns,
             "pes": len(span.pes), "lines": ", ".join(span.lines)}
            for span in spans
        ]  # fmt: skip

    def trace(self, path: str | os.PathLike[str]) -> Path:
        """Writes a Perfetto trace with a track per stream and a counter of allocated bytes per device. Returns its path.

        In ui.perfetto.dev, 1 ns stands for 1 ps.

        Raises:
            InputError: The file cannot be written.
        """
        from cubeyard import _native
        from cubeyard._base.results import write

        slices = [(span.track, span.begin_ps, span.end_ps, span.name, _details(span)) for span in self.spans]
        counters = [(f"{_loader.name}:{device} allocated bytes", values) for device, values in self.memory.items()]
        return write(path, _native.trace_of_slices(slices, counters))

    def draw(self) -> str:
        """Returns an SVG drawing: operators and launches in blue, sleeps in grey, copies and collectives in pink, bytes in green."""
        from cubeyard.collectives.world.drawing import COMMUNICATION, WAIT, WORK, Bar, drawn

        colours = {"operator": WORK, "launch": WORK, "sleep": WAIT, "copy": COMMUNICATION, "collective": COMMUNICATION}
        bars = [Bar(span.track, span.name, span.begin_ns, span.end_ns, colours[span.kind]) for span in self.spans]
        return drawn([*bars, *self._memory_bars()], "Work of the devices and their allocated bytes over simulated time")

    def _memory_bars(self) -> Iterator[Any]:
        """Yields the allocated bytes of devices that have had any, as shares of the most of each."""
        from cubeyard.collectives.world.drawing import MEMORY, Bar

        end = max([span.end_ps for span in self.spans] + [values[-1][0] for values in self.memory.values()], default=0)
        for device, values in self.memory.items():
            most, until = max(size for _, size in values), [time for time, _ in values[1:]] + [end]
            for (time, size), last in zip(values, until, strict=True):
                if size:
                    yield Bar(f"{_loader.name}:{device} memory", f"{size} bytes", time / 1000, last / 1000, MEMORY, size / most)


_active: list[Timeline] = []
_lock = threading.Lock()


@contextmanager
def record_timeline() -> Iterator[Timeline]:
    """Records the work of this process on its devices, and the allocated bytes of each device.

    A block is allocated, and freed, when its stream has finished the work submitted before. Recording changes no time.
    Trial launches of Triton's autotuner are left out.

    >>> import torch
    >>> with torch.ahbm.record_timeline() as timeline:
    ...     torch.ahbm._sleep(100)
    >>> [(span.kind, span.duration_ns) for span in timeline.spans]
    [('sleep', 100.0)]
    """
    from cubeyard import _native
    from cubeyard.torch import _device

    _device._lazy_init()
    timeline = Timeline()
    recorders = [_native.TorchAllocatedBytes(device) for device in range(_device.device_count())]
    with _lock:
        _active.append(timeline)
    try:
        with _costs.observed(functools.partial(_note_operator, timeline)):
            yield timeline
    finally:
        with _lock:
            _active[:] = [one for one in _active if one is not timeline]
        timeline.memory = {device: recorder.end() for device, recorder in enumerate(recorders)}


def note(kind: str, name: str, device: int, stream: int, span: tuple[int, int], pes: Sequence[Pe] = ()) -> None:
    """Adds work on a stream to the active timelines and to the profiler."""
    if _active or _kineto.is_profiling():
        track = f"{_loader.name}:{device} stream {stream}"
        _add(TimelineSpan(kind, name, track, *span, tuple(pes), lines=_lines()), device, stream)


def _lines() -> tuple[str, ...]:
    """Returns the lines of the user's program for work that a compiled graph submits."""
    compiled = sys.modules.get("cubeyard.torch.inductor.lines")
    return () if compiled is None else tuple(compiled.of_launch())


def _note_operator(timeline: Timeline, number: int, device: int, stream: int, begin: int, end: int, _bytes: int) -> None:
    """Adds an operator or copy to a timeline."""
    name, spent = _costs.counted(number)
    track = f"{_loader.name}:{device} stream {stream}"
    if spent is None:
        span = TimelineSpan("copy", name, track, begin, end)
    else:
        span = TimelineSpan("operator", name, track, begin, end, _pes(device), spent.kernel or "estimate")
    with _lock:
        timeline.spans.append(span)


@functools.cache
def _pes(device: int) -> tuple[Pe, ...]:
    """Returns all PEs of a device."""
    from cubeyard import _native
    from cubeyard.machine.topology import Topology

    figures = Topology._of(_native.torch_topology()).figures()
    return tuple((device, cube, pe) for cube in range(figures.cubes_per_sip) for pe in range(figures.pes_per_cube))


def note_collective(name: str, rank: int, group: str, span: tuple[int, int], device: int = 0, operator: int = 0) -> None:
    """Adds a collective of a rank to the active timelines and to the profiler.

    Args:
        name: Name of the collective.
        rank: Number of the rank.
        group: Name of the process group.
        span: Begin and end in picoseconds.
        device: Number of the device that holds the tensors.
        operator: PyTorch's operator that called it, as `_kineto.operator_of_thread` returned.
    """
    if _active or _kineto.is_profiling():
        _add(TimelineSpan("collective", name, f"rank {rank}: {group}", *span), device, None, operator)


def _add(span: TimelineSpan, device: int, stream: int | None, operator: int = 0) -> None:
    from cubeyard import _native

    if _native.torch_is_trial():
        return
    _kineto.note(span, device, stream, operator)
    with _lock:
        for timeline in _active:
            timeline.spans.append(span)


def _details(span: TimelineSpan) -> list[tuple[str, int | str]]:
    """Returns the details of a span in a trace: its kind, source and lines, and the SIPs, cubes and PEs that it uses."""
    about: list[tuple[str, int | str]] = [("kind", span.kind)]
    about += [(key, text) for key, text in (("source", span.source), ("lines", ", ".join(span.lines))) if text]
    if not span.pes:
        return about
    parts = [("sips", {pe[0] for pe in span.pes}), ("cubes", {pe[1] for pe in span.pes}), ("pes of each cube", {pe[2] for pe in span.pes})]
    return [*about, ("pes", len(span.pes)), *((name, _ranges(numbers)) for name, numbers in parts)]


def _ranges(numbers: set[int]) -> str:
    """Returns numbers as text, with runs as ranges.

    >>> _ranges({0, 1, 2, 5})
    '0-2, 5'
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
