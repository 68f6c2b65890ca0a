"""The process of a world: what strangers send does not end it, and input that has no end is refused."""

from __future__ import annotations

import array
import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from cubeyard.collectives.world import wire
from cubeyard.collectives.world.server import Server

TOKEN = "a token of this test"


class World:
    """A process of a world for two ranks, and the address at which it is reached."""

    def __init__(self) -> None:
        words = [sys.executable, "-m", "cubeyard.collectives.world", "2", "2", "60"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(words, text=True, **pipes)
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(TOKEN + "\n")
        self.process.stdin.flush()
        self.address = json.loads(self.process.stdout.readline())["address"]

    def connect(self) -> socket.socket:
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        stream.settimeout(20)
        stream.connect("\0" + self.address)
        return stream

    def is_dropped(self, data: bytes) -> bool:
        """Returns whether a connection ends after it has sent something."""
        with self.connect() as stream:
            try:
                stream.sendall(data)
                return stream.recv(1) == b""
            except (BrokenPipeError, ConnectionResetError):
                return True

    def join(self, number: int) -> wire.Connection:
        connection = wire.Connection(self.connect())
        connection.send({"hello": number, "token": TOKEN, "process": os.getpid()})
        return connection


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.process.kill()
    world.process.communicate()


def message(text: str | bytes) -> bytes:
    body = text if isinstance(text, bytes) else text.encode()
    return struct.pack("!I", len(body)) + body


def hello(**fields: Any) -> bytes:
    return message(json.dumps({"hello": 0, "token": TOKEN, "process": 1, **fields}))


MALFORMED = {
    "no JSON": message("hello"),
    "no UTF-8": message(b"\xff\xfe"),
    "nothing": message(""),
    "a list": message("[]"),
    "a number": message("5"),
    "deep": message("[" * 4000),
    "a huge length": b"\xff\xff\xff\xff",
    "more than a hello": message(json.dumps({"hello": 0, "token": "x" * 5000, "process": 1})),
    "without a token": message('{"hello": 0}'),
    "another token": hello(token="guess"),
    "a token of another type": hello(token=5),
    "a list as a number": hello(hello=[]),
    "a number beyond the world": hello(hello=2),
    "a negative number": hello(hello=-1),
    "a truth value": hello(hello=True),
    "a process of another type": hello(process={}),
    "a call before the token": message('{"call": 1, "fields": {}, "place": [0]}'),
    "memory before the token": message('{"memory": 1, "size": -5}'),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_message_ends_its_connection_and_not_the_world(world: World, name: str) -> None:
    """A message that was no JSON, no object or without a key raised an error that ended the process for all ranks."""
    assert world.is_dropped(MALFORMED[name])
    ranks = [world.join(0), world.join(1)]
    assert [rank.receive() for rank in ranks] == [{"welcome": world.process.pid}] * 2
    for rank in ranks:
        rank.close()
    assert world.process.wait(30) == 0


def test_descriptors_before_the_token_are_refused(world: World) -> None:
    with world.connect() as stream, open(os.devnull, "rb") as file:
        rights = array.array("i", [file.fileno()]).tobytes()
        stream.sendmsg([hello()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        assert stream.recv(1) == b""
    ranks = [world.join(0), world.join(1)]
    assert all("welcome" in rank.receive() for rank in ranks)


def test_two_processes_as_one_rank(world: World) -> None:
    """The second is refused by name, whether all ranks have joined or not, and the first is not disturbed."""
    first = world.join(0)
    taken = f"cannot join the machine (process {world.process.pid}) as rank 0: rank 0 of this world is process {os.getpid()}"
    for _ in range(2):
        second = world.join(0)
        assert taken in second.receive()["refused"]
        with pytest.raises(EOFError):
            second.receive()
        second.close()
    other = world.join(1)
    assert [rank.receive() for rank in (first, other)] == [{"welcome": world.process.pid}] * 2
    third = world.join(1)
    assert f"as rank 1: rank 1 of this world is process {os.getpid()}" in third.receive()["refused"]
    for rank in (first, other):
        rank.send({"report": 1, "spans": []})
        assert rank.receive() == {"report": [], "spans": []}
    first.close()
    late = world.join(0)
    assert "rank 0 of this world has ended; expected one process for each rank" in late.receive()["refused"]
    for rank in (other, third, late):
        rank.close()
    assert world.process.wait(30) == 0


def test_a_link_that_is_refused_says_why(world: World) -> None:
    pytest.importorskip("torch")
    from cubeyard.errors import DistributedError
    from cubeyard.torch.distributed._link import SocketLink

    first = world.join(0)
    with pytest.raises(DistributedError, match=f"as rank 0: rank 0 of this world is process {os.getpid()}"):
        SocketLink(wire.Connection(world.connect()), 0, None).join(TOKEN, 20)
    first.close()


@pytest.mark.parametrize(
    ("sent", "named"),
    [
        ({"call": 1}, "has sent a malformed call"),
        ({"memory": 1, "size": 100}, "has sent memory without a descriptor"),
        ({"leave": 1, "spans": 5}, "has sent a message whose spans is not of type list"),
        ({"other": 1}, "has sent an unknown message"),
        ([1], "has sent a message that is not an object"),
    ],
)
def test_a_rank_that_sends_something_malformed_is_lost_by_name(sent: Any, named: str) -> None:
    machine = Losses()
    own, other = socket.socketpair()
    with own, other, wire.listen(f"cubeyard-test-{os.getpid()}") as listener:
        served = Server(machine, 2, listener, TOKEN, 60)  # type: ignore[arg-type]
        served._add(own)
        rank = wire.Connection(other)
        for message in ({"hello": 1, "token": TOKEN, "process": 7}, sent):
            rank.send(message)
        (key,) = [key for key, _ in served.selector.select(0) if key.data is not None]
        served._read(key.data)
        assert len(machine.lost) == 1 and served.ranks == {}
        number, why = machine.lost[0]
        assert number == 1 and why.startswith(named) and why.endswith(" (process 7)"), why


class Losses:
    """A machine that keeps the ranks that it is said to have lost."""

    size = 2

    def __init__(self) -> None:
        self.lost: list[tuple[int, str]] = []
        self.spans: list[Any] = []

    def post(self, call: Any) -> list[Any]:
        raise AssertionError(call)

    def lose(self, number: int, why: str) -> list[Any]:
        self.lost.append((number, why))
        return []


@pytest.mark.parametrize(("variable", "limit"), [("CUBEYARD_TOPOLOGY", "262144 bytes"), ("CUBEYARD_CCL", "64 MiB")])
def test_a_setting_without_an_end_is_refused(variable: str, limit: str) -> None:
    """`CUBEYARD_TOPOLOGY=/dev/zero` was read until memory ran out."""
    done = subprocess.run(
        [sys.executable, "-m", "cubeyard.collectives.world", "2", "2", "60"],
        input=TOKEN + "\n",
        env={**os.environ, variable: "/dev/zero"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    error = json.loads(done.stdout)["error"]
    assert done.returncode == 1 and variable in error and "/dev/zero" in error and limit in error, error
