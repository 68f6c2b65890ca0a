"""Results of recorded launches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from typing import Any

from cubeyard.errors import InputError
from cubeyard.kernels.kernel import LaunchReport
from cubeyard.study import scripts
from cubeyard.study.bench import Bench
from cubeyard.study.context import BenchContext
from cubeyard.study.run import Run
from cubeyard.study.run import run as run_bench
from cubeyard.tensors.context import Context
from cubeyard.tensors.placement import Placement
from cubeyard.triton._arguments import ROWS
from cubeyard.triton._launch import Launch, Settings
from cubeyard.triton._program import Notes, Schedule

__all__ = ["Recording", "TritonRun", "perform", "record", "timed", "with_own_bounds"]


@dataclass
class Recording:
    """Launches within a `with cubeyard.triton.record()` block."""

    settings: Settings
    launches: list[Any] = field(default_factory=list)
    """A `TritonRun` per launch on arrays, or a `LaunchReport` per launch on tensors of a context."""


@dataclass(frozen=True)
class TritonRun(Run):
    """Results of launching a Triton kernel. The bounds follow from the kernel's own commands, not from its problem."""

    @property
    def ok(self) -> bool:
        """Whether no defect was found."""
        return not self.findings


_recording: ContextVar[Recording | None] = ContextVar("recording", default=None)
_times: ContextVar[list[int] | None] = ContextVar("times", default=None)
_DEFAULT = Settings()


@contextmanager
def record(
    *,
    topology: Any = None,
    schedule: str | Schedule = "waves",
    data: bool = True,
    placement: Placement = ROWS,
    cubes: Any = None,
    pes: Any = None,
    sips: Iterable[int] = (0,),
) -> Iterator[Recording]:
    """Records the launches of Triton kernels within a `with` block as results.

    Args:
        topology: the machine: None for the default, a file, a dictionary, or a `Topology`.
        schedule: assignment of programs to PEs: `waves`, `blocks`, or a function. The function takes the PE's number, the
            number of PEs and the number of programs. It returns a range of programs.
        data: whether to compute values. If False, only times are simulated.
        placement: distribution of arrays for which `place` was not called.
        cubes: numbers of the participating cubes; all by default.
        pes: numbers of the participating PEs in each cube; all by default.
        sips: numbers of the participating SIPs. The schedule counts their PEs consecutively.
    """
    recording = Recording(Settings(topology, schedule, data, placement, cubes, pes, _sips(sips)))
    token = _recording.set(recording)
    try:
        yield recording
    finally:
        _recording.reset(token)


def _sips(given: Iterable[int]) -> tuple[int, ...]:
    """Checks the numbers of SIPs and returns them as a tuple."""
    found = tuple(given) if isinstance(given, Iterable) else (given,)
    if not found or len(set(found)) < len(found) or not all(type(one) is int and one >= 0 for one in found):
        raise InputError(f"sips={given!r}: expected distinct numbers of SIPs, such as (0, 1)")
    return found


@contextmanager
def timed() -> Iterator[list[int]]:
    """Collects the simulated times of launches, in picoseconds."""
    times: list[int] = []
    token = _times.set(times)
    try:
        yield times
    finally:
        _times.reset(token)


def current() -> Settings:
    """Returns the current settings of launches."""
    recording, measured = _recording.get(), scripts.measured.get()
    if recording is None and measured is not None:
        return Settings(data=measured.context.data)
    return _DEFAULT if recording is None else recording.settings


def perform(launch: Launch, options: list[str]) -> None:
    """Runs a launch, and records it if recording is active."""
    recording = _recording.get()
    context = launch.context() or _context_of(launch)
    if context is not None:
        done: Any = launch.run(context, set())
        _timed(done.max_ps)
    elif recording is None:
        with Context(launch.settings.topology, data=launch.settings.data) as own:
            report = launch.run(own, set())
        _timed(report.max_ps)
    else:
        done = _explained(launch, options)
        _timed(round(done.kernel_ns * 1000))
    if recording is not None:
        recording.launches.append(done)


def _context_of(launch: Launch) -> Context | None:
    """Returns the context that measures launches of this kernel, if any."""
    measured = scripts.measured.get()
    if measured is None:
        return None
    measured.launched.append(launch.program.name)
    return measured.context if launch.program.name == measured.kernel else None


def _timed(picoseconds: int) -> None:
    times = _times.get()
    if times is not None:
        times.append(picoseconds)


def _explained(launch: Launch, options: list[str]) -> Run:
    """Runs a launch as a bench. The result gives bounds, critical path and defects in terms of the author's lines."""
    notes: Notes = set()
    reports: list[LaunchReport] = []

    def bench(context: BenchContext) -> None:
        reports.append(launch.run(context, notes))

    line = launch.program.kernel.line
    grid = "x".join(str(one) for one in launch.grid)
    schedule = launch.settings.schedule if isinstance(launch.settings.schedule, str) else "of the caller"
    description = f"Triton kernel of {line}, grid {grid}, schedule {schedule}"
    found = run_bench(
        Bench(bench, launch.program.name, description, (line.file, line.line)), topology=launch.settings.topology, data=launch.settings.data,
        device="all" if len(launch.settings.sips) > 1 else None,
    )  # fmt: skip
    more = [*_notes(launch, notes, reports), *options]
    return replace(with_own_bounds(found), findings=_findings(launch, found), notes=[*found.notes, *more])


def with_own_bounds(found: Run) -> TritonRun:
    """Returns results with bounds from the kernel's own commands, since the least work of its problem is unknown."""
    share, bounds = _bounds(found)
    own = {name: getattr(found, name) for name in (field.name for field in fields(found))}
    return TritonRun(**{**own, "bounds": bounds, "share_of_bound": share})


def _findings(launch: Launch, of: Run) -> list[dict[str, Any]]:
    """Returns the defects of a launch. With atomics, races are omitted: the machine does not see the order of atomics."""
    races = ("with no order between the two",) if launch.program.facts.atomics else ()
    return [finding for finding in of.findings if not finding["what"].endswith(races)]


def _bounds(of: Run) -> tuple[float, list[dict[str, Any]]]:
    """Returns the share of the tightest bound, and all bounds: the time of each unit if all PEs had equal work.

    The benches of this package know the least work of their problem. For a Triton kernel it is unknown, so the bounds
    follow from its own commands.
    """
    units = [(unit["unit"], unit["mean"]) for unit in of.units if unit["unit"] not in ("DMA read", "DMA write", "PE_CPU")]
    moved_ns = (of.read_bytes + of.written_bytes) / of.peak_bandwidth_gbs if of.peak_bandwidth_gbs else 0
    shares = [*units, ("the HBM of all PEs", moved_ns / of.kernel_ns if of.kernel_ns else 0)]
    bounds = [{"resource": name, "least_ns": share * of.kernel_ns, "share": share} for name, share in shares]
    return max(share for _, share in shares), sorted(bounds, key=lambda bound: -float(bound["share"]))


def _notes(launch: Launch, notes: Notes, reports: list[LaunchReport]) -> list[str]:
    """Returns remarks about extra costs or behaviour that the kernel's author may not expect."""
    texts = [f"{line}: {text}" for line, _, text in sorted(notes)]
    programs = launch.grid[0] * launch.grid[1] * launch.grid[2]
    pes = len(reports[-1].pes) if reports else 0
    if pes:
        texts.append(f"{programs} programs on {pes} PEs: at most {-(-programs // pes)} on each, one after the other")
    if launch.program.facts.atomics:
        texts.append("races are not reported, since atomic operations may order the programs")
    if launch.program.facts.live:
        texts.append(f"runs live: {launch.program.facts.live}")
    return texts
