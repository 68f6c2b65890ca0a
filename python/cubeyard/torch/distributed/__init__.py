"""Backend `ahbm` of `torch.distributed`: the collectives of an ordinary script run on the simulated fabric.

A script names the backend. It is started by `torchrun` or `torch.multiprocessing.spawn`, or with ranks as threads:

    torch.distributed.init_process_group("ahbm")

Rank r is SIP r of the machine selected by CUBEYARD_TOPOLOGY and CUBEYARD_SIPS; CUBEYARD_CCL names a `ccl.yaml`. Tensors
may be on the CPU or on the device. Results are reduced in the order of the algorithm that the machine chooses. `report`
returns the simulated duration of each collective:

>>> import torch
>>> import cubeyard.torch.distributed as dist
>>> def worker(rank):
...     dist.init_process_group("ahbm")
...     gradient = torch.full((1000,), rank + 1.0)
...     dist.all_reduce(gradient)
...     assert gradient.eq(3).all()
>>> [(call.operation, call.bytes, call.algorithm, call.time_ns) for call in dist.spawn(worker).calls]
[('all_reduce sum', 4000, 'lrab', 299.432)]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cubeyard.collectives.world.records import Record, Report, Span
    from cubeyard.torch._timeline import Timeline

__all__ = [
    "BACKEND",
    "Record",
    "Report",
    "Span",
    "clock",
    "compute",
    "context",
    "gather_timeline",
    "placement",
    "register",
    "report",
    "spawn",
]

BACKEND = "ahbm"
"""Name of the backend."""


def register() -> None:
    """Registers the backend with `torch.distributed`, if available. PyTorch calls this through an entry point."""
    import torch.distributed as dist

    if not dist.is_available() or BACKEND.upper() in dist.Backend._plugins:
        return
    dist.Backend.register_backend(BACKEND, _create, extended_api=True, devices=[_device_name(), "cpu"])


def report() -> Report:
    """Returns the collectives of the world so far, or of this process's last world.

    Raises:
        DistributedError: There has been no process group of this backend.
    """
    from cubeyard.torch.distributed import _ranks

    return _ranks.report()


def clock() -> float:
    """Returns the simulated time of this rank in nanoseconds, including its work and the collectives it waited for."""
    from cubeyard.torch.distributed import _ranks

    return _ranks.current().clock.now() / 1000


def compute(ns: float) -> None:
    """Adds work to this rank's simulated time. Operators on the CPU take no simulated time.

    Args:
        ns: duration in nanoseconds.
    """
    from cubeyard.errors import InputError
    from cubeyard.torch.distributed import _ranks

    if not ns >= 0:
        raise InputError(f"ns={ns!r}: expected a duration in nanoseconds, 0 or more")
    _ranks.current().clock.advance(round(ns * 1000))


def gather_timeline(timeline: Timeline) -> Timeline:
    """Returns one timeline of all ranks, from the timeline that each rank has recorded. All ranks call it, after the block.

    It takes no simulated time. Tracks begin with `rank 0: `. If the ranks are threads, a timeline has all of them already,
    and is returned as it is.

    Args:
        timeline: this rank's timeline, from `torch.ahbm.record_timeline()`.

    Raises:
        DistributedError: A rank has not called it within the store's timeout, or there is no process group of this backend.
    """
    from cubeyard.torch.distributed import _gathering

    return _gathering.gathered(timeline)


def spawn(fn: Callable[..., Any], args: Sequence[Any] = (), nprocs: int | None = None) -> Report:
    """Calls `fn(rank, *args)` on one thread per rank, as `torch.multiprocessing.spawn` does with processes.

    Ranks are threads of this process and start immediately. A worker calls `init_process_group("ahbm")` without further
    arguments. This function uses parts of PyTorch that were made for its own tests.

    Args:
        fn: the worker.
        args: further arguments of the worker.
        nprocs: number of ranks; by default, the number of SIPs in the machine.

    Returns:
        The collectives of the ranks.

    Raises:
        Exception: the first exception of a rank, with a note that names the rank.
    """
    from cubeyard.torch.distributed import _threads

    return _threads.spawn(fn, args, nprocs)


def context() -> Any:
    """Returns the module `torch`, for workers written for `cubeyard.distributed`."""
    import torch

    return torch


def placement() -> Any:
    """Returns the CPU device, where workers of `cubeyard.distributed` can read tensors with NumPy."""
    import torch

    return torch.device("cpu")


def __getattr__(name: str) -> Any:
    """Returns an attribute of `torch.distributed`, so that workers of `cubeyard.distributed` run with this module."""
    if name in {"Record", "Report", "Span"}:
        # Imported here, because `import torch` imports this module and needs no reports.
        from cubeyard.collectives.world import records

        return getattr(records, name)
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import torch.distributed as dist

    return getattr(dist, name)


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
