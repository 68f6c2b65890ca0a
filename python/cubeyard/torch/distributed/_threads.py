"""Ranks as threads of one process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from cubeyard.collectives.world.machine import sips_of_environment
from cubeyard.collectives.world.records import Report
from cubeyard.errors import InputError
from cubeyard.torch.distributed import _ranks, register

__all__ = ["spawn"]

RECORDER = "TORCH_FR_BUFFER_SIZE"


def spawn(fn: Callable[..., Any], args: Sequence[Any], nprocs: int | None) -> Report:
    """Runs a worker per rank; see `cubeyard.torch.distributed.spawn`."""
    from torch.testing._internal.distributed.multi_threaded_pg import _install_threaded_pg, _uninstall_threaded_pg

    ranks = sips_of_environment() if nprocs is None else nprocs
    if not isinstance(ranks, int) or ranks < 1:
        raise InputError(f"nprocs={ranks!r}: expected a number of ranks, 1 or more")
    register()
    isolate = torch._C._distributed_c10d._set_thread_isolation_mode
    isolate(True)
    world = _install_threaded_pg()
    if not hasattr(world, "comms"):
        # PyTorch 2.11 reads this attribute when a group ends, but does not set it.
        world.comms = []
    # PyTorch's call recorder supports one rank per process, and warns about others.
    recorder = os.environ.get(RECORDER)
    os.environ[RECORDER] = "0"
    # The worker's `init_process_group` names neither rank nor store. The thread-local state provides them.
    original, store = dist.init_process_group, dist.HashStore()
    here = threading.local()
    # PyTorch has one process-wide mark for the active DDP module, which `torch.compile` reads. Each thread restores the
    # mark that it found, which may belong to another thread.
    active = DistributedDataParallel._active_ddp_module

    def init_process_group(*given: Any, **named: Any) -> None:
        if hasattr(here, "rank") and not {"rank", "store", "init_method"} & named.keys():
            named.update(rank=here.rank, world_size=ranks, store=store)
        original(*given, **named)

    dist.init_process_group = init_process_group
    try:
        return _Run(fn, args, ranks, here).run()
    finally:
        os.environ.pop(RECORDER)
        if recorder is not None:
            os.environ[RECORDER] = recorder
        dist.init_process_group = original
        DistributedDataParallel._active_ddp_module = active
        _uninstall_threaded_pg()
        isolate(False)


class _Run:
    """Threads of a run, and their exceptions."""

    def __init__(self, fn: Callable[..., Any], args: Sequence[Any], ranks: int, here: threading.local) -> None:
        self.fn, self.args, self.here = fn, args, here
        self.errors: list[BaseException] = []
        self.report = Report(())
        self.threads = [threading.Thread(target=self._main, args=(rank,), name=f"rank {rank}") for rank in range(ranks)]

    def run(self) -> Report:
        """Waits for all threads. Raises the first exception, or returns the report."""
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join()
        if self.errors:
            raise self.errors[0]
        return self.report

    def _main(self, rank: int) -> None:
        self.here.rank = rank
        # The setting is per thread. With it, hooks of the backward pass run on the thread of their rank.
        with torch.autograd.set_multithreading_enabled(False):
            try:
                self.fn(rank, *self.args)
            except BaseException as error:
                error.add_note(f"raised by rank {rank}")
                self.errors.append(error)
                self._leave("has raised " + type(error).__name__)
            else:
                self._leave("")

    def _leave(self, why: str) -> None:
        group = dist.distributed_c10d.GroupMember.WORLD if dist.is_initialized() else None
        rank = getattr(group, "ahbm_rank", None)
        if rank is not None:
            if why:
                rank.link.lose(why)
            rank.leave()
        if (last := _ranks.last_report()) is not None and len(last.calls) >= len(self.report.calls):
            self.report = last
