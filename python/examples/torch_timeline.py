"""Kernels, streams and a collective on one clock: `python torch_timeline.py [timeline.pftrace [timeline.svg]]`.

Two ranks are threads here, each with a device. A rank has one tensor and two views of it. Two Triton kernels work on the
views at the same time: on two streams, each on half of the cubes. An all-reduce of the whole tensor waits for both. The
trace opens in ui.perfetto.dev, with a track for each stream and the allocated bytes of each device.
"""

import os
import sys

os.environ.setdefault("TRITON_DEFAULT_BACKEND", "ahbm")

import torch
import triton
import triton.language as tl

import cubeyard.torch.distributed as dist
import cubeyard.triton


@triton.jit
def scale(x_ptr, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at) * factor)


@triton.jit
def shift(x_ptr, by, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at) + by)


def worker(rank: int, sums: list[list[float]]) -> None:
    dist.init_process_group("ahbm")
    torch.ahbm.set_device(rank)
    both = torch.ones(2, 8192, device="ahbm")
    first, second = both
    side = torch.ahbm.Stream()
    with cubeyard.triton.record(cubes=range(8)):
        scale[(64,)](first, 3.0, BLOCK=128)
    with torch.ahbm.stream(side), cubeyard.triton.record(cubes=range(8, 16)):
        shift[(32,)](second, 4.0, BLOCK=256)
    torch.ahbm.current_stream().wait_stream(side)
    dist.all_reduce(both)
    sums.append(both[:, 0].tolist())
    dist.destroy_process_group()


def main(trace: str = "", picture: str = "") -> None:
    sums: list[list[float]] = []
    with torch.ahbm.record_timeline() as timeline:
        dist.spawn(worker, args=(sums,), nprocs=2)
    print(f"sums of both ranks: {sums[0]} and {sums[1]}")
    for row in sorted(timeline.rows(), key=lambda row: (row["track"], row["begin_ns"])):
        print(f"{row['track']:<16} {row['name']:<10} {row['begin_ns']:9.3f} to {row['end_ns']:9.3f} ns  {row['pes'] or '':>3}")
    if trace:
        print(f"written: {timeline.trace(trace).name}")
    if picture:
        with open(picture, "w", encoding="utf-8") as file:
            file.write(timeline.draw())


if __name__ == "__main__":
    main(*sys.argv[1:])
