"""Programs run where their data is: the schedule `homes` beside `waves` and `blocks`."""

import os
import random

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"

import numpy as np
import pytest
import torch
import triton_kernels as kernels

import cubeyard.torch  # noqa: F401
import cubeyard.triton
from cubeyard.triton._homes import shares

BLOCKS = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP_M": 8}


def launched(kernel, grid, arguments, schedule, **constants):
    """Returns a launch without data."""
    with cubeyard.triton.record(schedule=schedule, data=False) as run:
        kernel[grid](*arguments, **constants)
    return run.launches[0]


def arrays(kind, count, shape, dtype="float32"):
    if kind == "numpy":
        return [np.zeros(shape, dtype) for _ in range(count)]
    return [torch.empty(shape, dtype=getattr(torch, dtype), device="ahbm") for _ in range(count)]


def added(kind, n, block, schedule):
    return launched(kernels.add, (-(-n // block),), [*arrays(kind, 3, n), n], schedule, BLOCK=block)


def softmax(kind, rows, columns, schedule):
    out, x = arrays(kind, 2, (rows, columns))
    given = [out, x, columns, columns, columns]
    return launched(kernels.softmax_row, (rows,), given, schedule, BLOCK=1 << (columns - 1).bit_length())


def product(kind, n, schedule):
    given = [*arrays(kind, 3, (n, n), "float16"), n, n, n, n, 1, n, 1, n, 1]
    return launched(kernels.matmul, ((n // 64) ** 2,), given, schedule, **BLOCKS, ACTIVATION="")


CASES = [
    *((added, (n, block)) for n in (1000, 16384, 100_000, 131072, 192 * 1024) for block in (256, 1024)),
    *((softmax, shape) for shape in ((128, 1024), (823, 781), (1000, 256), (64, 512))),
    *((product, (n,)) for n in (128, 256)),
]


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0].__name__}-{case[1]}")
def test_homes_are_at_most_a_fifth_slower_than_the_best(kind, case):
    run, given = case
    homes, waves, blocks = (run(kind, *given, schedule).kernel_ns for schedule in ("homes", "waves", "blocks"))
    assert homes <= 1.2 * min(waves, blocks)


@pytest.mark.parametrize("block", [256, 1024])
def test_time_does_not_fall_as_work_grows(block):
    sizes = [1024, 3000, 16384, 65536, 100_000, 131072, 192 * 1024, 1 << 18, 300_000]
    times = [added("torch", n, block, "homes").kernel_ns for n in sizes]
    # Tiles that end early move fewer bytes.
    assert all(more >= 0.97 * less for less, more in zip(times, times[1:], strict=False)), dict(zip(sizes, times, strict=True))


def test_a_launch_says_what_was_local():
    local = added("torch", 131072, 1024, "homes")
    assert "100% of the bytes were moved in the HBM of the PE that moved them" in local.notes
    remote = added("torch", 131072, 1024, lambda pe, pes, programs: range((pe + 1) % pes, programs, pes))
    assert "0% of the bytes were moved in the HBM of the PE that moved them" in remote.notes


@pytest.mark.parametrize("seed", range(200))
def test_every_program_has_one_pe(seed):
    draw = random.Random(seed)
    pes, programs = draw.randint(1, 40), draw.randint(0, 300)
    held = draw.randint(1, pes)
    homes = tuple(draw.randrange(held) if draw.random() < 0.9 else None for _ in range(programs))
    even = draw.random() < 0.5
    found = shares(homes, pes, even)
    assert sorted(one for of in found for one in of) == list(range(programs)) and len(found) == pes
    most = -(-programs // pes)
    if even:
        assert all(len(of) <= most for of in found)
    known = {one for one in homes if one is not None}
    at_home = sum(homes[one] == pe for pe, of in enumerate(found) for one in of)
    wanted = most if even or not known else max(most, 2 * -(-programs // len(known)))
    assert at_home == sum(min(homes.count(pe), wanted) for pe in known)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_numbers_do_not_depend_on_the_schedule(kind):
    n = 70_000
    x = np.random.default_rng(1).standard_normal(n).astype("f4")
    for schedule in ("homes", "waves", "blocks"):
        given = [x, x[::-1].copy(), np.zeros_like(x)]
        given = given if kind == "numpy" else [torch.from_numpy(one).to("ahbm") for one in given]
        with cubeyard.triton.record(schedule=schedule):
            kernels.add[(-(-n // 256),)](*given, n, BLOCK=256)
        found = given[2] if kind == "numpy" else given[2].cpu().numpy()
        assert (found == x + x[::-1]).all()
