"""Overlap of a backward pass with the reduction of its gradients: `python torch_overlap.py [overlap.svg]`.

Ranks are threads here. Each layer's backward pass takes 2 µs of simulated time; `DistributedDataParallel` reduces the
gradients of one bucket while the next is computed. With one bucket for all, the reduction comes after the work.
"""

import sys

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import cubeyard.torch.distributed as dist


def worker(rank: int, bucket_mb: float, steps: list[tuple[float, float]]) -> None:
    dist.init_process_group("ahbm")
    net = nn.Sequential(*(nn.Linear(512, 512) for _ in range(4)))
    for layer in net:
        layer.register_full_backward_hook(lambda *_: dist.compute(2000))
    model = DistributedDataParallel(net, bucket_cap_mb=bucket_mb)
    for _ in range(2):  # PyTorch arranges the buckets in the first step
        start = dist.clock()
        model(torch.ones(1, 512, requires_grad=True)).sum().backward()
    if rank == 0:
        steps.append((start, dist.clock()))
    dist.destroy_process_group()


def main(picture: str = "") -> None:
    steps: list[tuple[float, float]] = []
    for buckets, size in (("one bucket", 100.0), ("a bucket for each layer", 0.5)):
        report = dist.spawn(worker, args=(size, steps), nprocs=2)
        start, end = steps[-1]
        reduced = [call for call in report.calls if call.operation == "all_reduce sum" and call.start_ns >= start]
        total = sum(call.time_ns for call in reduced)
        print(f"{buckets}: a step of {(end - start) / 1000:.2f} µs, with {total / 1000:.2f} µs of all-reduce")
    if picture:
        with open(picture, "w", encoding="utf-8") as file:
            file.write(report.draw(start))


if __name__ == "__main__":
    main(*sys.argv[1:])
