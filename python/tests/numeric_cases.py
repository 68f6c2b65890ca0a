"""Cases for what kernels compute, with NumPy's results, and how near ours are to them.

A step is the distance to the next number of the type. Whether a NaN is one is compared, its bits are not.
"""

import math
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

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
        fitting = [a for a in case.operands if broadcasts(a, wrong)]
        inputs = [np.broadcast_to(a, wrong.shape)[index] for a in fitting]
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
    edges += map(float, (info.max, info.tiny, info.smallest_subnormal, 1 + float(info.eps)))
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


def odd(a):
    """To f32 by cutting off, with the last bit set where something was lost: it can be rounded once more.

    ml_dtypes rounds to f32 first, to nearest, and so at times a tie that was none.
    """
    near = a.astype(np.float32)
    exact = np.array([x == y or x != x for x, y in zip(near.tolist(), a.tolist(), strict=True)])
    away = np.array([abs(x) > abs(y) for x, y in zip(near.tolist(), a.tolist(), strict=True)])
    bits = near.view(np.uint32)
    return np.where(exact, bits, (bits - away) | 1).astype(np.uint32).view(np.float32)
