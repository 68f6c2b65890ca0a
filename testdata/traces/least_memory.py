"""Measures the least memory in which PyTorch's own allocator serves a recorded trace, on a CUDA device.

    python3 testdata/traces/least_memory.py testdata/traces/*.csv.gz > testdata/traces/least.json

Every trace is replayed through the caching allocator under limits that bisect towards the least one that works
(`set_per_process_memory_fraction`), with the default settings and with expandable segments. The limit just below the
answer is known to fail; limits below that are not tried.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

STEP = 2 << 20
MODES = {"default": "", "expandable": "expandable_segments:True"}

Event = tuple[int, int]


def events(path: Path) -> list[Event]:
    """The trace as (number of the allocation, size); a free has size -1."""
    numbers: dict[str, int] = {}
    found: list[Event] = []
    with gzip.open(path, "rt", newline="") as file:
        for row in csv.DictReader(file):
            pointer = row["Pointer"]
            if row["Action"] == "allocate":
                numbers[pointer] = len(numbers)
                found.append((numbers[pointer], int(row["Size"])))
            else:
                found.append((numbers[pointer], -1))
    return found


def peak_live(trace: list[Event]) -> int:
    """The most bytes that are requested at one time."""
    sizes: dict[int, int] = {}
    live = most = 0
    for number, size in trace:
        if size < 0:
            live -= sizes.pop(number)
        else:
            sizes[number] = size
            live += size
            most = max(most, live)
    return most


def serve(torch: Any, trace: list[Event], limit: int | None) -> dict[str, int] | None:
    """Replays the trace below `limit`; None where memory runs out."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()
    torch.cuda.set_per_process_memory_fraction(1.0 if limit is None else limit / total)
    allocate, free = torch.cuda.caching_allocator_alloc, torch.cuda.caching_allocator_delete
    live: dict[int, int] = {}
    try:
        for number, size in trace:
            if size < 0:
                free(live.pop(number))
            else:
                live[number] = allocate(size)
    except torch.cuda.OutOfMemoryError:
        return None
    finally:
        for pointer in live.values():
            free(pointer)
    stats = torch.cuda.memory_stats()
    return {"retries": stats["num_alloc_retries"], "reserved": stats["reserved_bytes.all.peak"]}


def least(torch: Any, trace: list[Event]) -> dict[str, int]:
    """The least limit that works, to 2 MiB, and what was reserved without one."""
    free = serve(torch, trace, None)
    assert free is not None, "the device is too small for this trace"
    below, enough = peak_live(trace) // STEP - 1, -(-free["reserved"] // STEP)
    at = serve(torch, trace, enough * STEP)
    while at is None:  # more than was reserved is asked for while memory is given back
        below, enough = enough, enough + enough // 50
        at = serve(torch, trace, enough * STEP)
    while enough - below > 1:
        middle = (below + enough) // 2
        tried = serve(torch, trace, middle * STEP)
        if tried is None:
            below = middle
        else:
            enough, at = middle, tried
    return {"least": enough * STEP, "retries": at["retries"], "reserved_at_least": at["reserved"], "reserved": free["reserved"]}


def measure(paths: list[str]) -> dict[str, dict[str, int]]:
    """Every trace with the settings of this process."""
    import torch

    torch.cuda.init()
    torch.empty(1, device="cuda")
    found = {}
    for path in map(Path, paths):
        trace = events(path)
        found[path.name.removesuffix(".csv.gz")] = {"peak_live": peak_live(trace), **least(torch, trace)}
        print(path.name, found[path.name.removesuffix(".csv.gz")], file=sys.stderr, flush=True)
    return found


def main() -> None:
    """Measures in one process for each setting, which is read when CUDA starts."""
    if sys.argv[1:2] == ["--here"]:
        print(json.dumps(measure(sys.argv[2:])))
        return
    results: dict[str, dict[str, dict[str, int]]] = {}
    for mode, setting in MODES.items():
        environment = {**os.environ, "PYTORCH_ALLOC_CONF": setting}
        command = [sys.executable, __file__, "--here", *sys.argv[1:]]
        output = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout
        for name, figures in json.loads(output).items():
            results.setdefault(name, {})[mode] = figures
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
