"""Numbers that meet tiles: they keep their type from the caller to the vector unit, and promote as NumPy's do.

All of them were 64-bit floats on their way: whole numbers beyond 2^53 were rounded, fractions beside tiles of integers were
cut off, and a launch turned 2.0 and True into integers and lost the sign of -0.0.
"""

import math
import os

import numpy as np
import pytest
from kernel_lab import HERE, ONE, failing, one
from numeric_cases import DTYPES
from scalar_cases import BITWISE, COMPARISONS, Operation, cases, refused_cases

import cubeyard

LARGE = 2**53 + 1


def run(body, *arrays, numbers=(), live=False):
    """Runs a kernel on one PE that makes tiles of others, and returns them, with the types of the tiles."""
    context = cubeyard.Context()
    tensors = [context.from_numpy(array).to(ONE) for array in arrays]
    made = []

    def types(*given, tl):
        loaded = [tl.load(of) for of in given[: len(arrays)]]
        made[:] = [(of.shape, of.dtype) for of in map(tl.eval if live else lambda of: of, body(tl, *loaded, *given[len(arrays) :]))]

    context.launch(types, *tensors, *numbers, **HERE)
    outs = [context.empty(shape, dtype).to(ONE) for shape, dtype in made]

    def kernel(*given, tl):
        loaded, given = [tl.load(of) for of in given[: len(arrays)]], given[len(arrays) :]
        tiles = body(tl, *loaded, *given[: len(numbers)])
        for out, tile in zip(given[len(numbers) :], tiles, strict=True):
            tl.store(out, tl.eval(tile) if live else tile)

    context.launch(kernel, *tensors, *numbers, *outs, **HERE)
    return [out.numpy() for out in outs]


def same(found, expected):
    """Whether two arrays have the same type, the same elements and the same signs of zeros."""
    equal = np.array_equal(found, expected, equal_nan=expected.dtype.kind == "f")
    return found.dtype == expected.dtype and equal and np.array_equal(np.signbit(found), np.signbit(expected))


def test_whole_numbers_beyond_2_to_the_53_are_exact():
    x = np.array([0, 1, -5, LARGE - 1, LARGE], np.int64)
    found = run(lambda tl, x: [x + LARGE, LARGE - x, x == LARGE, tl.where(x > 0, x, -LARGE), tl.clamp(x, 0, LARGE)], x)
    for ours, theirs in zip(found, [x + LARGE, LARGE - x, x == LARGE, np.where(x > 0, x, -LARGE), np.clip(x, 0, LARGE)], strict=True):
        assert same(ours, theirs)
    u = np.array([0, 1, 2**64 - 1], np.uint64)
    for ours, theirs in zip(run(lambda tl, u: [u ^ (2**64 - 1), u >= 2**64 - 1], u), [u ^ (2**64 - 1), u >= 2**64 - 1], strict=True):
        assert same(ours, theirs)


def test_expressions_promote_as_tiles_do():
    x = np.array([0, 3, -5, LARGE], np.int64)
    found = run(lambda tl, x: [x.lazy() + LARGE, LARGE - x.lazy(), x.lazy() * 0.5, 2.5 - x.lazy(), x.lazy() >= 2.5], x, live=True)
    for ours, theirs in zip(found, [x + LARGE, LARGE - x, x * 0.5, 2.5 - x, x >= 2.5], strict=True):
        assert same(ours, theirs)


def test_fractions_beside_integers_make_floats_of_64_bits():
    x = np.array([-3, 0, 1, 2, 3], np.int32)
    found = run(lambda tl, x: [x * 0.5, 0.5 - x, x / 2.0, x >= 2.5, tl.where(x > 0, x, 0.5), tl.fma(x, 0.5, 1)], x)
    for ours, theirs in zip(found, [x * 0.5, 0.5 - x, x / 2.0, x >= 2.5, np.where(x > 0, x, 0.5), x * 0.5 + 1], strict=True):
        assert same(ours, theirs)


def test_a_promotion_is_one_pass_with_a_conversion():
    """`i32 * 0.5` takes one pass, which converts and multiplies; `f32 * 0.5` takes no longer than before."""

    def time(body, dtype):
        context = cubeyard.Context()
        x, out = context.from_numpy(np.ones(4096, dtype)).to(ONE), context.empty(4096, "f64").to(ONE)

        def kernel(x, out, tl):
            tl.store(out, body(tl, tl.load(x)))

        return context.launch(kernel, x, out, **HERE).max_ps

    promoted = time(lambda tl, x: x * 0.5, np.int32)
    assert promoted == time(lambda tl, x: tl.eval(tl.cast(x.lazy(), "f64") * 0.5), np.int32)
    assert promoted < time(lambda tl, x: tl.cast(x, "f64") * 0.5, np.int32)


def test_truth_values_stay_truth_values():
    x, mask = np.array([1, 2, 3], np.int8), np.array([True, False, True])
    found = run(lambda tl, x, mask: [x + True, mask ^ True, mask == 2, mask * 2, mask * 0.5], x, mask)
    for ours, theirs in zip(found, [x + True, mask ^ True, mask == 2, mask * 2, mask * 0.5], strict=True):
        assert same(ours, theirs)


def test_numbers_of_numpy_count_as_those_of_python():
    x, y = np.array([1, 2], np.float32), np.array([7, 9], np.int64)

    def body(tl, x, y):
        return [x * np.float64(0.5), x + np.int64(3), y + np.uint64(5), y * np.float32(0.5), (y > 8) ^ np.bool_(True)]

    for ours, theirs in zip(run(body, x, y), [x * 0.5, x + 3, y + 5, y * 0.5, (y > 8) ^ True], strict=True):
        assert same(ours, theirs)


def test_arguments_of_a_launch_keep_their_type_and_sign():
    seen = []

    def kernel(*numbers, tl):
        seen.append(numbers)

    given = (2.0, True, False, -0.0, 0.0, 2, -7, LARGE, -(2**63), 2**64 - 1, 0.5, math.inf, np.float32(0.1), np.int64(3))
    context = cubeyard.Context()
    for _ in range(2):
        context.launch(kernel, *given, **HERE)
    plain = [of.item() if isinstance(of, np.generic) else of for of in given]
    assert [repr(of) for of in seen[0]] == [repr(of) for of in plain]


def test_a_recording_is_that_of_the_type_of_its_numbers():
    """2, 2.0 and True are equal in Python, as 0.0 and -0.0 are; launches with them are not."""
    context = cubeyard.Context()
    x, seen = one(context, [1.0, 2.0]), []

    def kernel(x, number, tl):
        seen.append(repr(number))
        tl.store(x, tl.load(x) * number)

    for number in (2, 2.0, True, 0.0, -0.0):
        context.launch(kernel, x, number, **HERE)
    assert seen == ["2", "2.0", "True", "0.0", "-0.0"]
    assert np.signbit(x.numpy()).all()


def test_ranges_fills_and_what_a_mask_leaves_out_are_exact():
    x = np.arange(4, dtype=np.int64)
    context = cubeyard.Context()
    given, outs = context.from_numpy(x).to(ONE), [context.empty(4, "i64").to(ONE) for _ in range(4)]

    def kernel(x, a, b, c, d, tl):
        tl.store(a, tl.arange(LARGE, 4, "i64"))
        tl.store(b, tl.full(4, -LARGE, "i64"))
        tl.store(c, tl.load(x, tl.mask(4, 2), 2**63 - 1))
        tl.store(d, tl.load(x, tl.mask(4, 0), -(2**63)))

    context.launch(kernel, given, *outs, **HERE)
    greatest = 2**63 - 1
    wanted = [[LARGE + at for at in range(4)], [-LARGE] * 4, [0, 1, greatest, greatest], [-greatest - 1] * 4]
    assert [out.numpy().tolist() for out in outs] == wanted


@pytest.mark.parametrize(
    "body, dtype, text",
    [
        (lambda tl, x: tl.load(x) + 300, "i8", "300 does not fit in i8, which ranges from -128 to 127"),
        (lambda tl, x: tl.load(x) < -1, "u8", "-1 does not fit in u8, which ranges from 0 to 255"),
        (lambda tl, x: tl.load(x) + 2**63, "i64", "9223372036854775808 does not fit in i64, which ranges from -9223372036854775808 to 9223372036854775807"),
        (lambda tl, x: tl.load(x) & 0.5, "i32", "and of f64[4]: not defined for f64"),
        (lambda tl, x: tl.full(4, 2.5, "i32"), "i32", "2.5 does not fit in i32, which ranges from -2147483648 to 2147483647 in whole numbers"),
        (lambda tl, x: tl.full(4, math.nan, "i32"), "i32", "NaN does not fit in i32"),
        (lambda tl, x: tl.full(4, 2, "bool"), "i32", "2 does not fit in bool, which ranges from 0 to 1"),
        (lambda tl, x: tl.load(x, tl.mask(4, 2), 0.5), "i32", "0.5 does not fit in i32"),
        (lambda tl, x: tl.arange(0.5, 4, "i32"), "i32", "0.5 does not fit in i32"),
        (lambda tl, x: tl.arange(2**63 - 2, 4, "i64"), "i64", "9223372036854775809 does not fit in i64"),
        (lambda tl, x: tl.load(x) + 2**200, "f32", f"{2**200}: expected a whole number of at most 127 bits; a larger one can be a float"),
        (lambda tl, x: tl.load(x) + 2**200, "i64", f"{2**200}: expected a whole number of at most 127 bits"),
    ],
)  # fmt: skip
def test_what_a_type_cannot_hold_is_refused(body, dtype, text):
    context = cubeyard.Context()
    x, out = context.from_numpy(np.array([1, 2, 3, 4], DTYPES[dtype])).to(ONE), context.empty(4, dtype).to(ONE)

    def kernel(x, out, tl):
        tl.store(out, body(tl, x))

    assert text in str(failing(context, kernel, x, out))


def test_a_launch_refuses_numbers_of_more_than_127_bits():
    def kernel(number, tl):
        pass

    with pytest.raises(cubeyard.errors.InputError, match=r"argument `number`: expected a whole number of at most 127 bits"):
        cubeyard.Context().launch(kernel, 2**127, **HERE)


COUNT = int(os.environ.get("CUBEYARD_SCALARS", "600"))
BATCH = 60


@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_random_numbers_beside_tiles_of_every_type_have_numpys_results(first):
    chosen = cases(range(first, min(first + BATCH, COUNT)))
    arrays = [case.array for case in chosen]

    def body(tl, *tiles):
        return [case.ours(tl, tile) for case, tile in zip(chosen, tiles, strict=True)]

    def later(tl, *tiles):
        return [case.ours(tl, tile.lazy()) for case, tile in zip(chosen, tiles, strict=True)]

    for found in (run(body, *arrays), run(later, *arrays, live=True)):
        for case, ours in zip(chosen, found, strict=True):
            case.compare(ours)


def test_random_numbers_that_a_type_cannot_hold_are_refused():
    refused = refused_cases(range(max(60, COUNT // 40)))
    assert {case.operation for case in refused} >= {Operation(name) for name in ("add", *COMPARISONS[:2], *BITWISE[:1])}
    for case in refused:
        context = cubeyard.Context()
        x, out = context.from_numpy(case.array).to(ONE), context.empty(case.array.shape, "f64").to(ONE)

        def kernel(x, out, tl, case=case):
            tl.store(out, case.ours(tl, tl.load(x)))

        assert case.names(str(failing(context, kernel, x, out))), case
