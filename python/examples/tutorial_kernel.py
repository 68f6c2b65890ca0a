"""A linear layer on one PE, made four times as fast and more: each step is measured, and the tool gives the reason.

    python python/examples/tutorial_kernel.py                # the steps, and what limits each
    python python/examples/tutorial_kernel.py --exercise     # the answer of the exercise
    cubeyard run python/examples/tutorial_kernel.py --set step=1 --explain --report layer.html

`docs/tutorials/kernel.md` goes through it.
"""

from __future__ import annotations

import sys
from typing import Annotated

import numpy as np

import cubeyard
from cubeyard.kernel import Ref, Tl

SIZE = 512


@cubeyard.jit
def layer(x: Ref, w: Ref, bias: Ref, y: Ref, m: int, k: int, n: int, tl: Tl) -> None:
    """Computes relu(x @ w + bias) block by block; products and sums are commands of their own."""
    for row in range(0, x.shape[0], m):
        for column in range(0, w.shape[1], n):
            total = None
            for step in range(0, x.shape[1], k):
                left, right = tl.load(x[row : row + m, step : step + k]), tl.load(w[step : step + k, column : column + n])
                product = tl.dot(left, right)
                total = product if total is None else total + product
                del left, right, product
            total = tl.maximum(total + tl.load(bias[column : column + n]), 0.0)
            tl.store(y[row : row + m, column : column + n], tl.cast(total, "f16"))
            del total


@cubeyard.jit
def fused_layer(x: Ref, w: Ref, bias: Ref, y: Ref, m: int, k: int, n: int, tl: Tl) -> None:
    """Does the same with sums in the matrix unit, and with bias, maximum and cast in one pass."""
    for row in range(0, x.shape[0], m):
        for column in range(0, w.shape[1], n):
            total = None
            for step in range(0, x.shape[1], k):
                left, right = tl.load(x[row : row + m, step : step + k]), tl.load(w[step : step + k, column : column + n])
                total = tl.dot(left, right) if total is None else tl.dot_add(left, right, total)
                del left, right
            total = tl.maximum(total.lazy() + tl.load(bias[column : column + n]), 0.0)
            tl.store(y[row : row + m, column : column + n], tl.eval(tl.cast(total, "f16")))
            del total


STEPS = [
    ("blocks of 64", layer, (64, 64, 64)),
    ("blocks of 128", layer, (128, 128, 128)),
    ("blocks of 256", layer, (256, 256, 256)),
    ("sums in the matrix unit", fused_layer, (256, 256, 256)),
    ("whole rows", fused_layer, (64, 512, 512)),
]
"""Name, kernel, and blocks of rows, depth and columns."""


@cubeyard.bench(name="layer", description="a linear layer on one PE, in steps")
def layer_bench(torch, step: Annotated[int, range(1, len(STEPS) + 1), "step of the tutorial"] = 1):
    """Runs one step, and compares the numbers with NumPy's."""
    _, kernel, blocks = STEPS[step - 1]
    random = np.random.default_rng(0)
    x, w = (random.standard_normal((SIZE, SIZE)).astype(np.float16) for _ in range(2))
    bias = random.standard_normal(SIZE).astype(np.float32)
    here = cubeyard.Placement(cubes=1, pes=1)
    y = torch.zeros((SIZE, SIZE), dtype="f16").to(here)
    torch.launch(kernel, *(torch.from_numpy(one).to(here) for one in (x, w, bias)), y, *blocks, cubes=[0], pes=[0])
    if torch.data:
        wanted = np.maximum(x.astype(np.float32) @ w.astype(np.float32) + bias, 0)
        np.testing.assert_allclose(y.numpy(), wanted, rtol=2e-3, atol=1e-2)


def measured(number: int, topology: dict[str, str] | None = None) -> float:
    """Runs a step, prints its time and its limit, and returns the time in nanoseconds."""
    run = cubeyard.run(layer_bench, step=number, data=True, topology=topology)
    assert run.ok
    print(f"{number}. {STEPS[number - 1][0]}: {run.kernel_ns / 1e3:.1f} µs\n   limited by {run.limited_by}")
    return run.kernel_ns


def steps() -> None:
    """Measures all steps, and prints the levers of the last one."""
    times = [measured(number) for number in range(1, len(STEPS) + 1)]
    print(f"{times[0] / times[-1]:.1f} × as fast as the first step\n")
    assert times == sorted(times, reverse=True) and times[0] > 4 * times[-1]
    print(cubeyard.levers(layer_bench, step=len(STEPS)))


def exercise() -> None:
    """Pulls each lever of the best pair alone, then both."""
    before = measured(len(STEPS))
    for lever in ("pe.gemm", "pe.tcm", "pe.gemm+pe.tcm"):
        print(f"{lever}=2x")
        after = measured(len(STEPS), {lever: "2x"})
        print(f"   saves {1 - after / before:.1%}")
    assert after < 0.6 * before


if __name__ == "__main__":
    exercise() if sys.argv[1:] == ["--exercise"] else steps()
