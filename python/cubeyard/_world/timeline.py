"""A picture of a report: what each rank did over time, as SVG."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Bar", "draw"]

WIDTH, LEFT, ROW, GAP = 1000, 150, 22, 6
COLOURS = {"compute": "#0072b2", "wait": "#d8dee4"}
COMMUNICATION = "#e69f00"


@dataclass(frozen=True)
class Bar:
    """A named interval in a row, in nanoseconds."""

    row: str
    name: str
    start: float
    end: float


def draw(bars: Iterable[Bar]) -> str:
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
