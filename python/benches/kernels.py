"""Speed of kernels in Python: recording, live commands, and launches of what was recorded.

Run `python python/benches/kernels.py`. Ratios are of one run; the least of several times is taken. Times are those of the
processor, so that a busy machine disturbs them less. Goals: a recording at most 20 times that of Rust, a live command
under 3 µs, a launch of a recording as in Rust.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import cubeyard
from clock import least
from cubeyard import kernels
from cubeyard.kernel import Kernel, Ref, RustKernel, Tl

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import kernels as examples

ROWS = cubeyard.Placement(cube="row_wise", pe="row_wise")


def fresh(kernel: Kernel | RustKernel) -> Kernel | RustKernel:
    """Returns the same kernel without recordings."""
    return RustKernel(kernel.name) if isinstance(kernel, RustKernel) else Kernel(kernel.function)


def cases(context: cubeyard.Context) -> dict[str, tuple[Kernel, RustKernel, list[Any], int]]:
    """Returns kernels in Python and in Rust, their arguments, and the commands of all PEs."""
    a = np.random.default_rng(1).random((128 * 64, 256), dtype=np.float32)
    x, y = context.from_numpy(a).to(ROWS), context.zeros(a.shape).to(ROWS)
    flat = [context.from_numpy(a.reshape(-1)).to(ROWS) for _ in range(3)]
    copies = cubeyard.Placement(cube="replicate", pe="replicate")
    row = [context.from_numpy(a[0]).to(copies) for _ in range(2)]
    # A tile is loaded, computed and stored; layer norm computes 11 times.
    return {
        "softmax": (examples.softmax, kernels.softmax, [x, y, 1], 128 * 64 * 3),
        "layer norm": (examples.layer_norm, kernels.layer_norm, [x, *row, y, 1], 128 * (64 * 12 + 2)),
        "vector add": (examples.vector_add, kernels.vector_add, [*flat, 256], 128 * 64 * 4),
    }


def recording() -> None:
    """Prints the time of recording and of launching what was recorded."""
    print(f"{'kernel':12} {'record':>14} {'Rust':>10} {'ratio':>6}   {'again':>10} {'Rust':>10} {'ratio':>6}")
    context = cubeyard.Context(data=False)
    for name, (python, rust, arguments, commands) in cases(context).items():
        again = [least(lambda of=of: context.launch(of, *arguments)) for of in (python, rust)]
        first = [least(lambda of=of: context.launch(fresh(of), *arguments)) for of in (python, rust)]
        took = [(one - other) / commands * 1e6 for one, other in zip(first, again, strict=True)]
        print(
            f"{name:12} {took[0]:8.2f} µs/cmd {took[1]:7.2f} µs {took[0] / took[1]:6.1f}   "
            f"{again[0] * 1e3:7.1f} ms {again[1] * 1e3:7.1f} ms {again[0] / again[1]:6.2f}"
        )


@cubeyard.jit(live=True)
async def live(x: Ref, count: int, tl: Tl) -> None:
    """Issues commands without looking at values."""
    tile = tl.load(x)
    for _ in range(count):
        tile = tile + 1
    tl.store(x, tile)


@cubeyard.jit(live=True)
async def looks(x: Ref, count: int, tl: Tl) -> None:
    """Looks at the value of each command."""
    tile = tl.load(x)
    for _ in range(count):
        tile = tile + 1
        await tl.value(tile)
    tl.store(x, tile)


def run_live(data: bool, kernel: Kernel, count: int = 20_000) -> float:
    """Returns the time of a live command, in microseconds."""
    context = cubeyard.Context(data=data)
    x = context.zeros(16).to(cubeyard.Placement(cubes=1, pes=1))

    def launch(commands: int) -> float:
        return least(lambda: context.launch(kernel, x, commands, cubes=[0], pes=[0]), 3)

    return (launch(2 * count) - launch(count)) / count * 1e6


def calls() -> None:
    """Prints the time of one call of `tl` that issues nothing, and of a command, within a recording."""
    spent: dict[str, float] = {}

    def kernel(x, tl):
        start = time.process_time()
        for _ in range(100_000):
            tl.cdiv(7, 2)
        spent["tl.cdiv"] = (time.process_time() - start) * 10
        start = time.process_time()
        for _ in range(100_000):
            x[0:8]
        spent["x[0:8]"] = (time.process_time() - start) * 10
        tile = tl.load(x)
        start = time.process_time()
        for _ in range(100_000):
            tile + 1
        spent["tile + 1"] = (time.process_time() - start) * 10
        start = time.process_time()
        for _ in range(100_000):
            tl.load(x)
        spent["tl.load(x)"] = (time.process_time() - start) * 10

    context = cubeyard.Context(data=False)
    x = context.zeros(16).to(cubeyard.Placement(cubes=1, pes=1))
    context.launch(kernel, x, cubes=[0], pes=[0])
    print("calls: " + ", ".join(f"{name} {took:.2f} µs" for name, took in spent.items()))


if __name__ == "__main__":
    recording()
    print(f"live: {run_live(False, live):.2f} µs a command, {run_live(True, live):.2f} µs with data")
    print(f"live: {run_live(True, looks):.2f} µs a command and its value, with data")
    calls()
