"""Comparison of two runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from cubeyard import _native
from cubeyard._base.results import HIDDEN, Result
from cubeyard.study.run import Record, Run

__all__ = ["RecordLike", "RunComparison", "compare"]

RecordLike: TypeAlias = Run | Record | str | os.PathLike[str]
"""A run, a record, or a file written by `--save`. `FILE:N` is line N of a file with several records."""


@dataclass(frozen=True)
class RunComparison(Result):
    """Differences between two runs, with their causes. `print` shows the tables of `cubeyard compare`."""

    verdict: str
    """One sentence: the faster run, by how much, and because of what."""
    version: str
    """Version of the package."""
    a: dict[str, Any]
    """Name, version and machine hash of the first run."""
    b: dict[str, Any]
    """Name, version and machine hash of the second run."""
    inputs: list[dict[str, Any]]
    """Inputs that differ, with the name and both values."""
    machine: list[dict[str, Any]]
    """Topology keys that differ, if both records contain their machines."""
    other_machine: bool
    """Whether the machine hashes differ."""
    unreachable: list[list[str]]
    """Bandwidths that no traffic can reach, for each machine."""
    times: list[dict[str, Any]]
    """Times of both runs, with verdict, cause, shares of the difference, critical path, utilisation and bounds."""
    errors: list[str | None]
    """Error of each record that has no result, or None."""
    _compared: _native.RecordComparison = field(repr=False, compare=False, metadata=HIDDEN)

    _title: ClassVar[str] = "Comparison"
    _types: ClassVar[Mapping[str, str]] = {"a_ns": "float64", "b_ns": "float64", "b_over_a": "float64"}

    def to_dict(self) -> dict[str, Any]:
        """Returns the plain data that `cubeyard compare --format json` prints."""
        return self._compared.report()

    def rows(self) -> list[dict[str, Any]]:
        """Returns one row per time: name, both times in nanoseconds, their ratio, and the cause of the change."""
        names = ("name", "a_ns", "b_ns", "b_over_a", "cause")
        return [{name: time[name] for name in names} for time in self.times]

    def page(self) -> str:
        """Returns a self-contained HTML page with the comparison."""
        return self._compared.page()

    def __str__(self) -> str:
        return self._compared.text()

    def _draw(self, axes: Any) -> None:
        parts = self.times[0]["path_ns"] if self.times else []
        for place, side in enumerate(("a", "b")):
            heights = [number + (place - 0.5) * 0.4 for number in range(len(parts))]
            axes.barh(heights, [part[side] or 0.0 for part in parts], height=0.4, label=side.upper())
        axes.set_yticks(range(len(parts)), [part["name"] for part in parts])
        axes.invert_yaxis()
        axes.set_xlabel("time on the critical path, ns")
        axes.legend()


def compare(a: RecordLike, b: RecordLike, *, names: tuple[str, str] = ("A", "B")) -> RunComparison:
    """Compares two runs: differences in inputs, differences in results, and their causes.

    Args:
        a: First run: a result of `cubeyard.run`, a record, or a file written by `--save`.
        b: Second run.
        names: Names of the two runs in the text and on the page.

    Raises:
        InputError: A file cannot be read, or contains no record.
        VersionError: A record has another format. Run the bench again.

    >>> import cubeyard
    >>> slow = {"hbm": {"channel_bandwidth_gbs": 8}}
    >>> found = cubeyard.compare(
    ...     cubeyard.run("gemm", m=64, k=128, n=64), cubeyard.run("gemm", m=64, k=128, n=64, topology=slow)
    ... )
    >>> found.machine
    [{'a': 32, 'b': 8, 'name': 'hbm.channel_bandwidth_gbs'}]
    >>> found.rows()[0]["b_over_a"] > 1
    True
    >>> "because DMA read takes" in found.verdict
    True
    """
    compared = _native.RecordComparison(names, [_line(a), _line(b)])
    data = compared.report()
    data["times"] = data.pop("rows")
    return RunComparison(**data, _compared=compared)


def _line(given: RecordLike) -> str:
    if isinstance(given, Run):
        return str(given._run.record(given._source, True))
    return given.line if isinstance(given, Record) else _native.record_of_file(given)
