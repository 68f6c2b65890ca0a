"""Process groups in the style of `torch.distributed`, with the backend `ahbm`.

Each rank is a SIP. A worker looks like a DDP script. `spawn` runs one worker per rank, and their collectives run on the
simulated fabric:

>>> import numpy as np
>>> import cubeyard.distributed as dist
>>> def worker(rank, results):
...     dist.init_process_group("ahbm")
...     torch = dist.context()
...     gradient = torch.full((1000,), rank + 1.0).to(dist.placement())
...     dist.all_reduce(gradient)
...     results.append(float(gradient.numpy()[0]))
>>> results = []
>>> report = dist.spawn(worker, args=(results,))
>>> results
[3.0, 3.0]
>>> [call.operation for call in report.calls]
['all_reduce sum']

Ranks are cooperative tasks. One rank runs at a time, until it waits for a call that other ranks have not made. In a
deadlock, every rank is stopped, and the error names the line at which each rank waits.
"""

from __future__ import annotations

import enum
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cubeyard import _native
from cubeyard._base import inputs
from cubeyard._base.results import Result
from cubeyard.collectives.algorithm import finder
from cubeyard.collectives.sweep import CollectiveSweep, sweep
from cubeyard.errors import DistributedError, InputError
from cubeyard.tensors.context import Context, current
from cubeyard.tensors.placement import Placement
from cubeyard.tensors.tensor import Tensor

__all__ = [
    "CollectiveCall",
    "CollectiveReport",
    "CollectiveSweep",
    "Group",
    "ReduceOp",
    "Work",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "barrier",
    "broadcast",
    "context",
    "destroy_process_group",
    "gather",
    "get_backend",
    "get_rank",
    "get_world_size",
    "init_process_group",
    "is_initialized",
    "new_group",
    "placement",
    "recv",
    "reduce",
    "reduce_scatter",
    "scatter",
    "send",
    "set_device",
    "spawn",
    "sweep",
]

BACKEND = "ahbm"
_here = threading.local()


class ReduceOp(enum.StrEnum):
    """Reduction operator over the values of all ranks."""

    SUM = "sum"
    PRODUCT = "prod"
    MIN = "min"
    MAX = "max"
    AVG = "avg"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"


@dataclass(frozen=True)
class CollectiveCall:
    """Collective that the machine performed."""

    operation: str
    ranks: tuple[int, ...]
    algorithm: str
    bytes: int
    """Larger of a rank's input and output sizes, as in `cubeyard ccl`."""
    kernel_ns: float
    """Time from the first PE's start to the last PE's end."""
    host_ns: float
    """Time from the host's launches until the host has received all completions."""


@dataclass(frozen=True)
class CollectiveReport(Result):
    """Collectives of a run, in the order of execution."""

    calls: tuple[CollectiveCall, ...]

    def rows(self) -> list[dict[str, Any]]:
        """Returns one row per collective."""
        return [{**vars(call), "ranks": len(call.ranks)} for call in self.calls]

    def _draw(self, axes: Any) -> None:
        axes.barh([call.operation for call in self.calls], [call.kernel_ns for call in self.calls])
        axes.set_xlabel("ns")


@dataclass(frozen=True)
class Group:
    """Subset of the world's ranks, made by `new_group`."""

    ranks: tuple[int, ...]
    number: int

    def size(self) -> int:
        """Returns the number of ranks."""
        return len(self.ranks)


class _Stopped(BaseException):
    """Ends a waiting rank when the run is over."""


class _World:
    """Ranks of a run, and the process groups that they share."""

    def __init__(self, context: Context, ccl: tuple[str, str], ranks: int | None) -> None:
        self.context = context
        self.ccl = ccl
        self.asked = ranks
        self.native = _native.World(context._native)
        self.find = finder(*self.native.cubes())
        self.ranks = [_Rank(self, rank) for rank in range(self.native.ranks(*ccl, ranks, self.find))]
        self.members: set[int] = set()
        self.left: set[int] = set()
        self.open: list[Work] = []
        self.calls: list[CollectiveCall] = []

    def init(self, rank: int, backend: str) -> None:
        if rank in self.members:
            raise DistributedError("trying to initialize the default process group twice!")
        if not self.members:
            self.native.init(backend, *self.ccl, self.asked, self.find)
            self.native.start()
            self.native.enter(rank)
        elif backend != BACKEND:
            raise InputError(f"Unsupported backend '{backend}': expected '{BACKEND}'")
        self.members.add(rank)

    def destroy(self, rank: int) -> None:
        self.members.discard(rank)
        self.left.add(rank)
        if len(self.left) == len(self.ranks):
            self.native.stop()
            self.native.destroy()
            self.left.clear()

    def run(self, fn: Callable[..., Any], args: Sequence[Any]) -> CollectiveReport:
        try:
            for rank in self.ranks:
                rank.start(fn, args)
            while any(not rank.ended for rank in self.ranks):
                self.round()
            if self.members:
                self.native.finish()
        except KeyboardInterrupt:
            _native.interrupt(True)
            raise
        finally:
            self.close()
        return CollectiveReport(tuple(self.calls))

    def close(self) -> None:
        """Stops all ranks and releases the resources of their groups."""
        for rank in self.ranks:
            rank.stop()
        _native.interrupt(False)
        self.native.stop()
        if self.members or self.left:
            self.native.destroy()
        self.members.clear()
        self.open.clear()

    def round(self) -> None:
        """Runs each rank until it waits or returns, then performs the matching calls."""
        for rank in self.ranks:
            if not rank.ended:
                if self.members:
                    self.native.enter(rank.rank)
                rank.resume()
                if self.members:
                    self.native.check()
        if self.members:
            self.native.meet()
        self.open = [work for work in self.open if not work._settle()]


class _Rank:
    """Rank on a thread that runs only between `resume` and its next wait."""

    def __init__(self, world: _World, rank: int) -> None:
        self.world = world
        self.rank = rank
        self.ended = False
        self.stopping = False
        self.error: BaseException | None = None
        self.thread: threading.Thread | None = None
        self.turn = threading.Semaphore(0)
        self.back = threading.Semaphore(0)

    def start(self, fn: Callable[..., Any], args: Sequence[Any]) -> None:
        self.thread = threading.Thread(target=self._main, args=(fn, args), name=f"rank {self.rank}", daemon=True)
        self.thread.start()

    def _main(self, fn: Callable[..., Any], args: Sequence[Any]) -> None:
        self.turn.acquire()
        _here.rank = self
        try:
            if not self.stopping:
                fn(self.rank, *args)
        except _Stopped:
            pass
        except BaseException as error:
            self.error = error
        finally:
            _here.rank = None
            self.ended = True
            self.back.release()

    def resume(self) -> None:
        """Runs the rank until it waits or ends. Raises the rank's exception, if any."""
        self.turn.release()
        self.back.acquire()
        if self.error is not None:
            error, self.error = self.error, None
            error.add_note(f"raised by rank {self.rank}")
            raise error
        if self.ended and self.world.members:
            self.world.native.returned(self.rank)

    def wait(self) -> None:
        """Lets the other ranks run. Called by the rank itself."""
        self.back.release()
        self.turn.acquire()
        if self.stopping:
            raise _Stopped

    def stop(self) -> None:
        """Ends the rank if it is still waiting."""
        self.stopping = True
        if self.thread is not None and self.thread.is_alive():
            self.turn.release()
            self.thread.join()


class Work:
    """Handle of a posted call. `wait` returns when the call is done."""

    def __init__(self, rank: _Rank, native: _native.Work, operation: str, ranks: tuple[int, ...]) -> None:
        self._rank = rank
        self._native = native
        self._operation = operation
        self._ranks = ranks

    def is_completed(self) -> bool:
        """Returns whether the call is done. Raises if the call failed."""
        return self._native.is_done()

    def wait(self) -> None:
        """Waits until every participating rank has made the call and the call is done."""
        if getattr(_here, "rank", None) is not self._rank:
            raise DistributedError(f"{self._operation}: only the rank that made the call may wait for it")
        while not self._native.is_done():
            self._rank.wait()

    def _settle(self) -> bool:
        """Records the report, if available. The first rank of a call records it for all ranks."""
        report = self._native.report()
        if report is None:
            return False
        if self._rank.rank == self._ranks[0]:
            algorithm, kernel_ps, host_ps, size = report
            call = CollectiveCall(self._operation, self._ranks, algorithm, size, kernel_ps / 1000, host_ps / 1000)
            self._rank.world.calls.append(call)
        return True


def spawn(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int | None = None,
    *,
    topology: Any = None,
    data: bool = True,
    ccl: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    context: Context | None = None,
) -> CollectiveReport:
    """Calls `fn(rank, *args)` for each rank, as `torch.multiprocessing.spawn` does, and waits until all ranks return.

    Args:
        fn: the worker.
        args: further arguments of the worker.
        nprocs: number of ranks, at most the number of SIPs. By default, the number in `ccl`, else the number of SIPs.
        topology: the machine; see `Context`.
        data: whether to compute values. If False, only times are simulated.
        ccl: path of a `ccl.yaml` that selects algorithms, or a dictionary of the same structure.
        context: an existing context to run on, which stays open. By default, the context of the running bench or a new one.

    Raises:
        Exception: the first exception of a rank, with a note that names the rank. The other ranks are stopped.
        DistributedError: the ranks deadlock.
    """
    if getattr(_here, "rank", None) is not None:
        raise DistributedError("spawn called inside a rank: call it from the program that owns the machine")
    given = ("ccl.yaml", "") if ccl is None else inputs.text_of("ccl", ccl)
    context = context or current.get()
    if context is not None:
        return _World(context, given, nprocs).run(fn, args)
    with Context(topology, data=data) as own:
        return _World(own, given, nprocs).run(fn, args)


def _current(call: str) -> _Rank:
    rank: _Rank | None = getattr(_here, "rank", None)
    if rank is None:
        raise DistributedError(f"{call}: not called by a rank; call it in a function given to spawn")
    return rank


def _member(call: str) -> _Rank:
    rank: _Rank | None = getattr(_here, "rank", None)
    if rank is None or rank.rank not in rank.world.members:
        raise DistributedError(
            f"{call}: Default process group has not been initialized, please make sure to call init_process_group."
        )
    return rank


def init_process_group(
    backend: str = BACKEND, *, world_size: int | None = None, rank: int | None = None, **ignored: Any
) -> None:
    """Joins the group of all ranks. The first caller installs the group's channels through the fabric.

    `world_size`, `rank` and further arguments of PyTorch are accepted and ignored (ADR-0047 D2).
    """
    here = _current("init_process_group")
    here.world.init(here.rank, backend)


def destroy_process_group() -> None:
    """Leaves the group. The last rank to leave removes the group's channels."""
    here = _member("destroy_process_group")
    here.world.destroy(here.rank)


def is_initialized() -> bool:
    """Returns whether this rank has joined the group."""
    rank: _Rank | None = getattr(_here, "rank", None)
    return rank is not None and rank.rank in rank.world.members


def get_rank(group: Group | None = None) -> int:
    """Returns the number of this rank: in the world, or within `group`, or -1 if it is not a member."""
    rank = _member("get_rank").rank
    if group is None:
        return rank
    return group.ranks.index(rank) if rank in group.ranks else -1


def get_world_size(group: Group | None = None) -> int:
    """Returns the number of ranks in the world or in `group`."""
    here = _member("get_world_size")
    return len(here.world.ranks) if group is None else group.size()


def get_backend() -> str:
    """Returns the name of the backend, `ahbm`."""
    _member("get_backend")
    return BACKEND


def context() -> Context:
    """Returns the context shared by all ranks, which a script can use in place of the module `torch`."""
    return _current("context").world.context


def set_device(device: int) -> None:
    """Selects the SIP for `placement`; by default, the rank's own SIP."""
    here = _member("set_device")
    here.world.native.set_device(here.rank, device)


def placement() -> Placement:
    """Returns a row-wise placement over all PEs of this rank's SIP."""
    here = _member("placement")
    return Placement(cube="row_wise", pe="row_wise", sips=[here.world.native.device(here.rank)])


def new_group(ranks: Sequence[int]) -> Group:
    """Makes a group of some ranks. Every rank must call it, members and others."""
    here = _member("new_group")
    return Group(tuple(ranks), here.world.native.new_group(here.rank, list(ranks)))


def all_reduce(
    tensor: Tensor, op: str = ReduceOp.SUM, group: Group | None = None, async_op: bool = False
) -> Work | None:
    """Replaces the tensor of every rank with the reduction over all ranks."""
    return _call("all_reduce", [tensor], group, async_op, op=op)


def reduce(
    tensor: Tensor, dst: int, op: str = ReduceOp.SUM, group: Group | None = None, async_op: bool = False
) -> Work | None:
    """Replaces the tensor of rank `dst` with the reduction over all ranks."""
    return _call("reduce", [tensor], group, async_op, op=op, peer=dst)


def broadcast(tensor: Tensor, src: int, group: Group | None = None, async_op: bool = False) -> Work | None:
    """Replaces the tensor of every rank with the tensor of rank `src`."""
    return _call("broadcast", [tensor], group, async_op, peer=src)


def all_gather(output: Tensor, input: Tensor, group: Group | None = None, async_op: bool = False) -> Work | None:
    """Gathers all inputs into `output`: each PE concatenates the parts that the same PE of each rank holds."""
    return _call("all_gather", [input, output], group, async_op)


def reduce_scatter(
    output: Tensor, input: Tensor, op: str = ReduceOp.SUM, group: Group | None = None, async_op: bool = False
) -> Work | None:
    """Sets `output` to this rank's part of the reduced inputs, in each PE."""
    return _call("reduce_scatter", [input, output], group, async_op, op=op)


def all_to_all(output: Tensor, input: Tensor, group: Group | None = None, async_op: bool = False) -> Work | None:
    """Sets `output` to this rank's parts of all inputs, in each PE."""
    return _call("all_to_all", [input, output], group, async_op)


def gather(
    output: Tensor, input: Tensor, dst: int, group: Group | None = None, async_op: bool = False
) -> Work | None:
    """Gathers all inputs into the output of rank `dst`, in each PE."""
    return _call("gather", [input, output], group, async_op, peer=dst)


def scatter(
    output: Tensor, input: Tensor, src: int, group: Group | None = None, async_op: bool = False
) -> Work | None:
    """Sets `output` to this rank's part of the input of rank `src`, in each PE."""
    return _call("scatter", [input, output], group, async_op, peer=src)


def send(tensor: Tensor, dst: int, group: Group | None = None, async_op: bool = False) -> Work | None:
    """Sends a tensor to rank `dst`, which must receive it."""
    return _call("send", [tensor], group, async_op, peer=dst)


def recv(tensor: Tensor, src: int, group: Group | None = None, async_op: bool = False) -> Work | None:
    """Receives a tensor sent by rank `src`."""
    return _call("recv", [tensor], group, async_op, peer=src)


def barrier(group: Group | None = None, async_op: bool = False) -> Work | None:
    """Waits for all ranks, in simulated time as well."""
    return _call("barrier", [], group, async_op)


def _call(
    name: str, tensors: list[Tensor], group: Group | None, async_op: bool, *, op: str = "", peer: int = 0
) -> Work | None:
    here = _member(name)
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise InputError(f"{name}: expected a cubeyard.Tensor, found {type(tensor).__name__}")
    number = None if group is None else group.number
    parts = [tensor._native for tensor in tensors]
    native = here.world.native.post(here.rank, number, name, parts, str(op), peer, _line())
    ranks = tuple(range(len(here.world.ranks))) if group is None else group.ranks
    work = Work(here, native, f"{name} {op}".strip(), ranks)
    here.world.open.append(work)
    if async_op:
        return work
    work.wait()
    return None


def _line() -> str:
    """Returns the file and line of the nearest caller outside this module."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
