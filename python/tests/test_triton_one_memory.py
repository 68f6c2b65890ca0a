"""Tensors of PyTorch's device are the memory of the machine; CUBEYARD_TRITON_VIEWS is the number of random cases."""

import os
import random
import resource

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
import triton_kernels as kernels

import cubeyard
import cubeyard.torch
import cubeyard.triton

COUNT = int(os.environ.get("CUBEYARD_TRITON_VIEWS", "60"))


@triton.jit
def chained(a, b, c, a_row, b_row, c_row, a_step, b_step, c_step, rows, columns, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
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
def sums(pointers, out, n, BLOCK: tl.constexpr):
    """Sums a vector of each program, whose address is in memory."""
    x = tl.load(pointers + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    at = tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0), tl.sum(tl.load(x + at, mask=at < n, other=0.0)))


@triton.jit
def at_distance(x, distance, value):
    tl.store(x + distance, value)


@triton.jit
def beyond(x, out, distance):
    tl.store(out, tl.load(x + distance))


def views(draw, rows, columns):
    """Three matrices in one storage of random length, at random offsets and with strides that keep elements apart."""
    found = []
    for _ in range(3):
        row_first = draw.random() < 0.5
        step = draw.choice([1, 1, 2, 3])
        other = step * (columns if row_first else rows) + draw.randrange(4)
        strides = (other, step) if row_first else (step, other)
        found.append((draw.randrange(40), strides))
    length = max(at + (rows - 1) * strides[0] + (columns - 1) * strides[1] + 1 for at, strides in found)
    return found, length + draw.randrange(5)


@pytest.mark.parametrize("case", range(COUNT))
def test_views_of_one_storage_on_the_device_and_the_cpu(case):
    """The CPU's tensors are copied into a machine and back, so the two ways are independent."""
    draw = random.Random(case)
    rows, columns = draw.randint(1, 16), draw.randint(1, 16)
    parts, length = views(draw, rows, columns)
    dtype = draw.choice([torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64])
    start = torch.randint(-8, 8, (length,), generator=torch.Generator().manual_seed(case)).to(dtype)
    rounds, results = draw.randint(1, 2), []
    for device in ("cpu", "ahbm"):
        storage = start.to(device, copy=True)
        a, b, c = (storage.as_strided((rows, columns), strides, at) for at, strides in parts)
        strides = [one.stride(0) for one in (a, b, c)] + [one.stride(1) for one in (a, b, c)]
        with cubeyard.triton.record() if draw.random() < 0.3 else cubeyard.triton.record(schedule="blocks"):
            chained[(1,)](a, b, c, *strides, rows, columns, ROUNDS=rounds, BLOCK=16)
        results.append(storage.cpu())
    assert torch.equal(*results)


def test_an_array_of_pointers():
    vectors = [torch.full((100 + one,), float(one), device="ahbm")[one:] for one in range(5)]
    pointers = torch.tensor([one.data_ptr() for one in vectors], device="ahbm")
    out = torch.zeros(5, device="ahbm")
    sums[(5,)](pointers, out, 100, BLOCK=128)
    assert out.tolist() == [100.0 * one for one in range(5)]


def test_the_distance_between_two_tensors():
    x, y = torch.zeros(100, device="ahbm"), torch.zeros(100, device="ahbm")
    at_distance[(1,)](x, (y.data_ptr() - x.data_ptr()) // 4 + 7, 3.0)
    assert y.nonzero().tolist() == [[7]] and not x.any()


def test_an_access_outside_of_every_block():
    x, out = torch.zeros(33, device="ahbm"), torch.zeros(1, device="ahbm")
    with pytest.raises(cubeyard.errors.CubeyardError, match="beyond.*test_triton_one_memory.py:.*outside"):
        beyond[(1,)](x, out, 1 << 20)
    with pytest.raises(cubeyard.errors.CubeyardError, match="outside"):
        beyond[(1,)](x, out, 33)
    gone = torch.zeros(1000, device="ahbm")
    distance = (gone.data_ptr() - x.data_ptr()) // 4
    beyond[(1,)](x, out, distance)
    del gone
    with pytest.raises(cubeyard.errors.CubeyardError, match="outside"):
        beyond[(1,)](x, out, distance)
    beyond[(1,)](x, out, 32)


def test_memory_elsewhere_is_named():
    x, out = torch.zeros(64, device="ahbm"), torch.zeros(64)
    with pytest.raises(cubeyard.errors.InputError, match="argument out_ptr: it is not on the device of argument x_ptr, ahbm:0"):
        kernels.add[(1,)](x, x, out, 64, BLOCK=64)
    with pytest.raises(cubeyard.errors.InputError, match="argument y_ptr: it is not on the device of argument x_ptr"):
        kernels.add[(1,)](x, np.zeros(64, "f4"), x, 64, BLOCK=64)
    other = torch.zeros(64, device="ahbm:1")
    with pytest.raises(cubeyard.errors.InputError, match="argument out_ptr: it is on ahbm:1, and argument x_ptr on ahbm:0"):
        kernels.add[(1,)](x, x, other, 64, BLOCK=64)
    with pytest.raises(cubeyard.errors.InputError, match="argument x_ptr: a tensor on meta"):
        kernels.add[(1,)](torch.zeros(64, device="meta"), x, x, 64, BLOCK=64)
    kernels.add[(1,)](other, other + 1, other, 64, BLOCK=64)
    assert other.tolist() == [1.0] * 64


def test_a_large_tensor_costs_nothing():
    """A tensor of 2 GiB of which one element is used."""
    x = torch.empty(1 << 29, device="ahbm")
    at_distance[(1,)](x, 5, 1.0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    at_distance[(1,)](x, (1 << 29) - 1, 2.0)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10
    assert x[-1].item() == 2.0


def test_time_is_that_of_arrays_by_rows():
    """With 128 pages in each tensor, the pages of a program are in the HBM of its PE, as rows of arrays are."""
    n = 128 * 1024
    x, y, out = (torch.ones(n, device="ahbm") for _ in range(3))
    with cubeyard.triton.record() as run:
        kernels.add[(128,)](x, y, out, n, BLOCK=1024)
        kernels.add[(128,)](*(np.ones(n, "f4") for _ in range(3)), n, BLOCK=1024)
    shared, placed = run.launches
    assert shared.kernel_ns == placed.kernel_ns and shared.ok and bool((out == 2).all())
