"""Messages between a rank and the server process: JSON over a Unix socket, plus file descriptors of shared memory.

Both processes run on one host. The socket has an abstract name and the memory has no name, so killed processes leave
nothing behind.
"""

from __future__ import annotations

import array
import json
import mmap
import os
import socket
import struct
import threading
from typing import Any

import numpy as np

__all__ = ["Buffer", "Connection", "Malformed", "Pool", "listen", "same_user"]

HEAD = struct.Struct("!I")
MOST_DESCRIPTORS = 8
SMALLEST = 1 << 16


class Malformed(Exception):
    """Signals an invalid message. The connection is unusable afterwards."""


class Connection:
    """Stream of messages over a socket."""

    def __init__(self, stream: socket.socket) -> None:
        self.stream = stream
        self.received = bytearray()
        self.descriptors: list[int] = []
        self.longest: int | None = None
        """Maximum size of a received message, in bytes, or None for no limit."""
        self.sending = threading.Lock()

    @classmethod
    def to(cls, address: str) -> Connection:
        """Connects to a listening socket."""
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        stream.connect("\0" + address)
        return cls(stream)

    def send(self, message: Any, descriptor: int | None = None) -> None:
        """Sends a message, with a file descriptor if one is given."""
        body = json.dumps(message, separators=(",", ":")).encode()
        data = HEAD.pack(len(body)) + body
        with self.sending:
            if descriptor is not None:
                rights = array.array("i", [descriptor]).tobytes()
                sent = self.stream.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
                data = data[sent:]
            self.stream.sendall(data)

    def receive(self) -> Any:
        """Waits for a message. Raises `EOFError` at the end of the stream."""
        while (message := self.take()) is None:
            self.fill()
        return message

    def fill(self) -> None:
        """Reads the data that has arrived. Raises `EOFError` at the end of the stream."""
        space = socket.CMSG_SPACE(MOST_DESCRIPTORS * array.array("i").itemsize)
        try:
            data, ancillary, _, _ = self.stream.recvmsg(1 << 16, space, socket.MSG_CMSG_CLOEXEC)
        except ConnectionError as error:
            raise EOFError from error
        for level, kind, rights in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                found = array.array("i")
                found.frombytes(rights[: len(rights) - len(rights) % found.itemsize])
                self.descriptors += found
        if not data:
            raise EOFError
        self.received += data

    def take(self) -> Any:
        """Returns the next complete message, or None.

        Raises:
            Malformed: The message is longer than `longest`, or is not JSON.
        """
        if len(self.received) < HEAD.size:
            return None
        (length,) = HEAD.unpack_from(self.received)
        if self.longest is not None and length > self.longest:
            raise Malformed(f"a message of {length} bytes")
        if len(self.received) < HEAD.size + length:
            return None
        body = bytes(self.received[HEAD.size : HEAD.size + length])
        del self.received[: HEAD.size + length]
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise Malformed(f"a message that is not JSON: {error}") from error

    def close(self) -> None:
        """Closes the stream, and wakes a thread that waits in `receive`."""
        try:
            self.stream.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.stream.close()
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors.clear()


def listen(address: str) -> socket.socket:
    """Returns a listening socket."""
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.bind("\0" + address)
    stream.listen(128)
    return stream


def same_user(stream: socket.socket) -> bool:
    """Returns whether the peer process belongs to the same user."""
    held = stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", held)
    return bool(user == os.geteuid())


class Buffer:
    """Memory shared by two processes."""

    def __init__(self, number: int, descriptor: int, size: int) -> None:
        self.number = number
        self.size = size
        self.map = mmap.mmap(descriptor, size)
        self.bytes: np.ndarray[Any, Any] = np.frombuffer(self.map, np.uint8)

    @classmethod
    def create(cls, number: int, size: int) -> tuple[Buffer, int]:
        """Returns a new buffer and its file descriptor, which the caller must close."""
        descriptor = os.memfd_create("cubeyard", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, size)
        return cls(number, descriptor, size), descriptor


class Pool:
    """Reusable buffers of a rank. Each buffer is sent to the machine once and serves many calls."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.free: dict[int, list[Buffer]] = {}
        self.made = 0
        self.lock = threading.Lock()

    def take(self, size: int) -> Buffer:
        """Returns a buffer with at least the given size."""
        rounded = max(SMALLEST, 1 << (size - 1).bit_length()) if size else SMALLEST
        with self.lock:
            if self.free.get(rounded):
                return self.free[rounded].pop()
            self.made += 1
            buffer, descriptor = Buffer.create(self.made, rounded)
        try:
            self.connection.send({"memory": buffer.number, "size": rounded}, descriptor)
        finally:
            os.close(descriptor)
        return buffer

    def give_back(self, buffer: Buffer) -> None:
        """Keeps a buffer for later calls."""
        with self.lock:
            self.free.setdefault(buffer.size, []).append(buffer)
