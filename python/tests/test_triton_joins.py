"""Joins and splits of tensors in Triton: loaded elements, known indices, and round trips."""

import os

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"

import numpy as np
import pytest
import triton
import triton.language as tl

import cubeyard.triton  # noqa: F401


@triton.jit
def parts(x_ptr, y_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    size: tl.constexpr = M * N
    pair = at[:, :, None] * 2 + tl.arange(0, 2)[None, None, :]
    tl.store(out_ptr + pair, tl.join(x, y))
    wide = tl.arange(0, M)[:, None] * 2 * N + tl.arange(0, 2 * N)[None, :]
    tl.store(out_ptr + 2 * size + wide, tl.interleave(x, y))
    long = tl.arange(0, 2 * size)
    tl.store(out_ptr + 4 * size + long, tl.cat(tl.reshape(x, (size,)), tl.reshape(y, (size,)), can_reorder=True))
    # A sum of rows between the join and the split, so that Triton cannot remove both.
    left, right = tl.split(tl.join(x, y) + x[:, :, None])
    tl.store(out_ptr + 6 * size + at, left)
    tl.store(out_ptr + 7 * size + at, right)
    # Halves of the columns: the split of a transposed view.
    first, second = tl.split(tl.permute(tl.reshape(x, (M, 2, N // 2)), (0, 2, 1)))
    half = tl.arange(0, M)[:, None] * (N // 2) + tl.arange(0, N // 2)[None, :]
    tl.store(out_ptr + 8 * size + half, first)
    tl.store(out_ptr + 8 * size + size // 2 + half, second)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.int64])
@pytest.mark.parametrize("m, n", [(1, 2), (4, 16), (16, 8)])
def test_joins_and_splits_of_loaded_elements(dtype, m, n):
    rng = np.random.default_rng(m * n)
    x, y = (rng.integers(-99, 99, (m, n)).astype(dtype) for _ in range(2))
    out = np.zeros((9, m * n), dtype)
    parts[(1,)](x, y, out, M=m, N=n)
    pairs = np.stack([x, y], -1)
    assert (out[:2].reshape(m, n, 2) == pairs).all()
    assert (out[2:4].reshape(m, 2 * n) == pairs.reshape(m, 2 * n)).all()
    assert (out[4:6].reshape(-1) == np.concatenate([x.reshape(-1), y.reshape(-1)])).all()
    assert (out[6].reshape(m, n) == x + x).all() and (out[7].reshape(m, n) == x + y).all()
    assert (out[8].reshape(2, m, n // 2) == [x[:, : n // 2], x[:, n // 2 :]]).all()


@triton.jit
def addresses(x_ptr, out_ptr, step, BLOCK: tl.constexpr):
    low = tl.arange(0, BLOCK)
    at = tl.interleave(low * 2 + 1, low * 2)
    tl.store(out_ptr + at, tl.load(x_ptr + tl.arange(0, 2 * BLOCK)))
    even, odd = tl.split(tl.reshape(tl.arange(0, 2 * BLOCK) + step, (BLOCK, 2)))
    tl.store(out_ptr + 2 * BLOCK + low, tl.load(x_ptr + odd - step))
    tl.store(out_ptr + 3 * BLOCK + low, even, mask=tl.cat(low, low, can_reorder=True).reshape(2, BLOCK).sum(0) % 3 == 0)
    swapped = tl.trans(tl.join(low % 5, low % 3))
    tl.store(out_ptr + 4 * BLOCK + tl.arange(0, 2)[:, None] * BLOCK + low[None, :], swapped.to(tl.float32) + 0.5)


@pytest.mark.parametrize("block", [8, 64])
def test_joined_indices_are_addresses(block):
    x = np.random.default_rng(block).standard_normal(2 * block).astype(np.float32)
    out, low = np.zeros(6 * block, np.float32), np.arange(block)
    addresses[(1,)](x, out, 7, BLOCK=block)
    assert (out[: 2 * block].reshape(-1, 2) == x.reshape(-1, 2)[:, ::-1]).all()
    assert (out[2 * block : 3 * block] == x[1::2]).all()
    assert (out[3 * block : 4 * block] == np.where(2 * low % 3 == 0, 2 * low + 7, 0)).all()
    assert (out[4 * block :].reshape(2, -1) == np.stack([low % 5, low % 3]) + 0.5).all()


@triton.jit
def halved(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    total, product = tl.split(tl.join(tl.sum(x, 0), tl.max(x, 0)))
    tl.store(out_ptr, total)
    tl.store(out_ptr + 1, product)
    first, second = tl.split(tl.arange(0, 2) + 5)
    tl.store(out_ptr + 2, first.to(tl.float32))
    tl.store(out_ptr + 3 + (second - 6), second.to(tl.float32))


def test_a_pair_of_scalars():
    x, out = np.arange(16, dtype=np.float32), np.zeros(4, np.float32)
    halved[(1,)](x, out, BLOCK=16)
    assert out.tolist() == [120, 15, 5, 6]


ROUNDS = 6


@triton.jit
def shuffled(x_ptr, out_ptr, BLOCK: tl.constexpr, ROUNDS: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    for _ in tl.static_range(ROUNDS):
        left, right = tl.split(tl.reshape(x, (BLOCK // 2, 2)))
        x = tl.reshape(tl.trans(tl.join(left, right)), (BLOCK,))
    tl.store(out_ptr + at, x)


@pytest.mark.parametrize("rounds", [0, 1, ROUNDS])
def test_shuffles_of_all_bits_are_the_identity(rounds):
    # A split into even and odd elements rotates the bits of the index by one.
    x = np.random.default_rng(1).standard_normal(2**ROUNDS).astype(np.float32)
    out = np.zeros_like(x)
    shuffled[(1,)](x, out, BLOCK=2**ROUNDS, ROUNDS=rounds)
    wanted = x
    for _ in range(rounds):
        wanted = np.concatenate([wanted[::2], wanted[1::2]])
    assert (out == wanted).all() and (rounds != ROUNDS or (out == x).all())
