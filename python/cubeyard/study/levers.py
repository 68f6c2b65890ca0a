"""Levers: the time of a bench if each resource of its machine were twice as fast."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

from cubeyard import _native
from cubeyard._base import checks
from cubeyard._base.results import Printed, build
from cubeyard.errors import CubeyardError
from cubeyard.machine.topology import Topology
from cubeyard.machine.topology import resolve as machine_of
from cubeyard.study.bench import Bench
from cubeyard.study.run import resolve, run

__all__ = ["Lever", "Levers", "levers"]


@dataclass(frozen=True)
class Lever:
    """Resource of a machine, and the time of the bench if the resource were twice as fast."""

    name: str
    """Group of topology keys, or two groups joined by `+`. With the value `"2x"` it is a key of `Topology.with_`."""
    resource: str
    """Name of the resource."""
    with_: dict[str, Any]
    """Topology keys of the group, with their new values."""
    time_ns: float | None
    """Time on the changed machine, or None if the run failed."""
    saved: float | None
    """Saved share of the time; negative if the bench takes longer."""
    topology: str | None
    """Hash of the changed machine."""
    times: tuple[dict[str, Any], ...] | None
    """Measured times with their names and limits."""
    error: str | None
    """Error message of a failed run, or None."""


@dataclass(frozen=True)
class Levers(Printed):
    """Levers of a bench, from the largest saving to the smallest. `print` shows the tables of `--levers`."""

    version: str
    """Version of the package."""
    topology: str
    """Hash of the machine."""
    command: str
    """Name of the bench."""
    factor: float
    """Factor by which each lever makes its resource faster."""
    time_ns: float
    """Time without a lever."""
    times: tuple[dict[str, Any], ...]
    """Measured times with their names and limits."""
    limit: dict[str, Any] | None
    """Limiting part of the bench: text, share of the time, and the groups that belong to it."""
    verdict: str
    """Time, limit and best lever in sentences."""
    levers: tuple[Lever, ...]
    """One lever for each group of keys that the machine has."""
    pairs: tuple[Lever, ...]
    """Pairs of the best levers; empty if one lever alone saves enough."""
    absent: tuple[str, ...]
    """Groups without a value that could change on this machine."""

    _title: ClassVar[str] = "Levers"
    _types: ClassVar[Mapping[str, str]] = {"time_ns": "float64", "saved": "float64", "error": "utf8"}

    @property
    def best(self) -> Lever | None:
        """Lever or pair that saves most, or None if none saves time."""
        found = max((*self.levers, *self.pairs), key=lambda lever: lever.saved or 0.0, default=None)
        return found if found is not None and (found.saved or 0.0) > 0.0 else None

    def rows(self) -> list[dict[str, Any]]:
        """Returns one row per lever and pair: name, resource, changed keys, time, saved share and error."""
        return [
            {
                "name": lever.name,
                "resource": lever.resource,
                "with": ", ".join(f"{key}={value}" for key, value in lever.with_.items()),
                "time_ns": lever.time_ns,
                "saved": lever.saved,
                "error": lever.error,
            }
            for lever in (*self.levers, *self.pairs)
        ]

    def _summary(self) -> str:
        return self.verdict

    def _draw(self, axes: Any) -> None:
        shown = [lever for lever in (*self.levers, *self.pairs) if lever.saved]
        axes.barh([lever.name for lever in shown], [100.0 * (lever.saved or 0.0) for lever in shown])
        axes.invert_yaxis()
        axes.set_xlabel("saved time if twice as fast, %")
        axes.set_title(self.command)


def levers(bench: str | Bench, /, *, topology: Any = None, threads: int | None = None, **arguments: Any) -> Levers:
    """Measures which resource of a machine to make faster: runs a bench once for each resource made twice as fast.

    Args:
        bench: Name of a built-in bench, `FILE.py::NAME`, or a function decorated with `@cubeyard.bench`.
        topology: The machine; see `cubeyard.run`.
        threads: Number of threads for built-in benches; one per core if None. Benches written in Python run one after
            the other. Results do not depend on it.
        arguments: Options of `cubeyard.run` and parameters of the bench.

    Raises:
        InputError: An argument is invalid.
        OutOfMemory: The machine runs out of memory, or the run needs more than the host's free memory.

    >>> import cubeyard
    >>> found = cubeyard.levers("vector-add", elements=65536)
    >>> found.best.name
    'hbm.bandwidth'
    >>> pulled = cubeyard.run("vector-add", elements=65536, topology={found.best.name: "2x"})
    >>> pulled.kernel_ns == found.best.time_ns
    True
    """
    target, machine = resolve(bench), machine_of(topology)
    count = checks.count("threads", (os.cpu_count() or 1) if threads is None else threads, least=1)
    base = run(target, topology=machine, **arguments)

    def one(override: str) -> tuple[str | None, str | None]:
        key, _, factor = override.partition("=")
        return _outcome(target, machine, {key: factor}, arguments)

    def each(overrides: list[str]) -> list[tuple[str | None, str | None]]:
        if isinstance(target, Bench) or count == 1:
            return [one(override) for override in overrides]
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(one, overrides))

    data, text = _native.measure_levers(machine._native, base.record().line, base.bench, each)
    return build(Levers, data, text=text)


def _outcome(
    target: str | Bench, machine: Topology, overrides: dict[str, str], arguments: dict[str, Any]
) -> tuple[str | None, str | None]:
    """Runs the bench on the changed machine. Returns the line of its record, or the text of its error."""
    try:
        return run(target, topology=machine.with_(overrides), **arguments).record().line, None
    except CubeyardError as error:
        return None, str(error)
