"""What kernels compute of whole tiles, against NumPy: along axes, products, shapes; and what is refused."""

import numpy as np
import pytest
from numeric_cases import (
    BITS,
    DTYPES,
    FLOATS,
    INTEGERS,
    NUMBERS,
    Case,
    array,
    arrays,
    random_array,
    rounded,
    wide,
)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

# Shapes, and others that they broadcast to.
WIDER = [
    ((), (2,)),
    ((1,), (2, 4)),
    ((2, 3), (2, 2, 3)),
    ((4, 3, 2), (2, 4, 3, 2)),
    ((0, 3), (2, 0, 3)),
]
REDUCED_SHAPES = [(1,), (7,), (64,), (3, 5), (8, 33), (2, 3, 4), (2, 9, 2, 3)]


def test_reductions_along_every_axis(check):
    rng = np.random.default_rng(7)

    def cases():
        for name in DTYPES:
            for shape in REDUCED_SHAPES:
                for axis in range(len(shape)):
                    [a] = arrays(rng, name, [shape])
                    yield from reductions(name, a, axis, bool(rng.integers(2)))

    check(cases(), 1000)


def reductions(name, a, axis, keep):
    def case(operation, expected, steps=0):
        arguments = {"operation": operation, "axis": axis, "keep": keep}
        return Case("reduce", [a], np.asarray(expected), steps, arguments)

    # ml_dtypes has no order of its own for all of these.
    x, along = a.astype(wide(name)), {"axis": axis, "keepdims": keep}
    yield case("max", np.max(x, **along).astype(a.dtype))
    yield case("min", np.min(x, **along).astype(a.dtype))
    yield case("argmax", np.argmax(x, **along).astype(np.int32))
    yield case("argmin", np.argmin(x, **along).astype(np.int32))
    if name in BITS:
        yield case("xor", np.bitwise_xor.reduce(a, **along))
    if name in INTEGERS:
        yield case("sum", np.sum(a, **along, dtype=a.dtype))
        yield case("prod", np.prod(a, **along, dtype=a.dtype))


def test_sums_and_products_of_floats_are_near(check):
    """Of positive numbers, since where they cancel there is no telling how near."""
    rng = np.random.default_rng(8)

    def cases():
        for name in FLOATS:
            for shape in REDUCED_SHAPES:
                for axis in range(len(shape)):
                    a = rng.uniform(0.5, 1.5, shape).astype(DTYPES[name])
                    for operation, function in (("sum", np.sum), ("prod", np.prod)):
                        arguments = {"operation": operation, "axis": axis}
                        exact = function(a.astype(np.longdouble), axis=axis)
                        expected = rounded(exact.astype(wide(name)), name)
                        steps = shape[axis] / 2 if name in ("f32", "f64") else 1
                        yield Case("reduce", [a], expected, steps, arguments)

    check(cases(), 150)


def test_scans_have_numpys_bits(check):
    rng = np.random.default_rng(9)

    def cases():
        for name in NUMBERS:
            for shape in REDUCED_SHAPES:
                for axis in range(len(shape)):
                    for operation, function in (("cumsum", np.cumsum), ("cumprod", np.cumprod)):
                        [a] = arrays(rng, name, [shape])
                        expected = rounded(function(a, axis=axis, dtype=wide(name)), name)
                        yield Case("scan", [a], expected, 0, {"operation": operation, "axis": axis})

    check(cases(), 300)


def test_softmax_is_near(check):
    rng = np.random.default_rng(10)

    def cases():
        for name in FLOATS:
            for shape in REDUCED_SHAPES:
                for axis in range(len(shape)):
                    [a] = arrays(rng, name, [shape])
                    x = a.astype(wide(name))
                    # The difference is rounded, and its exponential shows it.
                    difference = x - np.max(x, axis=axis, keepdims=True)
                    powers = np.exp(difference.astype(np.float64))
                    shares = powers / np.sum(powers, axis=axis, keepdims=True)
                    expected = rounded(shares.astype(wide(name)), name)
                    steps = 8 if name in ("f32", "f64") else 1
                    yield Case("softmax", [a], expected, steps, {"axis": axis})

    check(cases(), 75)


PRODUCTS = {"f64": "f64", "u64": "u64", **dict.fromkeys(["i8", "u8", "i16"], "i32")}
PRODUCTS |= dict.fromkeys(["u16", "i32", "u32", "i64"], "i64")


def test_products_of_matrices(check):
    rng = np.random.default_rng(11)

    def cases():
        for name in NUMBERS:
            into = PRODUCTS.get(name, "f32")
            for m, k, n in [(1, 1, 1), (3, 5, 2), (32, 64, 32), (1, 17, 9), (4, 0, 3), (0, 2, 2)]:
                # Small whole numbers have exact products and sums in any order; integers can be any.
                modest = name in FLOATS
                a, b = (np.trunc(random_array(rng, name, s, modest)) for s in ((m, k), (k, n)))
                a, b = a.astype(DTYPES[name]), b.astype(DTYPES[name])
                sums = random_array(rng, into, (m, n), modest)
                sums = np.trunc(sums).astype(DTYPES[into])
                product = a.astype(DTYPES[into]) @ b.astype(DTYPES[into])
                yield Case("dot", [a, b], product)
                yield Case("dot", [a, b, sums], product + sums)

    check(cases(), 150)


def test_products_of_fractions_are_as_near_as_f32_allows(compute):
    rng = np.random.default_rng(12)
    for name in FLOATS:
        a, b = (random_array(rng, name, (48, 48), True) for _ in range(2))
        [answer] = compute([Case("dot", [a, b], a).json()])
        x, y = a.astype(np.float64), b.astype(np.float64)
        bound = 48 * np.finfo(DTYPES[answer["dtype"]]).eps * (abs(x) @ abs(y))
        assert np.all(abs(array(answer) - x @ y) <= bound), name


def test_shapes_change_and_elements_stay(check):
    rng = np.random.default_rng(13)

    def cases():
        for name in DTYPES:
            a = random_array(rng, name, (2, 3, 4, 5))
            for axes in [(0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2), (0, 1, 3, 2)]:
                yield Case("permute", [a], a.transpose(axes), arguments={"axes": axes})
            for shape, to in WIDER:
                b = random_array(rng, name, shape)
                if len(shape) > 1:
                    yield Case("transpose", [b], b.swapaxes(-1, -2))
                yield Case("reshape", [b], b.reshape(-1), arguments={"shape": [b.size]})
                wider = np.broadcast_to(b, to)
                yield Case("broadcast_to", [b], wider, arguments={"shape": to})
            yield from boxes(rng, name)

    check(cases(), 250)


def boxes(rng, name):
    for whole in [(9,), (8, 6), (3, 4, 5), (2, 3, 4, 5)]:
        a = random_array(rng, name, whole)
        start = [int(rng.integers(0, side)) for side in whole]
        shape = [int(rng.integers(0, side - at + 1)) for side, at in zip(whole, start, strict=True)]
        box = tuple(slice(at, at + length) for at, length in zip(start, shape, strict=True))
        yield Case("slice", [a], a[box], arguments={"start": start, "shape": shape})
        tile, pasted = random_array(rng, name, shape), a.copy()
        pasted[box] = tile
        yield Case("paste", [a, tile], pasted, arguments={"start": start})
        mask, other = random_array(rng, "bool", whole[-1:]), random_array(rng, name, ())
        yield Case("merge", [mask, a, other], np.where(mask, a, other))


def test_every_code_of_the_small_floats_comes_back(compute):
    for name in ("f16", "bf16", "fp8_e4m3", "fp8_e5m2"):
        width = np.dtype(DTYPES[name]).itemsize
        a = np.arange(1 << (8 * width), dtype=f"u{width}").view(DTYPES[name])
        [answer] = compute([Case("reshape", [a], a, arguments={"shape": [a.size]}).json()])
        assert array(answer).tobytes() == a.tobytes()


def test_what_there_is_none_of_is_said(compute):
    half, single = np.zeros((32, 64), np.float16), np.zeros((64,), np.float32)

    def error(function, *operands, **arguments):
        [answer] = compute([Case(function, operands, half, arguments=arguments).json()])
        return answer["error"]

    assert error("binary", half, half.T, operation="add") == (
        "add of f16[32, 64] and f16[64, 32]: the shapes do not broadcast"
    )
    assert error("binary", half, single, operation="add") == (
        "add of f16[32, 64] and f32[64]: the types differ"
    )
    assert error("dot", half, half[:, :32]) == (
        "dot of f16[32, 64] and f16[32, 32]: 64 columns against 32 rows"
    )
