"""Host times of Triton kernels: lowering, running beside the same kernels in Rust, and a product of 4096 x 4096 matrices.

Run `python python/benches/triton_host.py`, or one of its parts: `lowering`, `running`, `large`. Ratios are of one run, and the
least of several times is taken. Times are those of the processor, so that a busy machine disturbs them less. Goals:
0.1 s for lowering a kernel, twice the time of Rust for running it, 60 s for the large product.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TRITON_DEFAULT_BACKEND", "ahbm")

import numpy as np

import cubeyard
import cubeyard.triton
from clock import least
from cubeyard import kernels as library
from cubeyard.kernel import RustKernel
from cubeyard.triton import _parse, _program

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import triton_kernels as kernels

ROWS, ONE = cubeyard.Placement(cube="row_wise", pe="row_wise"), cubeyard.Placement.one()
PRODUCT = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64}

Launch = Callable[[], Any]


def vector_add(context: cubeyard.Context) -> tuple[Launch, RustKernel, list[Any], dict[str, Any]]:
    """Returns a launch in Triton, a kernel in Rust, its arguments, and the PEs of both."""
    n, block = 1 << 24, 8192
    x, y, z = (context.empty(n).to(ROWS) for _ in range(3))
    return lambda: kernels.add[(n // block,)](x, y, z, n, BLOCK=block), library.vector_add, [x, y, z, block], {}


def softmax(context: cubeyard.Context) -> tuple[Launch, RustKernel, list[Any], dict[str, Any]]:
    """Returns the same for a softmax of rows."""
    rows, columns = 8192, 1024
    x, y = (context.empty((rows, columns)).to(ROWS) for _ in range(2))
    launch = lambda: kernels.softmax_row[(rows,)](y, x, columns, columns, columns, BLOCK=columns)  # noqa: E731
    return launch, library.softmax, [x, y, 1], {}


def matmul(context: cubeyard.Context) -> tuple[Launch, RustKernel, list[Any], dict[str, Any]]:
    """Returns the same for a product in blocks, on one PE."""
    n = 2048
    a, b, c = (context.empty((n, n), dtype).to(ONE) for dtype in ("f16", "f16", "f32"))
    launch = lambda: kernels.persistent_matmul[(1,)](a, b, c, n, n, n, **PRODUCT, PROGRAMS=1)  # noqa: E731
    return launch, library.gemm_blocked, [a, b, c, 128, 64, 128], {"cubes": [0], "pes": [0]}


def anew(launch: Launch) -> Launch:
    """Returns a launch that finds no recording of an earlier one."""

    def act() -> Any:
        _program.Program.kernel_of, before = _recorded_anew, _program.Program.kernel_of
        try:
            return launch()
        finally:
            _program.Program.kernel_of = before

    return act


def _recorded_anew(program: Any, work: Any) -> Any:
    return _program.LaunchedKernel(program.function(work), program.name, work)


def running() -> None:
    """Prints the times of launches without data: the first, which records the kernel, and another."""
    print(f"{'running':11} {'first':>10} {'Rust':>10} {'ratio':>6}   {'again':>10} {'Rust':>10} {'ratio':>6}   simulated, Rust")
    context = cubeyard.Context(data=False)
    for case in (vector_add, softmax, matmul):
        launch, rust, arguments, where = case(context)
        with cubeyard.triton.record(data=False, schedule="blocks", **where) as run:
            launch()
            first = [least(anew(launch)), least(lambda: context.launch(RustKernel(rust.name), *arguments, **where))]
            again = [least(launch), least(lambda: context.launch(rust, *arguments, **where))]
        simulated = run.launches[-1].max_ns, context.launch(rust, *arguments, **where).max_ns
        print(f"{case.__name__:11} {_ratio(first)}   {_ratio(again)}   {simulated[0]:,.0f} ns, {simulated[1]:,.0f} ns")


def _ratio(times: list[float]) -> str:
    return f"{times[0] * 1e3:7.1f} ms {times[1] * 1e3:7.1f} ms {times[0] / times[1]:6.2f}"


def lowering() -> None:
    """Prints the time from Triton's IR to steps that a PE runs, and that of Triton's own compiler before it."""
    a = np.zeros((256, 256), np.float16)
    q, row = np.zeros((2, 64, 32), np.float16), np.zeros((2, 64), np.float32)
    cases = {
        "matmul": lambda: kernels.matmul.warmup(
            a, a, a, 256, 256, 256, 256, 1, 256, 1, 256, 1, **PRODUCT, GROUP_M=8, ACTIVATION="leaky_relu", grid=(4,)
        ),
        "attention backward": lambda: kernels.attention_backward.warmup(
            q, q, q, q, q, q, q, row, row, 0.5, 64, D=32, BLOCK=32, CAUSAL=True, grid=(2, 2)
        ),
    }
    for name, warm in cases.items():
        start = time.process_time()
        compiled = warm()
        took, text = time.process_time() - start, compiled.asm["ttir"]
        own = least(lambda text=text: _program.Program("kernel", pickle.dumps(_parse.parse(text))).steps(False))
        print(f"lowering {name}: {own * 1e3:.1f} ms, after {took:.2f} s of Triton's compiler or its cache")


def large() -> None:
    """Prints the time of a product of 4096 x 4096 matrices over 128 PEs, with the blocks of the tutorial."""
    n = 4096
    a, b, c = (np.zeros((n, n), np.float16) for _ in range(3))
    start, processor = time.perf_counter(), time.process_time()
    with cubeyard.triton.record(data=False) as run:
        kernels.matmul[(n // 128 * (n // 128),)](a, b, c, n, n, n, n, 1, n, 1, n, 1, **PRODUCT, GROUP_M=8, ACTIVATION="")
    took = time.perf_counter() - start, time.process_time() - processor
    print(f"4096^3: {took[1]:.1f} s of the processor, {took[0]:.1f} s in all; {run.launches[0].kernel_ns / 1000:,.1f} us simulated")


if __name__ == "__main__":
    for part in [globals()[name] for name in sys.argv[1:]] or [lowering, running, large]:
        part()
