"""Address arithmetic that is recalled: the same commands, numbers and times as when it is computed each time."""

import os

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"

import numpy as np
import pytest
import triton
import triton.language as tl
import triton_kernels as kernels

import cubeyard.triton
from cubeyard.triton import _frame, _program, _recall


@triton.jit
def numbered(out_ptr, n, BLOCK: tl.constexpr):
    """Indices that are addresses and elements."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for turn in range(3):
        tl.store(out_ptr + turn * n + at, at * 2 + turn, mask=at < n)


def added():
    x, out = np.arange(5000, dtype=np.float32), np.zeros(5000, np.float32)
    return kernels.add, (5,), (x, x, out, 5000), {"BLOCK": 1024}, out


def softmax():
    x, out = np.random.default_rng(1).standard_normal((300, 100)).astype("f4"), np.zeros((300, 100), np.float32)
    return kernels.softmax_row, (300,), (out, x, 100, 100, 100), {"BLOCK": 128}, out


def product():
    a, b = (np.random.default_rng(seed).standard_normal((96, 80)).astype("f2") for seed in (1, 2))
    c = np.zeros((96, 96), np.float16)
    blocks = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP_M": 2, "ACTIVATION": ""}
    return kernels.matmul, (9,), (a, np.ascontiguousarray(b.T), c, 96, 96, 80, 80, 1, 96, 1, 96, 1), blocks, c


def persistent():
    a, b = (np.random.default_rng(seed).standard_normal((100, 100)).astype("f2") for seed in (1, 2))
    c = np.zeros((100, 100), np.float16)
    return kernels.persistent_matmul, (2,), (a, b, c, 100, 100, 100), {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "PROGRAMS": 2}, c


def dropped():
    x, out = np.arange(3000, dtype=np.float32), np.zeros(3000, np.float32)
    return kernels.dropout, (6,), (x, out, 3000, 0.5, 7), {"BLOCK": 512}, out


def counted():
    out = np.zeros(900, np.int32)
    return numbered, (5,), (out, 300), {"BLOCK": 64}, out


CASES = (added, softmax, product, persistent, dropped, counted)


def run(case):
    """Launches a case twice, with its steps built anew. Returns its results, times and moved bytes."""
    kernel, grid, arguments, named, out = case()
    for program in list(_program._programs.values()):
        program._steps.clear()
        program._kernels.clear()
    with cubeyard.triton.record() as recorded:
        for _ in range(2):
            kernel[grid](*arguments, **named)
    figures = [(one.kernel_ns, one.read_bytes, one.written_bytes, one.units) for one in recorded.launches]
    assert all(one.ok for one in recorded.launches)
    return out.copy(), figures


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_what_is_recalled_changes_neither_numbers_nor_times(case, monkeypatch):
    for name in ("_MOST", "_TRIES"):
        # Few of either, so that entries are dropped, and steps are looked up no longer, within a case.
        monkeypatch.setattr(_recall, name, 3)
    few = run(case)
    monkeypatch.undo()
    recalled = run(case)
    monkeypatch.setattr(_frame, "addresses", lambda kernel: frozenset())
    plain = run(case)
    for found in (few, recalled):
        np.testing.assert_array_equal(found[0], plain[0])
        assert found[1] == plain[1]
    assert np.abs(plain[0]).max() > 0


def test_indices_that_become_tiles_are_not_recalled():
    x = np.zeros(64, np.float32)
    kernels.add[(1,)](x, x, x, 64, BLOCK=64)
    numbered[(1,)](np.zeros(192, np.int32), 64, BLOCK=64)
    found = {program.name: _recall.addresses(program.kernel) for program in _program._programs.values()}
    assert found["add"] and not found["numbered"] & _elements_of("numbered")


def _elements_of(name):
    """Returns the values that a kernel stores, and their operands."""
    program = next(one for one in _program._programs.values() if one.name == name)
    made, wanted, found = {}, [], set()
    for one in _recall._all(program.kernel.body):
        made.update(dict.fromkeys(one.results, one))
        wanted += [one.operands[1]] if one.name == "tt.store" else []
    while wanted:
        value = wanted.pop()
        found.add(value)
        wanted += made[value].operands if value in made else []
    assert any(made[value].name == "tt.make_range" for value in found if value in made)
    return found
