"""Report of a call or of a block: tables of time, memory, and what limits it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from cubeyard._base.results import HIDDEN, Result, plain
from cubeyard.errors import InputError
from cubeyard.torch.profiling.footprint import Footprint, footprint
from cubeyard.torch.profiling.records import Operation
from cubeyard.torch.profiling.tables import BY, Sums, table_of

if TYPE_CHECKING:
    from cubeyard.torch.profiling.recorder import Recorder

__all__ = ["Mark", "Profile", "profile_between"]


@dataclass(frozen=True)
class Mark:
    """Place in the record of a run."""

    ps: int
    """Time in picoseconds."""
    operations: int
    """Number of operations so far."""
    changes: dict[int, int]
    """Number of changes of each device's memory so far."""


@dataclass(frozen=True)
class Profile(Result):
    """Time and memory of a part of a program.

    `rows()` is the table by operator; `rows("module")`, `rows("layer")`, `rows("line")`, `rows("shape")`, `rows("phase")` and
    `rows("operation")` are others. `explain()` says what limits the part, and `save("step.html")` writes a page.
    """

    _title: ClassVar[str] = "Step"
    _types: ClassVar[Mapping[str, str]] = {
        "bound_share": "float64", "local_share": "float64", "estimated_share": "float64", "share": "float64", "ns": "float64",
    }  # fmt: skip

    total_ps: int
    """Time from the begin to the end, in picoseconds."""
    memories: tuple[Footprint, ...]
    """Memory of each device that was used."""
    operations: tuple[Operation, ...] = field(repr=False, metadata=HIDDEN)
    """Operations in the order of the program, with times from the begin of the part."""
    value: Any = field(default=None, repr=False, compare=False, metadata=HIDDEN)
    """Result of the call; None for a block."""

    @property
    def total_ns(self) -> float:
        """Time from the begin to the end, in nanoseconds."""
        return self.total_ps / 1000

    @property
    def total_ms(self) -> float:
        """Time from the begin to the end, in milliseconds."""
        return self.total_ps / 1e9

    @property
    def memory(self) -> Footprint:
        """Memory of the device with the highest peak."""
        return max(self.memories, key=lambda memory: memory.peak_bytes)

    @property
    def busy_ps(self) -> int:
        """Time in which any device worked, in picoseconds."""
        busy, last = 0, 0
        for operation in sorted(self.operations, key=lambda one: one.begin_ps):
            busy += max(0, operation.end_ps - max(last, operation.begin_ps))
            last = max(last, operation.end_ps)
        return busy

    @property
    def idle_ps(self) -> int:
        """Time in which no device worked because the host had not launched the next operation, in picoseconds."""
        return self.total_ps - self.busy_ps

    @property
    def estimated_share(self) -> float:
        """Share of the operations' time that was estimated and not simulated."""
        whole = self.sums
        return whole.estimated_ps / whole.ps if whole.ps else 0.0

    @property
    def sums(self) -> Sums:
        """Sums over all operations."""
        whole = Sums()
        for operation in self.operations:
            whole.add(operation)
        return whole

    def rows(self, by: str = "operator") -> list[dict[str, Any]]:
        """Returns a table of the time: sums by `operator`, `module`, `layer`, `line`, `shape` or `phase`, or each `operation`."""
        if by not in BY:
            raise InputError(f"by={by!r}: expected one of {', '.join(BY)}")
        return table_of(by, self.operations, self.total_ps)

    def holders(self) -> list[dict[str, Any]]:
        """Returns the holders of the memory's peak: kind, module, operator and line, the largest first."""
        return [{"device": memory.device, **plain(holder)} for memory in self.memories for holder in memory.holders]

    def to_dict(self) -> Any:
        """Returns the totals, the tables by operator and by module, and the memory as plain data."""
        totals = {"total_ps": self.total_ps, "busy_ps": self.busy_ps, "estimated_share": self.estimated_share}
        return {**totals, "operators": self.rows(), "modules": self.rows("module"), "memory": plain(self.memories)}

    def levers(self) -> list[dict[str, Any]]:
        """Returns changes that would help, each with the figure that supports it. Empty if no figure does."""
        from cubeyard.torch.profiling.explain import levers

        return levers(self)

    def explain(self) -> str:
        """Returns what limits the part, as text."""
        from cubeyard.torch.profiling.explain import explained

        return explained(self)

    def page(self) -> str:
        """Returns a self-contained HTML page: timeline, memory, modules and tables."""
        from cubeyard.torch.profiling.page import page_of

        return page_of(self)

    def __str__(self) -> str:
        return self.explain()

    def _draw(self, axes: Any) -> None:
        for memory in self.memories:
            times = [time / 1e6 for time, _ in memory.over_time]
            axes.step(times, [size / 2**20 for _, size in memory.over_time], where="post", label=f"device {memory.device}")
        axes.set_xlabel("time in µs")
        axes.set_ylabel("allocated MiB")
        axes.legend()


def profile_between(recorder: Recorder, begin: Mark, end: Mark, capacity: int, value: Any = None) -> Profile:
    """Returns the report of a part of a run."""
    found = recorder.operations[begin.operations : end.operations]
    operations = tuple(replace(one, begin_ps=one.begin_ps - begin.ps, end_ps=one.end_ps - begin.ps) for one in found)
    logs = recorder.memory.logs
    memories = [footprint(logs[number], begin.changes[number], end.changes[number], begin.ps, capacity) for number in logs]
    used = [memory for memory in memories if memory.device == 0 or memory.peak_bytes]
    return Profile(end.ps - begin.ps, tuple(used), operations, value)
