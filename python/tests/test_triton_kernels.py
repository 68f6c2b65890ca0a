"""Kernels in the style of Triton's tutorials, compiled by Triton, run on the machine, and compared with NumPy."""

import os

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"

import ml_dtypes
import numpy as np
import pytest
import triton
import triton_kernels as kernels
import triton_references as references

import cubeyard
import cubeyard.triton


@pytest.fixture
def rng():
    return np.random.default_rng(20)


def normal(rng, *shape, dtype=np.float16):
    return rng.standard_normal(shape).astype(dtype)


def close(found, wanted, share):
    """The largest difference is at most a share of the largest value."""
    found = found.astype(np.float64)
    assert np.isfinite(found).all()
    difference, scale = np.abs(found - wanted).max(), np.abs(wanted).max()
    assert difference <= share * scale, (difference, scale)


@pytest.mark.parametrize("n", [1, 1023, 1024, 98432])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.int8, ml_dtypes.bfloat16])
def test_vectors_are_added(rng, n, dtype):
    x, y = (rng.integers(-50, 50, n).astype(dtype) for _ in range(2))
    out = np.full(n, 7, dtype)
    kernels.add[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
    assert (out == x + y).all()


def test_elements_that_a_mask_excludes_are_not_written(rng):
    x, out = normal(rng, 100, dtype=np.float32), np.full(100, 7, np.float32)
    kernels.add[(1,)](x, x, out, 60, BLOCK=128)
    assert (out[:60] == 2 * x[:60]).all() and (out[60:] == 7).all()


@pytest.mark.parametrize("shape", [(1, 1), (7, 33), (300, 781), (130, 1024)])
def test_softmax_of_rows(rng, shape):
    x = normal(rng, *shape, dtype=np.float32)
    rows, columns = shape
    block, first, second = triton.next_power_of_2(columns), np.zeros_like(x), np.zeros_like(x)
    kernels.softmax[(min(rows, 100),)](first, x, columns, columns, rows, columns, BLOCK=block, num_stages=2)
    kernels.softmax_row[(rows,)](second, x, columns, columns, columns, BLOCK=block)
    close(first, references.softmax(x), 1e-6)
    assert (first == second).all()


@pytest.mark.parametrize("activation", ["", "leaky_relu"])
@pytest.mark.parametrize("m, n, k", [(64, 64, 32), (200, 300, 150), (33, 65, 31), (512, 128, 64)])
@pytest.mark.parametrize("dtype, share", [(np.float16, 1e-3), (np.float32, 1e-6)])
def test_a_grouped_product_with_an_activation(rng, m, n, k, dtype, share, activation):
    a, b, c = normal(rng, m, k, dtype=dtype), normal(rng, k, n, dtype=dtype), np.zeros((m, n), dtype)
    grid = (triton.cdiv(m, 64) * triton.cdiv(n, 64),)
    blocks = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 3}
    kernels.matmul[grid](a, b, c, m, n, k, k, 1, n, 1, n, 1, **blocks, ACTIVATION=activation)
    wanted = np.matmul(*references.wide(a, b))
    close(c, references.leaky_relu(wanted) if activation else wanted, share)


def test_the_second_factor_may_be_transposed(rng):
    m, n, k = 70, 50, 90
    a, b, c = normal(rng, m, k), normal(rng, n, k).T, np.zeros((m, n), np.float16)
    blocks = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP_M": 8}
    kernels.matmul[(6,)](a, b, c, m, n, k, k, 1, 1, k, n, 1, **blocks, ACTIVATION="")
    close(c, np.matmul(*references.wide(a, b)), 1e-3)


@pytest.mark.parametrize("seed", [0, 123, 2**31 - 1])
def test_dropout_follows_from_its_seed(rng, seed):
    x, out = normal(rng, 5000, dtype=np.float32), np.zeros(5000, np.float32)
    kernels.dropout[(5,)](x, out, 5000, 0.25, seed, BLOCK=1024)
    keep = references.philox(seed, np.arange(5000)) > 0.25
    assert (out == np.where(keep, x / np.float32(0.75), 0)).all()
    assert 0.7 < keep.mean() < 0.8


@pytest.mark.parametrize("shape", [(100, 1151), (3, 64), (129, 200)])
def test_layer_norm_forward(rng, shape):
    rows, columns = shape
    x, w, b = normal(rng, *shape), normal(rng, columns), normal(rng, columns)
    y, mean, rstd = np.zeros_like(x), np.zeros(rows, np.float32), np.zeros(rows, np.float32)
    kernels.layer_norm[(rows,)](x, y, w, b, mean, rstd, columns, columns, 1e-5, BLOCK=256)
    wanted = references.layer_norm(x, w, b, 1e-5)
    close(y, wanted[0], 1e-3)
    close(mean, wanted[1], 1e-5)
    close(rstd, wanted[2], 1e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tokens", [64, 200, 33])
def test_attention_forward(rng, tokens, causal):
    heads, width = 3, 64
    q, k, v = (normal(rng, heads, tokens, width) for _ in range(3))
    out, logarithm = np.zeros_like(q), np.zeros((heads, tokens), np.float32)
    grid = (triton.cdiv(tokens, 64), heads)
    blocks = {"D": width, "BLOCK_M": 64, "BLOCK_N": 32, "CAUSAL": causal}
    kernels.attention[grid](q, k, v, out, logarithm, 0.5, tokens * width, tokens, **blocks)
    wanted = references.attention(q, k, v, 0.5, causal)
    close(out, wanted[0], 2e-3)
    close(logarithm, wanted[1], 1e-4)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tokens", [64, 100])
def test_attention_backward(rng, tokens, causal):
    heads, width, scale = 2, 32, 0.3
    q, k, v, do = (normal(rng, heads, tokens, width) for _ in range(4))
    out, logarithm = references.attention(q, k, v, scale, causal)
    delta = np.zeros((heads, tokens), np.float32)
    grid = (triton.cdiv(tokens, 32), heads)
    kernels.attention_delta[grid](out.astype(np.float16), do, delta, tokens, D=width, BLOCK=32)
    found = [np.zeros(q.shape, np.float32) for _ in range(3)]
    rows = (logarithm.astype(np.float32), delta)
    kernels.attention_backward[grid](q, k, v, do, *found, *rows, scale, tokens, D=width, BLOCK=32, CAUSAL=causal)
    for one, wanted in zip(found, references.attention_backward(q, k, v, do, scale, causal), strict=True):
        close(one, wanted, 2e-3)


@pytest.mark.parametrize("m, n, k", [(200, 300, 150), (64, 64, 64)])
def test_a_persistent_product(rng, m, n, k):
    a, b, c = normal(rng, m, k), normal(rng, k, n), np.zeros((m, n), np.float16)
    kernels.persistent_matmul[(16,)](a, b, c, m, n, k, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, PROGRAMS=16)
    close(c, np.matmul(*references.wide(a, b)), 1e-3)


@pytest.mark.parametrize("m, n, k", [(200, 304, 152), (64, 64, 64)])
def test_a_product_with_descriptors(rng, m, n, k):
    a, b, c = normal(rng, m, k), normal(rng, n, k), np.zeros((m, n), np.float16)
    kernels.descriptor_matmul[(triton.cdiv(m, 64), triton.cdiv(n, 64))](a, b, c, m, n, k, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32)
    close(c, np.matmul(*references.wide(a, b.T)), 1e-3)


def line_of(kernel, text):
    """The file name and number of the line of a kernel that has a text."""
    lines, first = kernel.fn.__code__.co_filename, kernel.fn.__code__.co_firstlineno
    with open(lines) as file:
        for number, line in enumerate(file, 1):
            if number >= first and text in line:
                return f"{os.path.basename(lines)}:{number}"
    raise AssertionError(text)


def test_a_launch_is_a_result_that_names_the_lines_of_the_author(rng):
    x, out = normal(rng, 5000, dtype=np.float32), np.zeros(5000, np.float32)
    with cubeyard.triton.record() as run:
        kernels.add[(5,)](x, x, out, 5000, BLOCK=1024)
    [launch] = run.launches
    assert isinstance(launch, cubeyard.Run) and launch.ok and launch.kernel_ns > 0
    assert 0 < launch.share_of_bound < 1
    critical = {step["place"] for step in launch.rows()}
    assert line_of(kernels.add, "tl.store(out_ptr + offsets") in critical
    assert all(line.startswith("triton_kernels.py:") for line in critical if line)
    assert (out == 2 * x).all()


def test_times_without_data_are_those_with_data(rng):
    x, out = normal(rng, 5000, dtype=np.float32), np.zeros(5000, np.float32)
    with cubeyard.triton.record() as run:
        kernels.add[(5,)](x, x, out, 5000, BLOCK=1024)
    out[:] = 0
    with cubeyard.triton.record(data=False) as without:
        kernels.add[(5,)](x, x, out, 5000, BLOCK=1024)
    assert without.launches[0].kernel_ns == run.launches[0].kernel_ns
    assert not out.any()


def test_an_access_outside_every_tensor_is_refused_with_its_line(rng):
    x, out = normal(rng, 100, dtype=np.float32), np.zeros(100, np.float32)
    with pytest.raises(cubeyard.errors.CubeyardError, match=line_of(kernels.add, "x = tl.load")):
        kernels.add[(100,)](x, x, out, 10**6, BLOCK=1024)


def test_what_is_no_number_gives_way_to_a_number(rng):
    x, y = normal(rng, 64, dtype=np.float32), normal(rng, 64, dtype=np.float32)
    x[::5], y[::3] = np.nan, np.nan
    out, most = np.zeros((3, 64), np.float32), np.zeros(2, np.float32)
    kernels.greater[(1,)](x, y, out, most, BLOCK=64)
    np.testing.assert_array_equal(out[0], np.fmax(x, y))
    np.testing.assert_array_equal(out[1], np.fmax(x, 0))
    np.testing.assert_array_equal(out[2], np.maximum(x, y))
    assert most.tolist() == [np.nanmax(x), np.nanmin(x)]


def test_a_choice_by_another_order_is_not_taken_for_the_greatest(rng):
    x = np.array([1, -9, 4, 3, 2, 8, -7, 5], np.float32)
    value, place = np.zeros(1, np.float32), np.zeros(1, np.int32)
    kernels.farthest[(1,)](x, value, place, BLOCK=8)
    assert (value[0], place[0]) == (-9, 1)


def test_the_first_of_equal_elements_is_the_extreme():
    x, found = np.array([2, 7, -3, 7, -3, 0, 1, 2], np.float32), np.zeros(2, np.int32)
    kernels.extremes[(1,)](x, found, BLOCK=8)
    assert found.tolist() == [1, 2]
