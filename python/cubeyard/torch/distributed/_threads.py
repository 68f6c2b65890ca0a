"""Ranks that are threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from cubeyard.errors import InputError

__all__ = ["spawn"]


def spawn(fn: Callable[..., Any], args: Sequence[Any], ranks: int) -> None:
    """Runs a worker for each rank; see `cubeyard.torch.distributed.spawn_threads`."""
    from torch.testing._internal.distributed.multi_threaded_pg import _install_threaded_pg, _uninstall_threaded_pg

    if not isinstance(ranks, int) or ranks < 1:
        raise InputError(f"nprocs={ranks!r}: expected a number of ranks")
    isolate = torch._C._distributed_c10d._set_thread_isolation_mode
    isolate(True)
    _install_threaded_pg()
    # The worker's call of `init_process_group` names neither rank nor store: its thread knows them.
    original, store = dist.init_process_group, dist.HashStore()
    here = threading.local()

    def init_process_group(*given: Any, **named: Any) -> None:
        if hasattr(here, "rank") and not {"rank", "store", "init_method"} & named.keys():
            named.update(rank=here.rank, world_size=ranks, store=store)
        original(*given, **named)

    dist.init_process_group = init_process_group
    try:
        _Run(fn, args, ranks, here).run()
    finally:
        dist.init_process_group = original
        _uninstall_threaded_pg()
        isolate(False)


class _Run:
    """The threads of a run, and the first exception of one."""

    def __init__(self, fn: Callable[..., Any], args: Sequence[Any], ranks: int, here: threading.local) -> None:
        self.fn, self.args, self.here = fn, args, here
        self.errors: list[BaseException] = []
        self.threads = [threading.Thread(target=self._main, args=(rank,), name=f"rank {rank}") for rank in range(ranks)]

    def run(self) -> None:
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join()
        if self.errors:
            raise self.errors[0]

    def _main(self, rank: int) -> None:
        self.here.rank = rank
        # The setting belongs to a thread. With it, hooks of the backward pass run on the thread of their rank.
        with torch.autograd.set_multithreading_enabled(False):
            try:
                self.fn(rank, *self.args)
            except BaseException as error:
                error.add_note(f"raised by rank {rank}")
                self.errors.append(error)
                self._leave("has raised " + type(error).__name__)
            else:
                self._leave("")

    @staticmethod
    def _leave(why: str) -> None:
        group = dist.distributed_c10d.GroupMember.WORLD if dist.is_initialized() else None
        rank = getattr(group, "ahbm_rank", None)
        if rank is None:
            return
        if why:
            rank.link.lose(why)
        rank.leave()
