"""Server process of the machine. Serves the ranks of a world until the last one is gone."""

from __future__ import annotations

import hmac
import os
import selectors
import socket
import time
from typing import Any

from cubeyard.collectives.world import wire
from cubeyard.collectives.world.machine import Answer, Finished, Machine, act
from cubeyard.errors import InputError

__all__ = ["Server"]

PATIENCE = 1.0
"""Interval in seconds between checks of the parent process, while ranks are missing."""

LONGEST_HELLO = 1 << 12
"""Maximum size of a message before the connection has sent the token, in bytes."""


class Server:
    """Server that accepts the ranks of a world and passes their calls to the machine."""

    def __init__(self, machine: Machine, members: int, listener: socket.socket, token: str, timeout: float) -> None:
        self.machine = machine
        self.members = members
        self.listener = listener
        self.token = token
        self.parent = os.getppid()
        self.joining_ends = time.monotonic() + timeout
        self.ranks: dict[int, _Rank] = {}
        self.joined: set[int] = set()
        self.selector = selectors.DefaultSelector()
        self.selector.register(listener, selectors.EVENT_READ, None)
        machine.notice = self._notice

    def run(self) -> None:
        """Serves until all ranks are gone, or until the missing ranks can no longer join."""
        while self._is_needed():
            for key, _ in self.selector.select(self._patience()):
                if key.data is None:
                    self._accept()
                else:
                    self._read(key.data)
            act(self.machine.expire())

    def _is_needed(self) -> bool:
        if len(self.joined) == self.members:
            return bool(self.ranks)
        if self.joined and not self.ranks:
            return False
        return time.monotonic() < self.joining_ends and (bool(self.ranks) or os.getppid() == self.parent)

    def _patience(self) -> float | None:
        deadline = self.machine.next_deadline()
        waits = [] if deadline is None else [max(deadline - time.monotonic(), 0.0)]
        if len(self.joined) < self.members:
            waits.append(PATIENCE)
        return min(waits, default=None)

    def _accept(self) -> None:
        try:
            stream, _ = self.listener.accept()
        except OSError:
            # The client has gone, or there are too many connections. Ranks that have joined are not affected.
            return
        if not wire.same_user(stream):
            stream.close()
            return
        self._add(stream)

    def _add(self, stream: socket.socket) -> None:
        rank = _Rank(wire.Connection(stream))
        rank.connection.longest = LONGEST_HELLO
        self.selector.register(stream, selectors.EVENT_READ, rank)

    def _read(self, rank: _Rank) -> None:
        try:
            rank.connection.fill()
            while (message := rank.connection.take()) is not None:
                self._message(rank, message)
        except (EOFError, OSError):
            self._drop(rank, "has ended")
        except wire.Malformed as error:
            self._drop(rank, f"has sent {error}")

    def _drop(self, rank: _Rank, reason: str) -> None:
        self.selector.unregister(rank.connection.stream)
        rank.connection.close()
        if self.ranks.get(rank.number) is rank:
            del self.ranks[rank.number]
            act(self.machine.lose(rank.number, f"{reason} (process {rank.process})"))

    def _message(self, rank: _Rank, message: Any) -> None:
        """Dispatches a message.

        Raises:
            Malformed: The message is unknown, or its connection has not sent the token.
        """
        if not isinstance(message, dict):
            raise wire.Malformed("a message that is not an object")
        if rank.number < 0:
            self._join(rank, message)
        elif "memory" in message:
            rank.share(message)
        elif "call" in message:
            act(rank.post(self.machine, message))
        elif "lose" in message:
            act(self.machine.lose(rank.number, _field(message, "lose", str)))
        elif "report" in message:
            self._report(rank, message)
        elif "leave" in message:
            self._report(rank, message)
            act(self.machine.leave(rank.number))
        else:
            raise wire.Malformed("an unknown message")

    def _report(self, rank: _Rank, message: dict[str, Any]) -> None:
        self.machine.spans += _field(message, "spans", list)
        rank.connection.send({"report": self.machine.calls, "spans": self.machine.spans})

    def _join(self, rank: _Rank, message: dict[str, Any]) -> None:
        number, process = _field(message, "hello", int), _field(message, "process", int)
        if not hmac.compare_digest(_field(message, "token", str).encode(), self.token.encode()):
            raise wire.Malformed("a wrong token")
        if not 0 <= number < self.machine.size or rank.connection.descriptors:
            raise wire.Malformed(f"the invalid rank {number}")
        if number in self.joined:
            rank.tell({"refused": self._taken(number, process)})
            raise wire.Malformed(f"the rank {number}, which has joined")
        rank.number, rank.process = number, process
        rank.connection.longest = None
        self.ranks[number] = rank
        self.joined.add(number)
        if len(self.joined) == self.members:
            for each in self.ranks.values():
                each.tell({"welcome": os.getpid()})

    def _taken(self, number: int, process: int) -> str:
        """Returns why a process cannot join as a rank that another process is, or was."""
        first = self.ranks.get(number)
        held = f"is process {first.process}" if first is not None else "has ended"
        return (
            f"process {process} cannot join the machine (process {os.getpid()}) as rank {number}: rank {number} of this world {held}; "
            f"expected one process for each rank"
        )

    def _notice(self, busy: bool) -> None:
        for rank in self.ranks.values():
            rank.tell({"busy": busy})


class _Rank:
    """Server side of a rank's connection, and the memory that the rank shares."""

    def __init__(self, connection: wire.Connection) -> None:
        self.connection = connection
        self.number = -1
        self.process = 0
        self.memory: dict[int, wire.Buffer] = {}

    def share(self, message: dict[str, Any]) -> None:
        """Maps the memory whose descriptor arrived with a message.

        Raises:
            Malformed: The descriptor is missing, or does not refer to memory of this size.
        """
        number, size = _field(message, "memory", int), _field(message, "size", int)
        if not self.connection.descriptors:
            raise wire.Malformed("memory without a descriptor")
        descriptor = self.connection.descriptors.pop(0)
        try:
            self.memory[number] = wire.Buffer(number, descriptor, size)
        except (ValueError, OverflowError, OSError) as error:
            raise wire.Malformed(f"memory of {size} bytes: {error}") from error
        finally:
            os.close(descriptor)

    def post(self, machine: Machine, message: dict[str, Any]) -> Finished:
        """Passes the call in a message to the machine.

        Raises:
            Malformed: A field is missing or has the wrong type.
        """
        number = _field(message, "call", int)
        try:
            memory, *place = message["place"]
            held = self.memory[memory].map if memory else None
            fields = {**message["fields"], "rank": self.number}
            return machine.post(fields, held, place, lambda answer: self._answer(number, answer))
        except (InputError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise wire.Malformed(f"a malformed call: {error!r}") from error

    def _answer(self, number: int, answer: Answer) -> None:
        self.tell({"answer": number, "outcome": [answer.start_ps, answer.end_ps, answer.error, answer.source]})

    def tell(self, message: dict[str, Any]) -> None:
        """Sends a message, unless the connection is gone."""
        try:
            self.connection.send(message)
        except OSError:
            pass


def _field(message: dict[str, Any], name: str, kind: type) -> Any:
    """Returns a field of a message.

    Raises:
        Malformed: The field is missing or has the wrong type.
    """
    if type(message.get(name)) is not kind:
        raise wire.Malformed(f"a message whose {name} is not of type {kind.__name__}")
    return message[name]
