"""Numbers of Triton's kernels: constants and arguments have the type of the IR, and whole numbers wrap in their width.

They were 64-bit floats on their way to the vector unit: a step of a generator of random numbers was wrong, 2^53 + 1 equalled 2^53,
and the greatest `int64` was refused as a number that nobody wrote.
"""

import math
import os

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"

import numpy as np
import pytest
import triton
import triton.language as tl

import cubeyard.triton  # noqa: F401

LARGE = 2**53 + 1


@triton.jit
def generator(x_ptr, out_ptr, equal_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(x_ptr + at)
    tl.store(out_ptr + at, v * 6364136223846793005 + 1442695040888963407)
    tl.store(equal_ptr + at, v == 9007199254740993)


def test_constants_of_64_bits_are_exact():
    x = np.array([0, 1, -1, LARGE - 1, LARGE, LARGE + 1, 2**63 - 1, -(2**63)], np.int64)
    out, equal = np.zeros(8, np.int64), np.zeros(8, np.bool_)
    generator[(1,)](x, out, equal, N=8)
    assert (out == x * np.int64(6364136223846793005) + np.int64(1442695040888963407)).all()
    assert equal.tolist() == [value == LARGE for value in x.tolist()]


@triton.jit
def padded(x_ptr, out_ptr, n, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at, mask=at < n, other=9223372036854775807)
    tl.store(out_ptr + at, x)
    nothing = tl.load(x_ptr + at, mask=at < n - 3, other=-9223372036854775808)
    tl.store(out_ptr + N + at, nothing)


def test_what_a_mask_leaves_out_is_exact():
    x, out = np.arange(8), np.zeros(16, np.int64)
    padded[(1,)](x, out, 3, N=8)
    assert out.tolist() == [0, 1, 2] + [2**63 - 1] * 5 + [-(2**63)] * 8


@triton.jit
def arguments(x_ptr, f_ptr, out_ptr, float_ptr, far, unsigned, share, flag, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, x + far)
    tl.store(out_ptr + N + at, (x ^ unsigned).to(tl.int64))
    tl.store(out_ptr + 2 * N + at, tl.where(flag, x, far * 3))
    tl.store(out_ptr + 3 * N + at, at * far)
    tl.store(float_ptr + at, tl.load(f_ptr + at) * share)


@pytest.mark.parametrize("share, flag", [(2.0, True), (-0.0, False), (0.1, True), (math.inf, False)])
def test_arguments_have_the_type_that_triton_compiled(share, flag):
    far, unsigned = LARGE, 2**64 - 2
    x, f = np.array([0, 1, -5, 2**63 - 1], np.int64), np.array([1, 2, 0.5, -3], np.float32)
    out, floats = np.zeros((4, 4), np.int64), np.zeros(4, np.float32)
    arguments[(1,)](x, f, out, floats, far, unsigned, share, flag, N=4)
    with np.errstate(over="ignore"):
        assert (out[0] == x + np.int64(far)).all()
        assert (out[1] == (x.astype(np.uint64) ^ np.uint64(unsigned)).astype(np.int64)).all()
        assert (out[2] == (x if flag else np.int64(far) * np.int64(3))).all()
        assert (out[3] == np.arange(4) * np.int64(far)).all()
    wanted = f * np.float32(share)
    assert (floats.view(np.int32) == wanted.view(np.int32)).all()


@triton.jit
def functions(out_ptr, share, other):
    tl.store(out_ptr, tl.floor(share))
    tl.store(out_ptr + 1, tl.ceil(share))
    tl.store(out_ptr + 2, tl.exp(share))
    tl.store(out_ptr + 3, tl.exp2(share))
    tl.store(out_ptr + 4, tl.sin(share))
    tl.store(out_ptr + 5, tl.cos(share))
    tl.store(out_ptr + 6, share % other)
    tl.store(out_ptr + 7, tl.abs(share) + other)


@pytest.mark.parametrize("share", [math.inf, -math.inf, math.nan, -0.0, -0.5, 2.5, 1e30, 200.0])
@pytest.mark.parametrize("other", [0.0, 2.0, -math.inf])
def test_functions_of_single_numbers_are_those_of_elements(share, other):
    """`tl.floor` of an infinite argument ended with OverflowError, as did other functions where a float has no finite result."""
    out = np.zeros(8, np.float32)
    functions[(1,)](out, share, other)
    x, y = np.float32(share), np.float32(other)
    with np.errstate(all="ignore"):
        wanted = [np.floor(x), np.ceil(x), np.exp(x), np.exp2(x), np.sin(x), np.cos(x), np.fmod(x, y), np.abs(x) + y]
    np.testing.assert_allclose(out, np.array(wanted), rtol=3e-7)
    assert np.signbit(out[:2]).tolist() == np.signbit(wanted[:2]).tolist() or math.isnan(share)


@triton.jit
def wrapping(out_ptr, far_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, (((at + 1) << 30) > 5).to(tl.int32))
    far = (at.to(tl.int64) << 62) ^ 3
    tl.store(far_ptr + at, far)
    tl.store(far_ptr + N + at, far // 3)
    tl.store(far_ptr + 2 * N + at, at.to(tl.int64) + 9007199254740993)
    tl.store(far_ptr + 3 * N + at, (far >= 4611686018427387907).to(tl.int64))


def test_known_numbers_wrap_as_computed_ones_do():
    """Numbers whose distances are equal only because they wrap were taken for a range, and compared as if they did not."""
    out, far = np.zeros(8, np.int32), np.zeros((4, 8), np.int64)
    wrapping[(1,)](out, far, N=8)
    at = np.arange(8)
    assert (out == ((at.astype(np.int32) + np.int32(1) << np.int32(30)) > 5)).all()
    numbers = (at << 62) ^ 3
    assert (far[0] == numbers).all()
    assert far[1].tolist() == [abs(one) // 3 * (1 if one > 0 else -1) for one in numbers.tolist()]
    assert (far[2] == at + LARGE).all()
    assert (far[3] == (numbers >= 4611686018427387907)).all()


@triton.jit
def beside(x_ptr, out_ptr, far, other, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, x + far)
    tl.store(out_ptr + N + at, far - x)
    tl.store(out_ptr + 2 * N + at, x * far)
    tl.store(out_ptr + 3 * N + at, x & far)
    tl.store(out_ptr + 4 * N + at, x | far)
    tl.store(out_ptr + 5 * N + at, x ^ far)
    tl.store(out_ptr + 6 * N + at, tl.minimum(x, far))
    tl.store(out_ptr + 7 * N + at, tl.maximum(x, far))
    tl.store(out_ptr + 8 * N + at, (x < far).to(tl.int64))
    tl.store(out_ptr + 9 * N + at, (x <= far).to(tl.int64))
    tl.store(out_ptr + 10 * N + at, (x == far).to(tl.int64))
    tl.store(out_ptr + 11 * N + at, (x != far).to(tl.int64))
    tl.store(out_ptr + 12 * N + at, (x >= far).to(tl.int64))
    tl.store(out_ptr + 13 * N + at, tl.where(x > far, x, far))
    tl.store(out_ptr + 14 * N + at, x + (far * other + 1))
    tl.store(out_ptr + 15 * N + at, x ^ (far - other))
    tl.store(out_ptr + 16 * N + at, x // (other | 1))
    tl.store(out_ptr + 17 * N + at, x % (other | 1))
    tl.store(out_ptr + 18 * N + at, at * far + other)
    tl.store(out_ptr + 19 * N + at, tl.load(x_ptr + at, mask=at < 3, other=far))


def expected(x, far, other):
    at, far, other, one = np.arange(len(x)), np.int64(far), np.int64(other), np.int64(1)
    rest = np.fmod(x, other | one)
    found = [x + far, far - x, x * far, x & far, x | far, x ^ far, np.minimum(x, far), np.maximum(x, far), x < far, x <= far]
    found += [x == far, x != far, x >= far, np.where(x > far, x, far), x + (far * other + one), x ^ (far - other)]
    found += [(x - rest) // (other | one), rest, at * far + other, np.where(at < 3, x, far)]
    return np.array([np.asarray(one).astype(np.int64) for one in found])


def test_random_numbers_of_64_bits_beside_tiles():
    """CUBEYARD_TRITON_NUMBERS is the number of launches, each of which has twenty operations."""
    rng, edges = np.random.default_rng(3), np.array([2**63 - 1, -(2**63), LARGE, LARGE - 1, -LARGE, 2**32, -1, 2**31])
    for _ in range(int(os.environ.get("CUBEYARD_TRITON_NUMBERS", "25"))):
        far, other = (int(rng.choice(edges) if rng.random() < 0.4 else rng.integers(-(2**63), 2**63 - 1)) for _ in range(2))
        x = rng.integers(-(2**63), 2**63 - 1, 16)
        x[:5] = [far, min(far, 2**63 - 2) + 1, max(far, 1 - 2**63) - 1, *rng.choice(edges, 2)]
        out = np.zeros((20, 16), np.int64)
        beside[(1,)](x, out, far, other, N=16)
        with np.errstate(over="ignore"):
            wanted = expected(x, far, other)
        assert (out == wanted).all(), (far, other, np.argwhere(out != wanted)[:3].tolist())
