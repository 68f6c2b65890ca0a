"""Arguments that share memory on the host share it in the launch; CUBEYARD_TRITON_SHARED is the number of random cases."""

import os

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"

import numpy as np
import pytest
import triton
import triton.language as tl

import cubeyard
import cubeyard.triton

COUNT = int(os.environ.get("CUBEYARD_TRITON_SHARED", "300"))
BATCH = 50


@triton.jit
def steps(a, b, c, a_row, b_row, c_row, a_step, b_step, c_step, rows, columns, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    """Changes three matrices in turn, each by the elements of another."""
    r, s = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    inside = (r < rows) & (s < columns)
    pa, pb, pc = a + r * a_row + s * a_step, b + r * b_row + s * b_step, c + r * c_row + s * c_step
    for _ in range(ROUNDS):
        tl.store(pb, (tl.load(pa, mask=inside) + 1).to(b.dtype.element_ty), mask=inside)
        tl.debug_barrier()
        tl.store(pc, (tl.load(pb, mask=inside) * 2).to(c.dtype.element_ty), mask=inside)
        tl.debug_barrier()
        tl.store(pa, (tl.load(pc, mask=inside) - 3).to(a.dtype.element_ty), mask=inside)
        tl.debug_barrier()


@triton.jit
def double(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


@triton.jit
def more_then_double(a, b, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(a + at, tl.load(a + at) + 1)
    tl.debug_barrier()
    tl.store(b + at, tl.load(b + at) * 2)


@triton.jit
def swap(left, right, row, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * row + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < columns
    x, y = tl.load(left + at, mask=inside), tl.load(right + at, mask=inside)
    tl.store(left + at, y, mask=inside)
    tl.store(right + at, x, mask=inside)


@triton.jit
def bits_then_number(bits, numbers, out):
    tl.store(bits, 0x40490FDB)
    tl.debug_barrier()
    tl.store(out, tl.load(numbers))


def elements_of(strides):
    return [one // 2 for one in strides]


def random_views(rng, whole):
    """Three matrices of one shape in one memory, of elements of the same width."""
    rows, columns = int(rng.integers(1, 9)), int(rng.integers(1, 9))
    views = []
    for _ in range(3):
        step = int(rng.integers(1, 3))
        row = int(rng.integers(columns * step, 3 * columns * step + 1))
        if rng.random() < 0.3:
            row, step = 1, rows + int(rng.integers(0, 3))
        length = 1 + (rows - 1) * row + (columns - 1) * step
        first = int(rng.integers(0, 100))
        part = whole[first : first + length]
        view = np.lib.stride_tricks.as_strided(part, (rows, columns), (2 * row, 2 * step))
        views.append(view.view(np.uint16) if rng.random() < 0.3 else view)
    return views


def in_numpy(a, b, c, rounds):
    """Computes the same; a store of a program is done before the load that follows it."""
    with np.errstate(over="ignore"):
        for _ in range(rounds):
            b[...] = (a + a.dtype.type(1)).astype(b.dtype)
            c[...] = (b * b.dtype.type(2)).astype(c.dtype)
            a[...] = (c - c.dtype.type(3)).astype(a.dtype)


@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_random_views_of_one_memory(first):
    shared = 0
    for seed in range(first, min(first + BATCH, COUNT)):
        found, wanted = (np.random.default_rng(seed).integers(-1000, 1000, 600).astype(np.int16) for _ in range(2))
        given, same = (random_views(np.random.default_rng([seed, 1]), whole) for whole in (found, wanted))
        strides = [elements_of(view.strides) for view in given]
        sizes = (*(row for row, _ in strides), *(step for _, step in strides), *given[0].shape)
        steps[(1,)](*given, *sizes, ROUNDS=2, BLOCK=8)
        in_numpy(*same, 2)
        assert (found == wanted).all(), (seed, strides)
        shared += np.shares_memory(given[0], given[1])
    assert shared > BATCH // 5


def test_one_array_as_two_arguments():
    # Each argument had a copy of its own; the last that was written back won.
    x = np.arange(100, dtype=np.float32)
    more_then_double[(1,)](x, x, BLOCK=64)
    assert (x[:64] == 2 * np.arange(64) + 2).all() and (x[64:] == np.arange(64, 100)).all()


def test_halves_of_the_rows_of_a_matrix():
    # The written half came back with the elements between its rows as they were before the launch.
    both = np.arange(8 * 32, dtype=np.float32).reshape(8, 32)
    wanted = np.concatenate([both[:, 16:], both[:, :16]], axis=1)
    with cubeyard.triton.record() as run:
        swap[(8,)](both[:, :16], both[:, 16:], 32, 16, BLOCK=16)
    assert (both == wanted).all() and run.launches[0].ok


def test_one_memory_seen_as_two_types():
    bits, out = np.zeros(1, np.int32), np.zeros(1, np.float32)
    bits_then_number[(1,)](bits, bits.view(np.float32), out)
    assert out[0] == np.float32(np.pi)


def test_a_part_that_begins_within_an_element_of_another_is_refused():
    memory = np.zeros(64, np.uint8)
    bits, odd = memory[:4].view(np.int32), memory[2:6].view(np.float32)
    with pytest.raises(cubeyard.errors.InputError, match=r"numbers: .*shares memory with bits.*2 bytes"):
        bits_then_number[(1,)](bits, odd, np.zeros(1, np.float32))


def test_parts_of_one_memory_with_two_placements_are_refused():
    x = np.zeros(64, np.float32)
    one = cubeyard.triton.place(x, cubeyard.Placement.one())
    copies = cubeyard.triton.place(x[1:], cubeyard.Placement())
    with pytest.raises(cubeyard.errors.InputError, match="x and out share memory: expected one placement"):
        double[(1,)](one, copies, 63, BLOCK=64)
    double[(1,)](one, x, 64, BLOCK=64)


def test_a_result_in_a_read_only_array_is_refused():
    x = np.ones(64, np.float32)
    fixed = x.view()
    fixed.flags.writeable = False
    with pytest.raises(cubeyard.errors.InputError, match="out: .*read-only"):
        double[(1,)](np.ones(64, np.float32), fixed, 64, BLOCK=64)
    double[(1,)](fixed, x, 64, BLOCK=64)
    assert (x == 2).all()
