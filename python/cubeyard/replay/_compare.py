"""Comparison of policies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cubeyard import _native
from cubeyard._base.progress import tqdm
from cubeyard.errors import InputError
from cubeyard.replay._policy import Policy, PolicyInfo
from cubeyard.replay._result import Comparison, comparison
from cubeyard.replay._trace import Source, Trace, read


def policies() -> list[PolicyInfo]:
    """Returns the policies of the core, in the order of presentation.

    >>> from cubeyard import replay
    >>> [policy.name for policy in replay.policies()][:3]
    ['pytorch', 'pytorch-expandable', 'first-fit']
    """
    return [PolicyInfo(*policy) for policy in _native.replay_policies()]


def compare(
    *sources: Source,
    policies: str | type[Policy] | Sequence[str | type[Policy]] | None = None,
    progress: bool | None = None,
    memory_limit: int | None = None,
    holders: int = 10,
    by: str = "frame",
    native_frames: bool = False,
    lag: int | str | None = None,
) -> Comparison:
    """Replays recordings under policies, as the command `cubeyard replay` does. Ctrl-C ends it at once.

    Args:
        *sources: Files and objects; see the module. One that is a `Trace` was read before.
        policies: Names of policies, and classes of your own; all policies of the core if omitted.
        progress: Whether to show a bar of tqdm on standard error; if omitted, where that is a terminal and tqdm is
            installed.
        memory_limit: Highest number of bytes of the host to use; three quarters of what it has free if omitted.
        holders: Highest number of holders of memory in each `MemoryUse`.
        by: Property by which holders are added up: `"frame"` (of your own code), `"stack"` or `"size"`.
        native_frames: Whether to consider frames of C++ code, which are recorded with `stacks="all"`.
        lag: Number of launches (allocations) by which each stream lags behind the host, or `"recorded"`: work completes as
            the recording shows. If omitted, as recorded where the recording shows it, else at once.

    Raises:
        InputError: A recording cannot be read, there is no such policy, or the lag is neither a number nor `"recorded"`.
        OutOfMemory: It would need more memory of the host than the limit.

    >>> from cubeyard import replay
    >>> comparison = replay.compare(replay.example(), policies="planned")
    >>> comparison.results[0].peak_reserved_bytes
    7532969984

    The holder of most memory at the peak, here by size, because this recording has no call stacks:

    >>> holder = comparison.results[0].peak.holders[0]
    >>> holder.name, holder.blocks
    ('256.00 MiB', 9)
    """
    if not sources:
        raise InputError("sources: nothing to replay: expected a file or an object; replay.example() is a trace to try")
    traces = read(*sources, memory_limit=memory_limit)
    chosen = _chosen(policies)
    if isinstance(holders, bool) or not isinstance(holders, int) or holders < 0:
        raise InputError(f"holders is {holders!r}: expected a number of holders, at least 0")
    natives, shown, late = [trace._native for trace in traces], (holders, by, native_frames), _lag(lag)
    with _bar(progress) as told:
        outcome = _native.replay_traces(natives, chosen, told, memory_limit, shown, late)
    return comparison(outcome)


def _lag(lag: Any) -> str | None:
    """Returns a lag as text."""
    if lag is None:
        return None
    if lag == "recorded":
        return "recorded"
    if isinstance(lag, bool) or not isinstance(lag, int) or not 0 <= lag < 2**64:
        raise InputError(f'lag is {lag!r}: expected a number of launches, at least 0, "recorded" or None')
    return str(lag)


def _chosen(policies: Any) -> list[Any]:
    """Returns policies without repetition, in their order."""
    if policies is None:
        return []
    given = [policies] if isinstance(policies, str | type) else list(policies)
    if not given:
        raise InputError("policies is empty: expected at least one name, or None for all")
    return [_policy(policy) for policy in dict.fromkeys(given)]


def _policy(policy: Any) -> Any:
    if isinstance(policy, str):
        return policy
    if not (isinstance(policy, type) and issubclass(policy, Policy)):
        raise InputError(f"policies: {policy!r}: expected a name, or a class derived from cubeyard.replay.Policy")
    if not isinstance(getattr(policy, "name", None), str):
        raise InputError(f"policies: {policy.__name__}.name: expected a text")
    return _made(policy)


def _made(policy: type[Policy]) -> Any:
    """Returns a function that makes an instance, with the name of the policy."""

    def make(native: _native.RecordedTrace) -> Policy:
        return policy(Trace(native))

    make.name = policy.name  # type: ignore[attr-defined]
    return make


@contextmanager
def _bar(wanted: bool | None) -> Iterator[Callable[[int, int], None] | None]:
    """Yields a function that moves a bar, or nothing where there is none."""
    make = tqdm(wanted)
    if make is None:
        yield None
        return
    with make(unit="event", unit_scale=True, delay=0.4, leave=False) as bar:

        def told(steps: int, total: int) -> None:
            bar.total = total
            bar.update(steps)

        yield told
