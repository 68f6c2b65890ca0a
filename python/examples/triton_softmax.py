"""A kernel in Triton on arrays of NumPy: nothing in it, or in its launch, is of this package.

`cubeyard run triton_softmax.py::softmax --data --explain` runs it and names the line that limits it.
"""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def softmax(out_ptr, in_ptr, columns, BLOCK: tl.constexpr):
    """Computes the softmax of one row."""
    row, offsets = tl.program_id(0), tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(in_ptr + row * columns + offsets, mask=mask, other=-float("inf"))
    weights = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * columns + offsets, weights / tl.sum(weights, axis=0), mask=mask)


def main() -> None:
    """Computes the softmax of 300 rows of 781 elements, and compares it with NumPy's."""
    x = np.random.default_rng(0).standard_normal((300, 781)).astype(np.float32)
    out = np.zeros_like(x)
    softmax[(300,)](out, x, 781, BLOCK=1024)
    weights = np.exp(x - x.max(1, keepdims=True))
    print(f"largest difference: {np.abs(out - weights / weights.sum(1, keepdims=True)).max():.1e}")


if __name__ == "__main__":
    main()
