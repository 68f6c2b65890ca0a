"""Measurements of a machine's fabric."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, overload

from cubeyard import _native as native
from cubeyard._given import text_of
from cubeyard._result import HIDDEN, OPTIONAL, Result, build, plain, table
from cubeyard._topology import resolve
from cubeyard.errors import InputError
from cubeyard.topology import TopologyLike

__all__ = [
    "Breakdown",
    "Hop",
    "Invariant",
    "LinkUse",
    "Measurement",
    "PathStep",
    "PatternResult",
    "ProbeResult",
    "ProbedCase",
    "Transfer",
    "Wait",
    "probe",
    "probe_cases",
]

Table = tuple[str, list[str], list[list[tuple[str, bool]]]]


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
class ProbeResult(Result):
    """Measurements of cases: one transfer each, on a fresh machine. The table has a row for each case and size."""

    cases: tuple[ProbedCase, ...]
    invariants: tuple[Invariant, ...]
    text: str = field(repr=False, compare=False, metadata=HIDDEN)
    """Tables of the command."""

    _title: ClassVar[str] = "Latency and bandwidth of the fabric"

    @property
    def ok(self) -> bool:
        """Whether all properties hold."""
        return all(invariant.holds for invariant in self.invariants)

    def case(self, name: str) -> ProbedCase:
        """Returns the case of a name.

        Raises:
            KeyError: No such case was measured.
        """
        for case in self.cases:
            if case.name == name:
                return case
        raise KeyError(name)

    def rows(self) -> list[dict[str, Any]]:
        """Returns a row for each case and size."""
        return [row for case in self.cases for row in case._rows()]

    def __str__(self) -> str:
        return self.text

    def _tables(self) -> list[Table]:
        tables = [table("Cases and sizes", self.rows()), table("Properties", plain(self.invariants))]
        tables += [table(f"{case.name}: {case.from_} → {case.to}, the way of the data", plain(case.route)) for case in self.cases]
        return tables + [table(f"{case.name}, step by step", plain(case.explain)) for case in self.cases if case.explain]

    def _draw(self, axes: Any) -> None:
        for case in self.cases:
            rows = case._rows()
            axes.plot([row["bytes"] for row in rows], [row["bandwidth_gbs"] for row in rows], marker="o", label=case.name)
        axes.set_xscale("log", base=2)
        axes.set_xlabel("bytes")
        axes.set_ylabel("GB/s")
        axes.legend(fontsize="small")


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


@dataclass(frozen=True)
class PatternResult(Result):
    """Measurements of a pattern: transfers that run together on one machine. The table has a row for each."""

    makespan_ns: float
    """Time from the first request to the last completion."""
    transfers: tuple[Transfer, ...]
    links: tuple[LinkUse, ...]
    """The links that were used, those in use for the longest first."""
    order_hash: str
    """Hash of the order of events, the same for the same input."""
    text: str = field(repr=False, compare=False, metadata=HIDDEN)
    """Tables of the command."""

    _title: ClassVar[str] = "Transfers"
    _types: ClassVar[Mapping[str, str]] = {"held_up_link": "utf8", "held_up_behind": "int64"}

    def rows(self) -> list[dict[str, Any]]:
        """Returns a row for each transfer."""
        return [{"transfer": number} | transfer._row() for number, transfer in enumerate(self.transfers)]

    def __str__(self) -> str:
        return self.text

    def _summary(self) -> str:
        return f"{len(self.transfers)} transfers in {self.makespan_ns:,.3f} ns, order of events {self.order_hash}"

    def _tables(self) -> list[Table]:
        tables = [table("Transfers", self.rows()), table("Links", plain(self.links))]
        explained = [(number, of.explain) for number, of in enumerate(self.transfers) if of.explain]
        return tables + [table(f"transfer {number}, step by step", plain(steps)) for number, steps in explained]

    def _draw(self, axes: Any) -> None:
        starts = [transfer.at_ns for transfer in self.transfers]
        axes.barh(range(len(starts)), [transfer.latency_ns for transfer in self.transfers], left=starts)
        axes.invert_yaxis()
        axes.set_xlabel("ns")
        axes.set_ylabel("transfer")


@overload
def probe(
    case: str | Sequence[str] | None = None,
    *,
    pattern: None = None,
    topology: TopologyLike = None,
    explain: bool = False,
    trace: str | os.PathLike[str] | None = None,
) -> ProbeResult: ...


@overload
def probe(
    case: None = None,
    *,
    pattern: str | os.PathLike[str] | Mapping[str, Any] | Sequence[Mapping[str, Any]],
    topology: TopologyLike = None,
    explain: bool = False,
    trace: str | os.PathLike[str] | None = None,
) -> PatternResult: ...


def probe(
    case: str | Sequence[str] | None = None,
    *,
    pattern: str | os.PathLike[str] | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    topology: TopologyLike = None,
    explain: bool = False,
    trace: str | os.PathLike[str] | None = None,
) -> ProbeResult | PatternResult:
    """Measures the latency and bandwidth of a machine's fabric, as `cubeyard probe` does.

    Args:
        case: Names of cases, such as "pe-dma-local"; all cases if None. `probe_cases()` lists them.
        pattern: Transfers that run together, in place of the cases: a file of them, or a list of dictionaries with
            `op`, `from`, `to`, `bytes`, and optionally `at_ns` and `offset`.
        topology: The machine; see `Topology`.
        explain: Whether to compute the critical path of each transfer.
        trace: File for a trace of one case or of the pattern, which ui.perfetto.dev shows (1 ps as 1 ns).

    >>> import cubeyard
    >>> cubeyard.probe("pe-dma-local").cases[0].latency_ns
    141.02
    >>> local = {"op": "read", "from": "sip0.cube0.pe0", "to": "sip0.cube0.pe0.hbm", "bytes": "16 KiB"}
    >>> cubeyard.probe(pattern=[local]).makespan_ns
    77.02

    Raises:
        InputError: A case, a transfer or the machine is not what was expected.
        StalledError: Transfers wait for each other for good, which finite buffers permit.
    """
    machine, path = resolve(topology), None if trace is None else os.fspath(trace)
    if pattern is None:
        names = [case] if isinstance(case, str) else list(case or [])
        data, text = native.probe_cases(machine, names, explain, path)
        return build(ProbeResult, data, text=text)
    if case is not None:
        raise InputError(f"case={case!r}: expected None beside a pattern, which has transfers of its own")
    is_list = isinstance(pattern, Sequence) and not isinstance(pattern, str)
    name, yaml = text_of("pattern", {"transfers": pattern} if is_list else pattern)
    data, text = native.probe_pattern(machine, name, yaml.encode(), explain, path)
    return build(PatternResult, data, text=text)


def probe_cases(topology: TopologyLike = None) -> list[str]:
    """Returns the names of the cases that `probe` measures on a machine."""
    return native.probe_case_names(resolve(topology))
