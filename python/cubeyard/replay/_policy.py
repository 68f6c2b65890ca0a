"""Policies under which a trace can be replayed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from cubeyard.replay._trace import Trace


@dataclass(frozen=True)
class PolicyInfo:
    """A policy of the core."""

    name: str
    """Name in `compare()` and in results."""
    summary: str
    """Behaviour in a few words."""
    kind: str
    """Knowledge that it requires: "pytorch", "online" (requests as they come) or "planned" (the whole trace)."""


class Policy(ABC):
    """A policy written in Python: an allocator under replay.

    `compare()` takes the class and makes an instance for each pass over a trace. `allocate` is called once for each
    allocation of nonzero size, `free` at most once for each that succeeded, and `reserved` after each of them. A trace of
    several streams has an instance for each stream, since memory of one must not serve another.

    >>> from cubeyard import replay
    >>> class Exact(replay.Policy):
    ...     name = "exact"
    ...     def __init__(self, trace):
    ...         self.held = 0
    ...     def allocate(self, size, stream, site, time_us):
    ...         self.held += size
    ...         return size
    ...     def free(self, token):
    ...         self.held -= token
    ...     def reserved(self):
    ...         return self.held
    >>> [row] = replay.compare(replay.example(), policies=[Exact])
    >>> row.policy, row.peak_reserved_bytes
    ('exact', 7528992400)
    """

    name: ClassVar[str]
    """Name of the policy in results."""

    def __init__(self, trace: Trace) -> None:
        """Makes an allocator for a trace. One that looks at its events knows the future."""

    @abstractmethod
    def allocate(self, size: int, stream: int, site: int, time_us: int) -> Any:
        """Serves a request of `size` bytes; returns a token for the block, any object.

        Raises:
            OutOfMemory: The request cannot be served. This ends the replay, and is its result.
        """

    @abstractmethod
    def free(self, token: Any) -> None:
        """Frees the block with this token."""

    @abstractmethod
    def reserved(self) -> int:
        """Returns the number of bytes that it currently holds of the device's memory."""
