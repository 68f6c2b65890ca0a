"""The machine of a world: matches the calls of its ranks, performs them, and keeps their times.

A call waits until all ranks concerned have made theirs. Then their values are combined, and the time is that of the
fabric. Calls of a group follow each other: one begins when all its ranks are ready and the one before has ended. So do
messages from one rank to another. Groups do not wait for each other, and calls that overlap do not slow each other.

The first fault ends the world: every call that waits fails, and every later one does.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cubeyard._world import numbers
from cubeyard._world.fabric import Fabric
from cubeyard._world.operation import Operation
from cubeyard.errors import CubeyardError

__all__ = ["Answer", "Call", "Machine"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Answer:
    """Outcome of a call: its simulated interval, or what went wrong."""

    start_ps: int = 0
    end_ps: int = 0
    error: str = ""
    source: int = -1
    """Place of the sender of a received message."""


@dataclass
class Call:
    """A rank's call of a collective, or of one end of a message."""

    rank: int
    """Rank of the world that calls."""
    group: str
    """Name of its process group."""
    members: tuple[int, ...]
    """Ranks of the world in the group, in its order."""
    name: str
    dtype: str = "u8"
    count: int = 0
    op: str = ""
    root: int = 0
    """Place of the root in the group; of a message that of the peer, or -1 for any sender."""
    tag: int = 0
    splits: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    """Elements sent to, and received from, each rank, where an `all_to_all` is uneven."""
    ready_ps: int = 0
    """Simulated time of the call."""
    timeout: float = 1800.0
    """Seconds of real time until the others must have called."""
    at: str = ""
    """Line of the call."""
    input: Array = field(default_factory=lambda: np.empty(0, np.uint8))
    output: Array = field(default_factory=lambda: np.empty(0, np.uint8))
    answer: Callable[[Answer], None] = lambda _: None
    deadline: float = 0.0
    elements: int = 0
    """Elements of the tensor, for messages to people."""

    @property
    def place(self) -> int:
        """Place of the rank in its group."""
        return self.members.index(self.rank)

    def use(self, memory: Array, place: Sequence[int]) -> None:
        """Takes input and output from memory: the start and size of each."""
        start, size, out, out_size = place
        self.input, self.output = memory[start : start + size], memory[out : out + out_size]

    def kind(self) -> tuple[Any, ...]:
        """Returns what the calls of all ranks must have in common."""
        return (self.name, self.op, self.root, self.dtype, self.count, bool(self.splits[0]))

    def operation(self) -> Operation:
        """Returns the operation of all ranks."""
        return Operation(self.name, self.members, self.dtype, self.count, self.op, self.root)

    def __str__(self) -> str:
        """Returns the call for people, with its type, size and line."""
        if self.name in {"send", "recv"}:
            peer = "any rank" if self.root < 0 else f"rank {self.members[self.root]}"
            what = f"{self.name} {'to' if self.name == 'send' else 'from'} {peer}"
            what += f", tag {self.tag}" if self.tag else ""
        else:
            what = str(self.operation())
        size = f" {self.dtype}[{self.elements}]" if self.name != "barrier" else ""
        return f"{what}{size}{_of_group(self)} at {self.at}"


def _of_group(call: Call) -> str:
    return "" if len(call.group) < 2 else f" of group {call.group} {list(call.members)}"


@dataclass
class _Group:
    """Calls of a group that wait for the others, and the end of the last one performed."""

    waiting: dict[int, deque[Call]] = field(default_factory=dict)
    end_ps: int = 0


@dataclass
class Machine:
    """The machine. Its methods are called by one thread at a time; each returns functions to call afterwards."""

    fabric: Fabric
    size: int
    notice: Callable[[bool], None] = lambda _: None
    """Called before and after a simulation, which may take long."""
    calls: list[Any] = field(default_factory=list)
    spans: list[Any] = field(default_factory=list)
    fault: str = ""
    _groups: dict[str, _Group] = field(default_factory=dict)
    _messages: dict[str, tuple[deque[Call], deque[Call]]] = field(default_factory=dict)
    _ends: dict[tuple[str, int, int], int] = field(default_factory=dict)
    _last: dict[int, str] = field(default_factory=dict)
    _gone: dict[int, str] = field(default_factory=dict)

    def post(self, call: Call) -> list[Callable[[], None]]:
        """Takes a call of a rank, and performs those that can be."""
        call.deadline = time.monotonic() + call.timeout
        if self.fault:
            return [_later(call, Answer(error=self.fault))]
        self._last[call.rank] = str(call)
        try:
            return self._message(call) if call.name in {"send", "recv"} else self._collective(call)
        except CubeyardError as error:
            return self.fail(f"{call}: {error}", call)
        except Exception:
            return self.fail(f"{call}: the machine has failed\n{traceback.format_exc()}", call)

    def leave(self, rank: int, why: str = "has left its process group") -> list[Callable[[], None]]:
        """Notes that a rank makes no further calls; fails if one waits for it."""
        self._gone[rank] = why
        return self._check_gone()

    def lose(self, rank: int, why: str) -> list[Callable[[], None]]:
        """Notes that a rank has ended without leaving."""
        if rank in self._gone:
            return []
        self._gone[rank] = why
        return self.fail(f"rank {rank} {why}")

    def expire(self) -> list[Callable[[], None]]:
        """Fails if a call has waited for too long."""
        late = [call for call in self._waiting() if call.deadline <= time.monotonic()]
        if not late:
            return []
        return self.fail(f"rank {late[0].rank} has waited for {late[0].timeout:g} s")

    def next_deadline(self) -> float | None:
        """Returns the time at which the first of the waiting calls has waited for too long."""
        return min((call.deadline for call in self._waiting()), default=None)

    def fail(self, what: str, *more: Call) -> list[Callable[[], None]]:
        """Ends the world: fails all calls that wait."""
        waiting = [*self._waiting(), *more]
        self.fault = self.fault or f"{what}. {self._positions(waiting)}"
        self._groups.clear()
        self._messages.clear()
        seen: dict[int, Call] = {id(call): call for call in waiting}
        return [_later(call, Answer(error=self.fault)) for call in seen.values()]

    def _waiting(self) -> list[Call]:
        groups = (call for group in self._groups.values() for queue in group.waiting.values() for call in queue)
        messages = (call for ends in self._messages.values() for queue in ends for call in queue)
        return [*groups, *messages]

    def _positions(self, waiting: list[Call]) -> str:
        """Describes what each rank does."""
        first: dict[int, Call] = {}
        for call in sorted(waiting, key=lambda call: call.deadline - call.timeout):
            first.setdefault(call.rank, call)
        said = []
        for rank in range(self.size):
            if rank in first:
                said.append(f"rank {rank} waits in {first[rank]}")
            elif rank in self._gone:
                said.append(f"rank {rank} {self._gone[rank]}")
            elif rank in self._last:
                said.append(f"rank {rank} has not called; its last call was {self._last[rank]}")
            else:
                said.append(f"rank {rank} has not called anything")
        return "; ".join(said)

    def _check_gone(self) -> list[Callable[[], None]]:
        for call in self._waiting():
            for rank in self._needed(call):
                if rank in self._gone:
                    return self.fail(f"rank {rank}, for which rank {call.rank} waits, {self._gone[rank]}")
        return []

    @staticmethod
    def _needed(call: Call) -> tuple[int, ...]:
        if call.name not in {"send", "recv"}:
            return call.members
        return () if call.root < 0 else (call.members[call.root],)

    def _collective(self, call: Call) -> list[Callable[[], None]]:
        group = self._groups.setdefault(call.group, _Group())
        group.waiting.setdefault(call.rank, deque()).append(call)
        if group.waiting[call.rank][0] is not call:
            return []
        heads = [queue[0] for queue in group.waiting.values() if queue]
        other = next((one for one in heads if one.kind() != call.kind() or one.members != call.members), None)
        if other is not None:
            return self.fail(f"calls of ranks do not match: rank {other.rank} and rank {call.rank}")
        done: list[Callable[[], None]] = []
        while len(heads) == len(call.members):
            for rank in call.members:
                group.waiting[rank].popleft()
            done += self._perform(group, sorted(heads, key=lambda one: one.place))
            heads = [queue[0] for queue in group.waiting.values() if queue]
            if len({one.kind() for one in heads}) > 1:
                return done + self.fail("calls of ranks do not match")
        return done + self._check_gone()

    def _perform(self, group: _Group, calls: list[Call]) -> list[Callable[[], None]]:
        first = calls[0]
        operation = first.operation()
        if first.splits[0]:
            operation = _uneven(calls)
        start = max(group.end_ps, *(call.ready_ps for call in calls))
        known = self.fabric.is_known(operation)
        if not known:
            self.notice(True)
        try:
            if operation.is_reduction:
                timing, results = self.fabric.reduce(operation, [call.input for call in calls])
                _give(first, calls, results)
            else:
                timing = self.fabric.timing(operation)
                _move(first, calls)
        except BaseException:
            for call in calls:
                group.waiting.setdefault(call.rank, deque()).appendleft(call)
            raise
        finally:
            if not known:
                self.notice(False)
        group.end_ps = start + timing.ps
        self._record(operation, timing, start, first)
        answer = Answer(start, group.end_ps)
        return [_later(call, answer) for call in calls]

    def _message(self, call: Call) -> list[Callable[[], None]]:
        ends = self._messages.setdefault(call.group, (deque(), deque()))
        own, others = ends if call.name == "send" else (ends[1], ends[0])
        match = next((other for other in others if _meet(call, other)), None)
        if match is None:
            own.append(call)
            return self._check_gone()
        others.remove(match)
        sender, receiver = (call, match) if call.name == "send" else (match, call)
        if len(sender.input) != len(receiver.output) or sender.dtype != receiver.dtype:
            return self.fail("the ends of a message do not match", sender, receiver)
        receiver.output[:] = sender.input
        pair = (sender.rank, receiver.rank)
        start = max(self._ends.get((call.group, *pair), 0), sender.ready_ps, receiver.ready_ps)
        end = start
        if pair[0] != pair[1]:
            operation = Operation("send", pair, sender.dtype, sender.count)
            timing = self.fabric.timing(operation)
            end = start + timing.ps
            self._record(operation, timing, start, sender)
        self._ends[call.group, *pair] = end
        answer = Answer(start, end, source=sender.place)
        return [_later(sender, answer), _later(receiver, answer)]

    def _record(self, operation: Operation, timing: Any, start: int, call: Call) -> None:
        rate = timing.bytes / max(timing.ps, 1) * 1e3 * operation.bus_factor()
        what = (str(operation), operation.ranks, operation.dtype, timing.bytes, timing.algorithm)
        self.calls.append([*what, start / 1e3, timing.ps / 1e3, round(rate, 3), call.group, call.at])


def _later(call: Call, answer: Answer) -> Callable[[], None]:
    return lambda: call.answer(answer)


def _meet(call: Call, other: Call) -> bool:
    """Returns whether two calls are the ends of one message."""
    sender, receiver = (call, other) if call.name == "send" else (other, call)
    named = receiver.root < 0 or receiver.root == sender.place
    return sender.tag == receiver.tag and sender.root == receiver.place and named


def _uneven(calls: list[Call]) -> Operation:
    """Returns an `all_to_all` as large as the largest part of an uneven one.

    Raises:
        CubeyardError: A rank sends another number of elements than the other expects.
    """
    for sender in calls:
        for receiver in calls:
            sent, expected = sender.splits[0][receiver.place], receiver.splits[1][sender.place]
            if sent != expected:
                raise CubeyardError(
                    f"all_to_all: rank {sender.rank} sends {sent} elements to rank {receiver.rank}, "
                    f"which expects {expected}"
                )
    largest = max(max(call.splits[0], default=0) for call in calls)
    return Operation("all_to_all", calls[0].members, calls[0].dtype, largest)


def _give(first: Call, calls: list[Call], results: list[Array]) -> None:
    """Writes the results of a reduction into the outputs of the ranks that have some."""
    targets = [calls[first.root]] if first.name == "reduce" else calls
    for call, result in zip(targets, results, strict=True):
        call.output[:] = result


def _move(first: Call, calls: list[Call]) -> None:
    """Moves the values of an operation that combines none."""
    width = numbers.TYPES[first.dtype].itemsize
    part = first.count * width
    if first.name == "broadcast":
        for call in calls:
            if call.place != first.root:
                call.output[:] = calls[first.root].input
    elif first.name in {"all_gather", "gather"}:
        targets = [calls[first.root]] if first.name == "gather" else calls
        for call in targets:
            for source in calls:
                call.output[source.place * part : (source.place + 1) * part] = source.input
    elif first.name == "scatter":
        for call in calls:
            call.output[:] = calls[first.root].input[call.place * part : (call.place + 1) * part]
    elif first.name == "all_to_all":
        _exchange(calls, width, part)


def _exchange(calls: list[Call], width: int, part: int) -> None:
    def offsets(splits: tuple[int, ...]) -> list[int]:
        if not splits:
            return [place * part for place in range(len(calls) + 1)]
        ends = [0]
        for length in splits:
            ends.append(ends[-1] + length * width)
        return ends

    sent, received = ([offsets(call.splits[side]) for call in calls] for side in (0, 1))
    for to, target in enumerate(calls):
        for of, source in enumerate(calls):
            piece = source.input[sent[of][to] : sent[of][to + 1]]
            target.output[received[to][of] : received[to][of + 1]] = piece
