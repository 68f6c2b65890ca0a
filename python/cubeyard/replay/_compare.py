"""Comparison of policies over recorded traces."""

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
    """Returns the built-in policies, in display order.

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
    """Replays recordings under policies, as the command `cubeyard replay` does. Ctrl-C stops the replay at once.

    Args:
        *sources: Files and objects; see the module. A `Trace` is not read again.
        policies: Names of policies, and policy classes of your own; all built-in policies by default.
        progress: Whether to show a tqdm bar on standard error. By default, a bar is shown if standard error is a terminal
            and tqdm is installed.
        memory_limit: Maximum host memory to use, in bytes; three quarters of the free memory by default.
        holders: Maximum number of holders in each `MemoryUse`.
        by: Property that groups allocations into holders: `"frame"` (of your own code), `"stack"` or `"size"`.
        native_frames: Whether to consider frames of C++ code, which `stacks="all"` records.
        lag: Number of launches (allocations) by which each stream lags behind the host, or `"recorded"`: work completes as
            the recording shows. By default, work completes as recorded if the recording shows it, and otherwise at once.

    Raises:
        InputError: A recording cannot be read, a policy does not exist, or the lag is neither a number nor `"recorded"`.
        OutOfMemory: The replay would need more host memory than the limit.

    >>> from cubeyard import replay
    >>> comparison = replay.compare(replay.example(), policies="planned")
    >>> comparison.results[0].peak_reserved_bytes
    7532969984

    The largest holder at the peak. Allocations are grouped by size, because this recording has no call stacks:

    >>> holder = comparison.results[0].peak.holders[0]
    >>> holder.name, holder.blocks
    ('256.00 MiB', 9)
    """
    if not sources:
        raise InputError("sources is empty: expected a file or an object; replay.example() is a trace to try")
    traces = read(*sources, memory_limit=memory_limit)
    chosen = _chosen(policies)
    if isinstance(holders, bool) or not isinstance(holders, int) or holders < 0:
        raise InputError(f"holders is {holders!r}: expected a number of holders, 0 or more")
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
    """Returns the chosen policies in order, without duplicates."""
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
        raise InputError(f"policies: {policy!r}: expected a name, or a subclass of cubeyard.replay.Policy")
    if not isinstance(getattr(policy, "name", None), str):
        raise InputError(f"policies: {policy.__name__}.name: expected a string")
    return _made(policy)


def _made(policy: type[Policy]) -> Any:
    """Returns a factory of policy instances, with the policy's name as an attribute."""

    def make(native: _native.RecordedTrace) -> Policy:
        return policy(Trace(native))

    make.name = policy.name  # type: ignore[attr-defined]
    return make


@contextmanager
def _bar(wanted: bool | None) -> Iterator[Callable[[int, int], None] | None]:
    """Yields a function that advances a progress bar, or None without a bar."""
    make = tqdm(wanted)
    if make is None:
        yield None
        return
    with make(unit="event", unit_scale=True, delay=0.4, leave=False) as bar:

        def told(steps: int, total: int) -> None:
            bar.total = total
            bar.update(steps)

        yield told
