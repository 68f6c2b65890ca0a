"""Kernels in Triton that never end: an error names the line, and the machine goes on."""

import os

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"

import inspect

import numpy as np
import pytest
import triton
import triton.language as tl
import triton_kernels as kernels

import cubeyard
import cubeyard.triton
from cubeyard.triton import _flow


@triton.jit
def turning(out_ptr, by):
    at = 1
    while at > 0:  # turning
        at = (at + by) % 7 + 1
    tl.store(out_ptr, at)


@triton.jit
def counting(out_ptr, rounds):
    total = 0
    for at in range(rounds):  # counting
        total = (total + at.to(tl.int32)) % 3
    tl.store(out_ptr, total)


@triton.jit
def waiting(lock_ptr, out_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:  # waiting
        pass
    tl.store(out_ptr, 1)


def line_of(kernel):
    lines, first = inspect.getsourcelines(kernel.fn)
    return f"test_triton_endless.py:{first + next(at for at, line in enumerate(lines) if f'# {kernel.__name__}' in line)}"


def test_a_loop_over_known_values_is_ended(monkeypatch):
    """No command of the machine is in it, so only the host can count its rounds."""
    monkeypatch.setattr(_flow, "ROUNDS", 1000)
    out = np.zeros(1, "i4")
    with pytest.raises(cubeyard.CubeyardError, match=f"{line_of(turning)}.*more than 1000 rounds of a loop: the kernel seems not to end"):
        turning[(1,)](out, 3)
    assert still_adds()


@pytest.mark.parametrize("rounds", [_flow.ROUNDS + 1, 1 << 40])
def test_a_count_that_is_too_large_is_refused_before_the_loop(rounds):
    with pytest.raises(cubeyard.CubeyardError, match=f"{line_of(counting)}.*a loop of {rounds} rounds; expected at most {_flow.ROUNDS}"):
        counting[(1,)](np.zeros(1, "i4"), rounds)
    assert still_adds()


def test_a_lock_that_nobody_gives_back(monkeypatch):
    monkeypatch.setattr(_flow, "ROUNDS", 50)
    lock, out = np.ones(1, "i4"), np.zeros(1, "i4")
    with pytest.raises(cubeyard.CubeyardError, match=f"{line_of(waiting)}.*more than 50 rounds of a loop: the kernel seems not to end"):
        waiting[(2,)](lock, out)
    assert still_adds() and out[0] == 0


@pytest.mark.parametrize("rounds", [0, 1, 50])
def test_loops_that_end_at_the_limit_are_run(rounds, monkeypatch):
    monkeypatch.setattr(_flow, "ROUNDS", 50)
    out = np.zeros(1, "i4")
    counting[(1,)](out, rounds)
    assert out[0] == sum(range(rounds)) % 3


def still_adds():
    x, out = np.arange(64, dtype="f4"), np.zeros(64, "f4")
    kernels.add[(1,)](x, x, out, 64, BLOCK=64)
    return np.array_equal(out, 2 * x)
