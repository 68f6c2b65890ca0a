"""Tables of a report: sums by operator, by module, by line, and single operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cubeyard.torch.profiling.records import Operation

__all__ = ["BY", "Sums", "pattern", "sums", "table_of"]


@dataclass
class Sums:
    """Sums over operations."""

    calls: int = 0
    """Number of operations."""
    ps: int = 0
    """Time in picoseconds."""
    bound_ps: int = 0
    """Least time that the machine's peak rates allow, of the operations that have one."""
    bounded_ps: int = 0
    """Time of the operations that have such a bound."""
    bytes: int = 0
    """Bytes that are read and written."""
    flops: int = 0
    """Multiplications and additions of matrix products."""
    estimated_ps: int = 0
    """Time of operators that were not simulated."""
    local: float = 0.0
    """Bytes in a PE's own slice of HBM, of the operations whose share is known."""
    placed: int = 0
    """Bytes of the operations whose local share is known."""

    def add(self, operation: Operation) -> None:
        """Adds an operation."""
        self.calls += 1
        self.ps += operation.ps
        cost = operation.cost
        if cost is None:
            return
        self.bytes += cost.bytes
        self.flops += cost.flops
        if cost.bound_ps:
            self.bound_ps += cost.bound_ps
            self.bounded_ps += operation.ps
        if cost.is_estimate:
            self.estimated_ps += operation.ps
        if cost.local_share is not None:
            self.local += cost.local_share * cost.bytes
            self.placed += cost.bytes

    @property
    def bound_share(self) -> float | None:
        """Least possible time over the time; None if there is no bound."""
        return self.bound_ps / self.bounded_ps if self.bounded_ps else None

    @property
    def local_share(self) -> float | None:
        """Share of the bytes in a PE's own slice of HBM; None if it is not known."""
        return self.local / self.placed if self.placed else None

    def row(self, total_ps: int) -> dict[str, Any]:
        """Returns the sums as a row of a table."""
        return {
            "calls": self.calls,
            "ns": self.ps / 1000,
            "share": self.ps / total_ps if total_ps else 0.0,
            "bound_share": self.bound_share,
            "bytes": self.bytes,
            "flops": self.flops,
            "local_share": self.local_share,
            "estimated_share": self.estimated_ps / self.ps if self.ps else 0.0,
        }


def sums(operations: Iterable[Operation], key: Callable[[Operation], Any]) -> dict[Any, Sums]:
    """Returns the sums of operations with equal keys, the longest first."""
    found: dict[Any, Sums] = {}
    for operation in operations:
        found.setdefault(key(operation), Sums()).add(operation)
    return dict(sorted(found.items(), key=lambda item: (-item[1].ps, str(item[0]))))


def _by_operator(operations: Sequence[Operation], total_ps: int) -> list[dict[str, Any]]:
    found = sums(operations, lambda one: (one.name, one.kind))
    return [{"operator": name, "kind": kind, **row.row(total_ps)} for (name, kind), row in found.items()]


def _by_line(operations: Sequence[Operation], total_ps: int) -> list[dict[str, Any]]:
    found = sums(operations, lambda one: (one.site.line, one.site.phase))
    return [{"line": line, "phase": phase, **row.row(total_ps)} for (line, phase), row in found.items()]


def _by_shape(operations: Sequence[Operation], total_ps: int) -> list[dict[str, Any]]:
    found = sums(operations, lambda one: (one.name, one.shapes))
    return [{"operator": name, "shapes": shapes, **row.row(total_ps)} for (name, shapes), row in found.items()]


def _by_phase(operations: Sequence[Operation], total_ps: int) -> list[dict[str, Any]]:
    found = sums(operations, lambda one: one.site.phase)
    return [{"phase": phase, **row.row(total_ps)} for phase, row in found.items()]


def _by_module(operations: Sequence[Operation], total_ps: int) -> list[dict[str, Any]]:
    """Returns a row for each module, which counts all modules within it, in the order of their first operations."""
    found: dict[tuple[str, ...], Sums] = {}
    for operation in operations:
        path = operation.site.modules
        for depth in range(1, len(path) + 1):
            found.setdefault(path[:depth], Sums()).add(operation)
        if not path:
            found.setdefault((), Sums()).add(operation)
    return [{"module": ".".join(path), "depth": len(path), **row.row(total_ps)} for path, row in found.items()]


def _by_layer(operations: Sequence[Operation], total_ps: int) -> list[dict[str, Any]]:
    """Returns the table by module with layers of one kind in one row."""
    found: dict[str, Sums] = {}
    for operation in operations:
        path = operation.site.modules
        for depth in range(1, len(path) + 1) or (0,):
            found.setdefault(pattern(".".join(path[:depth])), Sums()).add(operation)
    return [{"module": path, **row.row(total_ps)} for path, row in found.items()]


def pattern(module: str) -> str:
    """Returns the path of a module with `*` for numbers, so that layers of one kind count together.

    >>> pattern("Llama.layers.17.mlp")
    'Llama.layers.*.mlp'
    """
    return ".".join("*" if part.isdigit() else part for part in module.split("."))


def _each(operations: Sequence[Operation], total_ps: int) -> list[dict[str, Any]]:
    rows = []
    for one in operations:
        place = {"operator": one.name, "kind": one.kind, "track": one.track, "begin_ns": one.begin_ps / 1000, "end_ns": one.end_ps / 1000}
        where = {"module": one.site.module, "line": one.site.line, "phase": one.site.phase, "shapes": one.shapes}
        rows.append({**place, **where, **sums([one], id)[id(one)].row(total_ps)})
    return rows


BY = {
    "operator": _by_operator,
    "module": _by_module,
    "layer": _by_layer,
    "line": _by_line,
    "shape": _by_shape,
    "phase": _by_phase,
    "operation": _each,
}
"""Functions that make the rows of a table, by its name."""


def table_of(by: str, operations: Sequence[Operation], total_ps: int) -> list[dict[str, Any]]:
    """Returns the rows of a table."""
    return BY[by](operations, total_ps)
