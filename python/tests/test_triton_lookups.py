"""Sorting, selection, gathers, histograms, functions of elements, prints and wide products, against NumPy.

CUBEYARD_TRITON_LOOKUPS is the number of random cases of each kind.
"""

import os

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"

import numpy as np
import pytest
import triton
import triton.language as tl

import cubeyard
import cubeyard.triton

COUNT = int(os.environ.get("CUBEYARD_TRITON_LOOKUPS", "12"))
TYPES = (np.float32, np.float16, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32)


@triton.jit
def sort(x, out, M: tl.constexpr, N: tl.constexpr, DOWN: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tl.sort(tl.load(x + at), descending=DOWN))


@triton.jit
def best(x, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :], tl.topk(tl.load(x + at), K))


@triton.jit
def flip(x, out, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tl.flip(tl.load(x + at), 1))


@triton.jit
def gather(x, index, out, M: tl.constexpr, N: tl.constexpr, P: tl.constexpr, Q: tl.constexpr, AXIS: tl.constexpr):
    source = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    at = tl.arange(0, P)[:, None] * Q + tl.arange(0, Q)[None, :]
    tl.store(out + at, tl.gather(source, tl.load(index + at), AXIS))


@triton.jit
def reverse(x, out, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), tl.gather(tl.load(x + tl.arange(0, N)), N - 1 - tl.arange(0, N), 0))


@triton.jit
def histogram(x, chosen, out, N: tl.constexpr, BINS: tl.constexpr, MASK: tl.constexpr):
    at = tl.arange(0, N)
    if MASK:
        counts = tl.histogram(tl.load(x + at), BINS, mask=tl.load(chosen + at) != 0)
    else:
        counts = tl.histogram(tl.load(x + at), BINS)
    tl.store(out + tl.arange(0, BINS), counts)


@triton.jit
def _ordered(a, b, scale):
    if a < b:
        return a * scale, b
    else:
        return b, a - scale


@triton.jit
def _distance(a, b):
    c = a - b
    return c if c > 0 else -c


@triton.jit
def _graded(a, b):
    if a < 0:
        if b < 0:
            return 1.0
        a = a - b
    else:
        if b > 1:
            return 2.0
    if a > b:
        return a
    return a + b


@triton.jit
def graded(x, y, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.map_elementwise(_graded, tl.load(x + at), tl.load(y + at)))


@triton.jit
def _counted(a):
    n = 0
    while n < a:
        n += 1
    return n


@triton.jit
def mapped(x, y, scale, out, more, N: tl.constexpr):
    at = tl.arange(0, N)
    a, b = tl.load(x + at), tl.load(y + at)
    low, high = tl.map_elementwise(_ordered, a, b, tl.full((N,), scale, tl.float32))
    tl.store(out + at, low + tl.map_elementwise(_distance, a, b))
    tl.store(more + at, high)


@triton.jit
def looped(x, out, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), tl.map_elementwise(_counted, tl.load(x + tl.arange(0, N))))


@triton.jit
def shown(x, out, N: tl.constexpr):
    value = tl.load(x + tl.arange(0, N))
    tl.device_print("value", value)
    tl.device_print("pid", tl.program_id(0), hex=True)
    tl.store(out + tl.arange(0, N), value)


@triton.jit
def product(x, y, c, out, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    rows, inner, columns = tl.arange(0, M)[:, None], tl.arange(0, K), tl.arange(0, N)[None, :]
    left, right = tl.load(x + rows * K + inner[None, :]), tl.load(y + inner[:, None] * N + columns)
    tl.store(out + rows * N + columns, tl.dot(left, right, tl.load(c + rows * N + columns), out_dtype=tl.float64))


@triton.jit
def high(x, y, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.umulhi(tl.load(x + at), tl.load(y + at)))


@triton.jit
def six(x, out, N: tl.constexpr):
    at = tl.arange(0, 64)
    tile = tl.reshape(tl.load(x + at), (2, 2, 2, 2, 2, 2))
    tile = tl.permute(tile, (5, 3, 1, 0, 2, 4))
    tl.store(out + at, tl.reshape(tile + tl.sum(tile, 3, keep_dims=True), (64,)))


def numbers(rng, dtype, shape):
    """Random elements: few different ones, any, or special ones."""
    if np.dtype(dtype).kind == "f":
        special = np.array([0.0, -0.0, np.inf, -np.inf, 1.5, -1.5, 6e-8])
        return (rng.choice(special, shape) if rng.random() < 0.5 else rng.standard_normal(shape) * 100).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def cases():
    for seed in range(COUNT):
        rng = np.random.default_rng(seed)
        yield rng, TYPES[seed % len(TYPES)], int(2 ** rng.integers(0, 4)), int(2 ** rng.integers(1, 7))


def test_sorted_rows_are_numpys():
    for rng, dtype, rows, length in cases():
        x, down = numbers(rng, dtype, (rows, length)), bool(rng.integers(2))
        out = np.zeros_like(x)
        sort[(1,)](x, out, rows, length, down)
        wanted = np.sort(x, 1)
        np.testing.assert_array_equal(out, wanted[:, ::-1] if down else wanted, err_msg=f"{dtype} {rows} {length} {down}")


def test_the_greatest_of_each_row_are_numpys():
    for rng, dtype, rows, length in cases():
        x, count = numbers(rng, dtype, (rows, length)), int(2 ** rng.integers(0, np.log2(length) + 1))
        out = np.zeros((rows, count), x.dtype)
        best[(1,)](x, out, rows, length, count)
        np.testing.assert_array_equal(out, np.sort(x, 1)[:, ::-1][:, :count], err_msg=f"{dtype} {rows} {length} {count}")


def test_flipped_rows_are_numpys():
    for rng, dtype, rows, length in cases():
        x = numbers(rng, dtype, (rows, length))
        out = np.zeros_like(x)
        flip[(1,)](x, out, rows, length)
        assert out.tobytes() == x[:, ::-1].tobytes(), (dtype, rows, length)


def test_gathered_elements_are_numpys_bit_by_bit():
    for rng, dtype, rows, length in cases():
        x, axis = numbers(rng, dtype, (rows, length)), int(rng.integers(2))
        shape = list(x.shape)
        shape[axis] = int(2 ** rng.integers(0, 7))
        index = rng.integers(0, x.shape[axis], shape).astype(rng.choice([np.int32, np.int64]))
        out = np.zeros(shape, x.dtype)
        gather[(1,)](x, index, out, *x.shape, *shape, axis)
        assert out.tobytes() == np.take_along_axis(x, index, axis).tobytes(), (dtype, x.shape, shape, axis)


def test_special_numbers_and_known_indices_are_gathered():
    x = np.array([np.nan, -0.0, np.inf, -np.inf, 1, 2, 3, 4], np.float32)
    out = np.zeros_like(x)
    reverse[(1,)](x, out, 8)
    assert out.tobytes() == x[::-1].tobytes()


def test_histograms_are_numpys():
    for rng, _, rows, length in cases():
        x, bins = rng.integers(-2, 20, rows * length).astype(np.int32), int(2 ** rng.integers(0, 6))
        chosen, masked = rng.integers(0, 2, x.size).astype(np.int32), bool(rng.integers(2))
        out = np.zeros(bins, np.int32)
        histogram[(1,)](x, chosen, out, x.size, bins, masked)
        counted = x[chosen != 0] if masked else x
        np.testing.assert_array_equal(out, [(counted == number).sum() for number in range(bins)])


def test_a_function_of_elements_selects_among_both_sides_of_its_branches():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 64)).astype(np.float32)
    out, more = np.zeros(64, np.float32), np.zeros(64, np.float32)
    mapped[(1,)](x, y, 3.0, out, more, 64)
    np.testing.assert_allclose(out, np.where(x < y, x * 3, y) + abs(x - y), rtol=1e-6)
    np.testing.assert_allclose(more, np.where(x < y, y, x - 3), rtol=1e-6)


def test_a_function_of_elements_may_return_early():
    x, y = 2 * np.random.default_rng(4).standard_normal((2, 256)).astype(np.float32)
    out = np.zeros(256, np.float32)
    graded[(1,)](x, y, out, 256)
    np.testing.assert_allclose(out, [_graded.fn(a, b) for a, b in zip(x, y, strict=True)], rtol=1e-6)


def test_a_loop_in_a_function_of_elements_is_refused_with_its_line():
    x = np.arange(8, dtype=np.int32)
    with pytest.raises(cubeyard.CubeyardError, match=r"test_triton_lookups.py:\d+: .*scf.while in tl.map_elementwise"):
        looped[(1,)](x, x.copy(), 8)


def test_prints_name_the_program_the_index_and_the_number(capfd):
    x = np.array([1.5, -2, 3, 4], np.float32)
    for _ in range(2):
        shown[(2,)](x, x.copy(), 4)
    lines = capfd.readouterr().out.splitlines()
    assert sorted(lines) == sorted(
        2 * [f"pid ({pid}, 0, 0) idx ({at}) value: {number:f}" for pid in range(2) for at, number in enumerate(x)]
        + 2 * [f"pid ({pid}, 0, 0) idx () pid: 0x{pid:08x}" for pid in range(2)]
    )
    with cubeyard.triton.record(data=False) as recorded:
        shown[(2,)](x, x.copy(), 4)
    assert capfd.readouterr().out == ""
    assert "tl.device_print prints nothing without data" in " ".join(recorded.launches[0].notes)


def test_products_of_64_bits_are_computed_by_the_vector_unit():
    rng = np.random.default_rng(1)
    for m, k, n in ((16, 16, 16), (32, 16, 64), (16, 64, 16)):
        x, y, c = rng.standard_normal((m, k)), rng.standard_normal((k, n)), rng.standard_normal((m, n))
        out = np.zeros((m, n))
        with cubeyard.triton.record() as recorded:
            product[(1,)](x, y, c, out, m, k, n)
        np.testing.assert_allclose(out, x @ y + c, rtol=1e-12, atol=1e-12)
        assert "MATH multiplies" in " ".join(recorded.launches[0].notes)


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_the_upper_half_of_a_product_is_exact(dtype):
    rng, top = np.random.default_rng(2), np.iinfo(dtype).max
    x, y = rng.integers(0, top, (2, 64), dtype, endpoint=True)
    x[:4], y[:4] = [0, top, top, 1], [top, top, 1, 1]
    out = np.zeros(64, dtype)
    high[(1,)](x, y, out, 64)
    bits = 8 * x.itemsize
    assert out.tolist() == [int(one) * int(other) >> bits for one, other in zip(x, y, strict=True)]


def test_tiles_have_six_dimensions():
    x = np.random.default_rng(3).standard_normal(64).astype(np.float32)
    out = np.zeros_like(x)
    six[(1,)](x, out, 64)
    tile = x.reshape([2] * 6).transpose(5, 3, 1, 0, 2, 4)
    np.testing.assert_allclose(out, (tile + tile.sum(3, keepdims=True)).reshape(64), rtol=1e-6)


def test_more_work_is_never_faster():
    def time(kernel, *given):
        with cubeyard.triton.record(data=False) as recorded:
            kernel[(1,)](*given)
        return recorded.launches[0].kernel_ns

    lengths = (8, 32, 128, 512)
    x, index = np.zeros(512, np.float32), np.zeros(512, np.int32)
    series = {
        "sort": [time(sort, x, x.copy(), 1, n, False) for n in lengths[:3]],
        "gather": [time(gather, x, index, x.copy(), 1, n, 1, n, 1) for n in lengths],
        "histogram": [time(histogram, index, index, index.copy(), 128, n, False) for n in lengths],
    }
    for name, times in series.items():
        assert times == sorted(times), (name, times)
