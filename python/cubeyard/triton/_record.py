"""Results of recorded launches."""

from __future__ import annotations

import sys
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
from cubeyard.triton._clock import Place, charge
from cubeyard.triton._launch import Launch, Settings
from cubeyard.triton._machine import machine_of, topology_of
from cubeyard.triton._program import Notes, Schedule
from cubeyard.triton._tuning import attempted

__all__ = ["Recording", "TritonRun", "perform", "record", "with_own_bounds"]


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
_DEFAULT = Settings()


@contextmanager
def record(
    *,
    topology: Any = None,
    schedule: str | Schedule = "homes",
    data: bool = True,
    placement: Placement = ROWS,
    cubes: Any = None,
    pes: Any = None,
    sips: Iterable[int] = (0,),
) -> Iterator[Recording]:
    """Records the launches of Triton kernels within a `with` block as results.

    Args:
        topology: the machine: None for the default, a file, a dictionary, or a `Topology`.
        schedule: assignment of programs to PEs: `homes`, `waves`, `blocks`, or a function. The function takes the PE's number, the
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


def current() -> Settings:
    """Returns the current settings of launches."""
    recording, measured = _recording.get(), scripts.measured.get()
    if recording is None and measured is not None:
        return Settings(data=measured.context.data)
    return _DEFAULT if recording is None else recording.settings


def perform(launch: Launch, options: list[str], place: Place | None = None) -> None:
    """Runs a launch, and records it if recording is active. It takes time at `place`, if that is given."""
    recording = _recording.get()
    done: Any
    context = launch.context() or _context_of(launch)
    if context is not None:
        report = done = launch.run(context, set())
    elif recording is None:
        report = done = attempted(launch, lambda: launch.run(machine_of(launch.device(), launch.settings.data), set()))
    else:
        done, report = _explained(launch, options)
    charge(place, launch, report)
    if recording is not None:
        recording.launches.append(done)


def _context_of(launch: Launch) -> Context | None:
    """Returns the context that measures launches of this kernel, if any."""
    measured = scripts.measured.get()
    if measured is None:
        return None
    measured.launched.append(launch.program.name)
    return measured.context if launch.program.name == measured.kernel else None


def _explained(launch: Launch, options: list[str]) -> tuple[Run, LaunchReport]:
    """Runs a launch as a bench. The result gives bounds, critical path and defects in terms of the author's lines."""
    notes: Notes = set()
    reports: list[LaunchReport] = []

    moved: list[int] = []

    def bench(context: BenchContext) -> None:
        reports.append(launch.run(context, notes))
        moved.extend(context._native.moved())

    line = launch.program.kernel.line
    grid = "x".join(str(one) for one in launch.grid)
    schedule = launch.settings.schedule if isinstance(launch.settings.schedule, str) else "of the caller"
    description = f"Triton kernel of {line}, grid {grid}, schedule {schedule}{_compiled_for()}"
    device = launch.device()
    found = run_bench(
        Bench(bench, launch.program.name, description, (line.file, line.line)), topology=topology_of(launch.settings.topology, device),
        data=launch.settings.data, device="all" if len(launch.settings.sips) > 1 else device,
    )  # fmt: skip
    more = [*_notes(launch, notes, reports), *_locality(*moved), *options]
    return replace(with_own_bounds(found), notes=[*found.notes, *more]), reports[-1]


def _compiled_for() -> str:
    """Returns the lines of the user's program, as text, if a graph of `torch.compile` launches the kernel."""
    compiled = sys.modules.get("cubeyard.torch.inductor.lines")
    lines = () if compiled is None else compiled.of_launch()
    return f", for {', '.join(lines)}" if lines else ""


def with_own_bounds(found: Run) -> TritonRun:
    """Returns results with bounds from the kernel's own commands, since the least work of its problem is unknown."""
    share, bounds = _bounds(found)
    own = {name: getattr(found, name) for name in (field.name for field in fields(found))}
    return TritonRun(**{**own, "bounds": bounds, "share_of_bound": share})


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


def _locality(own: int = 0, every: int = 0) -> list[str]:
    """Returns the share of the bytes that programs moved in the HBM of their own PEs."""
    return [f"{own / every:.0%} of the bytes were moved in the HBM of the PE that moved them"] if every else []


def _notes(launch: Launch, notes: Notes, reports: list[LaunchReport]) -> list[str]:
    """Returns remarks about extra costs or behaviour that the kernel's author may not expect."""
    texts = [f"{line}: {text}" for line, _, text in sorted(notes)]
    programs = launch.grid[0] * launch.grid[1] * launch.grid[2]
    pes = len(reports[-1].pes) if reports else 0
    if pes:
        texts.append(f"{programs} programs on {pes} PEs: at most {-(-programs // pes)} on each, one after the other")
    if launch.program.facts.live:
        texts.append(f"runs live: {launch.program.facts.live}")
    return texts
