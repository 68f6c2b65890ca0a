"""What a machine has performed, as a report with a trace."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from cubeyard import _native
from cubeyard._base.results import Result, write

__all__ = ["Record", "Report", "Span"]

# Track, start and end in picoseconds, name, and details of a slice of a trace.
_Slice = tuple[str, int, int, str, Sequence[tuple[str, int | str]]]

WIDTH, LEFT, ROW, GAP = 1000, 150, 22, 6
COLOURS = {"compute": "#0072b2", "wait": "#d8dee4"}
COMMUNICATION = "#e69f00"


@dataclass(frozen=True)
class Record:
    """A collective that was performed."""

    operation: str
    """Its name, with its reduction and root."""
    ranks: tuple[int, ...]
    """Ranks of the world that took part; of a message its sender and receiver."""
    dtype: str
    bytes: int
    """Size as `cubeyard ccl` counts it: the larger of a rank's input and output."""
    algorithm: str
    start_ns: float
    """Simulated time at which the last rank was ready."""
    time_ns: float
    """Duration, from the start of the first PE to the end of the last."""
    bus_gbs: float
    """Bus bandwidth in GB/s, as nccl-tests define it."""
    group: str
    """Name of its process group."""
    at: str
    """Line of the call of its first rank."""


@dataclass(frozen=True)
class Span:
    """What a rank did, other than communicate."""

    rank: int
    name: str
    """`compute` or `wait`."""
    start_ns: float
    end_ns: float


@dataclass(frozen=True)
class Report(Result):
    """The collectives of a world by their start, and what its ranks did meanwhile."""

    calls: tuple[Record, ...]
    spans: tuple[Span, ...] = ()

    _title: ClassVar[str] = "Collectives"

    def rows(self) -> list[dict[str, Any]]:
        """Returns a row for each collective."""
        return [{**vars(call), "ranks": len(call.ranks)} for call in self.calls]

    def summary(self) -> str:
        """Returns one line: how many collectives, how long, and when the last ended."""
        total = sum(call.time_ns for call in self.calls) / 1e3
        end = max((call.start_ns + call.time_ns for call in self.calls), default=0.0) / 1e3
        moved = sum(call.bytes for call in self.calls)
        return f"{len(self.calls)} collectives, {moved} bytes, {total:.3f} µs in all; the last ended at {end:.3f} µs"

    def trace(self, path: str | os.PathLike[str]) -> Path:
        """Writes a trace that ui.perfetto.dev opens, with two tracks for each rank, and returns its path.

        It shows 1 ps as 1 ns.

        Raises:
            InputError: The file cannot be written.
        """
        return write(path, _native.trace_of_slices(list(self._slices())))

    def draw(self, start_ns: float = 0.0) -> str:
        """Returns a picture as SVG: work of each rank in blue, its waits in grey, collectives in orange.

        Args:
            start_ns: time at which the picture begins.
        """
        bars = [_Bar(f"rank {span.rank}", span.name, span.start_ns, span.end_ns) for span in self.spans]
        for call in self.calls:
            end = call.start_ns + call.time_ns
            rows = (f"rank {rank}: {call.group}" for rank in dict.fromkeys(call.ranks))
            bars += [_Bar(row, call.operation, call.start_ns, end) for row in rows]
        return _drawn(bar for bar in bars if bar.start >= start_ns)

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
        """Returns a report of plain lists, as a machine sends them: calls by their start."""
        made = tuple(Record(call[0], tuple(call[1]), *call[2:]) for call in calls)
        return cls(made, tuple(sorted((Span(*span) for span in spans), key=lambda span: (span.rank, span.start_ns))))


def _ps(ns: float) -> int:
    return round(ns * 1000)


@dataclass(frozen=True)
class _Bar:
    """A named interval in a row, in nanoseconds."""

    row: str
    name: str
    start: float
    end: float


def _drawn(bars: Iterable[_Bar]) -> str:
    """Returns the picture of intervals, with a row for each name of one."""
    bars = list(bars)
    rows = {name: place for place, name in enumerate(sorted({bar.row for bar in bars}))}
    first = min((bar.start for bar in bars), default=0.0)
    last = max((bar.end for bar in bars), default=1.0)
    scale = (WIDTH - LEFT) / max(last - first, 1e-9)
    height = len(rows) * (ROW + GAP) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        'font-size="12" role="img" aria-label="What each rank did when">'
    ]
    for name, number in rows.items():
        parts.append(f'<text x="0" y="{number * (ROW + GAP) + 15}" fill="#59636e">{html.escape(name)}</text>')
    for bar in bars:
        x, width = LEFT + (bar.start - first) * scale, max((bar.end - bar.start) * scale, 0.5)
        y, colour = rows[bar.row] * (ROW + GAP), COLOURS.get(bar.name, COMMUNICATION)
        label = html.escape(f"{bar.name}, {bar.start:g} to {bar.end:g} ns")
        place = f'x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW}"'
        parts.append(f'<rect {place} fill="{colour}"><title>{label}</title></rect>')
    base = height - 8
    parts.append(f'<text x="{LEFT}" y="{base}" fill="#59636e">{first / 1000:g} µs</text>')
    parts.append(f'<text x="{WIDTH}" y="{base}" text-anchor="end" fill="#59636e">{last / 1000:g} µs</text>')
    return "\n".join([*parts, "</svg>\n"])
