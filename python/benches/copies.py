"""Speed of copies between NumPy and tensors on the host, and cost of short calls.

Run it on a release build: `pip install . && python python/benches/copies.py [MiB]`. Ratios compare runs of the same process,
of which the best of several is taken.
"""

from __future__ import annotations

import sys
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

from cubeyard import Context

REPEATS = 5


def best(act: Callable[[], Any]) -> float:
    """Returns the shortest of several times, in seconds."""
    return min(timeit.repeat(act, number=1, repeat=REPEATS))


def copies(context: Context, mebibytes: int) -> None:
    """Prints the speed of copies in both directions, against NumPy's own."""
    array = np.ones(mebibytes << 18, np.float32)
    target = np.zeros_like(array)
    tensor = context.from_numpy(array)
    kinds: list[tuple[str, Callable[[], Any]]] = [
        ("np.copyto, into memory that was used before", lambda: np.copyto(target, array)),
        ("array.copy(), into new memory", lambda: array.copy()),
        ("context.from_numpy(array)", lambda: context.from_numpy(array)),
        ("tensor.numpy(out=array), used before", lambda: tensor.numpy(out=target)),
        ("tensor.numpy()", lambda: tensor.numpy()),
        ("np.asarray(tensor), without a copy", lambda: np.asarray(tensor)),
    ]
    print(f"copies of {mebibytes} MiB, best of {REPEATS}; ratios to copies of NumPy into used and into new memory")
    times = [best(act) for _, act in kinds]
    for (name, _), seconds in zip(kinds, times, strict=True):
        used, new = (times[kind] / seconds for kind in (0, 1))
        print(f"  {name:45} {mebibytes / 1024 / seconds:10.2f} GiB/s {used:8.2f} {new:8.2f}")


class Plain:
    """An object of Python's own, to compare with."""

    def __init__(self) -> None:
        self.held = (1, 2)

    @property
    def shape(self) -> tuple[int, int]:
        """Returns a tuple."""
        return self.held

    def method(self) -> int:
        """Returns a number."""
        return 0


def calls(context: Context) -> None:
    """Prints the cost of short calls, against a call of a method in Python."""
    tensor, deployed, plain = context.zeros((4, 4)), context.zeros((4, 4)), Plain()
    kinds: list[tuple[str, Callable[[], Any]]] = [
        ("a method in Python", plain.method),
        ("a property in Python", lambda: plain.shape),
        ("tensor.shape", lambda: tensor.shape),
        ("tensor.dtype", lambda: tensor.dtype),
        ("context.now", lambda: context.now),
        ("tensor.is_deployed", lambda: deployed.is_deployed),
        ("context.zeros((4, 4))", lambda: context.zeros((4, 4))),
        ("tensor.view(16)", lambda: tensor.view(16)),
    ]
    print("calls, best of 5")
    for name, act in kinds:
        number = 20_000
        each = min(timeit.repeat(act, number=number, repeat=5)) / number
        print(f"  {name:45} {each * 1e9:10.0f} ns")


if __name__ == "__main__":
    with Context() as context:
        copies(context, int(sys.argv[1]) if len(sys.argv) > 1 else 1024)
        calls(context)
