"""Operations of Triton that its tutorials have not: batches of products, bits, scans, assertions, descriptors of the host."""

import os

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"

import numpy as np
import pytest
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.tools.tensor_descriptor import TensorDescriptor

import cubeyard
import cubeyard.triton


@pytest.fixture
def rng():
    return np.random.default_rng(20)


@triton.jit
def batched(a_ptr, b_ptr, c_ptr, COUNT: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    batch = tl.program_id(0) * COUNT + tl.arange(0, COUNT)[:, None, None]
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + batch * M * K + m[None, :, None] * K + k[None, None, :])
    b = tl.load(b_ptr + batch * K * N + k[None, :, None] * N + n[None, None, :])
    once = tl.dot(a, b)
    tl.store(c_ptr + batch * M * N + m[None, :, None] * N + n[None, None, :], tl.dot(a, b, once))


@pytest.mark.parametrize("dtype, share", [(np.float16, 1e-3), (np.float32, 1e-6)])
def test_products_of_batches_of_matrices(rng, dtype, share):
    count, m, n, k = 4, 16, 32, 64
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((2 * count, m, k), (2 * count, k, n)))
    c = np.zeros((2 * count, m, n), np.float32)
    batched[(2,)](a, b, c, COUNT=count, M=m, N=n, K=k)
    wanted = 2 * np.matmul(a.astype(np.float64), b.astype(np.float64))
    assert np.abs(c - wanted).max() <= share * np.abs(wanted).max()


@triton.jit
def bits(x_ptr, out_ptr, back_ptr, known_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    code = x.to(out_ptr.dtype.element_ty, bitcast=True)
    tl.store(out_ptr + at, code ^ 1)
    tl.store(back_ptr + at, (code & -2).to(x_ptr.dtype.element_ty, bitcast=True))
    tl.store(known_ptr + at, at.to(tl.float32).to(tl.int32, bitcast=True) + tl.full((BLOCK,), 1.5, tl.float32).to(tl.int32, bitcast=True))


@pytest.mark.parametrize("floats, wholes", [(np.float32, np.int32), (np.float16, np.int16), (np.float64, np.int64)])
def test_bits_of_floats(rng, floats, wholes):
    x = rng.standard_normal(64).astype(floats)
    out, back, known = np.zeros(64, wholes), np.zeros(64, floats), np.zeros(64, np.int32)
    bits[(1,)](x, out, back, known, BLOCK=64)
    assert (out == x.view(wholes) ^ 1).all()
    assert (back == (x.view(wholes) & -2).view(floats)).all()
    assert (known == np.arange(64, dtype=np.float32).view(np.int32) + np.float32(1.5).view(np.int32)).all()


@triton.jit
def _greater(x, y):
    return tl.maximum(x, y)


@triton.jit
def _affine(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def scans(x_ptr, a_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x, a = tl.load(x_ptr + at), tl.load(a_ptr + at)
    tl.store(out_ptr + at, tl.cumprod(x, 1))
    tl.store(out_ptr + M * N + at, tl.associative_scan(x, 0, _greater))
    tl.store(out_ptr + 2 * M * N + at, tl.cumsum(x, 1, reverse=True))
    _, state = tl.associative_scan((a, x), 1, _affine)
    tl.store(out_ptr + 3 * M * N + at, state)
    _, state = tl.associative_scan((a, x), 0, _affine, reverse=True)
    tl.store(out_ptr + 4 * M * N + at, state)


def recurrence(a, x):
    """The states `s = a s + x` along the first axis."""
    states = [x[0]]
    for factor, summand in zip(a[1:], x[1:], strict=True):
        states.append(factor * states[-1] + summand)
    return np.array(states)


@pytest.mark.parametrize("m, n", [(8, 32), (16, 64)])
def test_scans(rng, m, n):
    x, a = (rng.uniform(0.5, 1.4, (m, n)).astype(np.float32) for _ in range(2))
    out = np.zeros((5, m, n), np.float32)
    with cubeyard.triton.record() as run:
        scans[(1,)](x, a, out, M=m, N=n)
    wide, factors = x.astype(np.float64), a.astype(np.float64)
    wanted = [
        np.cumprod(wide, 1), np.maximum.accumulate(wide, 0), np.cumsum(wide[:, ::-1], 1)[:, ::-1],
        recurrence(factors.T, wide.T).T, recurrence(factors[::-1], wide[::-1])[::-1],
    ]  # fmt: skip
    for found, one in zip(out, wanted, strict=True):
        np.testing.assert_allclose(found, one, rtol=2e-5)
    assert any("one pass for each doubling" in note for note in run.launches[0].notes)


@triton.jit
def asserting(x_ptr, out_ptr, limit, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.device_assert(tl.program_id(0) < limit, "program %d: too many, 1 = x")
    x = tl.load(x_ptr + at)
    tl.device_assert(x >= 0, "not negative")
    tl.store(out_ptr + at, tl.sqrt(x))


def test_assertions_are_checked_where_the_kernel_is_compiled_with_them():
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    asserting[(4,)](x, out, 4, BLOCK=16, debug=True)
    assert np.allclose(out, np.sqrt(x))
    x[37] = -1
    message = r"test_triton_operations\.py:\d+: tl\.device_assert failed in program \(2, 0, 0\): not negative"
    with pytest.raises(cubeyard.CubeyardError, match=message):
        asserting[(4,)](x, out, 4, BLOCK=16, debug=True)
    with pytest.raises(cubeyard.CubeyardError, match=r"program \(3, 0, 0\): program %d: too many, 1 = x"):
        asserting[(4,)](np.abs(x), out, 3, BLOCK=16, debug=True)
    # As on a GPU, they are left out otherwise.
    asserting[(4,)](x, out, 3, BLOCK=16)


def test_assertions_of_computed_values_are_not_checked_without_data():
    x = np.full(64, -1, np.float32)
    with cubeyard.triton.record(data=False) as run:
        asserting[(4,)](x, x, 4, BLOCK=16, debug=True)
    assert any("not checked without data" in note for note in run.launches[0].notes)


@triton.jit
def doubled(x_desc, out_desc, rows, M: tl.constexpr, N: tl.constexpr):
    at = tl.program_id(0) * M
    if at < rows:
        for column in range(0, x_desc.shape[1], N):
            out_desc.store([at, column], x_desc.load([at, column]) * 2)


@pytest.mark.parametrize("rows, columns", [(64, 64), (40, 72)])
def test_descriptors_that_the_host_makes(rng, rows, columns):
    x, out = rng.standard_normal((rows, columns)).astype(np.float16), np.zeros((rows, columns), np.float16)
    given = [TensorDescriptor.from_tensor(cubeyard.triton.place(one), [16, 32]) for one in (x, out)]
    with cubeyard.triton.record() as run:
        doubled[(triton.cdiv(rows, 16),)](*given, rows, M=16, N=32)
    assert (out == 2 * x).all() and run.launches[0].ok


def test_what_is_no_descriptor_is_refused():
    descriptor = TensorDescriptor.from_tensor(cubeyard.triton.place(np.zeros((64, 64), np.float16)), [16, 32])
    descriptor.base = [1.0]
    with pytest.raises((cubeyard.CubeyardError, AttributeError), match="list"):
        doubled[(4,)](descriptor, descriptor, 64, M=16, N=32)


@triton.jit
def assembled(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], dtype=tl.int32, is_pure=True, pack=1))


@triton.jit
def scaled(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    x = tl.full((BLOCK, BLOCK), 1.0, tl.float8e5)
    scale = tl.full((BLOCK, BLOCK // 32), 127, tl.uint8)
    tl.store(out_ptr + at, tl.dot_scaled(x, scale, "e5m2", x, scale, "e5m2").to(tl.int32))


@pytest.mark.parametrize("kernel, name", [(assembled, "elementwise_inline_asm"), (scaled, "dot_scaled")])
def test_an_operation_without_a_counterpart_is_named_with_its_line(kernel, name):
    x, out = np.ones(64, np.int32), np.zeros(64, np.int32)
    with pytest.raises(cubeyard.CubeyardError, match=rf"test_triton_operations\.py:\d+: Triton's operation tt\.{name}"):
        kernel[(1,)](x, out, BLOCK=64)


@triton.jit
def observed(x_ptr, out_ptr, KIND: tl.constexpr):
    if KIND == "atomic_poll with a timeout":
        tl.atomic_poll(x_ptr, 1, timeout_ns=100)
    else:
        tl.store(out_ptr, tl.fdiv(7.0, tl.load(x_ptr).to(tl.float32), approx=True).to(tl.int32))


@pytest.mark.skipif(not hasattr(tl, "atomic_poll"), reason="Triton 3.9 brings these operations")
@pytest.mark.parametrize("name", ["atomic_poll with a timeout"])
def test_operations_of_the_newest_triton_are_refused_by_name(name):
    x, out = np.ones(64, np.int32), np.zeros(64, np.int32)
    with pytest.raises(cubeyard.CubeyardError, match=rf"test_triton_operations\.py:\d+: Triton's operation tt\.{name}"):
        observed[(1,)](x, out, KIND=name)


@pytest.mark.skipif(not hasattr(tl, "atomic_poll"), reason="Triton 3.9 brings this operation")
def test_an_approximate_quotient_is_the_quotient():
    x, out = np.full(64, 3, np.int32), np.zeros(64, np.int32)
    observed[(1,)](x, out, KIND="quotient")
    assert out[0] == 2


@triton.jit
def within_both(x_ptr, out_ptr, rows, columns, M: tl.constexpr, N: tl.constexpr):
    r, c = tl.arange(0, M), tl.arange(0, N)
    at = r[:, None] * N + c[None, :]
    inside = (r < rows)[:, None] & (c < columns)[None, :]
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.where(inside, x, -1.0))
    tl.store(out_ptr + M * N + at, tl.where(inside & (x > 0), tl.where((r < rows)[:, None], x * 2, x), -1.0))


def test_two_ragged_masks_joined_choose_elements(rng):
    # A mask whose shape had changed became an expression, which only a tile can: TypeError: 'Lazy' object is not an instance of 'Tile'.
    x, out = rng.standard_normal((8, 16)).astype(np.float32), np.zeros((2, 8, 16), np.float32)
    within_both[(1,)](x, out, 5, 11, M=8, N=16)
    inside = (np.arange(8) < 5)[:, None] & (np.arange(16) < 11)
    assert (out[0] == np.where(inside, x, -1)).all()
    assert (out[1] == np.where(inside & (x > 0), 2 * x, -1)).all()


@triton.jit
def high(x_ptr, y_ptr, out_ptr, number, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    known = (at.to(tl.uint64) << 52) + at.to(tl.uint64)
    tl.store(out_ptr + at, tl.umulhi(x, y))
    tl.store(out_ptr + BLOCK + at, tl.umulhi(x, number))
    tl.store(out_ptr + 2 * BLOCK + at, tl.umulhi(known, known))


def test_upper_halves_of_products_of_64_bits(rng):
    # Known elements and tiles had the product of 32 bits alone: an AssertionError.
    x, y = (rng.integers(0, 2**64, 64, np.uint64) for _ in range(2))
    x[:4], y[:4] = 2**64 - 1, [0, 1, 2**63, 2**64 - 1]
    out, number = np.zeros((3, 64), np.uint64), 0x100000001
    high[(1,)](x, y, out, np.uint64(number), BLOCK=64)
    known = [((at << 52) + at) % 2**64 for at in range(64)]
    assert out[0].tolist() == [a * b >> 64 for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert out[1].tolist() == [a * number >> 64 for a in x.tolist()]
    assert out[2].tolist() == [a * a >> 64 for a in known]


@triton.jit
def between(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr.to(tl.pointer_type(tl.int8)).__add__(1).to(tl.pointer_type(tl.int32)) + at)
    tl.store(out_ptr + at, x)


def test_an_address_between_elements_is_refused():
    # The element before it was read. The kernel failed at a line a few below that of the operation.
    x = np.arange(64, dtype=np.int32)
    with pytest.raises(cubeyard.CubeyardError, match=r"(test_triton_operations\.py:\d+): CubeyardError: \1: .*multiple of 4"):
        between[(1,)](x, np.zeros(64, np.int32), BLOCK=32)


@triton.jit
def of_libdevice(x_ptr, y_ptr, out_ptr, flags_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    tl.store(out_ptr + at, libdevice.tanh(x))
    tl.store(out_ptr + BLOCK + at, libdevice.rsqrt(libdevice.abs(x)))
    tl.store(out_ptr + 2 * BLOCK + at, libdevice.fmod(x, y))
    tl.store(out_ptr + 3 * BLOCK + at, libdevice.div_rn(x, y))
    tl.store(flags_ptr + at, libdevice.isnan(x).to(tl.int32) + 2 * libdevice.isinf(x).to(tl.int32))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions_of_libdevice(rng, dtype):
    # A function of Triton's that every backend has to replace, which returned nothing: "cannot convert None to a tensor".
    x, y = rng.standard_normal((2, 64)).astype(dtype) * 5
    x[:3] = np.nan, np.inf, -np.inf
    out, flags = np.zeros((4, 64), dtype), np.zeros(64, np.int32)
    of_libdevice[(1,)](x, y, out, flags, BLOCK=64)
    with np.errstate(all="ignore"):
        wanted = [np.tanh(x), 1 / np.sqrt(np.abs(x)), np.fmod(x, y), x / y]
    for found, one in zip(out, wanted, strict=True):
        np.testing.assert_allclose(found, one, rtol=1e-5, atol=1e-6)
    assert (flags == np.isnan(x) + 2 * np.isinf(x)).all()


@triton.jit
def pairs(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    left, right = tl.split(tl.reshape(tl.load(x_ptr + tl.arange(0, 2 * BLOCK)), (BLOCK, 2)))
    tl.store(out_ptr + at, left - 2 * right)


def test_pairs_that_are_split(rng):
    # Triton 3.9 names both results, a form that was not known: "%outLHS, %outRHS = tt.split".
    x, out = rng.standard_normal(64).astype(np.float32), np.zeros(32, np.float32)
    pairs[(1,)](x, out, BLOCK=32)
    assert (out == x[::2] - 2 * x[1::2]).all()
