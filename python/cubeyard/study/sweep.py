"""Sweeps: a bench or function over a grid of inputs, on local processes or a cluster, with one record per run."""

from __future__ import annotations

import importlib
import inspect
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from cubeyard import _native
from cubeyard._base.results import Result
from cubeyard._fingerprint import Source
from cubeyard.errors import CubeyardError, InputError
from cubeyard.machine.topology import Topology, native_of
from cubeyard.machine.topology import resolve as resolve_topology
from cubeyard.study.bench import Bench, describe
from cubeyard.study.run import Record, Run, assignments, options, resolve, run, unboxed
from cubeyard.study.workers import Workers

__all__ = ["Designs", "Sweep", "sweep"]

Target = str | Bench | Callable[..., Any]


@dataclass(frozen=True)
class Designs:
    """Times and costs of the configurations of a sweep, in its order."""

    costs: tuple[float, ...]
    """Cost of each configuration."""
    times_ns: tuple[float | None, ...]
    """Sum of the simulated times of each configuration; None if it failed."""
    front: tuple[bool, ...]
    """Whether no other configuration is at least as fast and as cheap, and better in one of both."""
    knee: int | None
    """Index of the configuration of the front with the smallest sum of time and cost, each as a share of its range on
    the front; None if the front has no such bend."""
    verdict: str
    """Fastest and cheapest configuration, size of the front, and knee, in sentences."""


@dataclass(frozen=True)
class Sweep(Result):
    """Records of a sweep, in the order of its grid."""

    records: tuple[Record, ...]
    """One record per configuration."""
    kept: int = field(default=0, compare=False)
    """Number of configurations whose records were already in the file."""
    unknown: str | None = field(default=None, compare=False)
    """Name of something that the target reads and that cannot be compared, so no record is kept; otherwise None."""

    designs: Designs | None = None
    """Costs and the Pareto front, if the sweep has a `cost`; otherwise None."""

    _title: ClassVar[str] = "Sweep"

    @property
    def failed(self) -> tuple[Record, ...]:
        """Records of configurations that ended with an error or a failed check."""
        return tuple(record for record in self.records if not record.ok)

    @property
    def ok(self) -> bool:
        """Whether no configuration failed."""
        return not self.failed

    def to_dict(self) -> Any:
        """Returns the records in the structure of the file."""
        return [json.loads(record.line) for record in self.records]

    def rows(self) -> list[dict[str, Any]]:
        """Returns one row per record: the inputs, the scalar figures and the error; with a `cost`, also `cost` and `front`."""
        rows = [_row(record) for record in self.records]
        if self.designs is not None:
            for row, cost, front in zip(rows, self.designs.costs, self.designs.front, strict=True):
                row |= {"cost": cost, "front": front}
        return rows

    def to_parquet(self, path: str | os.PathLike[str]) -> Path:
        """Writes the table of `rows()` as Parquet and returns its path.

        Raises:
            CubeyardError: pyarrow is not installed.
        """
        try:
            pyarrow, parquet = map(importlib.import_module, ("pyarrow", "pyarrow.parquet"))
        except ImportError as error:
            raise CubeyardError("to_parquet() needs pyarrow: pip install 'cubeyard[parquet]'") from error
        parquet.write_table(pyarrow.table(self), path)
        return Path(path)

    def _summary(self) -> str:
        kept = f", {self.kept} of them kept from earlier" if self.kept else ""
        failed = f", {len(self.failed)} failed" if self.failed else ""
        verdict = f"\n{self.designs.verdict}" if self.designs is not None else ""
        return f"{len(self.records)} configurations{kept}{failed}{verdict}"

    def _draw(self, axes: Any) -> None:
        if self.designs is not None:
            self._draw_designs(axes, self.designs)
            return
        rows = [row for row in self.rows() if isinstance(row.get("kernel_ns"), int | float)]
        axes.plot([row["kernel_ns"] for row in rows], marker=".")
        axes.set_xlabel("configuration, in the order of the grid")
        axes.set_ylabel("kernel time, ns")

    @staticmethod
    def _draw_designs(axes: Any, designs: Designs) -> None:
        points = list(zip(designs.costs, designs.times_ns, designs.front, strict=True))
        axes.plot(*_columns([(cost, time) for cost, time, _ in points]), ".")
        axes.plot(*_columns(sorted((cost, time) for cost, time, is_on in points if is_on)), label="Pareto front")
        axes.set_xlabel("cost")
        axes.set_ylabel("time, ns")
        axes.legend()


def sweep(
    target: Target,
    grid: Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]],
    *,
    executor: Executor | None = None,
    path: str | os.PathLike[str] | None = None,
    resume: bool = True,
    progress: bool | Callable[[int, int], None] | None = None,
    topology: Any = None,
    data: bool = False,
    live: bool = False,
    device: str | int | None = None,
    workers: int | None = None,
    cost: str | None = None,
) -> Sweep:
    """Runs a bench or function for each configuration of a grid, with one record per configuration.

    Records do not depend on the executor, the number of workers or the order of completion. Each record is written to
    `path` when it is complete. A later sweep with the same file computes only missing and failed records. At the end, the
    file is sorted in grid order, so two files of the same sweep are equal. Only one sweep at a time may write a file.

    A record depends on the bench or function and on everything it reads: functions that it calls, kernels, variables, and
    files that it names. A record is computed again if any of these has changed. `Sweep.kept` counts the records that were
    kept. A target may read something that cannot be compared, such as the environment. Then every configuration runs again,
    and `Sweep.unknown` names the cause. The clock and random numbers count as unchanged.

    A configuration that raises an exception gets a record with the error, and the sweep continues. If a worker process
    dies, its configurations are retried. A configuration that kills its worker every time is recorded as failed.

    Args:
        target: Name of a bench, `FILE.py::NAME`, a bench, or a function. A function takes the grid's keys by name and
            returns a number, a dictionary of figures, or a `Run`. A parameter `topology` receives the machine.
        grid: Lists of values by key, whose Cartesian product is run, or a list of configurations. Keys with a dot, such
            as `"hbm.channel_bandwidth_gbs"`, are values of the machine.
        executor: Any `concurrent.futures` executor, such as Dask's `Client.get_executor()` or a `cubeyard.RayExecutor()`;
            local processes if None.
        path: File of records, with one JSON line each. No file is written if None.
        resume: Whether to reuse records that are already in the file.
        progress: Whether to show a tqdm bar, or a callback for the completed and total counts. None shows a bar on
            terminals.
        topology: The machine; see `cubeyard.run`.
        data: Whether to compute and check values.
        live: Whether kernels run live.
        device: SIPs to use; see `cubeyard.run`.
        workers: Number of local processes without an executor; one per core if None.
        cost: Cost of a configuration's machine, as an expression over topology keys and groups of keys such as
            `"3*hbm.bandwidth + 2*sips.count"`. `Sweep.designs` then has the costs and the Pareto front.

    Raises:
        InputError: The grid is empty, or a key or value does not suit the target. A cost is not an expression, or has no
            value for a machine. A cost is given for a target whose records have no simulated time. Also raised if the file contains no
            records, is being written by another sweep, or cannot be written.

    >>> import concurrent.futures, cubeyard
    >>> with concurrent.futures.ThreadPoolExecutor(1) as threads:
    ...     swept = cubeyard.sweep("vector-add", {"elements": [4096, 8192], "pes": [1, 8]}, executor=threads)
    >>> [(row["elements"], row["pes"]) for row in swept.rows()]
    [(4096, 1), (4096, 8), (8192, 1), (8192, 8)]
    """
    found = resolve(target) if isinstance(target, str | Bench) else target
    source = _source(found)
    configurations = points(grid)
    jobs = [Job.of(found, source, point, topology, data, live, device) for point in configurations]
    costs = None if cost is None else _native.costs([native_of(job.topology) for job in jobs], cost)
    wanted = list(dict.fromkeys(job.key for job in jobs))
    by_key = {job.key: job for job in jobs}
    unknown = None if source is None else source.unknown
    with _native.Records(path, resume) as records:
        missing = [by_key[key] for key in wanted if unknown is not None or not records.has(key)]
        with Workers.of(executor, workers, progress, len(missing)) as pool:
            for line in pool.each(missing):
                records.add(line)
        records.sort(wanted)
        made = {job.key for job in missing}
        kept = sum(job.key not in made for job in jobs)
        lines = [records.line(job.key) for job in jobs]
        designs = None if costs is None else _designs(configurations, lines, costs)
        return Sweep(tuple(map(Record.read, lines)), kept, unknown, designs)


def _designs(configurations: Sequence[Mapping[str, Any]], lines: Sequence[str], costs: Sequence[float]) -> Designs:
    """Compares configurations by the times of their records and by their costs."""
    names = [" ".join(f"{name}={value}" for name, value in point.items()) for point in configurations]
    times, front, knee, verdict = _native.compare_designs(list(zip(names, lines, costs, strict=True)))
    for name, line, time in zip(names, lines, times, strict=True):
        if time is None and Record.read(line).ok:
            raise InputError(f"cost: the record of {name} has no simulated time, which a bench or a `Run` has")
    return Designs(tuple(costs), tuple(times), tuple(front), knee, verdict)


def _columns(points: Iterable[tuple[float, float | None]]) -> tuple[list[float], list[float]]:
    """Returns the coordinates of points that have a time."""
    known = [(cost, time) for cost, time in points if time is not None]
    return [cost for cost, _ in known], [time for _, time in known]


def points(grid: Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns the configurations of a grid, in order.

    >>> points({"m": [1, 2], "n": [3]})
    [{'m': 1, 'n': 3}, {'m': 2, 'n': 3}]
    """
    if isinstance(grid, Mapping):
        return _native.grid_points([(name, _values(name, values)) for name, values in grid.items()])
    found = [_point(place, point) for place, point in enumerate(grid)]
    if not found or not found[0]:
        raise InputError("grid: expected at least one configuration with a key")
    return found


def _values(name: str, values: Iterable[Any]) -> list[Any]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError(f"grid[{name!r}]: expected a list of values, found {values!r}")
    return list(values)


def _point(place: int, point: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(point, Mapping):
        raise InputError(f"grid[{place}]: expected a dictionary, found {point!r}")
    return dict(point)


@dataclass(frozen=True)
class Job:
    """Configuration that can run on any worker."""

    target: Target
    """Name of a bench, a bench or a function."""
    parameters: dict[str, Any]
    """Parameters of the bench, or arguments of the function."""
    topology: Topology | None
    """Machine, or None for the default machine."""
    options: tuple[bool, bool, str | int | None]
    """Values of the options data, live and device."""
    line: str
    """Record without figures."""
    key: str
    """Key of the record."""

    @staticmethod
    def of(
        target: Target,
        source: Source | None,
        point: Mapping[str, Any],
        topology: Any,
        data: bool,
        live: bool,
        device: str | int | None,
    ) -> Job:
        """Checks a configuration, so that mistakes are found before anything runs."""
        plain = {name: _plain(f"grid[{name!r}]", value) for name, value in point.items()}
        overrides = {name: value for name, value in plain.items() if "." in name}
        parameters = {name: value for name, value in plain.items() if "." not in name}
        if overrides and callable(target) and not isinstance(target, Bench) and not _takes_topology(target):
            keys = ", ".join(overrides)
            raise InputError(f"grid: {keys}: expected a function with a parameter topology, which receives these values")
        here, given = _overridden(topology, overrides), (data, live, device)
        key, line = _native.read_record(_foreseen(target, source, parameters, native_of(here), given))
        return Job(target, parameters, here, given, line, key)

    def run(self) -> str:
        """Runs the configuration and returns its record as a line. An exception becomes a record with an error."""
        try:
            return self._run()
        except Exception as error:
            return self.failed(describe(error)[0])

    def failed(self, error: str) -> str:
        """Returns the record of a failed run."""
        return _native.failed_record(self.line, error)

    def _run(self) -> str:
        data, live, device = self.options
        if isinstance(self.target, str | Bench):
            made = run(
                self.target, topology=self.topology, data=data, live=live, device=device, **self.parameters
            )
            return self._finished(made.record().figures or {})
        named = dict(self.parameters)
        if _takes_topology(self.target):
            named["topology"] = self.topology
        return self._finished(_figures(self.target(**named)))

    def _finished(self, figures: Mapping[str, Any]) -> str:
        return _native.finished_record(self.line, json.dumps(figures, allow_nan=False))


def _source(target: Target) -> Source | None:
    """Returns the source of a target, or None for a built-in bench."""
    if isinstance(target, str):
        return None
    if not callable(target):
        raise InputError(f"target={target!r}: expected the name of a bench, a bench or a function")
    return Source.of(target.function if isinstance(target, Bench) else target)


def _foreseen(
    target: Target,
    source: Source | None,
    parameters: Mapping[str, Any],
    where: _native.Topology,
    given: tuple[bool, bool, str | int | None],
) -> str:
    """Returns the record of a configuration, without figures."""
    digits = None if source is None else source.hash
    if isinstance(target, str | Bench):
        return _native.foreseen_record(target, assignments(target, parameters), where, options(*given), digits)
    inputs = json.dumps(_bound(target, parameters), allow_nan=False)
    return _native.make_record(_name(target), digits, where.content_hash(), inputs)


def _overridden(topology: Any, overrides: Mapping[str, Any]) -> Topology | None:
    """Returns a machine with overridden values, which can be sent to another host, or None for the default machine."""
    here = topology if topology is None else resolve_topology(topology)
    return resolve_topology(here).with_(overrides) if overrides else here


def _takes_topology(function: Callable[..., Any]) -> bool:
    return "topology" in inspect.signature(function).parameters


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", None) or type(function).__name__


def _bound(function: Callable[..., Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a function, including defaults."""
    signature = inspect.signature(function)
    named = dict(parameters)
    if "topology" in signature.parameters:
        named["topology"] = None
    try:
        bound = signature.bind(**named)
    except TypeError as error:
        raise InputError(f"grid: {_name(function)}() {error}") from error
    bound.apply_defaults()
    arguments = {**bound.arguments, **bound.arguments.get("kwargs", {})}
    return {name: _plain(f"{_name(function)}: {name}", arguments[name]) for name in arguments if name not in ("topology", "kwargs")}


def _figures(returned: Any) -> dict[str, Any]:
    """Converts a function's return value to figures by name."""
    if isinstance(returned, Run):
        return returned.record().figures or {}
    if not isinstance(returned, Mapping):
        returned = {"value": returned}
    return {str(name): _plain(f"figure {name!r}", value) for name, value in returned.items()}


def _plain(where: str, value: Any) -> Any:
    """Converts a value to JSON types.

    Raises:
        InputError: The value has no JSON representation.
    """
    value = unboxed(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{where}: expected a finite number, found {value}")
    if isinstance(value, Mapping):
        return {str(name): _plain(f"{where}[{name!r}]", item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(f"{where}[{place}]", item) for place, item in enumerate(value)]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InputError(f"{where}: expected numbers, strings, bools, lists or dictionaries, found {type(value).__name__}")


def _row(record: Record) -> dict[str, Any]:
    row: dict[str, Any] = {"topology": record.topology}
    row |= {name.removeprefix("--"): value for name, value in record.inputs.items() if _is_single(value)}
    figures = record.figures or {}
    row |= {name: value for name, value in figures.items() if _is_single(value) and name != "check"}
    check = figures.get("check")
    return {**row, "passed": check["passed"] if check else None, "error": record.error}


def _is_single(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)
