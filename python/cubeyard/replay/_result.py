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
    """Result of one trace under one policy."""

    trace: str
    """Name of the trace."""
    file: str | None
    """File as it was given; `None` if there is none."""
    policy: str
    """Name of the policy."""
    events: int
    """Number of events replayed: all, or those before the failure."""
    peak_live_bytes: int
    """Maximum number of live bytes: requested sizes, each rounded up to 128."""
    peak_reserved_bytes: int
    """Maximum number of bytes that the policy held of the device's memory."""
    waste: float | None
    """Peak reserved over peak live; `None` if the policy failed or nothing was allocated."""
    ns_per_op: float | None
    """Mean processor time of an allocation or free in nanoseconds; `None` likewise."""
    failed: str | None
    """Report of a policy that could not serve the trace; its other figures end there."""
    fits_where_memory_ran_out: bool | None
    """Whether the policy would have served the first request that failed when the snapshot was recorded."""
    recorded_by: str | None
    """Program that made the snapshot, PyTorch or Cubeyard; `None` if the trace is no snapshot."""
    recorded_reserved_bytes: int | None
    """Bytes that the recorded allocator had reserved, if the snapshot has them."""
    doubt: str | None
    """Reason for which the snapshot gives no advice."""
    reserved_at_peak_bytes: int
    """Bytes that the policy held when the live bytes reached their peak."""
    least_bytes: int | None
    """Least memory in which the policy serves the trace; `None` unless it is PyTorch's or the best of the others."""
    least_fails_bytes: int | None
    """One step of 2 MiB less, in which it does not."""
    least_reserved_bytes: int | None
    """Bytes that it held in the least memory; pages of expandable segments may exceed a limit by a few MiB."""
    least_retries: int | None
    """Number of times that the cache was given back in the least memory."""
    streams: int
    """Number of streams that requested memory."""
    lag_launches: int | None
    """Number of launches by which each stream lags behind the host; `None` if work completes as recorded."""
    waits: int
    """Number of times that the policy waited for work of a stream that was not complete."""
    peak: MemoryUse | None
    """Memory at the peak of the live bytes, the same for all policies; `None` if nothing was allocated."""
    out_of_memory: MemoryUse | None
    """Memory when the first request failed that failed during recording; `None` if none did."""


@dataclass(frozen=True)
class TimelinePoint:
    """Maxima of consecutive events of a replay, of which there are at most a thousand."""

    trace: str
    policy: str
    event: int
    """Index of the first of these events."""
    time_us: int
    """Time of that event, in microseconds since the start of the trace."""
    live_bytes: int
    reserved_bytes: int


@dataclass(frozen=True)
class Comparison(Result):
    """Results of traces under policies: a `PolicyResult` for each trace and policy, over which it iterates.

    >>> from cubeyard import replay
    >>> comparison = replay.compare(replay.example(), policies=["pytorch", "best-fit"])
    >>> comparison.recommended
    {'resnet_train': 'best-fit'}
    >>> comparison.to_dict()[0]["peak_reserved_bytes"]        # what PyTorch itself reserved, testdata/traces/native.json
    9103736832
    """

    results: tuple[PolicyResult, ...]
    """Results, trace by trace."""
    advice: str = field(metadata=HIDDEN)
    """Advice that the command prints below its tables."""
    recommended: dict[str, str | None] = field(metadata=HIDDEN)
    """Policy that is recommended for each trace; `None` where there is a doubt."""
    _outcome: _native.ReplayOutcome = field(repr=False, compare=False, metadata=HIDDEN)

    _title: ClassVar[str] = "Replay"
    _types: ClassVar[dict[str, str]] = arrow_types(PolicyResult)

    def to_dict(self) -> Any:
        """Returns plain data, equal to what `cubeyard replay` prints with `--format json` beside the version."""
        return plain(self.results)

    def rows(self) -> list[dict[str, Any]]:
        """Returns the table: a dictionary for each trace and policy, without `peak` and `out_of_memory`."""
        nested = ("peak", "out_of_memory")
        return [{key: value for key, value in plain(result).items() if key not in nested} for result in self.results]

    def page(self) -> str:
        """Returns the report as a self-contained HTML page: the advice, then a chart and a table for each trace."""
        return self._outcome.page()

    def svg(self) -> str:
        """Returns the charts as one SVG picture."""
        return self._outcome.svg()

    def timeline(self) -> list[TimelinePoint]:
        """Returns live and reserved bytes over each replay."""
        return [TimelinePoint(*point) for point in self._outcome.timeline()]

    def __iter__(self) -> Iterator[PolicyResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def _draw(self, axes: Any) -> None:
        """Draws live and reserved bytes of the first trace over its events."""
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
    """Makes a comparison of the records of a replay."""
    results = tuple(build(PolicyResult, record) for record in outcome.records())
    return Comparison(results, outcome.advice(), dict(outcome.recommended()), outcome)
