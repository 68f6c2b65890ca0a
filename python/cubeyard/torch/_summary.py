"""Table of a device's memory statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping

__all__ = ["table"]


def table(device: str, stats: Mapping[str, int], info: tuple[int, int], abbreviated: bool) -> str:
    """Formats the statistics of a device as a table. `info` is the memory not yet acquired and the total, in bytes."""
    free, total = info
    pools = [("all", "")] if abbreviated else [("all", ""), ("large_pool", "  from 1 MiB"), ("small_pool", "  below 1 MiB")]
    rule = "+" + "-" * 24 + ("+" + "-" * 13) * 4 + "+"
    width = len(rule) - 4
    head = f"Memory of {device}, {_bytes(free).strip()} of {_bytes(total).strip()} not acquired"
    told = f"out of memory: {stats['num_ooms']}   retries: {stats['num_alloc_retries']}   waits: "
    told += f"{stats['num_sync_all_streams']}"
    wide = "+" + "-" * (width + 2) + "+"
    lines = [wide, f"| {head:<{width}} |", f"| {told:<{width}} |", rule]
    lines += [_row("", ["current", "peak", "increase", "decrease"]), rule]
    for key, title, show in _ROWS:
        for pool, part in pools:
            figures = [stats[f"{key}.{pool}.{figure}"] for figure in ("current", "peak", "allocated", "freed")]
            lines.append(_row(part or title, [show(figure) for figure in figures]))
        lines.append(rule)
    return "\n".join(lines) + "\n"


def _row(title: str, cells: list[str]) -> str:
    return f"| {title:<22} |" + "".join(f" {cell:>11} |" for cell in cells)


def _bytes(number: int) -> str:
    """Formats a number of bytes with its unit, e.g. `1.5 MiB`."""
    size, units = float(number), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{number} B" if units[0] == "B" else f"{size:.1f} {units[0]}"


_ROWS: list[tuple[str, str, Callable[[int], str]]] = [
    ("allocated_bytes", "allocated", _bytes),
    ("requested_bytes", "requested", _bytes),
    ("active_bytes", "active", _bytes),
    ("reserved_bytes", "reserved", _bytes),
    ("inactive_split_bytes", "free in used regions", _bytes),
    ("allocation", "allocations", str),
    ("active", "active blocks", str),
    ("segment", "regions", str),
    ("inactive_split", "free ranges", str),
]
