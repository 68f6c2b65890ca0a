"""Page of a report: key figures, timeline with memory, modules as a flame graph, and tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cubeyard import _native
from cubeyard._base.results import table
from cubeyard.torch import _loader
from cubeyard.torch.profiling.explain import quantity, time_text
from cubeyard.torch.profiling.records import Operation

if TYPE_CHECKING:
    from cubeyard.torch.profiling.report import Profile

__all__ = ["page_of"]

KINDS = ["forward", "backward", "optimizer", "launch of a kernel", "collective", "sleep"]
"""Kinds of intervals: phases of operators, and other work."""
MOST_ROWS = 2000
"""Rows of a table; the page says how many are left out."""

Box = tuple[int, str, str, int, int]


def page_of(profile: Profile) -> str:
    """Returns the page of a report."""
    text = profile.explain().split("\n\n")
    # On one line: a line break of HTML is no XML, which the page is too.
    verdict = "; ".join(f"{row['change']}: {row['reason']}" for row in profile.levers())
    head = ("Step", text[0].replace("\n", "; "), verdict)
    return _native.step_page(
        head, _figures(profile), profile.total_ps, KINDS, _lanes(profile.operations), _levels(profile), _boxes(profile), _tables(profile)
    )


def _figures(profile: Profile) -> list[tuple[str, str, str]]:
    memory, whole, total = profile.memory, profile.sums, profile.total_ps or 1
    fits = "fits in" if memory.fits else "does not fit in"
    shown = [
        ("time", time_text(profile.total_ps), f"{whole.calls:,} operations"),
        ("device works", f"{100 * profile.busy_ps / total:.3g} %", f"waits {time_text(profile.idle_ps)} for the host"),
        ("memory", quantity(memory.peak_bytes), f"{fits} {quantity(memory.capacity_bytes)}"),
        ("estimated", f"{100 * profile.estimated_share:.3g} %", "of the time by bytes over bandwidth; the rest is simulated"),
    ]
    if whole.bound_share is not None:
        shown.insert(2, ("of possible speed", f"{100 * whole.bound_share:.3g} %", "least time by the peak rates over the time"))
    if whole.flops:
        shown.append(("products", f"{whole.flops / 1e12:,.4g} TFLOP", f"{whole.flops / max(profile.total_ps, 1):.4g} TFLOP/s"))
    return shown


def _kind(operation: Operation) -> int:
    others = {"launch": 3, "collective": 4, "sleep": 5}
    return others[operation.kind] if operation.kind in others else KINDS.index(operation.site.phase)


def _lanes(operations: Iterable[Operation]) -> list[tuple[str, list[tuple[int, int, int, str]]]]:
    found: dict[str, list[tuple[int, int, int, str]]] = {}
    for one in operations:
        place = ", ".join(filter(None, [one.site.module, one.site.line]))
        name = f"{one.name} · {place}" if place else one.name
        found.setdefault(one.track, []).append((max(0, one.begin_ps), max(0, one.end_ps), _kind(one), name))
    return sorted(found.items())


def _levels(profile: Profile) -> list[tuple[str, list[tuple[int, int]]]]:
    return [(f"{_loader.name}:{memory.device} memory", [(time, max(0, size)) for time, size in memory.over_time]) for memory in profile.memories]


def _boxes(profile: Profile) -> list[Box]:
    """Returns the flame graph in preorder: phases, modules within them, and operators within those."""
    root: dict[str, Any] = {"ps": 0, "kind": 0, "below": {}}
    for one in profile.operations:
        names = (KINDS[_kind(one)], *one.site.modules, one.name)
        node = root
        node["ps"] += one.ps
        for name in names:
            node = node["below"].setdefault(name, {"ps": 0, "kind": _kind(one), "below": {}})
            node["ps"] += one.ps
    boxes: list[Box] = []
    _walk("all operations", root, 0, root["ps"], "", boxes)
    return boxes if root["ps"] else []


def _walk(name: str, node: dict[str, Any], depth: int, total: int, path: str, boxes: list[Box]) -> None:
    path = f"{path} › {name}" if path else name
    share = node["ps"] / total if total else 0.0
    boxes.append((depth, name, f"{path}: {time_text(node['ps'])}, {share:.1%}", node["ps"], node["kind"]))
    for below, child in node["below"].items():
        _walk(below, child, depth + 1, total, path, boxes)


def _tables(profile: Profile) -> list[tuple[str, str, list[str], list[list[tuple[str, bool]]]]]:
    about = "Share of the bound: the least time that the machine's peak rates allow, over the time."
    layers = "Layers of one kind are one row; a module counts the modules within it."
    holders = [{**row, "bytes": quantity(row["bytes"])} for row in profile.holders()]
    tables = [
        _table("Operators", _shown(profile.rows()), about),
        _table("Time of modules", _shown(profile.rows("layer")), layers),
        _table("Lines", _shown(profile.rows("line")), ""),
        _table("Holders of the peak of memory", holders, ""),
    ]
    return [one for one in tables if one[3]]


def _shown(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the rows of a table with quantities as text."""
    shown = []
    for row in rows:
        names = {name: value for name, value in row.items() if isinstance(value, str)}
        bound, local = row["bound_share"], row["local_share"]
        figures = {
            "calls": row["calls"],
            "time": time_text(1000 * row["ns"]),
            "share, %": 100 * row["share"],
            "share of bound, %": None if bound is None else 100 * bound,
            "moved": quantity(row["bytes"]),
            "local, %": None if local is None else 100 * local,
            "simulated": "no" if row["estimated_share"] == 1 else "yes" if not row["estimated_share"] else f"{1 - row['estimated_share']:.0%}",
        }
        shown.append({**names, **figures})
    return shown


def _table(title: str, rows: Sequence[dict[str, Any]], about: str) -> tuple[str, str, list[str], list[list[tuple[str, bool]]]]:
    left = len(rows) - MOST_ROWS
    more = f" {left:,} more rows are left out." if left > 0 else ""
    _, names, cells = table(title, rows[:MOST_ROWS])
    quantities = {place for place, name in enumerate(names) if name in ("time", "moved", "bytes")}
    aligned = [[(text, is_number or place in quantities) for place, (text, is_number) in enumerate(row)] for row in cells]
    return title, about + more, names, aligned
