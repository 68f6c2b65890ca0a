"""A process that has imported PyTorch and the device, and forks itself for each program that it is given.

An import of PyTorch takes two seconds of a core, a fork some milliseconds. A program finds what a Python of its own would give
it: `__main__`, arguments, environment, streams, an unused device, and the whole end of the interpreter. Only variables that
`import torch` itself reads have no effect on it; programs about those, and about forks, are started anew.
"""

from __future__ import annotations

import gc
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import CodeType
from typing import Any

BYTES = 1 << 20
"""Size of the longest request, which has a program and its environment."""


class Running:
    """A program in a process of its own, with the methods of `subprocess.Popen` that the tests use."""

    def __init__(self, status: int, output: Path, errors: Path) -> None:
        self.status, self.files = status, (output, errors)
        self.pid, self.returncode = _number(status), None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self.status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a program", timeout or 0)
            self.returncode = os.waitstatus_to_exitcode(_number(self.status))
            os.close(self.status)
        return self.returncode

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, 9)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What the process has written, once it has ended."""
        self.wait(timeout)
        output, errors = (file.read_text() for file in self.files)
        return output, errors


class Template:
    """The process that forks, as the tests see it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.requests = ours
        command = [sys.executable, "-W", "error::RuntimeWarning", "-c", "exec(__import__('template').serve())"]
        self.process = subprocess.Popen(
            [*command, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent), "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
        )
        theirs.close()

    def start(
        self, folder: Path, text: str, *arguments: str, file: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> Running:
        """Starts a program as `python FILE` does, or as `python -c`; its streams are files of the folder.

        Args:
            folder: Receives a file for each stream.
            text: The program.
            arguments: Arguments of the program.
            file: Its file, which need not exist unless the program starts processes anew.
            environment: All variables; those of this process if there is none.
        """
        number = len(list(folder.glob("*.output")))
        files = [folder / f"{number}.output", folder / f"{number}.errors"]
        status, told = os.pipe()
        streams = [os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_EXCL, 0o600) for path in files]
        program = {"text": text, "file": file and str(file), "arguments": arguments, "folder": os.getcwd()}
        request = json.dumps({**program, "environment": dict(environment or os.environ)}).encode()
        assert len(request) < BYTES
        socket.send_fds(self.requests, [request], [*streams, told])
        for descriptor in (*streams, told):
            os.close(descriptor)
        return Running(status, *files)

    def run(self, *given: Any, timeout: float = 300, **more: Any) -> subprocess.CompletedProcess[str]:
        """Runs a program to its end; takes what `start` takes."""
        running = self.start(*given, **more)
        try:
            output, errors = running.communicate(timeout)
        finally:
            running.kill()
        return subprocess.CompletedProcess(["python"], running.returncode or 0, output, errors)

    def close(self) -> None:
        self.requests.close()
        self.process.wait()


def _number(descriptor: int) -> int:
    found = os.read(descriptor, 4)
    assert len(found) == 4, "the template has ended"
    return int.from_bytes(found, "little")


# ---- In the process that forks -----------------------------------------------------------------


def serve() -> CodeType:
    """Forks a process for each request, and tells how it ended. Returns in the forked processes, with their programs."""
    import cubeyard.torch  # noqa: F401
    import torch

    assert not torch.ahbm.is_initialized() and len(os.listdir("/proc/self/task")) == 1, "it can be forked"
    # A collection would copy all pages of what is imported. Programs about their end call `gc.unfreeze`.
    gc.freeze()
    requests = socket.socket(fileno=int(sys.argv[1]))
    running: dict[int, tuple[int, int]] = {}
    while True:
        ready, _, _ = select.select([requests, *running], [], [])
        for ended in ready:
            if ended is not requests:
                process, told = running.pop(ended)
                _tell(told, os.waitpid(process, 0)[1])
                os.close(ended)
                os.close(told)
        if requests in ready:
            request, descriptors, _, _ = socket.recv_fds(requests, BYTES, 3)
            if not request:
                os._exit(0)
            *streams, told = descriptors
            if (process := os.fork()) == 0:
                return _program(json.loads(request), streams, [requests.detach(), told, *_unused(running)])
            for stream in streams:
                os.close(stream)
            _tell(told, process)
            running[os.pidfd_open(process)] = process, told


def _unused(running: dict[int, tuple[int, int]]) -> list[int]:
    return [descriptor for ended, (_, told) in running.items() for descriptor in (ended, told)]


def _tell(descriptor: int, number: int) -> None:
    try:
        os.write(descriptor, number.to_bytes(4, "little"))
    except BrokenPipeError:
        pass  # The test has ended before the process.


def _program(request: dict[str, Any], streams: list[int], unused: list[int]) -> CodeType:
    """Turns the forked process into the process of a program."""
    os.setsid()
    for number, stream in enumerate(streams, 1):
        os.dup2(stream, number)
    for descriptor in (*streams, *unused):
        os.close(descriptor)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    file = request["file"]
    sys.argv = [file or "-c", *request["arguments"]]
    sys.path.remove(str(Path(__file__).parent))
    sys.path[0] = str(Path(file).parent) if file else ""
    if file:
        sys.modules["__main__"].__file__ = file
    del sys.modules[__name__]
    return compile(request["text"], file or "<string>", "exec", dont_inherit=True)
