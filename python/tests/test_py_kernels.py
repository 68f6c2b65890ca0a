"""Kernels in Python: their numbers, their errors, and when a recording is reused."""

from __future__ import annotations

import dataclasses
import enum
import gc
import importlib.util
import math
import signal
import sys
import threading
import types
import weakref
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import cubeyard
import cubeyard.channels
import cubeyard.kernels
from cubeyard import errors
from cubeyard._fingerprint import fingerprint

EXAMPLES = Path(__file__).parent.parent / "examples"
ROWS = cubeyard.Placement(cube="row_wise", pe="row_wise")
ONE = cubeyard.Placement(cubes=1, pes=1)
HERE = {"cubes": [0], "pes": [0]}


def load(name: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def context() -> cubeyard.Context:
    return cubeyard.Context()


def one(context: cubeyard.Context, values: Any, dtype: str = "f4") -> cubeyard.Tensor:
    return context.from_numpy(np.asarray(values, dtype=dtype)).to(ONE)


def compute(body: Any, *inputs: Any, dtype: str = "f4", shape: Any = None) -> np.ndarray:
    """Runs a kernel on one PE that makes one tile of others."""
    context = cubeyard.Context()
    tensors = [one(context, of, dtype) for of in inputs]
    made = context.empty(np.shape(inputs[0]) if shape is None else shape, dtype).to(ONE)

    def kernel(*all, tl):
        tl.store(all[-1], body(tl, *(tl.load(of) for of in all[:-1])))

    context.launch(kernel, *tensors, made, **HERE)
    return made.numpy()


def failing(context: cubeyard.Context, kernel: Any, *arguments: Any) -> errors.KernelError:
    with pytest.raises(errors.KernelError) as caught:
        context.launch(kernel, *arguments, **HERE)
    assert works(context)
    return caught.value


def works(context: cubeyard.Context) -> bool:
    """Whether a kernel runs on a context."""
    x = one(context, [1, 2])

    def negate(x, tl):
        tl.store(x, -tl.load(x))

    context.launch(negate, x, **HERE)
    return x.numpy().tolist() == [-1, -2]


def line_of(function: Any, text: str) -> str:
    """The file and line of a kernel that contains a text."""
    import inspect

    function = getattr(function, "function", function)
    lines, first = inspect.getsourcelines(function)
    at = next(number for number, line in enumerate(lines) if text in line)
    return f"{Path(__file__).name}:{first + at}"


# Numbers.


def test_the_kernel_of_the_issue_scales_rows_on_all_pes(context: cubeyard.Context) -> None:
    @cubeyard.jit
    def scale(x, out, n, tl):
        for row in range(x.shape[0]):
            tl.store(out[row], tl.load(x[row]) * n)

    a = np.arange(256 * 64, dtype=np.float32).reshape(256, 64)
    x, y = context.from_numpy(a).to(ROWS), context.zeros(a.shape, dtype="f32").to(ROWS)
    report = context.launch(scale, x, y, 3)
    np.testing.assert_array_equal(y.numpy(), a * 3)
    assert len(report.pes) == 128 and report.kernel == "scale"
    assert 0 < report.max_ps <= report.done_ps - report.started_ps


X = np.array([[0.5, 1.5, -2.0], [3.0, 0.25, 4.0]], dtype=np.float32)
Y = np.array([[2.0, 4.0, 8.0], [0.5, 1.0, 2.0]], dtype=np.float32)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (lambda tl, x, y: x + y, X + Y),
        (lambda tl, x, y: x - y, X - Y),
        (lambda tl, x, y: x * y, X * Y),
        (lambda tl, x, y: x / y, X / Y),
        (lambda tl, x, y: 2 + x, 2 + X),
        (lambda tl, x, y: 2 - x, 2 - X),
        (lambda tl, x, y: 2.5 * x, np.float32(2.5) * X),
        (lambda tl, x, y: 1 / y, 1 / Y),
        (lambda tl, x, y: np.float64(2) * x, 2 * X),
        (lambda tl, x, y: x % y, np.mod(X, Y)),
        (lambda tl, x, y: y**2, Y**2),
        (lambda tl, x, y: 2**y, 2**Y),
        (lambda tl, x, y: -x, -X),
        (lambda tl, x, y: +x, X),
        (lambda tl, x, y: abs(x), abs(X)),
        (lambda tl, x, y: tl.maximum(x, 1), np.maximum(X, 1)),
        (lambda tl, x, y: tl.minimum(x, y), np.minimum(X, Y)),
        (lambda tl, x, y: tl.where(x > y, x, 0), np.where(X > Y, X, 0)),
        (lambda tl, x, y: tl.where(x <= 0.5, 1, y), np.where(X <= 0.5, 1, Y)),
        (lambda tl, x, y: tl.where(1 < x, x, y), np.where(X > 1, X, Y)),
        (lambda tl, x, y: tl.where(x == 3, x, y), np.where(X == 3, X, Y)),
        (lambda tl, x, y: tl.where(x != 3, x, y), np.where(X != 3, X, Y)),
        (lambda tl, x, y: tl.fma(x, y, 1), X * Y + 1),
        (lambda tl, x, y: tl.clamp(x, 0, 1), np.clip(X, 0, 1)),
        (lambda tl, x, y: tl.relu(x), np.maximum(X, 0)),
        (lambda tl, x, y: tl.floor(x), np.floor(X)),
        (lambda tl, x, y: tl.ceil(x), np.ceil(X)),
        (lambda tl, x, y: tl.cumsum(x, -1), np.cumsum(X, 1)),
        (lambda tl, x, y: tl.cumprod(x, 0), np.cumprod(X, 0)),
        (lambda tl, x, y: tl.broadcast_to(tl.max(x, 1, keep=True), (2, 3)), X.max(1, keepdims=True) + 0 * X),
        (lambda tl, x, y: x - tl.reshape(tl.min(x, 1), (2, 1)), X - X.min(1, keepdims=True)),
        (lambda tl, x, y: x + tl.arange(1, 3, "f32"), X + np.array([1, 2, 3], "f4")),
        (lambda tl, x, y: tl.paste(x, (0, 1), tl.slice(y, (0, 0), (2, 2))), np.column_stack([X[:, :1], Y[:, :2]])),
        (lambda tl, x, y: tl.reshape(tl.permute(x, (1, 0)), (2, 3)), X.T.reshape(2, 3)),
        (lambda tl, x, y: tl.cast(tl.cast(x, "i32"), np.float32), np.trunc(X)),
        (lambda tl, x, y: x @ tl.zeros((3, 3), "f32") + tl.full((2, 3), 7, "f32"), 7 + 0 * X),
    ],
)
def test_operators_and_functions_compute_what_numpy_computes(body: Any, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(compute(body, X, Y), expected)


@pytest.mark.parametrize("name", ["exp", "exp2", "sqrt", "log", "log2", "tanh", "sin", "cos"])
def test_functions_of_one_tile_are_those_of_numpy(name: str) -> None:
    found = compute(lambda tl, x: getattr(tl, name)(x), Y)
    np.testing.assert_allclose(found, getattr(np, name)(Y), rtol=2e-6)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (lambda tl, x, y: (x & y) | 4, (np.array([5, 6, 7]) & 3) | 4),
        (lambda tl, x, y: x ^ y, np.array([5, 6, 7]) ^ 3),
        (lambda tl, x, y: ~x, ~np.array([5, 6, 7])),
        (lambda tl, x, y: (x << 2) >> 1, (np.array([5, 6, 7]) << 2) >> 1),
        (lambda tl, x, y: 1 << y, 1 << np.array([3, 3, 3])),
    ],
)
def test_bits_of_integers(body: Any, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(compute(body, [5, 6, 7], [3, 3, 3], dtype="i4"), expected)


def test_products_and_transposes() -> None:
    a, b = np.random.default_rng(1).random((2, 8, 8), dtype=np.float32)
    np.testing.assert_allclose(compute(lambda tl, a, b: a @ b, a, b), a @ b, rtol=1e-6)
    np.testing.assert_allclose(compute(lambda tl, a, b: tl.dot_add(a, b.T, a), a, b), a @ b.T + a, rtol=1e-6)
    np.testing.assert_allclose(compute(lambda tl, a, b: tl.trans(a), a, b), a.T)


def test_parts_of_references_are_those_of_numpy(context: cubeyard.Context) -> None:
    a = np.arange(8 * 12, dtype=np.float32).reshape(8, 12)
    x = one(context, a)
    picks = [np.s_[3], np.s_[-1], np.s_[2:5], np.s_[1:3, 4:8], np.s_[:, 5], np.s_[2, 3:], np.s_[..., :2], np.s_[4, 5]]
    for pick in picks:
        out = context.empty(a[pick].shape or (1,)).to(ONE)

        def kernel(x, out, tl, pick=pick):
            part = x[pick]
            assert part.shape == a[pick].shape, (part.shape, pick)
            tl.store(out, tl.reshape(tl.load(part), out.shape))

        context.launch(kernel, x, out, **HERE)
        np.testing.assert_array_equal(out.numpy().reshape(a[pick].shape), a[pick])


def test_references_have_rows_blocks_strides_and_a_transpose(context: cubeyard.Context) -> None:
    a = np.arange(24, dtype=np.float32).reshape(4, 6)
    x, out = one(context, a), context.empty((6, 4)).to(ONE)

    def kernel(x, out, tl):
        assert (len(x), x.dtype, x.held, x.T.shape) == (4, "f32", True, (6, 4))
        assert [row.shape for row in x] == [(6,)] * 4
        assert x.block((1, 2), (2, 3)).address == x.address + (6 + 2) * 4
        assert x.at(7, 3).address == x.address + 28
        assert x.whole.shape == (4, 6) and x.whole.address == x.address
        assert x.strided((12, 1)).shape == (4, 6)
        assert tl.ref(x.address, (4, 6), "f32").shape == x.shape
        assert tl.mask((4, 6), (2, 6)).count == 12 and x.inside((2, 2), (4, 4)).count == 8
        tl.store(out, tl.load(x.T))

    context.launch(kernel, x, out, **HERE)
    np.testing.assert_array_equal(out.numpy(), a.T)


def test_masks_select_what_is_loaded_and_stored(context: cubeyard.Context) -> None:
    x, out = one(context, range(6)), one(context, [9] * 8)
    odd = np.arange(8) % 2 == 1

    def kernel(x, out, tl):
        tile = tl.load(x.block(0, 8), mask=x.inside(0, 8), other=-1)
        tl.store(out, tile, mask=odd)

    context.launch(kernel, x, out, **HERE)
    assert out.numpy().tolist() == [9, 1, 9, 3, 9, 5, 9, -1]


def test_tiled_operations_with_epilogues(context: cubeyard.Context) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.random((64, 96), dtype=np.float32), rng.random((96, 80), dtype=np.float32)
    bias = rng.random(80, dtype=np.float32)
    x, y, row = one(context, a), one(context, b), one(context, bias)
    out, column, total = (context.empty(shape).to(ONE) for shape in [(64, 80), (64, 1), (64, 96)])

    def kernel(x, y, row, out, column, total, tl):
        product = tl.gemm(x, y).after_tile("add", tl.load(row)).after_tile("mul", -1).after_tile("relu").ahead(3)
        tl.wait(product.store(out))
        tl.store(column, tl.reduce_rows("sum", x).tiles(32, 96).tile("f32"))
        tl.map("add", [x, tl.load(x)]).store(total)

    context.launch(kernel, x, y, row, out, column, total, **HERE)
    np.testing.assert_allclose(out.numpy(), np.maximum(-(a @ b + bias), 0), rtol=1e-5)
    np.testing.assert_allclose(column.numpy()[:, 0], a.sum(1), rtol=1e-5)
    np.testing.assert_array_equal(total.numpy(), a + a)


def test_numbers_arrive_as_int_or_float(context: cubeyard.Context) -> None:
    seen: list[Any] = []

    def kernel(a, b, c, tl):
        seen.append((a, b, c, type(a), type(b), type(c)))

    context.launch(kernel, 3, 2.5, 2.0, **HERE)
    assert seen == [(3, 2.5, 2, int, float, int)]


def test_ids_of_programs(context: cubeyard.Context) -> None:
    seen: list[Any] = []

    def kernel(tl):
        seen.append((tl.program_id(), tl.program_id(1), tl.num_programs(0), tl.num_programs(1), tl.cdiv(7, 2)))
        assert len(tl.gemm_tile()) == 3 and tl.scratch_bytes() > 0

    context.launch("by name", kernel, cubes=[1, 2], pes=[0, 3])
    assert sorted(seen) == [(pe, cube, 2, 2, 4) for pe in (0, 1) for cube in (0, 1)]


# Live kernels.


def test_a_live_kernel_branches_on_values(context: cubeyard.Context) -> None:
    x, out = one(context, [[1, 2], [3, 4]]), one(context, [[0, 0], [0, 0]])

    @cubeyard.jit(live=True, name="choose")
    async def choose(x, out, tl):
        for row in range(2):
            tile = tl.load(x[row])
            values = await tl.value(tile)
            assert values.dtype == np.float32 and values.shape == (2,)
            tl.store(out[row], tile * 10 if values[0] > 2 else tile)

    report = context.launch(choose, x, out, **HERE)
    assert out.numpy().tolist() == [[1, 2], [30, 40]] and report.kernel == "choose"


def test_values_have_the_type_and_shape_of_their_tile(context: cubeyard.Context) -> None:
    x = one(context, [[1.0, -2.5], [300.0, 0.125]])
    seen: dict[str, Any] = {}

    @cubeyard.jit(live=True)
    async def look(x, tl):
        tile = tl.load(x)
        for dtype in ["f16", "bf16", "fp8_e5m2", "i8", "u16", "i64", "bool", "f64"]:
            of = tile if dtype != "u16" else abs(tile)
            seen[dtype] = await tl.value(tl.reshape(tl.cast(of, dtype), 4))
        await tl.wait_for(tile)

    context.launch(look, x, **HERE)
    assert {dtype: (of.dtype.name, of.tolist()) for dtype, of in seen.items()} == {
        "f16": ("float16", [1, -2.5, 300, 0.125]),
        "bf16": ("float32", [1, -2.5, 300, 0.125]),
        "fp8_e5m2": ("float32", [1, -2.5, 320, 0.125]),
        "i8": ("int8", [1, -2, 127, 0]),
        "u16": ("uint16", [1, 2, 300, 0]),
        "i64": ("int64", [1, -2, 300, 0]),
        "bool": ("bool", [True, True, True, True]),
        "f64": ("float64", [1, -2.5, 300, 0.125]),
    }


def test_a_live_kernel_takes_the_time_of_a_recorded_one_with_the_same_commands(context: cubeyard.Context) -> None:
    x = one(context, np.arange(64.0))

    async def plain(x, tl):
        tile = tl.load(x)
        await tl.wait_for(tile)
        tl.store(x, tile + 1)

    live = context.launch(cubeyard.jit(live=True)(plain), x, **HERE)
    recorded = context.launch(plain, x, **HERE)
    assert live.max_ps == recorded.max_ps > 0
    assert x.numpy().tolist() == list(np.arange(64.0) + 2)


def test_many_pes_run_live_together(context: cubeyard.Context) -> None:
    a = np.arange(256 * 8, dtype=np.float32).reshape(256, 8)
    x = context.from_numpy(a).to(ROWS)

    @cubeyard.jit(live=True)
    async def kernel(x, tl):
        for row in x:
            tile = tl.load(row)
            if (await tl.value(tl.sum(tile, 0))) % 2 == 0:
                tl.store(row, -tile)

    context.launch(kernel, x)
    np.testing.assert_array_equal(x.numpy(), np.where(a.sum(1, keepdims=True) % 2 == 0, -a, a))


def test_a_live_kernel_is_an_async_function() -> None:
    with pytest.raises(errors.InputError, match=r"kernel f, .*test_py_kernels.py:\d+: a live kernel is an `async def`"):

        @cubeyard.jit(live=True)
        def f(tl):
            pass


def test_values_in_a_recorded_kernel_name_live(context: cubeyard.Context) -> None:
    async def looks(x, tl):
        await tl.value(tl.load(x))  # here

    error = failing(context, looks, one(context, [1]))
    assert "live=True" in str(error) and line_of(looks, "# here") in str(error)


def test_values_without_data_are_refused() -> None:
    context = cubeyard.Context(data=False)
    x = context.empty(4).to(ONE)

    @cubeyard.jit(live=True)
    async def looks(x, tl):
        await tl.value(tl.load(x))

    with pytest.raises(errors.KernelError, match="needs data mode"):
        context.launch(looks, x, **HERE)


def test_awaiting_something_foreign_is_refused(context: cubeyard.Context) -> None:
    class Other:
        def __await__(self):
            yield 1

    @cubeyard.jit(live=True)
    async def waits(tl):
        await Other()

    assert "awaits only tl.value, tl.wait and tl.wait_for; found int" in str(failing(context, waits))


def test_a_value_is_awaited_once(context: cubeyard.Context) -> None:
    @cubeyard.jit(live=True)
    async def waits(x, tl):
        value = tl.value(tl.load(x))
        await value
        await value  # again

    error = failing(context, waits, one(context, [1]))
    assert "awaited twice" in str(error) and line_of(waits, "# again") in str(error)


# Errors.


@pytest.mark.parametrize(
    "look",
    [lambda t: bool(t > 1), lambda t: float(t), lambda t: int(t), lambda t: [0, 1][t], lambda t: list(t), np.asarray],
)
def test_reading_elements_while_recording_names_live(context: cubeyard.Context, look: Any) -> None:
    def looks(x, tl):
        look(tl.load(x))

    error = failing(context, looks, one(context, [1, 2]))
    assert "live=True" in str(error) and "looks on sip0.cube0.pe0, test_py_kernels.py:" in str(error)


def test_an_error_of_tl_names_kernel_pe_and_line(context: cubeyard.Context) -> None:
    def adds(x, y, tl):
        left = tl.load(x)
        left + tl.load(y)  # here

    error = failing(context, adds, one(context, [1, 2]), one(context, [1, 2, 3]))
    assert str(error).startswith(f"adds on sip0.cube0.pe0, {line_of(adds, '# here')}: "), error
    assert isinstance(error.__cause__, errors.KernelError)


def test_a_kernel_that_catches_an_error_of_tl_has_failed(context: cubeyard.Context) -> None:
    def catches(x, tl):
        try:
            tl.cdiv(1, 0)  # here
        except errors.KernelError:
            pass
        tl.store(x, tl.load(x))

    error = failing(context, catches, one(context, [1]))
    assert "cdiv by 0" in str(error) and line_of(catches, "# here") in str(error)


def test_an_exception_is_the_cause_and_has_its_traceback(context: cubeyard.Context) -> None:
    def inner(n):
        return 1 // n  # here

    def divides(x, n, tl):
        tl.load(x)
        inner(n)

    error = failing(context, divides, one(context, [1]), 0)
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert f"divides on sip0.cube0.pe0, {line_of(inner, '# here')}: ZeroDivisionError" in str(error)
    frames = []
    trace = error.__cause__.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    assert frames == ["divides", "inner"]


def test_an_exception_in_a_live_kernel_is_the_cause_too(context: cubeyard.Context) -> None:
    @cubeyard.jit(live=True)
    async def raises(x, tl):
        await tl.value(tl.load(x))
        raise KeyError("x")  # here

    error = failing(context, raises, one(context, [1]))
    assert isinstance(error.__cause__, KeyError) and line_of(raises, "# here") in str(error)


@pytest.mark.parametrize("is_live", [False, True])
def test_ctrl_c_in_a_kernel_is_raised_as_it_is(context: cubeyard.Context, is_live: bool) -> None:
    async def interrupted(x, tl):
        tl.load(x)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        context.launch(cubeyard.jit(live=is_live)(interrupted), one(context, [1]), **HERE)
    assert works(context)


def test_a_kernel_returns_nothing(context: cubeyard.Context) -> None:
    def gives(x, tl):
        return tl.load(x)

    error = failing(context, gives, one(context, [1]))
    assert "the kernel returns a Tile" in str(error) and line_of(gives, "def gives") in str(error)


def test_a_kernel_keeps_no_tile(context: cubeyard.Context) -> None:
    kept: list[Any] = []

    def keeps(x, tl):
        kept.append(tl.load(x))  # here

    error = failing(context, keeps, one(context, [1]))
    assert f"the tile f32[1] of {line_of(keeps, '# here')} is kept beyond the end" in str(error)

    def uses(x, tl):
        tl.store(x, kept[0])

    error = failing(context, uses, one(context, [1]))
    assert "that of keeps on sip0.cube0.pe0, which has ended" in str(error)
    with pytest.raises(errors.KernelError, match="which has ended"):
        kept[0] + 1
    kept.clear()


def test_tiles_in_cycles_of_references_are_not_kept(context: cubeyard.Context) -> None:
    def cycles(x, tl):
        held: list[Any] = [tl.load(x)]
        held.append(held)

    context.launch(cycles, one(context, [1]), **HERE)


def test_tl_and_tiles_belong_to_their_thread(context: cubeyard.Context) -> None:
    caught: list[str] = []

    def threads(x, tl):
        tile = tl.load(x)

        def use() -> None:
            try:
                tile + 1
            except errors.KernelError as error:
                caught.append(str(error))

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()

    context.launch(threads, one(context, [1]), **HERE)
    assert "which does not run here" in caught[0]


def test_the_context_is_busy_within_its_kernel(context: cubeyard.Context) -> None:
    def nests(x, tl):
        context.launch(nests, 1)

    error = failing(context, nests, one(context, [1]))
    assert isinstance(error.__cause__, errors.BusyError)


def test_another_context_runs_within_a_kernel(context: cubeyard.Context) -> None:
    other = cubeyard.Context()

    def nests(x, tl):
        tile = tl.load(x)
        assert works(other)
        tl.store(x, tile * 2)

    x = one(context, [4])
    context.launch(nests, x, **HERE)
    assert x.numpy().tolist() == [8]


def test_a_pe_without_a_part_says_so(context: cubeyard.Context) -> None:
    x = one(context, [1, 2])

    def kernel(x, tl):
        if not x.held:
            assert tl.load(x.whole).shape == (2,)
            x.shape

    with pytest.raises(errors.KernelError, match="argument `x`: sip0.cube0.pe1 holds no part of it"):
        context.launch(kernel, x, cubes=[0], pes=[0, 1])


def test_a_tensor_that_is_not_one_range_has_no_whole(context: cubeyard.Context) -> None:
    columns = context.zeros((128, 128)).to(cubeyard.Placement(cube="column_wise", pe="column_wise"))

    def kernel(x, tl):
        x.whole

    with pytest.raises(errors.KernelError, match="argument `x`: it is not one contiguous row-major range"):
        context.launch(kernel, columns)


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (lambda x, tl: x[2], "index: expected a whole number from -2 to 2 - 1"),
        (lambda x, tl: x[::2], "a slice with step 1"),
        (lambda x, tl: x[0, 0], "an index of at most 1 dimensions"),
        (lambda x, tl: x["a"], "index: expected"),
        (lambda x, tl: x.block(-1, 1), "start: expected whole numbers, 0 or more; found -1"),
        (lambda x, tl: x.block((0, 0), (1, 1)), "start: expected 1 numbers"),
        (lambda x, tl: tl.zeros(4, "f31"), "dtype: expected one of"),
        (lambda x, tl: tl.zeros(4, object()), "dtype: expected the name of an element type"),
        (lambda x, tl: tl.zeros((1, -4), "f32"), "shape: expected whole numbers, 0 or more; found (1, -4)"),
        (lambda x, tl: tl.sum(tl.load(x), -2), "axis: expected a number from -1"),
        (lambda x, tl: tl.sum(tl.load(x), 1), "axis"),
        (lambda x, tl: tl.add(tl.load(x), "1"), "y: expected a tile or a number, found str"),
        (lambda x, tl: tl.add(1, 2), "one operand must be a tile"),
        (lambda x, tl: tl.load(x) + "1", "TypeError"),
        (lambda x, tl: tl.load(x, mask=[1, 2]), "mask: expected a mask"),
        (lambda x, tl: tl.send("Q", tl.load(x)), "port: expected a number from 0 to 65535, or one of N, E, S, W"),
        (lambda x, tl: tl.gemm(x, 3), "b: expected a Ref or a tile; found 3"),
        (lambda x, tl: tl.map("mul", [x]), "operands: mul takes 2, found 1"),
        (lambda x, tl: tl.map("nothing", [x]), "`nothing` is no elementwise operation"),
        (lambda x, tl: tl.reduce_rows("mean", x), "op: expected one of sum, max"),
        (lambda x, tl: x[0:1].whole, "only arguments of a kernel have it"),
        (lambda x, tl: tl.program_id(2), "axis 2: expected 0"),
        (lambda x, tl: tl.load(tl.ref(0, 4, "f32")), "outside every tensor"),
        (lambda x, tl: tl.zeros(1 << 26, "f32"), "TCM"),
    ],
)
def test_bad_arguments_are_named(context: cubeyard.Context, act: Any, text: str) -> None:
    def kernel(x, tl):
        act(x, tl)

    assert text in str(failing(context, kernel, one(context, [1, 2])))


def test_a_tiled_operation_is_issued_once(context: cubeyard.Context) -> None:
    def kernel(x, out, tl):
        product = tl.gemm(x, x)
        product.store(out)
        product.store(out)

    x, out = one(context, np.eye(4)), one(context, np.eye(4))
    assert "issued twice" in str(failing(context, kernel, x, out))


@pytest.mark.parametrize(
    ("arguments", "named", "text"),
    [
        ((lambda x, tl: None,), {}, "launched with 0 arguments: missing a required argument: 'x'"),
        ((lambda tl: None, 1), {}, "launched with 1 arguments"),
        ((3,), {}, "kernel=3: expected a kernel or a function, found int"),
        (("name",), {}, "expected a function after the name of a kernel"),
        ((lambda x: None, 1), {}, "expected a parameter named tl"),
        ((lambda x, tl: None, "one"), {}, "argument `x`: expected a tensor or a number, found str"),
        ((lambda tl: None,), {"cubes": [-1]}, "cubes=[-1]: expected"),
        ((lambda tl: None,), {"pes": []}, "pes=[]: expected at least one number"),
        ((lambda tl: None,), {"sip": 99}, "99"),
    ],
)
def test_bad_launches_are_refused(context: cubeyard.Context, arguments: Any, named: Any, text: str) -> None:
    with pytest.raises(errors.InputError) as caught:
        context.launch(*arguments, **named)
    assert text in str(caught.value)


def test_a_race_names_both_lines(context: cubeyard.Context) -> None:
    x = one(context, [1, 2])

    def races(x, tl):
        tl.store(x.whole, tl.full(2, tl.program_id(), "f32"))  # here

    context.launch(races, x, cubes=[0], pes=[0, 1])
    (finding,) = context.findings()
    assert (finding.kernel, finding.place) == ("races", line_of(races, "# here"))
    assert finding.what.count(line_of(races, "# here")) == 1 and "no order between the two" in finding.what


# Reuse of recordings.


class Counted:
    """A kernel whose recordings are counted: `calls` grows when the function runs."""

    def __init__(self, context: cubeyard.Context, kernel: Any) -> None:
        self.context, self.kernel, self.x = context, kernel, one(context, [1, 2, 3, 4])

    def recordings(self, *arguments: Any, x: Any = None) -> int:
        before = len(CALLS)
        self.context.launch(self.kernel, self.x if x is None else x, *arguments, **HERE)
        return len(CALLS) - before


CALLS: list[int] = []


class _Recorder:
    """Counts calls, and is the same in every fingerprint."""

    def __call__(self, of: int = 0) -> None:
        CALLS.append(of)

    def __fingerprint__(self) -> Any:
        return "recorder"


count = _Recorder()
FACTOR: Any = 2


def test_equal_launches_reuse_a_recording(context: cubeyard.Context) -> None:
    def kernel(x, n, tl):
        count()
        tl.store(x, tl.load(x) * n)

    of = Counted(context, kernel)
    assert of.recordings(2) == 1
    assert of.recordings(2) == 0
    assert of.x.numpy().tolist() == [4, 8, 12, 16]


def test_scalars_shapes_types_and_addresses_are_compared(context: cubeyard.Context) -> None:
    def kernel(x, n, tl):
        count()
        tl.store(x, tl.load(x) * n)

    of = Counted(context, kernel)
    assert [of.recordings(2), of.recordings(3), of.recordings(2)] == [1, 1, 0]
    others = [one(context, [1, 2]), one(context, [1, 2, 3, 4], "i4"), one(context, [1, 2, 3, 4])]
    assert [of.recordings(2, x=x) for x in others] == [1, 1, 1]
    assert [of.recordings(2, x=x) for x in others] == [0, 0, 0]


def test_a_captured_variable_is_compared(context: cubeyard.Context) -> None:
    factor = 2

    def kernel(x, tl):
        count()
        tl.store(x, tl.load(x) * factor)

    of = Counted(context, kernel)
    assert [of.recordings(), of.recordings()] == [1, 0]
    factor = 3
    assert [of.recordings(), of.recordings()] == [1, 0]
    factor = 3.0
    assert of.recordings() == 1
    assert of.x.numpy()[0] == 2 * 2 * 3 * 3 * 3


def test_a_global_variable_is_compared(context: cubeyard.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    def kernel(x, tl):
        count()
        tl.store(x, tl.load(x) * FACTOR)

    of = Counted(context, kernel)
    assert [of.recordings(), of.recordings()] == [1, 0]
    monkeypatch.setitem(globals(), "FACTOR", 5)
    assert [of.recordings(), of.recordings()] == [1, 0]
    assert of.x.numpy()[0] == 2 * 2 * 5 * 5


def test_a_mutable_variable_is_never_reused(context: cubeyard.Context) -> None:
    factors = [2]

    def kernel(x, tl):
        count()
        tl.store(x, tl.load(x) * factors[0])

    of = Counted(context, kernel)
    assert [of.recordings(), of.recordings()] == [1, 1]
    factors[0] = 7
    assert of.recordings() == 1 and of.x.numpy()[0] == 2 * 2 * 7


def test_a_called_function_is_compared_by_its_code(context: cubeyard.Context) -> None:
    def make(body: Any) -> Any:
        return body

    helper = make(lambda tile: tile * 2)

    def kernel(x, tl):
        count()
        tl.store(x, helper(tl.load(x)))

    of = Counted(context, kernel)
    assert [of.recordings(), of.recordings()] == [1, 0]
    helper = make(lambda tile: tile * 3)
    assert [of.recordings(), of.recordings()] == [1, 0]
    assert of.x.numpy()[0] == 2 * 2 * 3 * 3


def test_what_a_called_function_reads_is_compared(context: cubeyard.Context) -> None:
    factor = 2

    def helper(tile):
        return tile * factor

    def kernel(x, tl):
        count()
        tl.store(x, helper(tl.load(x)))

    of = Counted(context, kernel)
    assert [of.recordings(), of.recordings()] == [1, 0]
    factor = 3
    assert [of.recordings(), of.recordings()] == [1, 0]


def test_defaults_are_compared(context: cubeyard.Context) -> None:
    def kernel(x, n=2, *, tl):
        count()
        tl.store(x, tl.load(x) * n)

    of = Counted(context, kernel)
    assert [of.recordings(), of.recordings()] == [1, 0]
    kernel.__defaults__ = (3,)
    assert [of.recordings(), of.recordings()] == [1, 0]


def test_attributes_of_modules_and_classes_are_compared(context: cubeyard.Context) -> None:
    settings = types.ModuleType("settings")
    settings.factor = 2  # type: ignore[attr-defined]

    class Options:
        add = 1

    def kernel(x, tl):
        count()
        tl.store(x, tl.load(x) * settings.factor + Options.add)

    of = Counted(context, kernel)
    assert [of.recordings(), of.recordings()] == [1, 0]
    settings.factor = 3  # type: ignore[attr-defined]
    assert [of.recordings(), of.recordings()] == [1, 0]
    Options.add = 2
    assert [of.recordings(), of.recordings()] == [1, 0]


def test_pure_modules_may_be_used_and_others_may_not() -> None:
    import random
    import time

    def pure(tl):
        return math.sqrt(2) + np.float32(1) + max(1, 2) + len(range(3))

    def draws(tl):
        return random.random()

    def reads_clock(tl):
        return time.time()

    def draws_arrays(tl):
        return np.random.random()

    def looks_up(tl):
        return globals()["FACTOR"]

    assert fingerprint(pure) is not None
    assert [fingerprint(of) for of in (draws, reads_clock, draws_arrays, looks_up)] == [None] * 4


@dataclasses.dataclass(frozen=True)
class Frozen:
    factor: int

    @property
    def twice(self) -> int:
        return 2 * self.factor


class Pair(NamedTuple):
    factor: int


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@pytest.mark.parametrize(
    ("one_", "other"),
    [
        (Frozen(1), Frozen(2)),
        (Pair(1), Pair(2)),
        (Color.RED, Color.BLUE),
        ((1, "a"), (1, "b")),
        (frozenset([1]), frozenset([2])),
        (slice(1), slice(2)),
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        (float, int),
        (math.sin, math.cos),
        (np.add, np.subtract),
        (np.dtype("f4"), np.dtype("f8")),
        (np.float32(1), np.float32(2)),
        (None, ...),
        ("x".join, "y".join),
    ],
)
def test_values_that_cannot_change_are_compared(one_: Any, other: Any) -> None:
    prints = []
    for value in (one_, one_, other):

        def kernel(tl, value=value):
            return value.factor, value.twice

        prints.append(fingerprint(kernel))
    assert prints[0] is not None and prints[0] == prints[1] != prints[2]


@pytest.mark.parametrize("value", [[1], {1: 2}, {1}, bytearray(1), np.zeros(1), object(), iter("a"), [].append, (1, [2])])
def test_values_that_may_change_prevent_reuse(value: Any) -> None:
    assert fingerprint(lambda tl: value) is None


def test_a_changed_method_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    value = Frozen(1)

    def kernel(tl):
        return value.twice

    before = fingerprint(kernel)
    monkeypatch.setattr(Frozen, "twice", property(lambda self: 3))
    assert before is not None and before != fingerprint(kernel)


def test_old_fingerprints_of_a_kernel_are_dropped(context: cubeyard.Context) -> None:
    factor = 0

    @cubeyard.jit
    def kernel(x, tl):
        count()
        tl.store(x, tl.load(x) * factor)

    of = Counted(context, kernel)
    for factor in range(40):
        assert of.recordings() == 1
    assert len(kernel._keys) == 16
    assert of.recordings() == 0
    factor = 0
    assert of.recordings() == 1


def test_recursive_functions_have_a_fingerprint() -> None:
    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n != 0 and even(n - 1)

    assert fingerprint(even) is not None and fingerprint(even) != fingerprint(odd)


def test_kernels_may_call_kernels_and_are_compared_by_them(context: cubeyard.Context) -> None:
    factor = 2

    @cubeyard.jit
    def inner(x, tl):
        tl.store(x, tl.load(x) * factor)

    @cubeyard.jit
    def outer(x, tl):
        count()
        inner(x, tl)

    of = Counted(context, outer)
    assert [of.recordings(), of.recordings()] == [1, 0]
    factor = 3
    assert [of.recordings(), of.recordings()] == [1, 0]


def test_contexts_do_not_share_recordings_and_kernels_keep_no_context() -> None:
    @cubeyard.jit
    def kernel(x, tl):
        count()
        tl.store(x, tl.load(x) * 2)

    first, second = cubeyard.Context(), cubeyard.Context()
    assert [Counted(of, kernel).recordings() for of in (first, second)] == [1, 1]
    gone = weakref.ref(first)
    del first
    gc.collect()
    assert gone() is None


def test_contexts_keep_no_function() -> None:
    context = cubeyard.Context()

    class Captured:
        pass

    def make() -> Any:
        captured = Captured

        def kernel(x, tl):
            tl.store(x, tl.load(x))
            return None if captured else 1

        return kernel

    kernel = make()
    context.launch(kernel, one(context, [1]), **HERE)
    gone = weakref.ref(kernel)
    del kernel
    gc.collect()
    assert gone() is None


def test_nothing_is_left_after_kernels_that_fail_or_end(context: cubeyard.Context) -> None:
    before = context._native.objects()

    def fails(x, tl):
        tiles = [tl.load(x) for _ in range(3)]
        raise ValueError(len(tiles))

    @cubeyard.jit(live=True)
    async def stays(x, tl):
        await tl.value(tl.load(x))
        raise ValueError

    for kernel in (fails, stays, fails):
        failing(context, kernel, one(context, [1]))
    gc.collect()
    assert context._native.objects() == before
    assert context.close().is_clean


# Kernels of the library: the same commands as in Rust, so the same time to the picosecond.

KERNELS = load("kernels")
RING = load("ring_all_reduce")


def both(kernel: str, place: Any, **where: Any) -> list[np.ndarray]:
    """Runs a kernel in Rust and in Python, on machines of their own; returns the outputs of the second.

    Both must take the same time on every PE, as the host sees it, and give the same bits. `place` makes the arguments
    on a context, the outputs last.
    """
    outcomes = []
    for of in (getattr(cubeyard.kernels, kernel), getattr(KERNELS, kernel)):
        context = cubeyard.Context()
        arguments, outputs = place(context)
        report = context.launch(of, *arguments, **where)
        assert not findings(context)
        times = (report.pes, report.done_ps - report.made_ps, report.started_ps - report.made_ps)
        outcomes.append((times, [output.numpy() for output in outputs]))
    (rust_times, rust), (python_times, python) = outcomes
    assert rust_times == python_times
    for one_, other in zip(rust, python, strict=True):
        np.testing.assert_array_equal(one_, other)
    return python


def findings(context: cubeyard.Context) -> Any:
    return context.findings()


@pytest.mark.parametrize(("length", "block"), [(128 * 1000, 384), (128 * 40, 40)])
def test_vector_add_is_that_of_rust(length: int, block: int) -> None:
    a, b = np.random.default_rng(1).random((2, length), dtype=np.float32)

    def place(context: cubeyard.Context) -> Any:
        x, y, z = (context.from_numpy(of).to(ROWS) for of in (a, b, 0 * a))
        return (x, y, z, block), [z]

    np.testing.assert_array_equal(both("vector_add", place)[0], a + b)


@pytest.mark.parametrize(("rows", "columns", "tile"), [(512, 256, 3), (256, 2048, 2), (128 * 40, 1024, 8)])
def test_softmax_is_that_of_rust(rows: int, columns: int, tile: int) -> None:
    a = np.random.default_rng(2).uniform(-8, 8, (rows, columns)).astype(np.float32)

    def place(context: cubeyard.Context) -> Any:
        x, y = context.from_numpy(a).to(ROWS), context.zeros(a.shape).to(ROWS)
        return (x, y, tile), [y]

    powers = np.exp(a.astype(np.float64))
    np.testing.assert_allclose(both("softmax", place)[0], powers / powers.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["f4", "f2"])
@pytest.mark.parametrize(("rows", "columns", "tile"), [(512, 256, 3), (128 * 24, 1024, 4)])
def test_layer_norm_is_that_of_rust(rows: int, columns: int, tile: int, dtype: str) -> None:
    rng = np.random.default_rng(3)
    a = rng.uniform(-2, 2, (rows, columns)).astype(dtype)
    gamma, beta = rng.uniform(-1, 1, (2, columns)).astype(dtype)
    copies = cubeyard.Placement(cube="replicate", pe="replicate")

    def place(context: cubeyard.Context) -> Any:
        x, y = context.from_numpy(a).to(ROWS), context.zeros(a.shape, a.dtype).to(ROWS)
        return (x, context.from_numpy(gamma).to(copies), context.from_numpy(beta).to(copies), y, tile), [y]

    wide = a.astype(np.float64)
    normal = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    tolerance = 1e-5 if dtype == "f4" else 2e-3
    np.testing.assert_allclose(both("layer_norm", place)[0], normal * gamma + beta, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("kernel", "shape", "numbers"),
    [
        ("gemm", (256, 192, 320), (256, 192, 320)),
        ("gemm_blocked", (256, 192, 320), (64, 64, 64)),
        ("gemm_blocked", (200, 136, 264), (64, 32, 128)),
    ],
)
def test_gemm_is_that_of_rust(kernel: str, shape: tuple[int, int, int], numbers: tuple[int, int, int]) -> None:
    m, k, n = shape
    rng = np.random.default_rng(4)
    a, b = rng.random((m, k), dtype=np.float32), rng.random((k, n), dtype=np.float32)

    def place(context: cubeyard.Context) -> Any:
        x, y, z = one(context, a), one(context, b), one(context, np.zeros((m, n)))
        return (x, y, z, *numbers), [z]

    np.testing.assert_allclose(both(kernel, place, **HERE)[0], a @ b, rtol=1e-5)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize(("tokens", "q_block", "k_block"), [(256, 64, 64), (200, 64, 96)])
def test_flash_attention_is_that_of_rust(causal: int, tokens: int, q_block: int, k_block: int) -> None:
    heads, size = 4, 64
    rng = np.random.default_rng(5)
    q, k, v = rng.uniform(-1, 1, (3, heads, tokens, size)).astype(np.float16)
    blocks = [np.concatenate([of[at : at + k_block].T.ravel() for at in range(0, tokens, k_block)]) for of in k]
    two = cubeyard.Placement(pe="row_wise", cubes=1, pes=2)

    def place(context: cubeyard.Context) -> Any:
        flat = [q.reshape(heads, -1), np.stack(blocks), v.reshape(heads, -1), np.zeros((heads, tokens * size), "f2")]
        tensors = [context.from_numpy(of).to(two) for of in flat]
        return (*tensors, size, q_block, k_block, causal), tensors[-1:]

    found = both("flash_attention", place, cubes=[0], pes=[0, 1])[0].reshape(heads, tokens, size)
    scores = np.einsum("hqd,hkd->hqk", q.astype(float), k.astype(float)) / math.sqrt(size)
    if causal:
        scores = np.where(np.tri(tokens) == 1, scores, -np.inf)
    weights = np.exp(scores - scores.max(2, keepdims=True))
    expected = weights / weights.sum(2, keepdims=True) @ v.astype(float)
    np.testing.assert_allclose(found, expected, rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize(("ranks", "elements", "piece"), [(8, 4096, 1024), (4, 1000, 64), (8, 100_000, 1024), (2, 7, 4)])
def test_ring_all_reduce_is_that_of_rust(ranks: int, elements: int, piece: int) -> None:
    a = np.random.default_rng(6).integers(-8, 8, (ranks, elements)).astype(np.float32)
    pes = [f"sip0.cube0.pe{pe}" for pe in range(ranks)]
    over = cubeyard.Placement(pe="row_wise", cubes=1, pes=ranks)
    outcomes = []
    for make in (cubeyard.kernels.ring_all_reduce, RING.ring_all_reduce):
        context = cubeyard.Context()
        x, y = context.from_numpy(a).to(over), context.zeros(a.shape).to(over)
        with cubeyard.channels.ring(context, pes) as ring:
            assert ring.latency_ps > 0 and ring.nbytes == 2 * ranks * 4 * 4096
            report = context.launch(make(ranks, piece), x, y, 0, 0, 1, cubes=[0], pes=range(ranks))
        assert not findings(context)
        np.testing.assert_array_equal(y.numpy(), np.broadcast_to(a.sum(0), a.shape))
        outcomes.append((report.pes, report.done_ps - report.made_ps))
        del x, y
        assert context.close().is_clean
    assert outcomes[0] == outcomes[1]


def test_kernels_of_rust_reuse_their_recordings_and_check_their_arguments(context: cubeyard.Context) -> None:
    x, y = one(context, np.eye(4)), one(context, np.eye(4))
    first = context.launch(cubeyard.kernels.softmax, x, y, 2, **HERE)
    assert context.launch(cubeyard.kernels.softmax, x, y, 2, **HERE).max_ps == first.max_ps
    with pytest.raises(errors.InputError, match=r"kernel softmax\(x, y, tile\) launched with 1 arguments"):
        context.launch(cubeyard.kernels.softmax, x)
    with pytest.raises(errors.InputError, match="argument `tile`: expected a tensor or a number, found str"):
        context.launch(cubeyard.kernels.softmax, x, y, "2")
    with pytest.raises(errors.InputError, match="kernel: expected one of vector_add"):
        cubeyard.kernel.RustKernel("nothing")
    with pytest.raises(errors.InputError, match="piece=0"):
        cubeyard.kernels.ring_all_reduce(4, 0)


def test_messages_between_two_pes(context: cubeyard.Context) -> None:
    two = cubeyard.Placement(pe="row_wise", cubes=1, pes=2)
    x = context.from_numpy(np.array([[1, 2], [3, 4]], dtype=np.float32)).to(two)
    seen: list[Any] = []

    @cubeyard.jit(live=True)
    async def swap(x, tl):
        tl.send(9, tl.load(x))
        tl.fence()
        tile, sender = tl.recv_any([9], x.shape, x.dtype)
        seen.append((await tl.value(sender)).tolist())
        tl.store(x, tile)

    with context.connect([(("sip0.cube0.pe0", 9), ("sip0.cube0.pe1", 9))]):
        context.launch(swap, x, cubes=[0], pes=[0, 1])
    assert x.numpy().tolist() == [[3, 4], [1, 2]] and seen == [[0], [0]]


@pytest.mark.parametrize(
    ("channels", "named", "text"),
    [
        ([(("sip0.cube0.pe0", "Q"), ("sip0.cube0.pe1", "W"))], {}, "port='Q': expected a number from 0 to 65535"),
        ([(("sip0.cube0.pe99", "E"), ("sip0.cube0.pe1", "W"))], {}, "pe99"),
        ([(("sip0.cube0.pe0", "E"), ("sip0.cube0.pe0", "W"))], {}, "sip0.cube0.pe0"),
        ([(("sip0.cube0.pe0", "E"), ("sip0.cube0.pe1", "W"))], {"memory": "l2"}, "memory: expected one of tcm, sram, hbm"),
        ([(("sip0.cube0.pe0", "E"), ("sip0.cube0.pe1", "W"))], {"slots": 0}, "slots"),
    ],
)
def test_bad_channels_are_refused(context: cubeyard.Context, channels: Any, named: Any, text: str) -> None:
    with pytest.raises(errors.InputError) as caught:
        cubeyard.channels.connect(context, channels, **named)
    assert text in str(caught.value)
    assert context._native.is_pristine()


def test_a_message_without_a_channel_is_an_error(context: cubeyard.Context) -> None:
    def sends(x, tl):
        tl.send("E", tl.load(x))

    with pytest.raises(errors.CubeyardError, match="E"):
        context.launch(sends, one(context, [1]), **HERE)


def test_closed_channels_say_so(context: cubeyard.Context) -> None:
    channels = cubeyard.channels.ring(context, ["sip0.cube0.pe0", "sip0.cube0.pe1"])
    channels.close()
    channels.close()
    with pytest.raises(errors.ClosedError):
        channels.select()
    assert context._native.is_pristine()
