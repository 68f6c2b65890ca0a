"""Ranks for the tests of `torch.distributed`: workers in processes of their own, and what they return."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import cubeyard.torch.distributed as ahbm

SMALL = "sips: {count: 4}\ncubes: {w: 1, h: 1}\n"
"""Four SIPs of one cube, which simulate quickly."""


def processes(
    worker: Callable[..., Any],
    ranks: int,
    *args: Any,
    backend: str = "ahbm",
    method: str = "forkserver",
    topology: str = SMALL,
    timeout: float = 60,
    **variables: str,
) -> list[Any]:
    """Returns what `worker(rank, ranks, *args)` returns in each of several processes.

    A server that has imported PyTorch forks them, which takes less than starting each anew.
    """
    if method == "forkserver":
        mp.get_context("forkserver").set_forkserver_preload(["torch", "cubeyard.torch.distributed", __name__])
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "topology.yaml").write_text(topology)
        variables = {"CUBEYARD_TOPOLOGY": f"{folder}/topology.yaml", **variables}
        given = (worker, ranks, args, backend, folder, timeout, variables)
        mp.start_processes(_main, given, ranks, start_method=method)
        return [pickle.loads((Path(folder) / f"{rank}").read_bytes()) for rank in range(ranks)]


def _main(
    rank: int, worker: Any, ranks: int, args: Any, backend: str, folder: str, timeout: float, variables: Any
) -> None:
    torch.set_num_threads(1)
    os.environ.update(variables)
    ahbm.register()
    if backend:
        start(backend, rank, ranks, folder, timeout)
    returned = worker(rank, ranks, *args)
    if backend:
        dist.destroy_process_group()
    (Path(folder) / f"{rank}").write_bytes(pickle.dumps(returned))


def start(backend: str, rank: int, ranks: int, folder: str, timeout: float = 60) -> None:
    """Makes the default group by a file, which needs no port."""
    where, limit = f"file://{folder}/{backend}", timedelta(seconds=timeout)
    dist.init_process_group(backend, rank=rank, world_size=ranks, init_method=where, timeout=limit)
