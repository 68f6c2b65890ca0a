"""Results of a replay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from cubeyard import _native
from cubeyard._base.results import HIDDEN, Result, arrow_types, build, plain
from cubeyard.replay._usage import MemoryUse


@dataclass(frozen=True)
class PolicyResult:
    """Result of replaying one trace under one policy."""

    trace: str
    """Name of the trace."""
    answer: dict[str, Any]
    """Memory that PyTorch needs (`text`, `needs_bytes`), and the setting that needs less; equal for all policies."""
    file: str | None
    """File as it was given, or `None` if the trace has no file."""
    policy: str
    """Name of the policy."""
    events: int
    """Number of replayed events: all events, or the events before the failure."""
    peak_live_bytes: int
    """Peak of the live bytes, with each requested size rounded up to 128."""
    peak_reserved_bytes: int
    """Peak of the device memory held by the policy, in bytes."""
    waste: float | None
    """Ratio of peak reserved to peak live bytes; `None` if the policy failed or nothing was allocated."""
    ns_per_op: float | None
    """Mean CPU time per allocation or free, in nanoseconds; `None` if the policy failed or nothing was allocated."""
    failed: str | None
    """Report of the request that the policy could not serve, or `None`. The other figures end there."""
    fits_where_memory_ran_out: bool | None
    """Whether the policy would have served the first request that failed while the snapshot was recorded."""
    recorded_by: str | None
    """Program that recorded the snapshot, PyTorch or Cubeyard; `None` if the trace is not a snapshot."""
    recorded_reserved_bytes: int | None
    """Bytes reserved by the recorded allocator, if the snapshot contains them."""
    doubt: str | None
    """Reason why the snapshot allows no advice, or `None`."""
    reserved_at_peak_bytes: int
    """Bytes held by the policy when the live bytes peaked."""
    least_bytes: int | None
    """Least memory in which the policy serves the trace; `None` except for PyTorch's policy and the best other one."""
    least_fails_bytes: int | None
    """Memory size 2 MiB smaller, in which the policy fails."""
    least_reserved_bytes: int | None
    """Bytes held in the least memory. Pages of expandable segments may exceed the limit by a few MiB."""
    least_retries: int | None
    """Number of times that the policy released its cache in the least memory."""
    emptied_cache_calls: int
    """Calls of `empty_cache()` that the recording shows: they returned memory, and no growth followed at once."""
    emptied_cache_bytes: int
    """Bytes that these calls returned to the device."""
    streams: int
    """Number of streams that requested memory."""
    lag_launches: int | None
    """Number of launches by which each stream lags behind the host; `None` if work completes as recorded."""
    waits: int
    """Number of times that the policy waited for work of a stream that was not complete."""
    peak: MemoryUse | None
    """Memory use at the peak of the live bytes, equal for all policies; `None` if nothing was allocated."""
    out_of_memory: MemoryUse | None
    """Memory use at the first request that failed during recording; `None` if no request failed."""


@dataclass(frozen=True)
class TimelinePoint:
    """Maxima over a group of consecutive events. A replay has at most a thousand groups."""

    trace: str
    policy: str
    event: int
    """Index of the first event in the group."""
    time_us: int
    """Time of the first event, in microseconds since the start of the trace."""
    live_bytes: int
    reserved_bytes: int


@dataclass(frozen=True)
class Comparison(Result):
    """Results of replaying traces under policies. Iteration yields one `PolicyResult` per trace and policy.

    >>> from cubeyard import replay
    >>> comparison = replay.compare(replay.example(), policies=["pytorch", "best-fit"])
    >>> comparison.recommended
    {'resnet_train': 'best-fit'}
    >>> comparison.to_dict()[0]["peak_reserved_bytes"]        # what PyTorch itself reserved, testdata/traces/native.json
    9103736832
    """

    results: tuple[PolicyResult, ...]
    """Results, grouped by trace."""
    advice: str = field(metadata=HIDDEN)
    """Advice that the command prints below its tables."""
    recommended: dict[str, str | None] = field(metadata=HIDDEN)
    """Recommended policy for each trace, or `None` if the recording allows no advice."""
    _outcome: _native.ReplayOutcome = field(repr=False, compare=False, metadata=HIDDEN)

    _title: ClassVar[str] = "Replay"
    _types: ClassVar[dict[str, str]] = arrow_types(PolicyResult)

    def to_dict(self) -> Any:
        """Returns the plain data that `cubeyard replay --format json` prints, without the version."""
        return plain(self.results)

    def rows(self) -> list[dict[str, Any]]:
        """Returns one dictionary per trace and policy, without `answer`, `peak` and `out_of_memory`."""
        nested = ("answer", "peak", "out_of_memory")
        return [{key: value for key, value in plain(result).items() if key not in nested} for result in self.results]

    def page(self) -> str:
        """Returns a self-contained HTML report: the advice, then a chart and a table per trace."""
        return self._outcome.page()

    def svg(self) -> str:
        """Returns the charts as one SVG image."""
        return self._outcome.svg()

    def timeline(self) -> list[TimelinePoint]:
        """Returns the live and reserved bytes over the course of each replay."""
        return [TimelinePoint(*point) for point in self._outcome.timeline()]

    def __iter__(self) -> Iterator[PolicyResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def _draw(self, axes: Any) -> None:
        """Draws the live and reserved bytes of the first trace over its events."""
        first = self.results[0].trace if self.results else ""
        points = [point for point in self.timeline() if point.trace == first]
        for policy in dict.fromkeys(point.policy for point in points):
            mine = [point for point in points if point.policy == policy]
            axes.plot([point.event for point in mine], [point.reserved_bytes / 2**30 for point in mine], label=policy)
        mine = [point for point in points if point.policy == self.results[0].policy]
        live = [point.live_bytes / 2**30 for point in mine]
        axes.fill_between([point.event for point in mine], live, alpha=0.3, label="live")
        axes.set(title=first, xlabel="event", ylabel="GiB")
        axes.legend()


def comparison(outcome: _native.ReplayOutcome) -> Comparison:
    """Builds a comparison from the records of a replay."""
    results = tuple(build(PolicyResult, record) for record in outcome.records())
    return Comparison(results, outcome.advice(), dict(outcome.recommended()), outcome)
