"""Records a program that runs out of memory, on a CUDA device, and whether expandable segments help it.

    python3 testdata/traces/out_of_memory.py FOLDER

A small transformer is trained on sequences of many lengths, first with the whole device, then under limits at which it is
expected to fail or just to run: what is beyond the limit is taken with `cudaMalloc`. The snapshots without a limit and of the
run in SHOWN of the requested bytes, and the outcomes of all runs, are written to FOLDER.
"""

from __future__ import annotations

import ctypes
import gzip
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

LENGTHS = [700, 1900, 900, 2500, 1300, 3100, 1700, 2900, 2300, 3300]
SHARES = {"default": [1.04, 1.08, 1.09, 1.1, 1.11, 1.12], "expandable": [1.0, 1.01, 1.02, 1.03, 1.04]}
SHOWN = 1.08


def model(torch: Any) -> Any:
    """An embedding, two layers and a head."""
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True, norm_first=True)
    layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return torch.nn.Sequential(torch.nn.Embedding(8192, 512), layers, torch.nn.Linear(512, 8192)).cuda()


def step(torch: Any, network: Any, optimizer: Any, length: int) -> None:
    """Trains on a batch of eight random sequences."""
    tokens = torch.randint(0, 8192, (8, length), device="cuda")
    logits = network(tokens)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def fill(torch: Any, left: int) -> None:
    """Takes the memory of the device until `left` bytes are free."""
    runtime = torch.cuda.cudart()
    free, _ = runtime.cudaMemGetInfo(0)
    library = ctypes.CDLL(next(line.split()[-1] for line in open("/proc/self/maps") if "libcudart.so" in line))
    pointer = ctypes.c_void_p()
    assert library.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(int(free) - left)) == 0


def train(limit: int | None) -> tuple[dict[str, Any], Any]:
    """Runs the program, with `limit` bytes for PyTorch if given; returns the outcome and the snapshot."""
    import torch

    torch.manual_seed(0)
    torch.cuda.memory._record_memory_history(stacks="python", max_entries=100_000)
    network = model(torch)
    optimizer = torch.optim.AdamW(network.parameters(), foreach=False)
    step(torch, network, optimizer, 64)
    torch.cuda.synchronize()
    if limit is not None:
        fill(torch, limit - torch.cuda.memory_reserved())
    outcome: dict[str, Any] = {"limit": limit, "ran": True, "message": None}
    try:
        for length in LENGTHS:
            step(torch, network, optimizer, length)
    except torch.OutOfMemoryError as error:
        outcome.update(ran=False, message=str(error).split(" See documentation")[0])
    statistics = torch.cuda.memory_stats()
    outcome.update(
        peak_allocated=statistics["allocated_bytes.all.peak"],
        peak_requested=statistics["requested_bytes.all.peak"],
        peak_reserved=statistics["reserved_bytes.all.peak"],
        retries=statistics["num_alloc_retries"],
    )
    return outcome, torch.cuda.memory._snapshot()


def named(snapshot: Any) -> Any:
    """The snapshot with short names of files: those of packages without the folder in which they are installed."""
    frames = [frame for entries in snapshot["device_traces"] for entry in entries for frame in entry["frames"]]
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    for frame in frames + [frame for it in snapshot["segments"] + blocks for frame in it.get("frames", [])]:
        name = frame["filename"]
        packages = name.find("site-packages/")
        frame["filename"] = name[packages:] if packages >= 0 else Path(name).name
    return snapshot


def alone(mode: str, limit: int | None, path: Path | None = None) -> dict[str, Any]:
    """Runs the program in a process of its own, which writes its snapshot to `path`."""
    settings = "expandable_segments:True" if mode == "expandable" else ""
    environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": settings}
    words = [sys.executable, __file__, "--once", str(limit or 0), str(path or "")]
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def once(limit: int | None, path: str) -> None:
    """Runs the program and prints its outcome."""
    outcome, snapshot = train(limit)
    if path:
        Path(path).write_bytes(gzip.compress(pickle.dumps(named(snapshot)), mtime=0))
    print(json.dumps(outcome))


def main(folder: Path) -> None:
    """Measures all shares in both modes."""
    results: dict[str, Any] = {}
    for mode, shares in SHARES.items():
        whole = folder / "out_of_memory_whole.pickle.gz" if mode == "default" else None
        results[mode] = {"unlimited": alone(mode, None, whole)}
        requested = results[mode]["unlimited"]["peak_requested"]
        for share in shares:
            shown = folder / "out_of_memory.pickle.gz" if (mode, share) == ("default", SHOWN) else None
            results[mode][str(share)] = alone(mode, int(requested * share), shown)
    (folder / "out_of_memory.json").write_text(json.dumps(results, indent=2) + "\n")


if sys.argv[1] == "--once":
    once(int(sys.argv[2]) or None, sys.argv[3])
else:
    main(Path(sys.argv[1]))
