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
    """Inputs of a run with its figures, in one line of JSON that is the same on every host.

    >>> import cubeyard
    >>> record = cubeyard.run("vector-add", elements=4096).record()
    >>> record.inputs["elements"], record.ok
    (4096, True)
    >>> cubeyard.Record.read(record.line) == record
    True
    """

    line: str = field(repr=False)
    """The record as it is written to a file, without the end of the line."""
    key: str = field(repr=False)
    """Text that is equal for records of the same run, with the same version of the package."""
    version: str
    """Version of the package whose model gave the figures."""
    bench: str
    """Name of the bench or function."""
    source: str | None
    """Hash of a bench or function that is not built in, and of all that it reads."""
    topology: str
    """Hash of the machine."""
    inputs: dict[str, Any]
    """Parameters and options by name, with the defaults filled in; options begin with two hyphens."""
    figures: dict[str, Any] | None
    """Figures by name; None if the run failed."""
    error: str | None
    """Error of a run that failed."""
    command: str | None = None
    """Command that made the record with `--save`, if it is another than `run`."""
    machine: dict[str, Any] | None = field(default=None, repr=False)
    """Values of the machine in the structure of a topology file, if they were kept."""

    @staticmethod
    def read(line: str) -> Record:
        """Reads a line.

        Raises:
            InputError: The line is not a record.
            VersionError: The record has another format; make it again.
        """
        key, line = _native.read_record(line)
        fields = json.loads(line)
        fields.pop("format")
        fields.pop("ops", None)
        return Record(line=line, key=key, **fields)

    @property
    def ok(self) -> bool:
        """Whether there are figures, and no check of the run has failed."""
        return self.figures is not None and (self.figures.get("check") or {}).get("passed", True)


@dataclass(frozen=True)
class Run(Result):
    """Results of a run: times, bounds and the limit of a bench.

    Fields are those of `cubeyard run --format json`.
    """

    bench: str
    summary: str
    parameters: dict[str, str]
    machine: str
    pes: int
    kernel_ns: float
    """Time from the start of the first PE to the end of the last."""
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
    """The tightest bound as a fraction of the kernel time; 1 is as fast as possible, 0 if no bound is known."""
    limited_by: str
    bounds: list[dict[str, Any]]
    units: list[dict[str, Any]]
    breakdown: list[dict[str, Any]]
    critical: list[dict[str, Any]] | None
    """Steps of the critical path, if the run was made with `explain=True`."""
    lanes: list[dict[str, Any]] | None
    """Timelines of a few PEs, if the run was made with `explain=True`."""
    check: dict[str, Any] | None
    """Comparison with a reference, or the outcome of the bench's own assertions; None without data."""
    findings: list[dict[str, Any]]
    """Defects of kernels that nevertheless ran to their ends."""
    notes: list[str]
    _run: Any = field(repr=False, compare=False, metadata=HIDDEN)
    _source: str | None = field(repr=False, compare=False, metadata=HIDDEN)

    _title: ClassVar[str] = "Run"
    _types: ClassVar[Mapping[str, str]] = {"place": "utf8"}

    @property
    def ok(self) -> bool:
        """Whether no number is wrong and no defect was found."""
        return bool(self._run.is_well)

    def rows(self) -> list[dict[str, Any]]:
        """Returns the critical path, a row for each step."""
        critical = self._run.figures(True)["critical"]
        return [{name: value for name, value in step.items() if name != "access"} for step in critical]

    def page(self) -> str:
        """Returns the report as a self-contained HTML page: timeline, critical path, utilisation and roofline."""
        return str(self._run.page())

    def explain(self) -> str:
        """Returns the critical path as text, by line of the kernel and step by step."""
        return str(self._run.explain())

    def trace(self, path: str | os.PathLike[str]) -> Path:
        """Writes a trace for Perfetto (ui.perfetto.dev) with every operation of every unit, and returns its path.

        Raises:
            InputError: The file cannot be written.
        """
        return write(path, self._run.trace())

    def record(self) -> Record:
        """Returns inputs and figures as a record, to be kept and compared."""
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
    """Runs a bench on a simulated machine of its own. Ctrl-C interrupts it.

    Args:
        bench: Name of a built-in bench, `FILE.py::NAME`, or a function decorated with `@cubeyard.bench`.
        topology: The machine: None for the default, a file, a dictionary, or a `Topology`.
        data: Whether values are computed and checked.
        live: Whether kernels run with their PE instead of being recorded; the times are the same.
        device: SIPs to use: a number, `"sip:1"` or `"all"`; the first, or all for a bench of several SIPs, if None.
        explain: Whether `critical` and `lanes` are filled in.
        parameters: Parameters of the bench; `-` in a name is written `_`.

    Raises:
        InputError: There is no such bench or parameter, or it does not admit the value; the text names the nearest.
        OutOfMemory: Memory of the machine runs out, or the run would need more than the host has free.

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
    # Before the run, which may change what the bench reads.
    source = target.source if isinstance(target, Bench) else None
    native = _native.run_bench(target, settings, native_of(topology), options(data, live, device))
    return Run(**native.figures(explain), _run=native, _source=source)


def benches(own: Iterable[Bench] | str | os.PathLike[str] | None = None) -> list[dict[str, Any]]:
    """Returns benches with their parameters: the built-in ones, those given, or those of a file.

    >>> import cubeyard
    >>> "gemm" in [bench["name"] for bench in cubeyard.benches()]
    True
    """
    if own is None:
        return _native.built_in_benches()
    listed = load(own) if isinstance(own, str | os.PathLike) else own
    return [_native.describe_bench(bench) for bench in listed]


def resolve(bench: str | Bench) -> str | Bench:
    """Returns the bench of `FILE.py[::NAME]`, and any other as it is."""
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
    raise InputError(f"bench={bench!r}: expected one of the benches of {path}, which are: {names}")


def assignments(bench: str | Bench, parameters: Mapping[str, Any]) -> list[str]:
    """Returns parameters as `name=value`, with the names of the bench."""
    known = [] if not parameters else _native.describe_bench(bench)["parameters"]
    names = {parameter["name"].replace("-", "_"): parameter["name"] for parameter in known}
    return [f"{names.get(name, name)}={_text(name, value)}" for name, value in parameters.items()]


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    plain = unboxed(value)
    if not isinstance(plain, int | float | str):
        raise InputError(f"{name}={value!r}: expected a number, a text or a truth value")
    return str(plain)


def unboxed(value: Any) -> Any:
    """Returns a scalar of NumPy as a number of Python, and anything else as it is."""
    return value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value


def options(data: bool, live: bool, device: str | int | None) -> tuple[bool, bool, int | None, bool]:
    """Returns the options of a run as the native module takes them."""
    if device is None or device == "all":
        return bool(data), bool(live), None, device == "all"
    text = str(device).removeprefix("sip:")
    if isinstance(device, bool) or not text.isdecimal():
        raise InputError(f"device={device!r}: expected 'all', a number, or 'sip:' and a number")
    return bool(data), bool(live), int(text), False
