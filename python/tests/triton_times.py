"""Kernels in the style of Triton's tutorials beside our own: the table of docs/triton-coverage.md, which `python triton_times.py` prints."""

import os

os.environ.setdefault("TRITON_DEFAULT_BACKEND", "ahbm")

from dataclasses import dataclass

import numpy as np
import triton
import triton_kernels as kernels
import triton_references as references

import cubeyard
import cubeyard.triton
from cubeyard.triton import _record

ROWS, COPIES = cubeyard.Placement(cube="row_wise", pe="row_wise"), cubeyard.Placement()
MACHINE = {"cubes": 16, "pes": 8}


@dataclass
class Row:
    """A line of the table: a kernel, its problem, its launches, the largest error, and our own kernel."""

    kernel: str
    problem: str
    errors: list[float]
    launches: list[cubeyard.Run]
    own: cubeyard.Run | None = None
    more: str = ""
    """Reason of a time that differs from our own kernel's."""

    @property
    def ns(self):
        return sum(launch.kernel_ns for launch in self.launches)

    @property
    def share(self):
        """Share of the bound: least times of the launches over their times."""
        return sum(launch.kernel_ns * launch.share_of_bound for launch in self.launches) / self.ns

    def text(self):
        own = "none" if self.own is None else f"{self.own.kernel_ns:,.0f} ns, {self.ns / self.own.kernel_ns - 1:+.1%}"
        own += f": {self.more}" if self.more else ""
        figures = f"{max(self.errors):.0e} | {self.ns:,.0f} ns | {self.share:.0%} | {own}"
        return f"| {self.kernel} | {self.problem} | {figures} |"


def normal(seed, *shape, dtype=np.float16):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def error(found, wanted):
    """Returns the largest difference as a share of the largest value."""
    return float(np.abs(found.astype(np.float64) - wanted).max() / np.abs(wanted).max())


def launched(kernel, grid, *arguments, schedule=None, **named):
    with cubeyard.triton.record(schedule=schedule or "blocks") as run:
        kernel[grid](*arguments, **named)
    return run.launches[0]


class Arrays:
    """Arguments as arrays of NumPy, in the machine of the process: by rows, unless a placement is given."""

    schedule = None

    def put(self, array, placement=None):
        return array if placement is None else cubeyard.triton.place(array, placement)

    def got(self, argument):
        return argument


class Tensors:
    """Arguments as tensors of PyTorch on `ahbm`, whose memory is the machine's: placed as the arrays, or dealt by pages."""

    def __init__(self, placed):
        # The schedules of the cases suit their placements. By default, programs run where their data is.
        self.placed, self.schedule = placed, None if placed else "homes"

    def put(self, array, placement=ROWS):
        import torch

        import cubeyard.torch

        tensor = torch.from_numpy(array).to("ahbm")
        return cubeyard.torch.place(tensor, placement) if self.placed else tensor

    def got(self, argument):
        return argument.cpu().numpy()


def vector_add(memory=Arrays()):
    n, block = 1 << 20, 8192
    x, y, zeros = normal(1, n, dtype=np.float32), normal(2, n, dtype=np.float32), np.zeros(n, np.float32)
    out = memory.put(zeros)
    launch = launched(kernels.add, (n // block,), memory.put(x), memory.put(y), out, n, BLOCK=block, schedule=memory.schedule)
    own = cubeyard.run("vector-add", elements=n, block=block, dtype="f32", **MACHINE)
    return Row("vector add", "2²⁰ `f32`, 8192 a program", [error(memory.got(out), x + y)], [launch], own)


def softmax(memory=Arrays()):
    rows, columns = 1024, 1024
    x, out = normal(1, rows, columns, dtype=np.float32), memory.put(np.zeros((rows, columns), np.float32))
    launch = launched(kernels.softmax_row, (rows,), out, memory.put(x), columns, columns, columns, BLOCK=columns, schedule=memory.schedule)
    own = cubeyard.run("softmax", rows=rows, columns=columns, dtype="f32", tile=1, **MACHINE)
    return Row("fused softmax", "1024 × 1024 `f32`, a row a program", [error(memory.got(out), references.softmax(x))], [launch], own)


def place_of(number, rows, columns, group):
    """Returns the block of a program: groups of rows of blocks, each by columns."""
    first = number // (group * columns) * group
    size, within = min(rows - first, group), number % (group * columns)
    return first + within % size, within // size


@cubeyard.jit
def product(a, b, c, bm, bn, bk, group, activation, tl):
    """Multiplies matrices in blocks, as `matmul` and `persistent_matmul` do, written by hand for a PE."""
    a, b, c = a.whole, b.whole, c.whole
    (m, k), n = a.shape, b.shape[1]
    pe = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    for number in range(pe, (m // bm) * (n // bn), tl.num_programs(0) * tl.num_programs(1)):
        row, column = place_of(number, m // bm, n // bn, group)
        i, j = row * bm, column * bn
        total = None
        for at in range(0, k, bk):
            x, y = tl.load(a[i : i + bm, at : at + bk]), tl.load(b[at : at + bk, j : j + bn])
            total = tl.dot(x, y) if total is None else tl.dot_add(x, y, total)
        if activation:
            lazy = total.lazy()
            total = tl.eval(tl.cast(tl.where(lazy >= 0, lazy, lazy * 0.01), "f16"))
        else:
            total = tl.cast(total, "f16")
        tl.store(c[i : i + bm, j : j + bn], total)
        del x, y, total


SIZES, BLOCKS = (1024, 1024, 512), (64, 128, 64)
PRODUCT = "1024 × 512 × 1024 `f16` in blocks of 64 × 64 × 128, copies of A and B"


def by_hand(activation, group):
    m, n, k = SIZES

    @cubeyard.bench
    def bench(context):
        placed = [context.empty(shape, "f16").to(where) for shape, where in (((m, k), COPIES), ((k, n), COPIES), ((m, n), ROWS))]
        context.launch(product, *placed, *BLOCKS, group, activation)

    return cubeyard.run(bench)


def multiplied(memory, name, kernel, activation, **named):
    m, n, k = SIZES
    a, b, c = normal(1, m, k), normal(2, k, n), memory.put(np.zeros((m, n), np.float16))
    blocks = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), BLOCKS, strict=True))
    grid = (m // BLOCKS[0] * (n // BLOCKS[1]),)
    strides = (k, 1, n, 1, n, 1) if kernel is kernels.matmul else ()
    given = (memory.put(a, COPIES), memory.put(b, COPIES), c, m, n, k, *strides)
    launch = launched(kernel, grid, *given, **blocks, **named, schedule=memory.schedule or "waves")
    wanted = np.matmul(*references.wide(a, b))
    wanted = references.leaky_relu(wanted) if activation else wanted
    return Row(name, PRODUCT, [error(memory.got(c), wanted)], [launch], by_hand(activation, named.get("GROUP_M", 1)))


def grouped_product(memory=Arrays()):
    return multiplied(memory, "grouped matmul with leaky ReLU", kernels.matmul, True, GROUP_M=4, ACTIVATION="leaky_relu")


def persistent_product(memory=Arrays()):
    return multiplied(memory, "persistent matmul", kernels.persistent_matmul, False, PROGRAMS=128)


def dropout():
    n, block = 1 << 18, 2048
    x, out = normal(1, n, dtype=np.float32), np.zeros(n, np.float32)
    launch = launched(kernels.dropout, (n // block,), x, out, n, 0.25, 123, BLOCK=block)
    keep = references.philox(123, np.arange(n)) > 0.25
    wanted = np.where(keep, x / np.float32(0.75), 0)
    return Row("dropout from a seed", "2¹⁸ `f32`, 2048 a program", [error(out, wanted)], [launch])


def layer_norm():
    rows, columns = 1024, 1024
    x, w, b = normal(1, rows, columns), normal(2, columns), normal(3, columns)
    y, mean, rstd = np.zeros_like(x), np.zeros(rows, np.float32), np.zeros(rows, np.float32)
    given = (x, y, *(cubeyard.triton.place(one, COPIES) for one in (w, b)), mean, rstd)
    launch = launched(kernels.layer_norm, (rows,), *given, columns, columns, 1e-5, BLOCK=columns)
    wanted = references.layer_norm(x, w, b, 1e-5)
    errors = [error(found, one) for found, one in zip((y, mean, rstd), wanted, strict=True)]
    own = cubeyard.run("layer-norm", rows=rows, columns=columns, dtype="f16", tile=8, **MACHINE)
    more = "8 rows a load, read once; this kernel reads each row three times"
    return Row("layer norm forward", "1024 × 1024 `f16`, a row a program", errors, [launch], own, more)


def layer_norm_backward():
    rows, columns, group = 256, 1024, 64
    x, dy, w = normal(1, rows, columns), normal(2, rows, columns), normal(3, columns)
    _, mean, rstd = (one.astype(np.float32) for one in references.layer_norm(x, w, w, 1e-5))
    dx, locks = np.zeros_like(x), np.zeros(2 * group, np.int32)
    dw, db = np.zeros((group, columns), np.float32), np.zeros((group, columns), np.float32)
    given = (dx, dy, dw, db, x, w, mean, rstd, locks, columns, columns)
    launches = [launched(kernels.layer_norm_backward, (rows,), *given, GROUP=group, BLOCK=columns)]
    sums = np.zeros(columns, np.float32), np.zeros(columns, np.float32)
    launches.append(launched(kernels.layer_norm_weights, (32,), dw, db, *sums, group, columns, BLOCK_M=32, BLOCK_N=32))
    wanted = references.layer_norm_backward(dy, x, w, 1e-5)
    errors = [error(found, one) for found, one in zip((dx, *sums), wanted, strict=True)]
    return Row("layer norm backward", "256 × 1024 `f16`, 64 groups with locks, two launches", errors, launches)


def attention():
    heads, tokens, width = 128, 256, 64
    q, k, v = (normal(seed, heads, tokens, width) for seed in range(3))
    out, logarithm = np.zeros_like(q), np.zeros((heads, tokens), np.float32)
    given = (q, k, v, out, logarithm, 0.125, tokens * width, tokens)
    launch = launched(kernels.attention, (tokens // 64, heads), *given, D=width, BLOCK_M=64, BLOCK_N=64, CAUSAL=True)
    wanted = references.attention(q, k, v, 0.125, True)
    errors = [error(found, one) for found, one in zip((out, logarithm), wanted, strict=True)]
    sizes = {"heads": heads, "sequence": tokens, "head_dim": width, "block_q": 64, "block_k": 64, "causal": "yes"}
    own = cubeyard.run("flash-attention", **sizes, **MACHINE)
    more = "scores of the next block while the vector unit works on this one, and K transposed in memory; this kernel transposes K"
    return Row("flash attention forward", "128 heads, 256 tokens, 64 wide, causal, blocks of 64", errors, [launch], own, more)


def attention_backward():
    heads, tokens, width, scale = 128, 128, 64, 0.125
    q, k, v, do = (normal(seed, heads, tokens, width) for seed in range(4))
    out, logarithm = references.attention(q, k, v, scale, True)
    delta, grid = np.zeros((heads, tokens), np.float32), (tokens // 64, heads)
    launches = [launched(kernels.attention_delta, grid, out.astype(np.float16), do, delta, tokens, D=width, BLOCK=64)]
    found = [np.zeros(q.shape, np.float32) for _ in range(3)]
    given = (q, k, v, do, *found, logarithm.astype(np.float32), delta, scale, tokens)
    launches.append(launched(kernels.attention_backward, grid, *given, D=width, BLOCK=64, CAUSAL=True))
    wanted = references.attention_backward(q, k, v, do, scale, True)
    errors = [error(one, other) for one, other in zip(found, wanted, strict=True)]
    return Row("flash attention backward", "128 heads, 128 tokens, 64 wide, causal, blocks of 64, two launches", errors, launches)


def grouped_gemm():
    shapes = [(512, 512, 256), (256, 256, 512), (128, 1024, 128)]
    errors = []

    @cubeyard.bench
    def bench(context):
        def deployed(array):
            return context.from_numpy(np.ascontiguousarray(array)).to(ROWS)

        a = [deployed(normal(1, m, k)) for m, n, k in shapes]
        b = [deployed(normal(2, k, n)) for m, n, k in shapes]
        c = [context.zeros((m, n), "f16").to(ROWS) for m, n, k in shapes]
        addresses = [deployed(np.array([one.va_base for one in group])) for group in (a, b, c)]
        sizes = deployed(np.array(shapes, np.int32).ravel())
        leading = deployed(np.array([(k, n, n) for m, n, k in shapes], np.int32).ravel())
        blocks = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64}
        kernels.grouped_matmul[(128,)](*addresses, sizes, leading, 3, PROGRAMS=128, **blocks)
        errors.extend(error(z.numpy(), np.matmul(*references.wide(x.numpy(), y.numpy()))) for x, y, z in zip(a, b, c, strict=True))

    launch = _record.with_own_bounds(cubeyard.run(bench, data=True))
    return Row("grouped GEMM", "512 × 256 × 512, 256 × 512 × 256, 128 × 128 × 1024 `f16`, blocks of 64", errors, [launch])


CASES = (
    vector_add, softmax, grouped_product, dropout, layer_norm, layer_norm_backward, attention, attention_backward,
    grouped_gemm, persistent_product,
)  # fmt: skip

EQUAL = (vector_add, softmax, grouped_product, persistent_product)
"""Those that take at most a tenth longer than our own kernels, with the same blocks and placement."""


def table():
    """Returns the table of all kernels."""
    head = "| kernel | problem | largest error | simulated time | share of bound | our own kernel, and the difference |\n|---|---|---|---|---|---|\n"
    return head + "".join(case().text() + "\n" for case in CASES)


def shared_line(placed, dealt):
    """Returns a line of the table of shared memory: tensors on `ahbm` placed as the arrays, and as PyTorch allocates them."""
    own = placed.own.kernel_ns
    return f"| {placed.kernel} | {own:,.0f} ns | {placed.ns:,.0f} ns, {placed.ns / own - 1:+.1%} | {dealt.ns:,.0f} ns |"


def shared_table():
    """Returns the table of the kernels that have an equal of our own, on memory that PyTorch shares with the machine."""
    head = "| kernel | our own kernel | tensors on `ahbm`, placed as its arrays | tensors on `ahbm`, as allocated |\n|---|---|---|---|\n"
    return head + "".join(shared_line(case(Tensors(placed=True)), case(Tensors(placed=False))) + "\n" for case in EQUAL)


if __name__ == "__main__":
    print(table(), end="\n")
    print(shared_table(), end="")
