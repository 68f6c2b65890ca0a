"""Drawings of intervals in simulated time."""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

__all__ = ["COMMUNICATION", "MEMORY", "WAIT", "WORK", "Bar", "drawn"]

WIDTH, LEFT, ROW, GAP = 1000, 150, 22, 6
NARROW, TOUCHING = 5.0, 0.25
"""Width below which bars are joined with their neighbours, and the largest gap between these, in units of the drawing."""
WORK, WAIT, COMMUNICATION, MEMORY = "#0072b2", "#c9d1d9", "#cc79a7", "#009e73"
"""Colours of work, waits, communication and memory; waits and messages have theirs on the pages of runs, too."""


@dataclass(frozen=True)
class Bar:
    """Named interval in one row of a drawing, in nanoseconds."""

    row: str
    name: str
    start: float
    end: float
    colour: str
    height: float = 1.0
    """Share of the row's height."""


def drawn(bars: Iterable[Bar], about: str) -> str:
    """Draws intervals as SVG, one row per row name. Neighbours that are too narrow to be told apart are one rectangle.

    Args:
        bars: the intervals.
        about: description of the drawing for readers who cannot see it.
    """
    bars = list(bars)
    rows = {name: place for place, name in enumerate(sorted({bar.row for bar in bars}))}
    first = min((bar.start for bar in bars), default=0.0)
    last = max((bar.end for bar in bars), default=1.0)
    scale = (WIDTH - LEFT) / max(last - first, 1e-9)
    height = len(rows) * (ROW + GAP) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="{html.escape(about)}">'
    ]
    for name, number in rows.items():
        parts.append(f'<text x="0" y="{number * (ROW + GAP) + 15}" fill="#59636e">{html.escape(name)}</text>')
    parts += [_rectangle(bar, rows[bar.row] * (ROW + GAP), first, scale) for bar in _joined(bars, scale)]
    base = height - 8
    parts.append(f'<text x="{LEFT}" y="{base}" fill="#59636e">{first / 1000:g} µs</text>')
    parts.append(f'<text x="{WIDTH}" y="{base}" text-anchor="end" fill="#59636e">{last / 1000:g} µs</text>')
    return "\n".join([*parts, "</svg>\n"])


def _joined(bars: list[Bar], scale: float) -> Iterator[Bar]:
    """Yields bars, with narrow neighbours of one row and colour joined."""
    ordered = sorted(bars, key=lambda bar: (bar.row, bar.start))
    for _, same in itertools.groupby(ordered, key=lambda bar: (bar.row, bar.colour)):
        run, count = next(same), 0
        for bar in same:
            if _joins(run, bar, count, scale):
                run, count = replace(run, end=max(run.end, bar.end), height=max(run.height, bar.height)), count + 1
            else:
                yield _named(run, count)
                run, count = bar, 0
        yield _named(run, count)


def _joins(run: Bar, bar: Bar, count: int, scale: float) -> bool:
    """Returns whether a bar is joined with a run of others. A run of different heights is narrow as a whole."""
    if (bar.start - run.end) * scale > TOUCHING:
        return False
    looks_equal, is_narrow = _tall(bar) == _tall(run), (bar.end - bar.start) * scale < NARROW
    if looks_equal and (bar.colour == MEMORY or (count and is_narrow)):
        return True
    return is_narrow and (run.end - run.start) * scale < NARROW


def _named(run: Bar, count: int) -> Bar:
    """Returns a run of bars with a name for all of them."""
    joined = f"about {run.name}" if run.colour == MEMORY else f"{run.name} and {count} more"
    return replace(run, name=joined) if count else run


def _tall(bar: Bar) -> int:
    return round(ROW * bar.height)


def _rectangle(bar: Bar, top: int, first: float, scale: float) -> str:
    x, width = LEFT + (bar.start - first) * scale, max((bar.end - bar.start) * scale, 0.5)
    tall = _tall(bar)
    label = html.escape(f"{bar.name}, {bar.start:g} to {bar.end:g} ns")
    place = f'x="{x:.1f}" y="{top + ROW - tall}" width="{width:.1f}" height="{tall}"'
    return f'<rect {place} fill="{bar.colour}"><title>{label}</title></rect>'
