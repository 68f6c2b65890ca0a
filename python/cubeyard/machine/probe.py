"""Latency and bandwidth measurements of a machine's fabric."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, overload

from cubeyard import _native as native
from cubeyard._base.inputs import names, text_of
from cubeyard._base.results import Printed, build, plain, table
from cubeyard.errors import InputError
from cubeyard.machine.measurement import Invariant, LinkUse, ProbedCase, Transfer
from cubeyard.machine.topology import TopologyLike, native_of

__all__ = ["PatternResult", "ProbeResult", "probe", "probe_cases"]

Table = tuple[str, list[str], list[list[tuple[str, bool]]]]


@dataclass(frozen=True)
class ProbeResult(Printed):
    """Measurements of single transfers, each on a fresh machine. The table has one row per case and size."""

    cases: tuple[ProbedCase, ...]
    invariants: tuple[Invariant, ...]

    _title: ClassVar[str] = "Latency and bandwidth of the fabric"

    @property
    def ok(self) -> bool:
        """Whether all invariants hold."""
        return all(invariant.holds for invariant in self.invariants)

    def case(self, name: str) -> ProbedCase:
        """Returns the case with the given name.

        Raises:
            KeyError: No case with this name was measured.
        """
        for case in self.cases:
            if case.name == name:
                return case
        raise KeyError(name)

    def rows(self) -> list[dict[str, Any]]:
        """Returns one row per case and size."""
        return [row for case in self.cases for row in case._rows()]

    def _tables(self) -> list[Table]:
        tables = [table("Cases and sizes", self.rows()), table("Properties", plain(self.invariants))]
        for case in self.cases:
            tables.append(table(f"{case.name}: {case.from_} → {case.to}, the way of the data", plain(case.route)))
            if case.explain:
                tables.append(table(f"{case.name}, step by step", plain(case.explain)))
        return tables

    def _draw(self, axes: Any) -> None:
        for case in self.cases:
            sizes, rates = zip(*[(row["bytes"], row["bandwidth_gbs"]) for row in case._rows()], strict=True)
            axes.plot(sizes, rates, marker="o", label=case.name)
        axes.set_xscale("log", base=2)
        axes.set_xlabel("bytes")
        axes.set_ylabel("GB/s")
        axes.legend(fontsize="small")


@dataclass(frozen=True)
class PatternResult(Printed):
    """Measurements of a pattern: transfers that run together on one machine. The table has one row per transfer."""

    makespan_ns: float
    """Time from the first request to the last completion."""
    transfers: tuple[Transfer, ...]
    links: tuple[LinkUse, ...]
    """Links in use, sorted by busy time, longest first."""
    order_hash: str
    """Hash of the order of events; equal inputs give equal hashes."""

    _title: ClassVar[str] = "Transfers"
    _types: ClassVar[Mapping[str, str]] = {"held_up_link": "utf8", "held_up_behind": "int64"}

    def rows(self) -> list[dict[str, Any]]:
        """Returns one row per transfer."""
        return [{"transfer": number} | transfer._row() for number, transfer in enumerate(self.transfers)]

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
        pattern: Transfers that run together, instead of the cases. Either a path, or a list of dictionaries with `op`,
            `from`, `to`, `bytes`, and optionally `at_ns` and `offset`.
        topology: The machine; see `Topology`.
        explain: Whether to compute the critical path of each transfer.
        trace: Path of a Perfetto trace to write, for one case or the pattern. In ui.perfetto.dev, 1 ns stands for 1 ps.

    >>> import cubeyard
    >>> cubeyard.probe("pe-dma-local").cases[0].latency_ns
    141.02
    >>> local = {"op": "read", "from": "sip0.cube0.pe0", "to": "sip0.cube0.pe0.hbm", "bytes": "16 KiB"}
    >>> cubeyard.probe(pattern=[local]).makespan_ns
    77.02

    Raises:
        InputError: A case, a transfer or the machine is invalid.
        StalledError: Transfers deadlock, which finite buffers permit.
    """
    machine, path = native_of(topology), None if trace is None else os.fspath(trace)
    if pattern is None:
        data, text = native.probe_cases(machine, names("case", case), bool(explain), path)
        return build(ProbeResult, data, text=text)
    if case is not None:
        raise InputError(f"case={case!r}: expected None with a pattern, which lists its own transfers")
    is_list = isinstance(pattern, Sequence) and not isinstance(pattern, str)
    name, yaml = text_of("pattern", {"transfers": pattern} if is_list else pattern)
    data, text = native.probe_pattern(machine, name, yaml.encode(), bool(explain), path)
    return build(PatternResult, data, text=text)


def probe_cases(topology: TopologyLike = None) -> list[str]:
    """Returns the names of the cases that `probe` measures on a machine."""
    return native.probe_case_names(native_of(topology))
