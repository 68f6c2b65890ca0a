"""Runs of benches."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from cubeyard import _native
from cubeyard._base.results import HIDDEN, Result, write
from cubeyard.errors import InputError
from cubeyard.machine.topology import native_of
from cubeyard.study.bench import Bench, load

__all__ = ["Record", "Run", "benches", "run"]


@dataclass(frozen=True)
class Record:
    """Inputs and figures of a run, in one line of JSON that is the same on every host.

    >>> import cubeyard
    >>> record = cubeyard.run("vector-add", elements=4096).record()
    >>> record.inputs["elements"], record.ok
    (4096, True)
    >>> cubeyard.Record.read(record.line) == record
    True
    """

    line: str = field(repr=False)
    """Line of JSON as written to a file, without the newline."""
    key: str = field(repr=False)
    """Key that is equal for records of the same run with the same version of the package."""
    version: str
    """Version of the package that computed the figures."""
    bench: str
    """Name of the bench or function."""
    source: str | None
    """Hash of a bench or function that is not built in, and of everything it reads."""
    topology: str
    """Hash of the machine."""
    inputs: dict[str, Any]
    """Parameters and options by name, including defaults. Options start with two hyphens."""
    figures: dict[str, Any] | None
    """Figures by name, or None if the run failed."""
    error: str | None
    """Error message of a failed run, or None."""
    command: str | None = None
    """Command that wrote the record with `--save`, unless it was `run`."""
    machine: dict[str, Any] | None = field(default=None, repr=False)
    """Machine in the structure of a topology file, if it was saved."""

    @staticmethod
    def read(line: str) -> Record:
        """Reads a record from a line.

        Raises:
            InputError: The line is not a record.
            VersionError: The record has another format. Run the bench again.
        """
        key, line = _native.read_record(line)
        fields = json.loads(line)
        fields.pop("format")
        fields.pop("ops", None)
        return Record(line=line, key=key, **fields)

    @property
    def ok(self) -> bool:
        """Whether the run has figures and passed its check, if any."""
        return self.figures is not None and (self.figures.get("check") or {}).get("passed", True)


@dataclass(frozen=True)
class Run(Result):
    """Results of running a bench: times, bounds and the limiting resource.

    The fields are the keys of `cubeyard run --format json`.
    """

    bench: str
    summary: str
    parameters: dict[str, str]
    machine: str
    pes: int
    kernel_ns: float
    """Time from the first PE's start to the last PE's end."""
    host_ns: float
    """Time from the host's first launch to the last completion."""
    launches: list[dict[str, Any]]
    read_bytes: int
    written_bytes: int
    flop: int
    bandwidth_gbs: float
    peak_bandwidth_gbs: float
    rate_gflops: float
    peak_rate_gflops: float
    share_of_bound: float
    """Ratio of the tightest bound to the kernel time; 1 is optimal, and 0 means that no bound is known."""
    limited_by: str
    """Unit with the most time on the critical path and its share, followed by the largest source lines."""
    lines: list[dict[str, Any]]
    """Time of each source line on the critical path, longest first, with its units."""
    bounds: list[dict[str, Any]]
    units: list[dict[str, Any]]
    breakdown: list[dict[str, Any]]
    critical: list[dict[str, Any]] | None
    """Steps of the critical path, with `explain=True`; otherwise None."""
    lanes: list[dict[str, Any]] | None
    """Timelines of a few PEs, with `explain=True`; otherwise None."""
    check: dict[str, Any] | None
    """Comparison with a reference, or the outcome of the bench's own assertions; None without data."""
    findings: list[dict[str, Any]]
    """Defects of kernels that ran to completion."""
    notes: list[str]
    _run: Any = field(repr=False, compare=False, metadata=HIDDEN)
    _source: str | None = field(repr=False, compare=False, metadata=HIDDEN)

    _title: ClassVar[str] = "Run"
    _types: ClassVar[Mapping[str, str]] = {"place": "utf8"}

    @property
    def ok(self) -> bool:
        """Whether all checked values are correct and no defect was found."""
        return bool(self._run.is_well)

    def rows(self) -> list[dict[str, Any]]:
        """Returns the critical path, one row per step."""
        critical = self._run.figures(True)["critical"]
        return [{name: value for name, value in step.items() if name != "access"} for step in critical]

    def page(self) -> str:
        """Returns a self-contained HTML report: timeline, critical path, utilisation and roofline."""
        return str(self._run.page())

    def explain(self) -> str:
        """Returns the critical path as text, by kernel line and step by step."""
        return str(self._run.explain())

    def trace(self, path: str | os.PathLike[str]) -> Path:
        """Writes a Perfetto trace with every operation of every unit, and returns its path.

        Raises:
            InputError: The file cannot be written.
        """
        return write(path, self._run.trace())

    def record(self) -> Record:
        """Returns the inputs and figures as a record, to be stored and compared."""
        return Record.read(self._run.record(self._source, False))

    def _draw(self, axes: Any) -> None:
        parts = [(part["kind"], part["span_ns"]) for part in self.breakdown]
        axes.barh([kind for kind, _ in parts], [span for _, span in parts])
        axes.invert_yaxis()
        axes.set_xlabel("time on the critical path, ns")
        axes.set_title(f"{self.bench}: {self.kernel_ns:,.1f} ns")


def run(
    bench: str | Bench,
    /,
    *,
    topology: Any = None,
    data: bool = False,
    live: bool = False,
    device: str | int | None = None,
    explain: bool = False,
    **parameters: Any,
) -> Run:
    """Runs a bench on a fresh simulated machine. Ctrl-C interrupts the run.

    Args:
        bench: Name of a built-in bench, `FILE.py::NAME`, or a function decorated with `@cubeyard.bench`.
        topology: The machine: None for the default, a file, a dictionary, or a `Topology`.
        data: Whether to compute and check values.
        live: Whether kernels run live with their PEs instead of being recorded. The times are the same.
        device: SIPs to use: a number, `"sip:1"` or `"all"`. None selects the first SIP, or all for a multi-SIP bench.
        explain: Whether to fill in `critical` and `lanes`.
        parameters: Parameters of the bench, with `_` for `-` in names.

    Raises:
        InputError: A bench or parameter is unknown, or a value is not allowed. The text names the nearest match.
        OutOfMemory: The machine runs out of memory, or the run needs more than the host's free memory.

    >>> import cubeyard
    >>> run = cubeyard.run("gemm", m=128, k=128, n=128, data=True)
    >>> run.check["passed"], run.kernel_ns > 0
    (True, True)
    >>> cubeyard.run("gem")
    Traceback (most recent call last):
        ...
    cubeyard.errors.InputError: there is no bench `gem`; the nearest is `gemm`
    """
    target = resolve(bench)
    settings = assignments(target, parameters)
    # The hash is computed first, because the run may change values that the bench reads.
    source = target.source if isinstance(target, Bench) else None
    native = _native.run_bench(target, settings, native_of(topology), options(data, live, device))
    return Run(**native.figures(explain), _run=native, _source=source)


def benches(own: Iterable[Bench] | str | os.PathLike[str] | None = None) -> list[dict[str, Any]]:
    """Returns descriptions of benches with their parameters: built-in ones, the given ones, or those in a file.

    >>> import cubeyard
    >>> "gemm" in [bench["name"] for bench in cubeyard.benches()]
    True
    """
    if own is None:
        return _native.built_in_benches()
    listed = load(own) if isinstance(own, str | os.PathLike) else own
    return [_native.describe_bench(bench) for bench in listed]


def resolve(bench: str | Bench) -> str | Bench:
    """Loads the bench of `FILE.py[::NAME]`. Returns any other bench unchanged."""
    if isinstance(bench, Bench):
        return bench
    if not isinstance(bench, str):
        raise InputError(f"bench={bench!r}: expected a name or a function decorated with @cubeyard.bench")
    path, _, name = bench.partition("::")
    if not path.endswith(".py"):
        return bench
    found = load(path)
    if not name and len(found) == 1:
        return found[0]
    for one in found:
        if one.name == name:
            return one
    names = ", ".join(one.name for one in found) or "none"
    raise InputError(f"bench={bench!r}: expected one of the benches in {path}: {names}")


def assignments(bench: str | Bench, parameters: Mapping[str, Any]) -> list[str]:
    """Formats parameters as `name=value`, with the bench's own names."""
    known = [] if not parameters else _native.describe_bench(bench)["parameters"]
    names = {parameter["name"].replace("-", "_"): parameter["name"] for parameter in known}
    return [f"{names.get(name, name)}={_text(name, value)}" for name, value in parameters.items()]


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    plain = unboxed(value)
    if not isinstance(plain, int | float | str):
        raise InputError(f"{name}={value!r}: expected a number, a string or a bool")
    return str(plain)


def unboxed(value: Any) -> Any:
    """Converts a NumPy scalar to a Python number. Returns any other value unchanged."""
    return value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value


def options(data: bool, live: bool, device: str | int | None) -> tuple[bool, bool, int | None, bool]:
    """Returns the options of a run in the form that the native module takes."""
    if device is None or device == "all":
        return bool(data), bool(live), None, device == "all"
    text = str(device).removeprefix("sip:")
    if isinstance(device, bool) or not text.isdecimal():
        raise InputError(f"device={device!r}: expected 'all', a number, or 'sip:' followed by a number")
    return bool(data), bool(live), int(text), False
