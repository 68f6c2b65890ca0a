"""Report of the collectives that a machine performed, with a trace."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from cubeyard import _native
from cubeyard._base.results import Result, write
from cubeyard.collectives.world.drawing import COMMUNICATION, WAIT, WORK, Bar, drawn

__all__ = ["Record", "Report", "Span"]

# Slice of a trace: track, start and end in picoseconds, name, and details.
_Slice = tuple[str, int, int, str, Sequence[tuple[str, int | str]]]

COLOURS = {"compute": WORK, "wait": WAIT}


@dataclass(frozen=True)
class Record:
    """Collective that the machine performed."""

    operation: str
    """Name of the operation, with its reduction operator and root."""
    ranks: tuple[int, ...]
    """Participating ranks of the world. For a message, the sender and the receiver."""
    dtype: str
    bytes: int
    """Larger of a rank's input and output sizes, as in `cubeyard ccl`."""
    algorithm: str
    start_ns: float
    """Simulated time at which the last rank was ready."""
    time_ns: float
    """Duration from the first PE's start to the last PE's end."""
    bus_gbs: float
    """Bus bandwidth in GB/s, as defined by nccl-tests."""
    group: str
    """Name of the process group."""
    at: str
    """Source line of the first rank's call."""


@dataclass(frozen=True)
class Span:
    """Activity of a rank other than communication."""

    rank: int
    name: str
    """`compute` or `wait`."""
    start_ns: float
    end_ns: float


@dataclass(frozen=True)
class Report(Result):
    """Collectives of a world in order of their start, and the other activities of its ranks."""

    calls: tuple[Record, ...]
    spans: tuple[Span, ...] = ()

    _title: ClassVar[str] = "Collectives"

    def rows(self) -> list[dict[str, Any]]:
        """Returns one row per collective."""
        return [{**vars(call), "ranks": len(call.ranks)} for call in self.calls]

    def summary(self) -> str:
        """Returns a one-line summary: number of collectives, bytes, total time, and end of the last collective."""
        total = sum(call.time_ns for call in self.calls) / 1e3
        end = max((call.start_ns + call.time_ns for call in self.calls), default=0.0) / 1e3
        moved = sum(call.bytes for call in self.calls)
        return f"{len(self.calls)} collectives, {moved} bytes, {total:.3f} µs in all; the last ended at {end:.3f} µs"

    def trace(self, path: str | os.PathLike[str]) -> Path:
        """Writes a Perfetto trace with two tracks per rank, and returns its path.

        In ui.perfetto.dev, 1 ns stands for 1 ps.

        Raises:
            InputError: The file cannot be written.
        """
        return write(path, _native.trace_of_slices(list(self._slices())))

    def draw(self, start_ns: float = 0.0) -> str:
        """Returns an SVG drawing of each rank's work in blue, waits in grey, and collectives in pink.

        Args:
            start_ns: start time of the drawing. Earlier intervals are omitted.
        """
        bars = [_bar(f"rank {span.rank}", span.name, span.start_ns, span.end_ns) for span in self.spans]
        for call in self.calls:
            end = call.start_ns + call.time_ns
            rows = (f"rank {rank}: {call.group}" for rank in dict.fromkeys(call.ranks))
            bars += [_bar(row, call.operation, call.start_ns, end) for row in rows]
        return drawn((bar for bar in bars if bar.start >= start_ns), "What each rank did when")

    def _slices(self) -> Iterator[_Slice]:
        for span in self.spans:
            yield f"rank {span.rank}", _ps(span.start_ns), _ps(span.end_ns), span.name, ()
        for call in self.calls:
            details = (("bytes", call.bytes), ("type", call.dtype), ("algorithm", call.algorithm), ("at", call.at))
            end = _ps(call.start_ns) + _ps(call.time_ns)
            for rank in dict.fromkeys(call.ranks):
                yield f"rank {rank}: {call.group}", _ps(call.start_ns), end, call.operation, details

    def _draw(self, axes: Any) -> None:
        axes.barh([call.operation for call in self.calls], [call.time_ns for call in self.calls])
        axes.set_xlabel("ns")

    @classmethod
    def of(cls, calls: Iterable[Any], spans: Iterable[Any]) -> Report:
        """Builds a report from the plain lists that a machine sends, with the calls ordered by their start."""
        made = tuple(Record(call[0], tuple(call[1]), *call[2:]) for call in calls)
        return cls(made, tuple(sorted((Span(*span) for span in spans), key=lambda span: (span.rank, span.start_ns))))


def _ps(ns: float) -> int:
    return round(ns * 1000)


def _bar(row: str, name: str, start: float, end: float) -> Bar:
    return Bar(row, name, start, end, COLOURS.get(name, COMMUNICATION))
