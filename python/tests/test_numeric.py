"""What kernels compute against NumPy: the same bits where a result is exact, else within a few steps.

A step is the distance to the next number of the type. Whether a NaN is one is compared, its bits are not.
"""

import json
import math
import subprocess
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
import pytest
from conftest import ROOT, built

DTYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "fp8_e4m3": ml_dtypes.float8_e4m3fn,
    "fp8_e5m2": ml_dtypes.float8_e5m2,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "bool": np.bool_,
}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}
FLOATS = [name for name in DTYPES if "f" in name]
INTEGERS = [name for name in DTYPES if name[0] in "iu"]
NUMBERS = FLOATS + INTEGERS
BITS = [*INTEGERS, "bool"]

# Pairs of shapes that broadcast, a matrix engine's tiles and odd ones.
SHAPES = [
    ((), ()),
    ((1,), (7,)),
    ((33,), (33,)),
    ((5, 3), (3,)),
    ((4, 1), (1, 6)),
    ((16, 8), ()),
    ((2, 1, 3), (4, 1)),
    ((2, 3, 1, 2), (3, 4, 1)),
    ((0, 3), (1, 3)),
]


@dataclass
class Case:
    """A call, and the result it should have, within so many steps."""

    function: str
    operands: list
    expected: np.ndarray
    steps: float = 0
    arguments: dict = field(default_factory=dict)

    def json(self):
        return {
            "function": self.function,
            "operands": [tile(operand) for operand in self.operands],
            **self.arguments,
        }


def tile(array):
    array = np.ascontiguousarray(array).reshape(np.shape(array))
    return {"dtype": NAMES[array.dtype], "shape": array.shape, "hex": array.tobytes().hex()}


def array(tile):
    return np.frombuffer(bytes.fromhex(tile["hex"]), DTYPES[tile["dtype"]]).reshape(tile["shape"])


@pytest.fixture(scope="session")
def compute():
    """Runs cases, all in one process."""
    build = ["cargo", "build", "--quiet", "--release", "-p", "cubeyard-kernels"]
    messages = subprocess.run(
        [*build, "--example", "numeric", "--message-format", "json"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    binary = built(messages.stdout, "numeric")

    def run(cases):
        lines = "".join(json.dumps(case) + "\n" for case in cases)
        done = subprocess.run([binary], input=lines, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(answers) == len(cases)
        return answers

    return run


@pytest.fixture(scope="session")
def check(compute):
    """Compares all cases, of which there are at least so many."""

    def check(cases, at_least):
        cases = list(cases)
        assert len(cases) >= at_least
        for case, answer in zip(cases, compute([case.json() for case in cases]), strict=True):
            assert "error" not in answer, (case, answer)
            compare(case, array(answer))

    return check


def compare(case, found):
    expected = case.expected
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), case
    if NAMES[expected.dtype] not in FLOATS:
        wrong = found != expected
    else:
        nan = np.isnan(found.astype(float)), np.isnan(expected.astype(float))
        far = abs(place(found) - place(expected)) > case.steps
        wrong = np.where(nan[0] | nan[1], nan[0] != nan[1], far)
    if np.any(wrong):
        index = tuple(np.argwhere(wrong)[0])
        inputs = [np.broadcast_to(a, wrong.shape)[index] for a in case.operands if broadcasts(a, wrong)]
        text = f"{case.function} {case.arguments} of {inputs} at {index} of {wrong.shape}"
        raise AssertionError(f"{text}: {found[index]!r}, NumPy has {expected[index]!r}")


def broadcasts(a, b):
    try:
        return np.broadcast_shapes(a.shape, b.shape) == b.shape
    except ValueError:
        return False


def place(array):
    """How many numbers of the type there are below: neighbours differ by 1, and -0 is 0."""
    width = array.dtype.itemsize
    bits = array.view(f"u{width}").astype(object)
    sign = 1 << (8 * width - 1)
    return np.where(bits >= sign, sign - bits, bits)


def special(name):
    """Values at the edges of a type."""
    dtype = DTYPES[name]
    if name == "bool":
        return np.array([False, True])
    if name in INTEGERS:
        info = np.iinfo(dtype)
        edges = [info.min, info.min + 1, info.max - 1, info.max, 0, 1, 2, 3, 7, 8, 15, 31, 63, 64]
        return np.array(edges + ([-1, -2, -7] if info.min else []), dtype)
    info = ml_dtypes.finfo(dtype)
    edges = [0.0, 1.0, 0.5, 3.0, 88.0, 709.0, math.inf, math.nan]
    edges += [float(info.max), float(info.tiny), float(info.smallest_subnormal), 1 + float(info.eps)]
    with np.errstate(over="ignore"):
        return np.array([*edges, *(-edge for edge in edges)]).astype(dtype)


def random_array(rng, name, shape, modest=False):
    """Any bits, or numbers that are not too large; some of the special values among them."""
    dtype, count = DTYPES[name], math.prod(shape)
    if name == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if modest:
        # Of integers small ones, which are negative only where the type is.
        low = -9 if name[0] != "u" else 0
        values = rng.normal(0, 4, shape) if name in FLOATS else rng.integers(low, 10, shape)
        return np.asarray(values).astype(dtype)
    values = np.frombuffer(rng.bytes(count * np.dtype(dtype).itemsize), dtype).copy()
    chosen = rng.random(count) < 0.2
    values[chosen] = rng.choice(special(name), chosen.sum())
    return values.reshape(shape)


def arrays(rng, name, shapes):
    """Operands for a test of an operation: random ones, and modest ones whose results are not all extreme."""
    modest = rng.random() < 0.5
    return [random_array(rng, name, shape, modest) for shape in shapes]


def wide(name):
    """What a type computes in."""
    return {"f64": np.float64}.get(name, np.float32) if name in FLOATS else DTYPES[name]


def rounded(values, name):
    return np.asarray(values).astype(DTYPES[name])


EXACT_UNARY = {
    "neg": (np.negative, NUMBERS),
    "abs": (np.abs, NUMBERS),
    "sqrt": (np.sqrt, FLOATS),
    "floor": (np.floor, NUMBERS),
    "ceil": (np.ceil, NUMBERS),
    "relu": (lambda a: np.maximum(a, a.dtype.type(0)), NUMBERS),
    "not": (np.invert, BITS),
}
NEAR_UNARY = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "sigmoid": lambda a: np.where(a < 0, np.exp(-abs(a)), 1) / (1 + np.exp(-abs(a))),
    "tanh": np.tanh,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "sin": np.sin,
    "cos": np.cos,
}
EXACT_BINARY = {
    "add": (np.add, NUMBERS),
    "sub": (np.subtract, NUMBERS),
    "mul": (np.multiply, NUMBERS),
    "div": (lambda a, b: a / b if a.dtype.kind not in "iu" else a // b, NUMBERS),
    "rem": (np.remainder, NUMBERS),
    "maximum": (np.maximum, list(DTYPES)),
    "minimum": (np.minimum, list(DTYPES)),
    "and": (np.bitwise_and, BITS),
    "or": (np.bitwise_or, BITS),
    "xor": (np.bitwise_xor, BITS),
    "shl": (np.left_shift, INTEGERS),
    "shr": (np.right_shift, INTEGERS),
    "eq": (np.equal, list(DTYPES)),
    "ne": (np.not_equal, list(DTYPES)),
    "lt": (np.less, list(DTYPES)),
    "le": (np.less_equal, list(DTYPES)),
    "gt": (np.greater, list(DTYPES)),
    "ge": (np.greater_equal, list(DTYPES)),
}

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def test_exact_operations_on_each_element_have_numpys_bits(check):
    rng = np.random.default_rng(1)

    def cases():
        for operation, (function, names) in EXACT_UNARY.items():
            for name in names:
                for shape in [(), (65,), (4, 5), (0,), special(name).shape]:
                    [a] = arrays(rng, name, [shape])
                    a = special(name) if shape == special(name).shape else a
                    expected = rounded(function(a), name)
                    yield Case("unary", [a], expected, arguments={"operation": operation})

    check(cases(), 300)


def test_exponentials_and_the_like_are_within_a_few_steps(check):
    rng = np.random.default_rng(2)

    def cases():
        for operation, function in NEAR_UNARY.items():
            for name in FLOATS:
                for a in [special(name), *(arrays(rng, name, [(99,)])[0] for _ in range(4))]:
                    # In f64, so that all steps are ours; then rounded to what we compute in, and to the type.
                    expected = rounded(function(a.astype(np.float64)).astype(wide(name)), name)
                    steps = 4 if name in ("f32", "f64") else 1
                    yield Case("unary", [a], expected, steps, {"operation": operation})

    check(cases(), 250)


def test_exact_operations_on_two_elements_have_numpys_bits(check):
    rng = np.random.default_rng(3)

    def cases():
        for operation, (function, names) in EXACT_BINARY.items():
            for name in names:
                pairs = [arrays(rng, name, shapes) for shapes in SHAPES]
                pairs += [[a, b] for a, b in ([y, x] for x, y in pairs)]
                pairs.append([special(name)[:, None], special(name)])
                for a, b in pairs:
                    # NumPy computes float16 as we do; ml_dtypes is held to f32 and one rounding.
                    x, y = (operand.astype(wide(name)) for operand in (a, b))
                    expected = np.asarray(function(x, y))
                    expected = expected if expected.dtype == bool else rounded(expected, name)
                    if name == "f16" and operation != "rem":
                        own = np.asarray(function(a, b))
                        np.testing.assert_array_equal(own, expected)
                    yield Case("binary", [a, b], expected, arguments={"operation": operation})

    check(cases(), 4000)


def test_powers_are_near_for_floats_and_exact_for_integers(check):
    rng = np.random.default_rng(4)

    def cases():
        for name in NUMBERS:
            for shapes in SHAPES:
                a, b = arrays(rng, name, shapes)
                if name in INTEGERS:
                    b = np.where(b < 0, DTYPES[name](5), b).astype(DTYPES[name])
                    expected = np.asarray(np.power(a, b))
                else:
                    powers = np.power(a.astype(np.float64), b.astype(np.float64))
                    expected = rounded(powers.astype(wide(name)), name)
                steps = 4 if name in ("f32", "f64") else 1
                yield Case("binary", [a, b], expected, steps, {"operation": "pow"})

    check(cases(), 100)


def test_three_operands_choose_multiply_and_clamp(check):
    rng = np.random.default_rng(5)

    def cases():
        for name in DTYPES:
            for first, second in SHAPES:
                third = () if rng.random() < 0.5 else second
                a, b, c = arrays(rng, name, [first, second, third])
                mask = random_array(rng, "bool", first)
                where = {"operation": "where"}
                yield Case("ternary", [mask, b, c], np.where(mask, b, c), arguments=where)
                if name != "bool":
                    clamped = np.minimum(np.maximum(a, b), c)
                    yield Case("ternary", [a, b, c], clamped, arguments={"operation": "clamp"})
                    yield fma(name, a, b, c)

    check(cases(), 300)


def fma(name, a, b, c):
    if name in INTEGERS:
        return Case("ternary", [a, b, c], np.asarray(a * b + c), arguments={"operation": "fma"})
    # Nothing in NumPy rounds once; with more bits there is at most a step between.
    x, y, z = (operand.astype(np.longdouble) for operand in (a, b, c))
    expected = rounded((x * y + z).astype(wide(name)), name)
    return Case("ternary", [a, b, c], expected, 1, {"operation": "fma"})


def test_every_type_is_cast_to_every_type(check):
    rng = np.random.default_rng(6)

    def cases():
        for source in DTYPES:
            for target in DTYPES:
                for a in [special(source), random_array(rng, source, (200,)), random_array(rng, source, (9,), True)]:
                    yield Case("cast", [a], converted(a, source, target), arguments={"dtype": target})

    check(cases(), 600)


def converted(a, source, target):
    """A cast, with what NumPy leaves to the processor, and with a single rounding."""
    if source in FLOATS and target in INTEGERS:
        info = np.iinfo(DTYPES[target])
        whole = [0 if math.isnan(x) else x for x in a.astype(float).tolist()]
        inside = [min(max(x, info.min - 1.0), info.max + 1.0) for x in whole]
        return np.array([min(max(int(x), info.min), info.max) for x in inside], DTYPES[target])
    if target in ("bf16", "fp8_e4m3", "fp8_e5m2") and source in ("f64", "i64", "u64", "i32", "u32"):
        return rounded(odd(a), target)
    return a.astype(DTYPES[target])


def odd(a):
    """To f32 by cutting off, with the last bit set where something was lost: it can be rounded once more.

    ml_dtypes rounds to f32 first, to nearest, and so at times a tie that was none.
    """
    near = a.astype(np.float32)
    exact = np.array([x == y or x != x for x, y in zip(near.tolist(), a.tolist(), strict=True)])
    away = np.array([abs(x) > abs(y) for x, y in zip(near.tolist(), a.tolist(), strict=True)])
    bits = near.view(np.uint32)
    return np.where(exact, bits, (bits - away) | 1).astype(np.uint32).view(np.float32)


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
                    arguments = {"axis": axis, "keep": False}
                    for operation, function in (("sum", np.sum), ("prod", np.prod)):
                        exact = function(a.astype(np.longdouble), axis=axis)
                        expected = rounded(exact.astype(wide(name)), name)
                        steps = shape[axis] / 2 if name in ("f32", "f64") else 1
                        yield Case("reduce", [a], expected, steps, {"operation": operation, **arguments})

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
            for shape in [(), (1,), (2, 3), (4, 3, 2), (0, 3)]:
                b = random_array(rng, name, shape)
                if len(shape) > 1:
                    yield Case("transpose", [b], b.swapaxes(-1, -2))
                yield Case("reshape", [b], b.reshape(-1), arguments={"shape": [b.size]})
                to = (2, 4, *shape[1:])[-max(len(shape) + 1, 2) :] if shape[:1] == (1,) else (2, *shape)
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
