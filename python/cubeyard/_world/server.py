"""The process of the machine: answers the ranks of a world until the last of them is gone."""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any

from cubeyard._world import wire
from cubeyard._world.machine import Answer, Call, Machine

__all__ = ["Server"]

PATIENCE = 1.0
"""Seconds between looks at the parent, while ranks are missing."""


class Server:
    """Accepts the ranks of a world, and passes their calls to the machine."""

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
        """Serves until all ranks are gone, or until those that are missing cannot come any more."""
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
        stream, _ = self.listener.accept()
        if not wire.same_user(stream):
            stream.close()
            return
        self.selector.register(stream, selectors.EVENT_READ, _Rank(wire.Connection(stream)))

    def _read(self, rank: _Rank) -> None:
        try:
            rank.connection.fill()
            while (message := rank.connection.take()) is not None:
                self._message(rank, message)
        except (EOFError, OSError):
            self._drop(rank)

    def _drop(self, rank: _Rank) -> None:
        self.selector.unregister(rank.connection.stream)
        rank.connection.close()
        if self.ranks.get(rank.number) is rank:
            del self.ranks[rank.number]
            act(self.machine.lose(rank.number, f"has ended (process {rank.process})"))

    def _message(self, rank: _Rank, message: dict[str, Any]) -> None:
        if "hello" in message:
            self._join(rank, message)
        elif rank.number < 0:
            raise EOFError
        elif "memory" in message:
            descriptor = rank.connection.descriptors.pop(0)
            try:
                rank.memory[message["memory"]] = wire.Buffer(message["memory"], descriptor, message["size"])
            finally:
                os.close(descriptor)
        elif "call" in message:
            act(self.machine.post(rank.call(message)))
        elif "lose" in message:
            act(self.machine.lose(rank.number, message["lose"]))
        elif "report" in message:
            self._report(rank, message)
        elif "leave" in message:
            self._report(rank, message)
            act(self.machine.leave(rank.number))

    def _report(self, rank: _Rank, message: dict[str, Any]) -> None:
        self.machine.spans += message["spans"]
        rank.connection.send({"report": self.machine.calls, "spans": self.machine.spans})

    def _join(self, rank: _Rank, message: dict[str, Any]) -> None:
        number = message["hello"]
        if message["token"] != self.token or number in self.joined:
            raise EOFError
        rank.number, rank.process = number, message["process"]
        self.ranks[number] = rank
        self.joined.add(number)
        if len(self.joined) == self.members:
            for each in self.ranks.values():
                each.tell({"welcome": os.getpid()})

    def _notice(self, busy: bool) -> None:
        for rank in self.ranks.values():
            rank.tell({"busy": busy})


class _Rank:
    """A rank's end of its connection, and the memory that it shares."""

    def __init__(self, connection: wire.Connection) -> None:
        self.connection = connection
        self.number = -1
        self.process = 0
        self.memory: dict[int, wire.Buffer] = {}

    def call(self, message: dict[str, Any]) -> Call:
        number, held = message["call"], message["fields"]
        memory, *place = message["place"]
        call = Call(**{**held, "members": tuple(held["members"]), "splits": tuple(map(tuple, held["splits"]))})
        if memory:
            call.use(self.memory[memory].bytes, place)
        call.answer = lambda answer: self._answer(number, answer)
        return call

    def _answer(self, number: int, answer: Answer) -> None:
        self.tell({"answer": number, "outcome": [answer.start_ps, answer.end_ps, answer.error, answer.source]})

    def tell(self, message: dict[str, Any]) -> None:
        """Sends a message, unless the rank is gone."""
        try:
            self.connection.send(message)
        except OSError:
            pass


def act(functions: Iterable[Callable[[], None]]) -> None:
    """Calls functions in turn."""
    for function in functions:
        function()
