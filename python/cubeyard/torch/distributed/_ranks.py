"""Ranks of this process, and the start of their world's machine."""

from __future__ import annotations

import atexit
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist

from cubeyard.collectives.world import wire
from cubeyard.collectives.world.machine import Machine, from_environment
from cubeyard.collectives.world.records import Report
from cubeyard.errors import CubeyardError, DistributedError, InputError
from cubeyard.torch.distributed._clock import Clock
from cubeyard.torch.distributed._link import Link, LocalLink, SocketLink

__all__ = ["Rank", "current", "join", "last_report", "report"]


@dataclass
class Rank:
    """Rank of a world: its number, which equals its SIP's number, its link to the machine, and its clock."""

    number: int
    size: int
    link: Link
    clock: Clock
    groups: int = 0
    """Number of open process groups."""
    last: Report | None = None
    """Report of the world, once the rank has left."""
    timelines: int = 0
    """Number of timelines that were gathered."""

    def report(self) -> Report:
        """Returns the collectives of the world so far."""
        return Report.of(*self.link.report(self.spans()))

    def leave(self) -> None:
        """Leaves the world and keeps the report."""
        if _open.pop(id(self), None) is None:
            return
        _kept.report = self.last = Report.of(*self.link.leave(self.spans()))
        if self.number == 0 and os.environ.get("CUBEYARD_REPORT") == "1":
            print(f"cubeyard: {self.last.summary()}", file=sys.stderr, flush=True)

    def spans(self) -> list[list[Any]]:
        """Returns the rank's activities since the last report."""
        return [[self.number, *span] for span in self.clock.take_spans()]


class _Kept(threading.local):
    report: Report | None = None


_kept = _Kept()
_open: dict[int, Rank] = {}
_local: dict[str, tuple[Machine, threading.RLock]] = {}


def current() -> Rank:
    """Returns the rank of the default process group.

    Raises:
        DistributedError: The default group does not exist or has another backend.
    """
    group = dist.distributed_c10d.GroupMember.WORLD if dist.is_initialized() else None
    rank: Rank | None = getattr(group, "ahbm_rank", None)
    if rank is None:
        raise DistributedError(
            "Default process group has not been initialized with the backend 'ahbm': call init_process_group('ahbm')"
        )
    return rank


def report() -> Report:
    """Returns the report of the current world, or else of the last one."""
    if _kept.report is not None and not dist.is_initialized():
        return _kept.report
    return current().report()


def last_report() -> Report | None:
    """Returns the report of the last world that this thread has left, or None."""
    return _kept.report


def join(options: Any) -> Rank:
    """Returns the rank for a new process group: the default group's rank, or a new rank in a world of its own."""
    members = list(options.global_ranks_in_group)
    if members and isinstance(rank := getattr(dist.distributed_c10d._get_default_group(), "ahbm_rank", None), Rank):
        return rank
    number = members[options.group_rank] if members else options.group_rank
    size = dist.get_world_size() if members else options.group_size
    return _Joining(options.store, number, members or list(range(size)), size, options.timeout).run()


@dataclass
class _Joining:
    """Rank that joins a world through a store."""

    store: Any
    rank: int
    ranks: list[int]
    size: int
    timeout: timedelta
    prefix: str = ""

    def run(self) -> Rank:
        # A launcher may reuse its store for the next world of the same ranks.
        number = self.store.add(f"worlds of {self.rank}", 1)
        self._check_free(f"world {number - 1}/")
        self.prefix = f"world {number}/"
        self._set(f"rank {self.rank}", json.dumps(_process()))
        process = None
        if self.rank == self.ranks[0]:
            found, process = self._start()
            self._set("machine", json.dumps(found))
        found = json.loads(self._get("machine", f"rank {self.ranks[0]} has not started the machine"))
        if "error" in found:
            raise InputError(found["error"])
        link, is_local = self._link(found, process), "local" in found
        rank = Rank(self.rank, self.size, link, Clock(is_alone=not is_local or self.size == 1))
        _open[id(rank)] = rank
        return rank

    def _check_free(self, before: str) -> None:
        """Checks that no other process has this rank in the world before, if that world goes on.

        Raises:
            DistributedError: Another process is the same rank. Both would wait for the others, each for a world of its own.
        """
        if not self.store.check([f"{before}rank {self.rank}"]):
            return
        other = json.loads(self.store.get(f"{before}rank {self.rank}"))
        if other["process"] != os.getpid() and _is_running(other) and self._goes_on(before):
            raise DistributedError(
                f"process {os.getpid()} cannot join as rank {self.rank}: process {other['process']} is rank {self.rank} of this world, "
                "which goes on; expected one process for each rank"
            )

    def _goes_on(self, prefix: str) -> bool:
        """Returns whether a world has no machine yet, or one whose socket is open."""
        if not self.store.check([f"{prefix}machine"]):
            return True
        found = json.loads(self.store.get(f"{prefix}machine"))
        try:
            wire.Connection.to(found["address"]).close()
        except (KeyError, OSError):
            return False
        return True

    def _start(self) -> tuple[dict[str, Any], subprocess.Popen[bytes] | None]:
        """Starts the machine once all ranks are known: here if the ranks are threads of this process, else in another."""
        others = {rank: json.loads(self._get(f"rank {rank}", f"rank {rank} has not joined")) for rank in self.ranks}
        away = [rank for rank, other in others.items() if other["host"] != _host()]
        if away:
            what = f"ranks {away} run on another host than rank {self.rank}: expected all ranks on one host"
            return {"error": what}, None
        try:
            if all(other["process"] == os.getpid() for other in others.values()):
                token = secrets.token_hex(16)
                _local[token] = (from_environment(self.size), threading.RLock())
                return {"local": token}, None
            return self._start_process()
        except CubeyardError as error:
            return {"error": str(error)}, None

    def _start_process(self) -> tuple[dict[str, Any], subprocess.Popen[bytes] | None]:
        token = secrets.token_hex(16)
        # The machine's process imports from the same paths: this package, and modules named in a `ccl.yaml`.
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        environment = {**os.environ, "PYTHONPATH": paths}
        seconds = self.timeout.total_seconds()
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "cubeyard.collectives.world", str(len(self.ranks)), str(self.size), str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        assert process.stdin is not None and process.stdout is not None
        with process.stdin, process.stdout:
            process.stdin.write(token.encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        if not line:
            return {"error": f"the process of the machine ended with status {process.wait()} before it was ready"}, None
        found = json.loads(line)
        if "error" in found:
            process.wait()
            return found, None
        return {**found, "token": token}, process

    def _link(self, found: dict[str, Any], process: subprocess.Popen[bytes] | None) -> Link:
        if "local" in found:
            return LocalLink(*_local[found["local"]], self.rank)
        try:
            link = SocketLink(wire.Connection.to(found["address"]), self.rank, process)
        except OSError as error:
            raise DistributedError(f"the process of the machine cannot be reached: {error}") from error
        link.join(found["token"], self.timeout.total_seconds())
        return link

    def _set(self, key: str, value: str) -> None:
        self.store.set(self.prefix + key, value)

    def _get(self, key: str, missing: str) -> str:
        try:
            self.store.wait([self.prefix + key], self.timeout)
            return str(self.store.get(self.prefix + key).decode())
        except (dist.DistStoreError, dist.DistNetworkError) as error:
            raise DistributedError(
                f"{missing} within {self.timeout.total_seconds():g} s, the timeout of the group: {error}"
            ) from error


def _host() -> str:
    """Returns a string that is equal only for processes that can reach each other."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{socket.gethostname()} {boot} {os.readlink('/proc/self/ns/net')}"


def _process() -> dict[str, Any]:
    """Returns what identifies this process: its number, its start and its host."""
    return {"process": os.getpid(), "started": _started(os.getpid()), "host": _host()}


def _started(process: int) -> str | None:
    """Returns when a process of this host has started, in ticks since boot; None if it has ended."""
    try:
        state, *rest = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if state in "ZX" else rest[18]


def _is_running(other: dict[str, Any]) -> bool:
    """Returns whether a process of this host goes on. A number may have been given to another process since."""
    return bool(other["host"] == _host() and other["started"] == _started(other["process"]))


@atexit.register
def _leave_all() -> None:
    for rank in list(_open.values()):
        rank.leave()
