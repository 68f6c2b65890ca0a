"""Measurements of transfers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cubeyard._base.results import OPTIONAL, plain

__all__ = [
    "Breakdown",
    "Hop",
    "Invariant",
    "LinkUse",
    "Measurement",
    "PathStep",
    "ProbedCase",
    "Transfer",
    "Wait",
]


@dataclass(frozen=True)
class Breakdown:
    """Parts of a latency."""

    overhead_ns: float
    wire_ns: float
    serialisation_ns: float
    service_ns: float
    wait_ns: float
    """Time by which the latency exceeds that on an idle machine."""


@dataclass(frozen=True)
class Measurement:
    """Measurement of one transfer."""

    bytes: int
    formula_ns: float
    """Latency on an idle machine, by a closed form."""
    latency_ns: float
    breakdown: Breakdown
    bandwidth_gbs: float
    bottleneck_gbs: float
    """Bandwidth of the slowest link or memory on the route."""
    utilisation: float
    """Bandwidth as a fraction of the bottleneck's."""

    def _row(self) -> dict[str, Any]:
        row: dict[str, Any] = {name: getattr(self, name) for name in ("bytes", "formula_ns", "latency_ns")}
        row |= plain(self.breakdown)
        return row | {name: getattr(self, name) for name in ("bandwidth_gbs", "bottleneck_gbs", "utilisation")}


@dataclass(frozen=True)
class Hop:
    """A link on the route of the data, and the node at its end."""

    node: str
    bandwidth_gbs: float
    serialisation_ns: float
    wire_ns: float
    overhead_ns: float
    cumulative_ns: float
    bottleneck: bool


@dataclass(frozen=True)
class PathStep:
    """A step of a critical path."""

    start_ns: float
    duration_ns: float
    what: str
    where: str
    behind: int | None
    """Number of the transfer that was waited for."""


@dataclass(frozen=True, kw_only=True)
class ProbedCase(Measurement):
    """Measurements of one transfer on a fresh machine, at 32 KiB and at the sizes of `sweep`."""

    name: str
    category: str
    from_: str
    to: str
    route: tuple[Hop, ...]
    sweep: tuple[Measurement, ...]
    explain: tuple[PathStep, ...] | None = field(default=None, metadata=OPTIONAL)
    """Critical path at 32 KiB, if it was asked for. Its durations add up to the latency."""

    def _rows(self) -> list[dict[str, Any]]:
        about = {"case": self.name, "category": self.category, "from": self.from_, "to": self.to}
        return [about | measured._row() for measured in sorted([self, *self.sweep], key=lambda of: of.bytes)]


@dataclass(frozen=True)
class Invariant:
    """A property that holds on any sound machine."""

    claim: str
    evidence: str
    holds: bool


@dataclass(frozen=True)
class Wait:
    """A wait for a link behind another transfer."""

    link: str
    behind: int | None
    ns: float


@dataclass(frozen=True, kw_only=True)
class Transfer(Measurement):
    """Measurement of one transfer of a pattern."""

    op: str
    from_: str
    to: str
    offset: int
    at_ns: float
    route: tuple[Hop, ...]
    held_up: Wait | None
    """Longest wait of a flit behind another transfer."""
    explain: tuple[PathStep, ...] | None = field(default=None, metadata=OPTIONAL)
    """Critical path, if it was asked for."""

    def _row(self) -> dict[str, Any]:
        about = {"op": self.op, "from": self.from_, "to": self.to, "offset": self.offset, "at_ns": self.at_ns}
        wait = self.held_up or Wait(link="", behind=None, ns=0.0)
        held_up = {"held_up_link": wait.link or None, "held_up_behind": wait.behind, "held_up_ns": wait.ns}
        return about | super()._row() | held_up


@dataclass(frozen=True)
class LinkUse:
    """Time for which a link carried flits."""

    link: str
    busy_ns: float
