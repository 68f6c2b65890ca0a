"""Kernels in Triton that load what they have stored, through pointers that are no rows."""

import os

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"

import numpy as np
import pytest
import triton
import triton.language as tl

import cubeyard.triton


@triton.jit
def transposed(x, N: tl.constexpr):
    i = tl.arange(0, N)
    p = x + i[:, None] + i[None, :] * N
    for _ in range(4):
        tl.store(p, tl.load(p) + 1.0)


@triton.jit
def three_dimensions(x, N: tl.constexpr):
    i = tl.arange(0, N)
    p = x + i[:, None, None] + i[None, :, None] * N * N + i[None, None, :] * N
    for _ in range(4):
        tl.store(p, tl.load(p) + 1.0)


@triton.jit
def masked(x, N: tl.constexpr):
    i = tl.arange(0, N)
    p = x + i[:, None] * N + i[None, :]
    mask = (i[:, None] * 5 + i[None, :] * 3) % 7 < 3
    for _ in range(4):
        tl.store(p, tl.load(p, mask=mask, other=7.0) + 1.0, mask=mask)


@pytest.mark.parametrize("kernel, dimensions", [(transposed, 2), (three_dimensions, 3)])
def test_loads_see_the_stores_before_them(kernel, dimensions):
    """A load of several accesses did not wait for earlier stores: the sum was 2."""
    x = np.zeros(8**dimensions, np.float32)
    kernel[(1,)](x, N=8)
    np.testing.assert_array_equal(x, np.full(8**dimensions, 4.0))


def test_loads_with_masks_see_the_stores_before_them():
    x = np.zeros((16, 16), np.float32)
    masked[(1,)](x, N=16)
    row, column = np.indices((16, 16))
    np.testing.assert_array_equal(x, np.where((row * 5 + column * 3) % 7 < 3, 4.0, 0.0))
