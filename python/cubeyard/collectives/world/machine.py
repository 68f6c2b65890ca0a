"""Python interface to the machine of a world: `cubeyard._native.Machine` with a callback per call.

The machine matches the calls of the ranks, performs them and records their times (`crates/collectives/src/service.rs`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cubeyard import _native
from cubeyard._base import inputs
from cubeyard.collectives.algorithm import finder
from cubeyard.errors import CubeyardError, InputError, InternalError
from cubeyard.machine.topology import Topology

__all__ = ["Answer", "Machine", "act", "from_environment", "sips_of_environment"]

Finished = list[Callable[[], None]]
"""Functions to call once the machine is free. Each delivers the answer of one call."""


@dataclass(frozen=True)
class Answer:
    """Outcome of a call: its simulated interval, or an error message."""

    start_ps: int = 0
    end_ps: int = 0
    error: str = ""
    source: int = -1
    """Rank, within the group, that sent a received message."""


class Machine:
    """Machine of a world. Only one thread at a time may call a method. Each method returns functions to call afterwards."""

    def __init__(self, topology: Topology, ccl: tuple[str, str], size: int) -> None:
        """Builds the machine and installs the channels of the group of all ranks.

        Args:
            topology: the machine.
            ccl: name and text of a `ccl.yaml`.
            size: number of ranks.

        Raises:
            CubeyardError: The file or the number of ranks does not suit the machine.
        """
        self.size = size
        self.spans: list[Any] = []
        """Activities of the ranks other than communication."""
        self.notice: Callable[[bool], None] = lambda _: None
        """Callback before (True) and after (False) a simulation, which may take long."""
        cubes = topology["cubes"]
        find = finder(cubes["w"], cubes["h"])
        self._native = _native.Machine(topology._native, *ccl, size, find, lambda busy: self.notice(busy))
        self._pending: dict[int, Callable[[Answer], None]] = {}
        self._numbers = 0

    @property
    def calls(self) -> list[Any]:
        """Performed collectives, as plain tuples."""
        return self._native.records()

    def post(self, fields: dict[str, Any], memory: Any, place: Sequence[int], done: Callable[[Answer], None]) -> Finished:
        """Accepts a call of a rank and performs all calls that are ready.

        Args:
            fields: the call.
            memory: a buffer with the input and the output, or None.
            place: offset and size of the input, then of the output.
            done: callback for the outcome. A function returned by this or a later method calls it.

        Raises:
            InputError, KeyError, TypeError, ValueError, OverflowError: The call is malformed.
        """
        self._numbers += 1
        self._pending[self._numbers] = done
        try:
            return self._finished(self._native.post(self._numbers, fields, memory, place, time.monotonic()))
        except InternalError as error:
            return self._broken(error)
        except BaseException:
            self._pending.pop(self._numbers)
            raise

    def leave(self, rank: int) -> Finished:
        """Records that a rank makes no further calls. Fails all calls if one waits for this rank."""
        return self._finished(self._native.leave(rank))

    def lose(self, rank: int, why: str) -> Finished:
        """Records that a rank ended without leaving."""
        return self._finished(self._native.lose(rank, why))

    def expire(self) -> Finished:
        """Fails if a call has exceeded its timeout."""
        return self._finished(self._native.expire(time.monotonic()))

    def next_deadline(self) -> float | None:
        """Returns the earliest deadline of the waiting calls, or None."""
        return self._native.next_deadline()

    def _finished(self, answers: Iterable[tuple[int, int, int, str, int]]) -> Finished:
        return [_later(self._pending.pop(answer[0]), Answer(*answer[1:])) for answer in answers]

    def _broken(self, error: CubeyardError) -> Finished:
        """Fails all calls, because the machine cannot continue."""
        waiting, self._pending = list(self._pending.values()), {}
        return [_later(done, Answer(error=f"the machine has failed: {error}")) for done in waiting]


def _later(done: Callable[[Answer], None], answer: Answer) -> Callable[[], None]:
    return lambda: done(answer)


def act(functions: Finished) -> None:
    """Calls functions in order."""
    for function in functions:
        function()


def from_environment(size: int) -> Machine:
    """Returns the machine selected by CUBEYARD_TOPOLOGY, CUBEYARD_SIPS and CUBEYARD_CCL, with its channels installed.

    Raises:
        CubeyardError: A variable is invalid, or the machine has fewer SIPs than ranks.
    """
    topology = _topology()
    sips = topology["sips"]["count"]
    if size > sips:
        source = os.environ.get("CUBEYARD_TOPOLOGY", "").strip() or "the default machine"
        raise InputError(
            f"the world has {size} ranks, one per SIP, but {source} has only {sips}. Set CUBEYARD_SIPS={size}, or "
            f"CUBEYARD_TOPOLOGY to a topology file with at least {size} SIPs, or start at most {sips} ranks"
        )
    ccl = os.environ.get("CUBEYARD_CCL", "").strip()
    given = inputs.text_of("CUBEYARD_CCL", ccl) if ccl else ("ccl.yaml", "")
    return Machine(topology, given, size)


def sips_of_environment() -> int:
    """Returns the number of SIPs in the machine that the environment selects."""
    return int(_topology()["sips"]["count"])


def _topology() -> Topology:
    return Topology._of(_native.torch_topology())
