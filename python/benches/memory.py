"""Prints the cost of calls of the allocator from Python, beside that of the same work in Rust, as ratios of one run.

    python python/benches/memory.py
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from cubeyard.memory import Card, Device, FlexAllocator

PAIRS = 20_000
SIZE = 4096


class Endless(Device):
    """A device in Python that has room for everything."""

    last = 0

    def acquire(self, size: int) -> int | None:
        self.last += 1
        return self.last

    def release(self, region_id: int, size: int) -> None:
        pass

    def info(self) -> tuple[int, int]:
        return 1 << 50, 1 << 50


def nanoseconds(work: Callable[[], object], count: int) -> float:
    """Returns the time of one of `count` operations in the fastest of 25 runs of `work`."""
    times = []
    for _ in range(25):
        begin = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - begin)
    return min(times) / count


def with_free(allocator: FlexAllocator) -> None:
    allocate = allocator.allocate
    for _ in range(PAIRS):
        allocate(SIZE).free()


def with_drop(allocator: FlexAllocator) -> None:
    allocate = allocator.allocate
    for _ in range(PAIRS):
        allocate(SIZE)


def in_threads(allocator: FlexAllocator, count: int) -> None:
    threads = [threading.Thread(target=with_drop, args=(allocator,)) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    """Measures and prints a table."""
    allocator = FlexAllocator(Card(64 << 30), block="best-fit")
    kept = allocator.allocate(SIZE)
    rust = nanoseconds(lambda: allocator._allocate_and_free(SIZE, PAIRS), PAIRS)
    python = FlexAllocator(Endless(), block="best-fit", fallback_sizes=["1MiB"], release="when_idle(0)")
    block = allocator.allocate(SIZE)
    rows = [
        ("allocate and free in Rust", rust),
        ("allocate() and free()", nanoseconds(lambda: with_free(allocator), PAIRS)),
        ("allocate() and drop", nanoseconds(lambda: with_drop(allocator), PAIRS)),
        ("the same, two threads", nanoseconds(lambda: in_threads(allocator, 2), 2 * PAIRS)),
        ("a region of a device in Python", nanoseconds(lambda: with_drop(python), PAIRS)),
        ("block.address", nanoseconds(lambda: [block.address for _ in range(PAIRS)], PAIRS)),
        ("block.is_live, an empty call", nanoseconds(lambda: [block.is_live for _ in range(PAIRS)], PAIRS)),
    ]
    for name, time_ns in rows:
        print(f"{name:<32} {time_ns:8.0f} ns   {1e3 / time_ns:7.2f} million/s   {time_ns / rust:6.1f} × Rust")
    assert kept.is_live


if __name__ == "__main__":
    main()
