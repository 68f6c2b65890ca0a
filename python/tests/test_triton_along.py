"""Loads and stores across the fast axis of memory: the numbers of the transposed copy, and never slower than without.

CUBEYARD_TRITON_ALONG is the number of random cases.
"""

import os
from pathlib import Path

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"

import numpy as np
import pytest
import triton
import triton.language as tl

import cubeyard.triton
from cubeyard.triton import _memory

PAGE = Path(__file__).parents[2] / "docs" / "triton-coverage.md"
COUNT = int(os.environ.get("CUBEYARD_TRITON_ALONG", "60"))


@triton.jit
def copy(x, out, chosen, s0, s1, s2, t0, t1, t2, n0, n1, n2, step, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr,
         MASK: tl.constexpr):  # fmt: skip
    i, j, k = tl.arange(0, A)[:, None, None], tl.arange(0, B)[None, :, None], tl.arange(0, C)[None, None, :]
    from_, to = x + tl.program_id(0) * step + i * s0 + j * s1 + k * s2, out + tl.program_id(0) * step + i * t0 + j * t1 + k * t2
    if MASK == "none":
        tl.store(to, tl.load(from_))
    elif MASK == "edges":
        inside = (i < n0) & (j < n1) & (k < n2)
        tl.store(to, tl.load(from_, mask=inside, other=3), mask=(i < A) & (j < n1))
    else:
        some = tl.load(chosen + i * B * C + j * C + k) != 0
        tl.store(to, tl.load(from_, mask=some, other=3))


@triton.jit
def linear(a, b, c, K, sb0, sb1, M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr):
    rows, columns, inner = tl.arange(0, M), tl.program_id(0) * N + tl.arange(0, N), tl.arange(0, BLOCK)
    total = tl.zeros((M, N), tl.float32)
    for at in range(0, K, BLOCK):
        left = tl.load(a + rows[:, None] * K + (at + inner)[None, :])
        right = tl.load(b + (at + inner)[:, None] * sb0 + columns[None, :] * sb1)
        total += tl.dot(left, right)
    tl.store(c + rows[:, None] * (N * tl.num_programs(0)) + columns[None, :], total)


@triton.jit
def collide(x, out, A: tl.constexpr, B: tl.constexpr):
    i, j = tl.arange(0, A)[:, None], tl.arange(0, B)[None, :]
    tl.store(out + i + j, tl.load(x + i + j * A))


def dense(shape, order, gap):
    """Strides of an array whose axes are in this order of memory, with gaps between rows."""
    strides, size = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = size
        size = size * shape[axis] + gap
    return strides, size


def case_of(seed):
    rng = np.random.default_rng(seed)
    shape = [int(2 ** rng.integers(0, 6)) for _ in range(3)]
    of = [dense(shape, list(rng.permutation(3)), int(rng.choice([0, 0, 3, 61]))) for _ in range(2)]
    programs, dtype = int(rng.integers(1, 4)), rng.choice([np.float32, np.float16, np.int8, np.int64])
    x = rng.integers(-100, 100, programs * max(size for _, size in of)).astype(dtype)
    limits = [int(rng.integers(0, size + 1)) for size in shape]
    mask = str(rng.choice(["none", "edges", "loaded"]))
    return shape, of, programs, x, limits, mask, rng.integers(0, 2, shape).astype(np.int32)


def run(case):
    shape, of, programs, x, limits, mask, chosen = case
    step, out = max(size for _, size in of), np.zeros_like(x)
    with cubeyard.triton.record() as recorded:
        copy[(programs,)](x, out, chosen, *of[0][0], *of[1][0], *limits, step, *shape, MASK=mask)
    return out, recorded.launches[0]


def expected(case):
    shape, of, programs, x, limits, mask, chosen = case
    step, out = max(size for _, size in of), np.zeros_like(x)
    n0, n1, n2 = limits
    for program in range(programs):
        begin = program * step
        source, target = (
            np.lib.stride_tricks.as_strided(array[begin:], shape, [stride * x.itemsize for stride in strides])
            for array, (strides, _) in ((x, of[0]), (out, of[1]))
        )
        if mask == "none":
            target[...] = source
        elif mask == "edges":
            inside = np.zeros(shape, bool)
            inside[:n0, :n1, :n2] = True
            target[:, :n1] = np.where(inside, source, 3)[:, :n1]
        else:
            target[...] = np.where(chosen != 0, source, 3)
    return out


def plainly(monkeypatch):
    """Loads and stores in the order of the tile, as without the permutation."""
    monkeypatch.setattr(_memory, "_load_box", lambda tl, box, fill: tl.load(box.reference, *(() if box.mask is None else (box.mask, fill))))
    monkeypatch.setattr(_memory, "_store_box", lambda tl, box, part: tl.store(box.reference, part, *(() if box.mask is None else (box.mask,))))
    monkeypatch.setattr(_memory, "_load_whole", lambda tl, reference: tl.load(reference))
    monkeypatch.setattr(_memory, "_store_whole", lambda tl, reference, tile: tl.store(reference, tile))
    monkeypatch.setattr(_memory, "fast_axis", lambda addresses, chosen: addresses.ndim - 1)


def test_a_load_across_memory_has_the_numbers_of_the_copy_and_is_never_slower(monkeypatch):
    quicker = 0
    for seed in range(COUNT):
        case = case_of(seed)
        out, along = run(case)
        np.testing.assert_array_equal(out, expected(case), err_msg=f"seed {seed}")
        with monkeypatch.context() as patched:
            plainly(patched)
            same, plain = run(case)
        np.testing.assert_array_equal(same, out)
        assert along.kernel_ns <= plain.kernel_ns, (seed, along.kernel_ns, plain.kernel_ns)
        assert along.ok and plain.ok
        quicker += along.kernel_ns < 0.5 * plain.kernel_ns
    assert quicker > COUNT // 20, "some of the cases cross the fast axis"


def time_of(dtype, weights, strides):
    """Time of a linear layer whose weights have these strides, after a check of its numbers."""
    a = np.random.default_rng(0).standard_normal((64, 256)).astype(dtype)
    c, b = np.zeros((64, 256), np.float32), weights.T.copy() if strides == (256, 1) else weights
    with cubeyard.triton.record() as recorded:
        linear[(4,)](a, b, c, 256, *strides, M=64, N=64, BLOCK=64)
    np.testing.assert_allclose(c, a.astype("f8") @ weights.T.astype("f8"), rtol=1e-3, atol=1e-2)
    return recorded.launches[0].kernel_ns


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_the_weights_of_a_linear_layer_take_little_longer_than_their_transposed_copy(dtype, monkeypatch):
    weights = np.random.default_rng(1).standard_normal((256, 256)).astype(dtype)
    copy, view = (time_of(dtype, weights, strides) for strides in ((256, 1), (1, 256)))
    assert view < 2 * copy
    plainly(monkeypatch)
    row = f"| `f{8 * weights.itemsize}` | {copy:,.0f} ns | {view:,.0f} ns | {time_of(dtype, weights, (1, 256)):,.0f} ns |"
    assert row in PAGE.read_text(), f"write the row into {PAGE}: {row}"


def test_a_store_to_equal_addresses_keeps_the_last_element():
    x, out = np.arange(8 * 16, dtype=np.float32), np.zeros(23, np.float32)
    collide[(1,)](x, out, 8, 16)
    wanted, tile = np.zeros(23, np.float32), x.reshape(16, 8).T
    for i in range(8):
        for j in range(16):
            wanted[i + j] = tile[i, j]
    np.testing.assert_array_equal(out, wanted)
