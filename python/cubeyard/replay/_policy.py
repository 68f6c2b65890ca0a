"""Policies for replaying a trace."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from cubeyard.replay._trace import Trace


@dataclass(frozen=True)
class PolicyInfo:
    """Description of a built-in policy."""

    name: str
    """Name in `compare()` and in results."""
    summary: str
    """Short description of the behaviour."""
    kind: str
    """Kind of policy: "pytorch", "online" (sees requests as they come) or "planned" (knows the whole trace)."""


class Policy(ABC):
    """Policy written in Python: an allocator under replay.

    `compare()` takes the class and makes one instance per pass over a trace. `allocate` is called once per allocation of
    nonzero size, `free` at most once per successful allocation, and `reserved` after each of these calls. A trace with
    several streams gets one instance per stream, since streams must not share memory.

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
        """Makes an allocator for a trace. An allocator that reads the trace's events knows the future."""

    @abstractmethod
    def allocate(self, size: int, stream: int, site: int, time_us: int) -> Any:
        """Serves a request of `size` bytes. Returns a token for the block, which may be any object.

        Raises:
            OutOfMemory: The request cannot be served. The replay ends, and the error becomes its result.
        """

    @abstractmethod
    def free(self, token: Any) -> None:
        """Frees the block with this token."""

    @abstractmethod
    def reserved(self) -> int:
        """Returns the number of bytes of device memory that the policy holds now."""
