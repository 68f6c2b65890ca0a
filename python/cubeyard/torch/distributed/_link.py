"""Link from a rank to its machine, over a socket or inside the process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from cubeyard.collectives.world import wire
from cubeyard.collectives.world.machine import Answer, Machine, act
from cubeyard.errors import DistributedError

__all__ = ["Link", "LocalLink", "Staging", "SocketLink"]

Array = np.ndarray[Any, Any]
GRACE = 5.0
"""Extra seconds, beyond a call's timeout, before an unresponsive machine is given up."""


class Staging(Protocol):
    """Memory with the input and output of a call."""

    bytes: Array


class Link(Protocol):
    """Interface common to both kinds of links."""

    def stage(self, size: int) -> Any:
        """Returns memory for a call."""

    def release(self, staging: Any) -> None:
        """Releases the memory of a call."""

    def post(self, fields: dict[str, Any], staging: Any, place: tuple[int, int, int, int], done: Any) -> None:
        """Posts a call. `done` receives its `Answer`, on any thread."""

    def wait(self, event: threading.Event, timeout: float, call: str) -> None:
        """Waits until a call is done."""

    def report(self, spans: list[Any]) -> tuple[list[Any], list[Any]]:
        """Returns the collectives of the world, and the other activities of the ranks."""

    def leave(self, spans: list[Any]) -> tuple[list[Any], list[Any]]:
        """Makes the rank leave the world. Returns the same data as `report`."""

    def lose(self, why: str) -> None:
        """Ends the world, because this rank has failed."""


class SocketLink:
    """Connection to the machine's process. A thread receives its messages."""

    def __init__(self, connection: wire.Connection, rank: int, process: subprocess.Popen[bytes] | None) -> None:
        self.connection = connection
        self.rank = rank
        self.process = process
        self.machine = 0
        self.pool = wire.Pool(connection)
        self.pending: dict[int, Callable[[Answer], None]] = {}
        self.numbers = 0
        self.lock = threading.Lock()
        self.busy = False
        self.ended = ""
        self.left = False
        self.owner = os.getpid()
        self.reported: tuple[list[Any], list[Any]] | None = None
        self.has_report = threading.Event()
        self.thread = threading.Thread(target=self._receive, name="cubeyard messages", daemon=True)
        os.register_at_fork(after_in_child=self._forked)

    def join(self, token: str, timeout: float) -> None:
        """Registers this rank with the machine and waits until all ranks have registered.

        Raises:
            DistributedError: A rank is missing, another process has this rank, or the machine has ended.
        """
        self.connection.send({"hello": self.rank, "token": token, "process": os.getpid()})
        self.connection.stream.settimeout(timeout)
        try:
            answer = self.connection.receive()
        except TimeoutError:
            what = f"not all ranks have joined within {timeout:g} s, the timeout of the group"
            raise DistributedError(what) from None
        except EOFError:
            raise DistributedError("the process of the machine ended before all ranks joined") from None
        if "refused" in answer:
            raise DistributedError(answer["refused"])
        self.machine = answer["welcome"]
        self.connection.stream.settimeout(None)
        self.thread.start()

    def stage(self, size: int) -> wire.Buffer:
        try:
            return self.pool.take(size)
        except OSError:
            raise self._gone() from None

    def release(self, staging: wire.Buffer) -> None:
        self.pool.give_back(staging)

    def post(self, fields: dict[str, Any], staging: Any, place: tuple[int, int, int, int], done: Any) -> None:
        with self.lock:
            self.numbers += 1
            number = self.numbers
            self.pending[number] = done
        memory = 0 if staging is None else staging.number
        try:
            if not self.ended:
                self.connection.send({"call": number, "fields": fields, "place": [memory, *place]})
        except OSError:
            pass
        if self.ended:
            with self.lock:
                waiting = self.pending.pop(number, None)
            if waiting is not None:
                waiting(Answer(error=self.ended))

    def wait(self, event: threading.Event, timeout: float, call: str) -> None:
        ends = time.monotonic() + timeout + GRACE
        while not event.wait(1.0 if self.busy else max(ends - time.monotonic(), 0.0)):
            if self.busy:
                ends = time.monotonic() + timeout + GRACE
            elif time.monotonic() >= ends:
                raise DistributedError(
                    f"{call}: the process of the machine ({self.machine}) has not answered for {timeout + GRACE:g} s"
                )

    def report(self, spans: list[Any]) -> tuple[list[Any], list[Any]]:
        self.has_report.clear()
        return self._ask({"report": 1, "spans": spans})

    def leave(self, spans: list[Any]) -> tuple[list[Any], list[Any]]:
        if self.left or self.owner != os.getpid():
            return self.reported or ([], [])
        self.has_report.clear()
        try:
            found = self._ask({"leave": 1, "spans": spans})
        except DistributedError:
            found = self.reported or ([], [])
        self.left = True
        self.connection.close()
        if self.thread is not threading.current_thread():
            self.thread.join(timeout=5)
        if self.process is not None:
            self.process.poll()
        return found

    def lose(self, why: str) -> None:
        try:
            self.connection.send({"lose": why})
        except OSError:
            pass

    def _ask(self, message: dict[str, Any]) -> tuple[list[Any], list[Any]]:
        try:
            self.connection.send(message)
        except OSError:
            raise self._gone() from None
        while not self.has_report.wait(GRACE):
            if not self.busy:
                raise DistributedError(f"the process of the machine ({self.machine}) has not answered for {GRACE:g} s")
        if self.ended:
            raise self._gone()
        assert self.reported is not None, "the event signals a report or the end"
        return self.reported

    def _gone(self) -> DistributedError:
        return DistributedError(self.ended or self._end())

    def _end(self) -> str:
        status = ""
        if self.process is not None:
            try:
                code = self.process.wait(timeout=1)
                status = f", {'killed by signal' if code < 0 else 'with status'} {abs(code)}"
            except subprocess.TimeoutExpired:
                pass
        return f"the process of the machine ({self.machine}) has ended{status}; its world of ranks ends with it"

    def _receive(self) -> None:
        try:
            while True:
                message = self.connection.receive()
                if "answer" in message:
                    with self.lock:
                        done = self.pending.pop(message["answer"])
                    done(Answer(*message["outcome"]))
                elif "busy" in message:
                    self.busy = message["busy"]
                elif "report" in message:
                    self.reported = (message["report"], message["spans"])
                    self.has_report.set()
        except (EOFError, OSError):
            pass
        if not sys.is_finalizing():
            self._fail()

    def _fail(self) -> None:
        """Fails all waiting calls, since no more answers will come."""
        self.busy = False
        self.ended = "this rank has left its process group" if self.left else self._end()
        self.has_report.set()
        with self.lock:
            waiting = list(self.pending.values())
            self.pending.clear()
        for done in waiting:
            done(Answer(error=self.ended))

    def _forked(self) -> None:
        """Closes the child's copy, so that the machine sees the end of this process even if the child lives on."""
        try:
            os.close(self.connection.stream.detach())
        except OSError:
            pass


class LocalMemory:
    """Memory of a call inside the process."""

    def __init__(self, size: int) -> None:
        self.bytes = np.empty(size, np.uint8)


class LocalLink:
    """Machine inside this process, for a world with one rank or with threads as ranks."""

    def __init__(self, machine: Machine, lock: threading.RLock, rank: int) -> None:
        self.machine = machine
        self.lock = lock
        self.rank = rank
        self.left: tuple[list[Any], list[Any]] | None = None

    def stage(self, size: int) -> LocalMemory:
        return LocalMemory(size)

    def release(self, staging: LocalMemory) -> None:
        pass

    def post(self, fields: dict[str, Any], staging: Any, place: tuple[int, int, int, int], done: Any) -> None:
        with self.lock:
            finished = self.machine.post(fields, None if staging is None else staging.bytes, place, done)
        act(finished)

    def wait(self, event: threading.Event, timeout: float, call: str) -> None:
        while not event.wait(0.2):
            with self.lock:
                finished = self.machine.expire()
            act(finished)

    def report(self, spans: list[Any]) -> tuple[list[Any], list[Any]]:
        if self.left is not None:
            return self.left
        with self.lock:
            self.machine.spans += spans
            return list(self.machine.calls), list(self.machine.spans)

    def leave(self, spans: list[Any]) -> tuple[list[Any], list[Any]]:
        found = self.report(spans)
        if self.left is None:
            self.left = found
            with self.lock:
                finished = self.machine.leave(self.rank)
            act(finished)
        return found

    def lose(self, why: str) -> None:
        with self.lock:
            finished = self.machine.lose(self.rank, why)
        act(finished)
