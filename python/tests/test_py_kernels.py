"""Kernels in Python: their numbers, and those that run live."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cubeyard
from cubeyard import errors
from kernel_lab import HERE, ONE, ROWS, compute, failing, line_of, one


@pytest.fixture
def context() -> cubeyard.Context:
    return cubeyard.Context()


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


# Fused chains.

LOW, HIGH = np.float32(0.25), np.float32(2)


@pytest.mark.parametrize(
    ("fused", "apart"),
    [
        (lambda tl, x, y: x + y * 2 - 1 / y, lambda tl, x, y: x + y * 2 - 1 / y),
        (lambda tl, x, y: abs(-x) % y**2, lambda tl, x, y: abs(-x) % y**2),
        (lambda tl, x, y: np.float64(2) * x - (3 - x), lambda tl, x, y: 2 * x - (3 - x)),
        (lambda tl, x, y: 2**x, lambda tl, x, y: 2**x),
        (lambda tl, x, y: tl.where(x >= y, x, 0.5), lambda tl, x, y: tl.where(x >= y, x, 0.5)),
        (lambda tl, x, y: tl.where(1 < x, y, x), lambda tl, x, y: tl.where(tl.lt(1, x), y, x)),
        (lambda tl, x, y: tl.fma(x, 3, y), lambda tl, x, y: tl.fma(x, 3, y)),
        (lambda tl, x, y: tl.clamp(x, LOW, HIGH), lambda tl, x, y: tl.clamp(x, LOW, HIGH)),
        (lambda tl, x, y: tl.maximum(1, x) * tl.minimum(x, y), lambda tl, x, y: tl.maximum(1, x) * tl.minimum(x, y)),
        (lambda tl, x, y: tl.cast(tl.cast(x, "f16") * 3, "f32"), lambda tl, x, y: tl.cast(tl.cast(x, "f16") * 3, "f32")),
        (
            lambda tl, x, y: tl.eval(tl.sum(x * x, 1, keep=True)) - y.lazy(),
            lambda tl, x, y: tl.sum(x * x, 1, keep=True) - y,
        ),
        (lambda tl, x, y: (x == y) | (x != 0.5), lambda tl, x, y: (x == y) | (x != 0.5)),
    ],
)
def test_chains_have_the_numbers_of_their_operations_one_by_one(fused: Any, apart: Any) -> None:
    def wide(tl, of):
        return tl.cast(of, "f32") if of.dtype == "bool" else of

    found = compute(lambda tl, x, y: tl.eval(wide(tl, fused(tl, x.lazy(), y))), X, Y)
    np.testing.assert_array_equal(found, compute(lambda tl, x, y: wide(tl, apart(tl, x, y)), X, Y))


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "sqrt", "rsqrt", "sigmoid", "tanh", "erf", "sin", "cos", "floor", "ceil", "relu"])
def test_functions_of_expressions_are_those_of_tiles(name: str) -> None:
    found = compute(lambda tl, y: tl.eval(getattr(tl, name)(y.lazy())), Y)
    np.testing.assert_array_equal(found, compute(lambda tl, y: getattr(tl, name)(y), Y))


@pytest.mark.parametrize("name", ["sum", "max", "min", "prod"])
@pytest.mark.parametrize("keep", [False, True])
def test_reductions_of_expressions_are_those_of_tiles(name: str, keep: bool) -> None:
    shape = (2, 1) if keep else (2,)
    found = compute(lambda tl, x: tl.eval(getattr(tl, name)(x.lazy() + 1, 1, keep=keep)), X, shape=shape)
    np.testing.assert_array_equal(found, getattr(np, name)(X + np.float32(1), axis=1, keepdims=keep))


@pytest.mark.parametrize("name", ["sum", "max", "min", "prod", "argmax", "argmin"])
@pytest.mark.parametrize("keep", [False, True])
def test_reductions_without_an_axis_are_of_all_elements(name: str, keep: bool) -> None:
    """The first guess of users of NumPy and Triton; the axis was required."""
    wanted = getattr(np, name)(X, keepdims=keep).astype(np.float32)
    shape = wanted.shape or (1,)

    def reduced(tl, x):
        return getattr(tl, name)(x, keep=keep)

    def placed(tl, tile):
        assert tuple(tile.shape) == wanted.shape
        return tl.reshape(tl.cast(tile, "f32"), shape)

    np.testing.assert_array_equal(compute(lambda tl, x: placed(tl, reduced(tl, x)), X, shape=shape).reshape(wanted.shape), wanted)
    if not name.startswith("arg"):
        found = compute(lambda tl, x: placed(tl, tl.eval(reduced(tl, x.lazy()))), X, shape=shape)
        np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


def test_several_expressions_are_one_pass(context: cubeyard.Context) -> None:
    """What two results have in common is computed once, so that the second costs only its own operation and store."""

    def apart(x, weights, sums, tl):
        powers = tl.exp(tl.load(x).lazy())
        made, total = tl.eval(powers), tl.eval(tl.sum(powers, 1, keep=True))
        tl.store(sums, total)
        tl.store(weights, made)

    def together(x, weights, sums, tl):
        powers = tl.exp(tl.load(x).lazy())
        made, total = tl.eval_all([powers, tl.sum(powers, 1, keep=True)])
        tl.store(sums, total)
        tl.store(weights, made)

    a = np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64)
    x, found = one(context, a), []
    for kernel in (apart, together):
        weights, sums = one(context, np.zeros((64, 64))), one(context, np.zeros((64, 1)))
        report = context.launch(kernel, x, weights, sums, **HERE)
        np.testing.assert_allclose(weights.numpy(), np.exp(a), rtol=1e-6)
        np.testing.assert_allclose(sums.numpy(), np.exp(a).sum(axis=1, keepdims=True), rtol=1e-6)
        found.append((weights.numpy().tobytes(), sums.numpy().tobytes(), report.max_ps))
    assert found[0][:2] == found[1][:2]
    assert found[1][2] < found[0][2]


def test_a_chain_is_faster_than_its_operations_one_by_one(context: cubeyard.Context) -> None:
    """Three operations on 64 x 64 elements: fused, two fetches and two stores of 16 KiB are saved."""

    def apart(x, y, tl):
        tl.store(y, (tl.load(x) + 1) * 2 - 3)

    def fused(x, y, tl):
        tl.store(y, tl.eval((tl.load(x).lazy() + 1) * 2 - 3))

    x, y = one(context, np.ones((64, 64))), one(context, np.zeros((64, 64)))
    slow, fast = (context.launch(kernel, x, y, **HERE).max_ps for kernel in (apart, fused))
    assert (y.numpy() == 1).all()
    # A fetch of 16 KiB is 32 ns at 512 GB/s.
    assert slow - fast > 2 * 32_000


def first(x: Any, tl: Any) -> Any:
    return x.lazy() - tl.sum(x.lazy(), 0, keep=True)


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (lambda x, tl: tl.eval(x.lazy()), "an expression without an operation"),
        (lambda x, tl: tl.eval_all([]), "no expression"),
        (lambda x, tl: tl.eval(3), "expression: expected a tile, found int"),
        (lambda x, tl: tl.eval_all([x.lazy() + 1, "a"]), "expressions[1]: expected a tile, found str"),
        (lambda x, tl: x.lazy() + tl.zeros(5, "f32"), "add of f32[2] and f32[5]"),
        (lambda x, tl: x.lazy() + tl.zeros(2, "f16"), "f16"),
        (lambda x, tl: first(tl.reshape(x, (2, 1)), tl), "evaluate the reduction before"),
        (lambda x, tl: tl.exp("a"), "x: expected a tile, found str"),
        (lambda x, tl: tl.where(3, x.lazy(), x), "condition: expected a tile, found int"),
        (lambda x, tl: tl.sum(x.lazy(), 1), "axis"),
        (lambda x, tl: 1 if x.lazy() > 0 else 2, "a branch on an expression: an expression has no elements; tl.eval makes a tile of it"),
        (lambda x, tl: float(x.lazy()), "an expression as a number"),
        (lambda x, tl: x.lazy() + "1", "TypeError"),
        (lambda x, tl: tl.dot(x.lazy(), x), "TypeError"),
    ],
)
def test_bad_expressions_are_named_with_their_line(context: cubeyard.Context, act: Any, text: str) -> None:
    def kernel(x, tl):
        act(tl.load(x), tl)

    error = str(failing(context, kernel, one(context, [1, 2])))
    line = first.__code__.co_firstlineno + 1 if "first" in act.__code__.co_names else act.__code__.co_firstlineno
    assert text in error and f"{Path(__file__).name}:{line}" in error


def test_expressions_belong_to_their_run(context: cubeyard.Context) -> None:
    kept = []

    def keeps(x, tl):
        kept.append(tl.load(x).lazy() + 1)

    error = str(failing(context, keeps, one(context, [1, 2])))
    assert "the expression f32[2] of" in error and "test_py_kernels.py" in error

    def uses(x, tl):
        tl.store(x, tl.eval(kept[0]))

    assert "used outside its run" in str(failing(context, uses, one(context, [1, 2])))


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


def test_numbers_arrive_with_their_type(context: cubeyard.Context) -> None:
    seen: list[Any] = []

    def kernel(a, b, c, tl):
        seen.append((a, b, c, type(a), type(b), type(c)))

    context.launch(kernel, 3, 2.5, 2.0, **HERE)
    assert seen == [(3, 2.5, 2, int, float, float)]


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


def test_a_live_kernel_awaits_functions_of_its_own(context: cubeyard.Context) -> None:
    async def largest(tl, tile):
        return float((await tl.value(tile)).max())

    @cubeyard.jit(live=True)
    async def scales(x, tl):
        tile = tl.load(x)
        tl.store(x, tile / await largest(tl, tile))

    x = one(context, [1, 2, 4])
    context.launch(scales, x, **HERE)
    assert x.numpy().tolist() == [0.25, 0.5, 1]


def test_types_of_elements_have_the_names_of_numpy_too() -> None:
    for name in ("f16", "float16", np.float16, np.dtype("f2"), "<f2"):
        assert compute(lambda tl, x, name=name: tl.cast(tl.cast(x, name), "f32"), [1.0001]).tolist() == [1.0]


def test_a_live_kernel_is_an_async_function() -> None:
    with pytest.raises(errors.InputError, match=r"kernel f, .*test_py_kernels.py:\d+: expected an `async def` for a live kernel"):

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
