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
    """Components of a latency."""

    overhead_ns: float
    wire_ns: float
    serialisation_ns: float
    service_ns: float
    wait_ns: float
    """Excess of the latency over the latency on an idle machine."""


@dataclass(frozen=True)
class Measurement:
    """Measurement of one transfer."""

    bytes: int
    formula_ns: float
    """Latency on an idle machine, from a closed form."""
    latency_ns: float
    breakdown: Breakdown
    bandwidth_gbs: float
    bottleneck_gbs: float
    """Bandwidth of the slowest link or memory on the route."""
    utilisation: float
    """Bandwidth as a fraction of the bottleneck's bandwidth."""

    def _row(self) -> dict[str, Any]:
        row: dict[str, Any] = {name: getattr(self, name) for name in ("bytes", "formula_ns", "latency_ns")}
        row |= plain(self.breakdown)
        return row | {name: getattr(self, name) for name in ("bandwidth_gbs", "bottleneck_gbs", "utilisation")}


@dataclass(frozen=True)
class Hop:
    """Link on the route of the data, and the node at its end."""

    node: str
    bandwidth_gbs: float
    serialisation_ns: float
    wire_ns: float
    overhead_ns: float
    cumulative_ns: float
    bottleneck: bool


@dataclass(frozen=True)
class PathStep:
    """Step of a critical path."""

    start_ns: float
    duration_ns: float
    what: str
    where: str
    behind: int | None
    """Number of the transfer that this step waited for."""


@dataclass(frozen=True, kw_only=True)
class ProbedCase(Measurement):
    """Measurements of one transfer on a fresh machine, at 32 KiB and at the sizes in `sweep`."""

    name: str
    category: str
    from_: str
    to: str
    route: tuple[Hop, ...]
    sweep: tuple[Measurement, ...]
    explain: tuple[PathStep, ...] | None = field(default=None, metadata=OPTIONAL)
    """Critical path at 32 KiB, if requested. Its durations add up to the latency."""

    def _rows(self) -> list[dict[str, Any]]:
        about = {"case": self.name, "category": self.category, "from": self.from_, "to": self.to}
        return [about | measured._row() for measured in sorted([self, *self.sweep], key=lambda of: of.bytes)]


@dataclass(frozen=True)
class Invariant:
    """Property that holds on every sound machine."""

    claim: str
    evidence: str
    holds: bool


@dataclass(frozen=True)
class Wait:
    """Wait for a link that another transfer occupies."""

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
    """Critical path, if requested."""

    def _row(self) -> dict[str, Any]:
        about = {"op": self.op, "from": self.from_, "to": self.to, "offset": self.offset, "at_ns": self.at_ns}
        wait = self.held_up or Wait(link="", behind=None, ns=0.0)
        held_up = {"held_up_link": wait.link or None, "held_up_behind": wait.behind, "held_up_ns": wait.ns}
        return about | super()._row() | held_up


@dataclass(frozen=True)
class LinkUse:
    """Time during which a link carried flits."""

    link: str
    busy_ns: float
