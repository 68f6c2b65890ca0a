"""Real time of collectives of the backend `ahbm`, beside those of gloo.

Run it on a release build: `pip install '.[torch]' && python python/benches/collectives.py [ranks] [KiB]`. Collectives
that are alike are simulated once; the first calls, which simulate, are shown apart. Ratios compare runs of the same
ranks on the same machine, of which the best of several is taken.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

FIRST, REPEATS = 3, 40


def worker(rank: int, ranks: int, kibibytes: int, folder: str, results: Any) -> None:
    """Times all-reduces of both backends in turn, in the same processes."""
    torch.set_num_threads(1)
    for backend in ("gloo", "ahbm"):
        dist.init_process_group(backend, rank=rank, world_size=ranks, init_method=f"file://{folder}/{backend}")
        tensor = torch.ones(kibibytes << 8)
        times = []
        for _ in range(FIRST + REPEATS):
            dist.barrier()
            start = time.perf_counter()
            dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
            times.append(time.perf_counter() - start)
        if rank == 0:
            results[backend] = times
        dist.destroy_process_group()


def main() -> None:
    """Prints the times."""
    import tempfile

    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    kibibytes = int(sys.argv[2]) if len(sys.argv) > 2 else 1024
    os.environ.setdefault("CUBEYARD_SIPS", str(ranks))
    with tempfile.TemporaryDirectory() as folder, mp.Manager() as manager:
        results = manager.dict()
        mp.spawn(worker, (ranks, kibibytes, folder, results), ranks)
        times = {backend: list(results[backend]) for backend in ("gloo", "ahbm")}
    first = ", ".join(f"{seconds * 1e3:.1f}" for seconds in times["ahbm"][:FIRST])
    print(f"all_reduce of {kibibytes} KiB over {ranks} ranks; the first {FIRST} of ahbm, which simulate: {first} ms")
    base = min(times["gloo"][FIRST:])
    for backend, taken in times.items():
        best, middle = min(taken[FIRST:]), statistics.median(taken[FIRST:])
        print(f"  {backend:5} best {best * 1e3:8.2f} ms, median {middle * 1e3:8.2f} ms, {best / base:5.2f} times gloo")


if __name__ == "__main__":
    main()
