"""Prints the cost of PyTorch's calls on the device beside the same on the CPU, as ratios of one run.

    python python/benches/torch_device.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

import cubeyard.torch  # noqa: F401
from cubeyard import _native
from cubeyard.memory import Card, FlexAllocator

MANY = 500
SIZE = 1024


def nanoseconds(count: int, *works: Callable[[], object]) -> list[float]:
    """Returns the time of one of `count` operations in the fastest run of each work, of 60 runs in turn."""
    times: list[list[int]] = [[] for _ in works]
    for _ in range(60):
        for work, taken in zip(works, times, strict=True):
            begin = time.perf_counter_ns()
            work()
            taken.append(time.perf_counter_ns() - begin)
    return [min(taken) / count for taken in times]


def empty(device: str) -> Callable[[], None]:
    """Returns work that makes and drops tensors."""
    empty, where = torch.empty, torch.device(device)

    def work() -> None:
        for _ in range(MANY):
            empty(SIZE, device=where)

    return work


def add(device: str, elements: int, count: int) -> Callable[[], None]:
    """Returns work that adds two tensors into a third."""
    left, right = torch.ones(elements, device=device), torch.ones(elements, device=device)
    out = torch.empty(elements, device=device)

    def work() -> None:
        for _ in range(count):
            torch.add(left, right, out=out)

    return work


def with_time(timed: bool, work: Callable[[], None]) -> Callable[[], None]:
    """Returns work that runs with or without simulated time of operators."""

    def switched() -> None:
        _native.torch_set_timed(timed)
        work()

    return switched


def linear(elements: int) -> Callable[[], None]:
    """Returns work that runs a layer forward and backward, and steps an optimizer."""
    layer = torch.nn.Linear(elements, elements).to("ahbm")
    optimizer = torch.optim.AdamW(layer.parameters(), foreach=True)
    x = torch.ones(4, elements, device="ahbm")

    def work() -> None:
        for _ in range(20):
            optimizer.zero_grad()
            layer(x).relu().sum().backward()
            optimizer.step()

    return work


def _print_time_of_time() -> None:
    """Prints what simulated time costs the host for shapes that are known, against CUBEYARD_TIME=off in the same run."""
    was = _native.torch_is_timed()
    rows = [("add of 8 elements, out=", add("ahbm", 8, MANY), MANY), ("step of nn.Linear(8, 8)", linear(8), 20)]
    print(f"{'':<28} {'off':>10} {'on':>10} {'ratio':>7} {'more':>10}")
    for name, work, count in rows:
        off, on = nanoseconds(count, with_time(False, work), with_time(True, work))
        print(f"{name:<28} {off / 1e3:8.2f} µs {on / 1e3:8.2f} µs {on / off:7.2f} {(on - off) / 1e3:7.2f} µs")
    _native.torch_set_timed(was)


def main() -> None:
    """Measures and prints a table."""
    torch.set_num_threads(1)
    rows = [("torch.empty and its end", empty, (), MANY)]
    rows += [("add of one element, out=", add, (1, MANY), MANY), ("add of 4 Mi elements, out=", add, (4 << 20, 1), 1)]
    print(f"{'':<28} {'CPU':>10} {'ahbm':>10} {'ratio':>7} {'more':>10}")
    for name, make, given, count in rows:
        cpu, ahbm = nanoseconds(count, *(make(device, *given) for device in ("cpu", "ahbm")))
        print(f"{name:<28} {cpu / 1e3:8.2f} µs {ahbm / 1e3:8.2f} µs {ahbm / cpu:7.2f} {(ahbm - cpu) / 1e3:7.2f} µs")
    _print_time_of_time()
    allocator = FlexAllocator(Card(64 << 30))
    kept = allocator.allocate(SIZE)
    [ours] = nanoseconds(MANY, lambda: allocator._allocate_and_free(4 * SIZE, MANY))
    print(f"an allocation and its free in the allocator alone: {ours:.0f} ns")
    assert kept.is_live


if __name__ == "__main__":
    main()
