"""Host times of Triton kernels: lowering, and a product of 4096 x 4096 matrices over 128 PEs without data."""

import os
import time

os.environ.setdefault("TRITON_DEFAULT_BACKEND", "ahbm")

import numpy as np
import triton
import triton.language as tl

import cubeyard.triton


@triton.jit
def product(a_ptr, b_ptr, c_ptr, n, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Multiplies two square matrices."""
    rows, columns = tl.program_id(0) * M + tl.arange(0, M), tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, n, K):
        k = start + tl.arange(0, K)
        a = tl.load(a_ptr + rows[:, None] * n + k[None, :])
        total = tl.dot(a, tl.load(b_ptr + k[:, None] * n + columns[None, :]), total)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], total.to(tl.float16))


def main() -> None:
    """Prints the times of a first launch, which compiles, and of a large one."""
    for n, blocks in ((256, (64, 64, 64)), (4096, (256, 512, 128))):
        m, k = np.zeros((n, n), np.float16), dict(zip("MNK", blocks, strict=True))
        start = time.perf_counter()
        with cubeyard.triton.record(data=False) as run:
            product[(n // blocks[0], n // blocks[1])](m, m, m, n, **k)
        print(f"{n}^3: {time.perf_counter() - start:.1f} s, simulated {run.launches[0].kernel_ns / 1000:.1f} us")


if __name__ == "__main__":
    main()
