"""The backend `ahbm` of `torch.distributed`: collectives of an ordinary script go through the simulated fabric.

A script names the backend, and is started by `torchrun`, `torch.multiprocessing.spawn`, or with ranks that are threads:

    torch.distributed.init_process_group("ahbm")

Rank r is SIP r of the machine that CUBEYARD_TOPOLOGY and CUBEYARD_SIPS name; CUBEYARD_CCL names a `ccl.yaml`. Tensors may
be on the CPU or on the device. The numbers are those of the algorithm that the machine chooses, added up in its order,
and `report` tells how long each collective took there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cubeyard._world.records import Record, Report, Span

__all__ = ["BACKEND", "Record", "Report", "Span", "clock", "compute", "register", "report", "spawn_threads"]

BACKEND = "ahbm"
"""Name of the backend."""


def register() -> None:
    """Makes the backend known to `torch.distributed`, where there is one. PyTorch calls this by an entry point."""
    import torch.distributed as dist

    if not dist.is_available() or BACKEND.upper() in dist.Backend._plugins:
        return
    dist.Backend.register_backend(BACKEND, _create, extended_api=True, devices=[_device_name(), "cpu"])


def report() -> Report:
    """Returns the collectives of the world up to now, or those of the last world of this process.

    Raises:
        DistributedError: There was no process group of this backend.
    """
    from cubeyard.torch.distributed import _ranks

    return _ranks.report()


def clock() -> float:
    """Returns the simulated time of this rank in nanoseconds: its work, and the collectives that it has waited for."""
    from cubeyard.torch.distributed import _ranks

    return _ranks.current().clock.now() / 1000


def compute(ns: float) -> None:
    """Adds work to this rank's simulated time: operators of the CPU take none of it by themselves.

    Args:
        ns: duration in nanoseconds.
    """
    from cubeyard.errors import InputError
    from cubeyard.torch.distributed import _ranks

    if not ns >= 0:
        raise InputError(f"ns={ns!r}: expected a duration in nanoseconds")
    _ranks.current().clock.advance(round(ns * 1000))


def spawn_threads(fn: Callable[..., Any], args: Sequence[Any] = (), nprocs: int = 1) -> None:
    """Calls `fn(rank, *args)` on a thread for each rank, as `torch.multiprocessing.spawn` does in processes.

    Ranks are threads of this process, which starts them in no time; a worker calls `init_process_group("ahbm")` without
    anything else. This uses parts of PyTorch that are made for its own tests.

    Raises:
        Exception: the first exception of a rank, with a note that names the rank.
    """
    from cubeyard.torch.distributed import _threads

    _threads.spawn(fn, args, nprocs)


def _create(options: Any, backend_options: Any) -> Any:
    from cubeyard.torch.distributed import _ranks
    from cubeyard.torch.distributed._group import AhbmGroup

    rank = _ranks.join(options)
    members = tuple(options.global_ranks_in_group) or tuple(range(options.group_size))
    return AhbmGroup(rank, str(options.group_id), members, options.store, options.timeout)


def _device_name() -> str:
    try:
        from cubeyard.torch import _loader
    except ImportError:
        return "ahbm"
    return _loader.name
