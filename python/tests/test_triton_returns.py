"""`return` inside an `if`, in kernels and in functions that they call, over known and over loaded values."""

import os

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"

import importlib.util
import random

import numpy as np
import pytest
import triton
import triton.language as tl

import cubeyard
import cubeyard.triton
from cubeyard.triton._analysis import _operations
from cubeyard.triton._parse import parse

BLOCK, PROGRAMS = 16, 12


@triton.jit
def returning(x_ptr, out_ptr, rows, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    if row >= rows:
        return
    at = row * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at) * 2)


@triton.jit
def masked(x_ptr, out_ptr, rows, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = row * BLOCK + tl.arange(0, BLOCK)
    inside = (row < rows) & (at >= 0)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=inside) * 2, mask=inside)


@pytest.mark.parametrize("rows", [0, 1, 7, 12])
def test_an_early_return_equals_a_mask(rows):
    x = np.random.default_rng(rows).standard_normal((PROGRAMS, BLOCK)).astype(np.float32)
    early, late = np.zeros_like(x), np.zeros_like(x)
    with cubeyard.triton.record() as run:
        returning[(PROGRAMS,)](x, early, rows, BLOCK=BLOCK)
        masked[(PROGRAMS,)](x, late, rows, BLOCK=BLOCK)
    assert (early == late).all() and (early[:rows] == 2 * x[:rows]).all() and not early[rows:].any()
    assert run.launches[0].read_bytes == run.launches[1].read_bytes == rows * BLOCK * 4
    assert not any("runs live" in note for note in run.launches[0].notes)


KERNEL = """
import triton
import triton.language as tl

@triton.jit
def helper(a, b, x):
{helper}

@triton.jit
def kernel(x_ptr, out_ptr, a_ptr, b_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    a = {a}
    b = {b}
{kernel}
"""
"""Text of a module, with the bodies of a function and of a kernel, and where the numbers come from."""

REFERENCE = """
def helper(a, b, x):
{helper}

def kernel(x, a, b, n, STORE):
{kernel}
"""
"""The same bodies in Python."""


class Writer:
    """Writes statements with branches and returns. Each has a meaning in Triton, and in Python on arrays."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def condition(self):
        return f"{self.random.choice('ab')} {self.random.choice(['<', '>', '=='])} {self.random.randrange(6)}"

    def statement(self, calls):
        kind = self.random.randrange(4 if calls else 2)
        number = self.random.choice(["1.0", "0.5", "-2.0"])
        loop = f"for i in range(n):\n    x = helper(a, i, x) + {number}"
        return [f"x = x + {number}", f"x = x * {number}", f"x = helper(b, {self.random.randrange(5)}, x)", loop][kind]

    def body(self, depth, calls, end):
        """Returns lines. `end` are the lines of a return."""
        lines = []
        for _ in range(self.random.randrange(1, 4)):
            lines += self.statement(calls).split("\n")
            if depth:
                lines.append(f"if {self.condition()}:")
                lines += indented(self.body(depth - 1, calls, end))
                if self.random.random() < 0.4:
                    lines += ["else:", *indented(self.body(depth - 1, calls, end))]
        if depth < 2 and self.random.random() < 0.5:
            lines += end
        return lines


def indented(lines):
    return [f"    {line}" for line in lines]


def written(seed):
    """Returns the bodies of the function and of the kernel."""
    writer = Writer(seed)
    helper = [*writer.body(2, False, ["return x * 3.0"]), "return x"]
    kernel = [*writer.body(2, True, ["STORE(x)", "return"]), "STORE(-x)"]
    return {"helper": "\n".join(indented(helper)), "kernel": "\n".join(indented(kernel))}


def module_of(text, name, folder):
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", range(24))
def test_random_returns(seed, tmp_path):
    text = written(seed)
    loaded = seed % 3
    sources = {"a": "tl.load(a_ptr + pid)" if loaded else "pid // 2", "b": "tl.load(b_ptr + pid)" if loaded == 2 else "pid % 5"}
    stored = {**text, "kernel": text["kernel"].replace("STORE(", "tl.store(out_ptr + at, ")}
    module = module_of(KERNEL.format(**stored, **sources), f"returns_{seed}", tmp_path)
    x = np.random.default_rng(seed).standard_normal((PROGRAMS, BLOCK)).astype(np.float32)
    a, b = np.arange(PROGRAMS, dtype=np.int32) // 2, np.arange(PROGRAMS, dtype=np.int32) % 5
    out = np.zeros_like(x)
    with cubeyard.triton.record() as run:
        module.kernel[(PROGRAMS,)](x, out, a, b, 2, BLOCK=BLOCK)
    space: dict = {}
    exec(REFERENCE.format(**text), space)
    for row in range(PROGRAMS):
        found = []
        space["kernel"](x[row], int(a[row]), int(b[row]), 2, found.append)
        np.testing.assert_allclose(out[row], found[-1], rtol=1e-5, err_msg=f"program {row}")
    assert any("runs live" in note for note in run.launches[0].notes) == bool(loaded)


CALLS = 12


@triton.jit
def bounded(x, a):
    if a > 3:
        return x * 2
    return x + 1


@triton.jit
def calling(x_ptr, out_ptr, BLOCK: tl.constexpr, CALLS: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    for number in tl.static_range(CALLS):
        x = bounded(x, (pid + number) % 7)
    tl.store(out_ptr + at, x)


def test_blocks_after_a_call_are_read_once():
    # Each call has two returns. A copy of the rest for each would be 2 ** 12 stores.
    x = np.ones((PROGRAMS, BLOCK), np.float32)
    out = np.zeros_like(x)
    compiled = calling[(PROGRAMS,)](x, out, BLOCK=BLOCK, CALLS=CALLS)
    names = [one.name for one in _operations(parse(compiled.asm["ttir"]).body)]
    assert names.count("tt.store") == 1 and names.count("arith.mulf") == CALLS
    for pid in range(PROGRAMS):
        wanted = np.float32(1)
        for number in range(CALLS):
            wanted = wanted * 2 if (pid + number) % 7 > 3 else wanted + 1
        assert (out[pid] == wanted).all()


@triton.jit
def assuming(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    tl.assume(n > 0)
    tl.assume(pid >= 0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.assume(tl.sum(x, 0) < 0)
    tl.store(out_ptr + at, -x, mask=at < n)


def test_assumptions_have_no_effect():
    x, out = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    with cubeyard.triton.record() as run:
        assuming[(7,)](x, out, 100, BLOCK=BLOCK)
    assert (out == -x).all() and not any("runs live" in note for note in run.launches[0].notes)


@triton.jit
def larger(a, b):
    if a > b:
        return a
    return b


@triton.jit
def combining(x_ptr, out_ptr, BLOCK: tl.constexpr):
    tl.store(out_ptr, tl.reduce(tl.load(x_ptr + tl.arange(0, BLOCK)), 0, larger))


def test_a_reduction_that_branches_is_refused_by_its_line():
    x, out = np.arange(16, dtype=np.float32), np.zeros(1, np.float32)
    with pytest.raises(cubeyard.CubeyardError, match=r"test_triton_returns\.py:\d+: .*expected .*conditions that are known"):
        combining[(1,)](x, out, BLOCK=16)
