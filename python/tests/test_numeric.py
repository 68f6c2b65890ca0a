"""What kernels compute of each element, against NumPy: the same bits where a result is exact, else near."""

import math

import numpy as np
import pytest
from numeric_cases import (
    BITS,
    DTYPES,
    FLOATS,
    INTEGERS,
    NUMBERS,
    Case,
    arrays,
    odd,
    random_array,
    rounded,
    special,
    wide,
)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

# Pairs of shapes that broadcast, a matrix unit's tiles and odd ones.
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
                any_bits, modest = (
                    random_array(rng, source, (200,)),
                    random_array(rng, source, (9,), True),
                )
                for a in [special(source), any_bits, modest]:
                    expected = converted(a, source, target)
                    yield Case("cast", [a], expected, arguments={"dtype": target})

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
