"""Kernels in Triton whose course depends on loaded values, or on the order of programs."""

import os

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"

import numpy as np
import pytest
import triton
import triton.language as tl
import triton_kernels as kernels
import triton_references as references

import cubeyard
import cubeyard.triton


@pytest.fixture
def rng():
    return np.random.default_rng(20)


@triton.jit
def count(total, before, n):
    at = tl.program_id(0)
    number = tl.atomic_add(total, 1)
    tl.store(before + at, number, mask=at < n)


@triton.jit
def histogram(x_ptr, bins, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    tl.atomic_max(bins + at % 16, x, mask=at < n)


@triton.jit
def gather(x_ptr, index_ptr, out_ptr, n, width, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.arange(0, WIDTH)
    rows = tl.load(index_ptr + at, mask=at < n, other=0)
    inside = (at[:, None] < n) & (columns[None, :] < width)
    x = tl.load(x_ptr + rows[:, None] * width + columns[None, :], mask=inside, other=0.0)
    tl.store(out_ptr + at[:, None] * width + columns[None, :], x, mask=inside)


@triton.jit
def halve(x_ptr, steps_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    steps = 0
    while tl.max(x, axis=0) > 1.0:
        x = x * 0.5
        steps += 1
    if steps > 2:
        x = -x
    tl.store(x_ptr + at, x)
    tl.store(steps_ptr + tl.program_id(0), steps)


@pytest.mark.parametrize("programs", [1, 3, 40])
def test_every_program_gets_a_number_of_its_own(programs):
    total, before = np.zeros(1, np.int32), np.full(programs, -1, np.int32)
    with cubeyard.triton.record() as run:
        count[(programs,)](total, before, programs)
    assert total[0] == programs and sorted(before.tolist()) == list(range(programs))
    [launch] = run.launches
    assert launch.ok and any("atomic" in note for note in launch.notes)


def test_atomic_operations_on_tensors(rng):
    # Addresses of one program are different: a tensor is changed as one.
    x, bins = rng.integers(0, 1000, 100).astype(np.int32), np.zeros(16, np.int32)
    histogram[(7,)](x, bins, 100, BLOCK=16)
    assert bins.tolist() == [x[at::16].max() for at in range(16)]


@pytest.mark.parametrize("n, width", [(10, 33), (16, 64), (1, 1)])
def test_rows_that_loaded_numbers_choose(rng, n, width):
    x, index = rng.standard_normal((50, width)).astype(np.float32), rng.integers(0, 50, n).astype(np.int32)
    out = np.zeros((n, width), np.float32)
    with cubeyard.triton.record() as run:
        gather[(triton.cdiv(n, 8),)](x, index, out, n, width, BLOCK=8, WIDTH=64)
    assert (out == x[index]).all()
    notes = " ".join(run.launches[0].notes)
    assert "runs live" in notes and ("one access for each run" in notes) == (n > 1)


def test_loops_and_branches_on_values(rng):
    x = rng.uniform(0.1, 30, (4, 64)).astype(np.float32)
    wanted, steps = x.copy(), np.zeros(4, np.int32)
    halve[(4,)](found := x.copy(), steps, BLOCK=64)
    counts = [max(0, int(np.ceil(np.log2(row.max())))) for row in x]
    assert steps.tolist() == counts
    for row, number in zip(wanted, counts, strict=True):
        row *= np.float32(0.5**number) * (-1 if number > 2 else 1)
    assert (found == wanted).all()


def test_a_kernel_that_needs_values_says_so_without_data(rng):
    x = np.ones((4, 64), np.float32)
    with cubeyard.triton.record(data=False), pytest.raises(cubeyard.errors.InputError, match=r"test_triton_live\.py:\d+.*data=True"):
        halve[(4,)](x, np.zeros(4, np.int32), BLOCK=64)


@pytest.mark.parametrize("rows, columns, group", [(40, 100, 8), (5, 64, 2)])
def test_layer_norm_backward_with_locks(rng, rows, columns, group):
    x, dy = (rng.standard_normal((rows, columns)).astype(np.float16) for _ in range(2))
    w = rng.standard_normal(columns).astype(np.float16)
    _, mean, rstd = (one.astype(np.float32) for one in references.layer_norm(x, w, w, 1e-5))
    dx, locks = np.zeros_like(x), np.zeros(2 * group, np.int32)
    dw, db = np.zeros((group, columns), np.float32), np.zeros((group, columns), np.float32)
    kernels.layer_norm_backward[(rows,)](
        dx, dy, dw, db, x, w, mean, rstd, locks, columns, columns, GROUP=group, BLOCK=128
    )
    out_dw, out_db = np.zeros(columns, np.float32), np.zeros(columns, np.float32)
    grid = (triton.cdiv(columns, 32),)
    kernels.layer_norm_weights[grid](dw, db, out_dw, out_db, group, columns, BLOCK_M=32, BLOCK_N=32)
    wanted = references.layer_norm_backward(dy, x, w, 1e-5)
    assert np.abs(dx - wanted[0]).max() < 4e-3
    assert np.abs(out_dw - wanted[1]).max() < 1e-4 and np.abs(out_db - wanted[2]).max() < 1e-4
    assert not locks[:group].any()


def test_a_grouped_product_by_addresses_in_memory(rng):
    context, rows = cubeyard.Context(), cubeyard.Placement(cube="row_wise", pe="row_wise")
    shapes = [(64, 96, 128), (32, 32, 64), (128, 64, 32)]

    def deployed(array):
        return context.from_numpy(np.ascontiguousarray(array)).to(rows)

    a = [deployed(rng.standard_normal((m, k)).astype(np.float16)) for m, n, k in shapes]
    b = [deployed(rng.standard_normal((k, n)).astype(np.float16)) for m, n, k in shapes]
    c = [context.zeros((m, n), "f16").to(rows) for m, n, k in shapes]
    addresses = [deployed(np.array([one.va_base for one in group])) for group in (a, b, c)]
    sizes = deployed(np.array(shapes, np.int32).ravel())
    leading = deployed(np.array([(k, n, n) for m, n, k in shapes], np.int32).ravel())
    blocks = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32}
    kernels.grouped_matmul[(16,)](*addresses, sizes, leading, 3, PROGRAMS=16, **blocks)
    for x, y, z in zip(a, b, c, strict=True):
        wanted = np.matmul(*references.wide(x.numpy(), y.numpy()))
        assert np.abs(z.numpy() - wanted).max() < 0.03
    assert context.findings() == ()


@triton.jit
def chosen_rows(x_ptr, index_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    r, c = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    rows = tl.load(index_ptr + r)
    tl.store(out_ptr + r * N + c, tl.load(x_ptr + rows * N + c) + rows)


def test_a_column_of_loaded_numbers_is_broadcast(rng):
    # Elements that the kernel waits for have no operation that makes them, and were lost: an AssertionError.
    x, index = rng.integers(0, 100, (20, 16)).astype(np.int32), rng.integers(0, 20, 8).astype(np.int32)
    out = np.zeros((8, 16), np.int32)
    chosen_rows[(1,)](x, index, out, M=8, N=16)
    assert (out == x[index] + index[:, None]).all()


@triton.jit
def returning(x_ptr, kind_ptr, out_ptr, n, more, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    if program >= n:
        return
    at = program * BLOCK + tl.arange(0, BLOCK)
    x, kind = tl.load(x_ptr + at), tl.load(kind_ptr + program)
    if kind == 1:
        tl.store(out_ptr + at, x * 0 - 1)
        return
    elif kind == 2:
        x = x * 2
        more += 1
    if kind == 3:
        more = -more
    tl.store(out_ptr + at, x + more)


@triton.jit
def first_programs(x_ptr, n, BLOCK: tl.constexpr):
    if tl.program_id(0) >= n:
        return
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at) + 1)


def test_a_program_that_returns_early(rng):
    # Triton has jumps for it, which were unknown: "unknown form: ^bb1:".
    x, out = rng.standard_normal((6, 16)).astype(np.float32), np.zeros((6, 16), np.float32)
    returning[(6,)](x, np.array([0, 1, 2, 3, 1, 0], np.int32), out, 5, 7, BLOCK=16)
    assert (out == np.stack([x[0] + 7, x[1] * 0 - 1, x[2] * 2 + 8, x[3] - 7, x[4] * 0 - 1, x[5] * 0])).all()
    first_programs[(6,)](x, 4, BLOCK=16)
    with cubeyard.triton.record(data=False) as run:
        first_programs[(6,)](x, 4, BLOCK=16)
    assert run.launches[0].written_bytes == 4 * 16 * 4


@triton.jit
def computed(x_ptr, out_ptr, limit, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    share = (at.to(tl.float32) + 0.5) * 0.75
    tl.store(out_ptr + at, tl.load(x_ptr + share.to(tl.int32)), mask=(share < limit) | (share != share))
    power = tl.exp2((at % 4).to(tl.float32)).to(tl.int32)
    tl.store(out_ptr + BLOCK + at, tl.load(x_ptr + power))


def test_addresses_and_masks_from_floats_of_indices():
    # Stores with such masks were dropped without an error, and loads failed in Python.
    x, out = np.random.default_rng(3).standard_normal(32).astype(np.float32), np.zeros((2, 32), np.float32)
    with cubeyard.triton.record() as run:
        computed[(1,)](x, out, 9.5, BLOCK=32)
    share = (np.arange(32, dtype=np.float32) + np.float32(0.5)) * np.float32(0.75)
    assert (out[0] == np.where(share < 9.5, x[share.astype(int)], 0)).all()
    assert (out[1] == x[2 ** (np.arange(32) % 4)]).all()
    assert any("runs live" in note for note in run.launches[0].notes)
    with pytest.raises(cubeyard.CubeyardError, match=r"test_triton_live\.py:\d+: tt\.load depends on .* set data=True"):
        with cubeyard.triton.record(data=False):
            computed[(1,)](x, out, 9.5, BLOCK=32)


@triton.jit
def rounded(x_ptr, out_ptr, limit, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    share = (at.to(tl.float32) + 0.5) * 0.75
    tl.store(out_ptr + at, tl.load(x_ptr + share.to(tl.int32)), mask=share < limit)


@pytest.mark.parametrize("limit", [0.0, 3.75, 100.0, float("nan")])
def test_known_floats_are_recorded(limit):
    x, out = np.random.default_rng(4).standard_normal(32).astype(np.float32), np.zeros(32, np.float32)
    with cubeyard.triton.record() as run:
        rounded[(1,)](x, out, limit, BLOCK=32)
    share = (np.arange(32, dtype=np.float32) + np.float32(0.5)) * np.float32(0.75)
    assert (out == np.where(share < limit, x[share.astype(int)], 0)).all()
    assert not any("runs live" in note for note in run.launches[0].notes)
