"""Functions of libdevice: on loaded tiles, known indices and numbers, beside Python's in 64 bits."""

import os

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"

import importlib.util
import math

import numpy as np
import pytest
import triton
import triton.language as tl
from triton.language.extra import libdevice

import cubeyard
import cubeyard.triton
from cubeyard.triton import __main__ as tables
from cubeyard.triton import _libdevice

SPECIAL = [
    0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 1.5, 2.5, -2.5, 8, 100, -100, 1e-45, -1e-45, 1e-38, 1e-30, -1e-7, 1e-7, 3e38, -3e38,
    math.inf, -math.inf, math.nan, 1 + 2**-23, 1 - 2**-24, 2 + 2**-22, 0.49999997, 8388609.0, 16777216.0, 88.7, -103.9,
]  # fmt: skip


def guarded(function, at_pole=math.nan, too_large=math.inf):
    """A function of Python for arrays, with values instead of exceptions."""

    def call(*given):
        try:
            return function(*given)
        except ValueError:
            return at_pole
        except OverflowError:
            return too_large

    return np.vectorize(call, otypes=[float])


def sinpi(x):
    rest = math.remainder(x, 2)
    return math.sin(math.pi * (rest if abs(rest) <= 0.5 else math.copysign(1, rest) - rest))


def cospi(x):
    return sinpi(0.5 - abs(math.remainder(x, 2)))


def erfcx(x):
    if x < 26:
        return math.exp(x * x) * math.erfc(x)
    share = 1 / (2 * x * x)
    return (1 - share * (1 - 3 * share * (1 - 5 * share))) / (x * math.sqrt(math.pi))


def bessel(order):
    def series(x):
        if abs(x) > 700:
            return math.copysign(math.inf, x) if order else math.inf
        term = total = (x / 2) ** order
        for k in range(1, 1200):
            term *= (x / 2) ** 2 / (k * (k + order))
            total += term
        return total

    return series


def ilogb(x):
    if x == 0 or math.isnan(x):
        return -(2**31)
    return 2**31 - 1 if math.isinf(x) else math.frexp(x)[1] - 1


def tgamma(x):
    return math.copysign(math.inf, x) if x == 0 else math.gamma(x)


UNARY = {
    "log1p": np.log1p, "expm1": np.expm1, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "tan": np.tan, "rint": np.rint,
    "nearbyint": np.rint, "trunc": np.trunc, "cbrt": np.cbrt, "log10": np.log10, "exp10": lambda x: 10.0**x,
    "round": lambda x: np.trunc(np.abs(x) + 0.5) * np.sign(x), "sinpi": guarded(sinpi), "cospi": guarded(cospi),
    "rcbrt": lambda x: 1 / np.cbrt(x), "logb": lambda x: np.where(x == 0, -np.inf, np.where(np.isinf(x), np.inf, np.frexp(x)[1] - 1.0 + x * 0)),
    "saturatef": lambda x: np.nan_to_num(np.clip(x, 0, 1)), "tanh": np.tanh, "floor": np.floor, "ceil": np.ceil,
    "erfc": guarded(math.erfc), "erfcx": guarded(erfcx), "normcdf": guarded(lambda x: math.erfc(-x / math.sqrt(2)) / 2),
    "lgamma": guarded(math.lgamma, math.inf), "tgamma": guarded(tgamma), "cyl_bessel_i0": guarded(bessel(0)),
    "cyl_bessel_i1": guarded(bessel(1)), "erf": guarded(math.erf), "fast_expf": np.exp, "fast_tanf": np.tan,
}  # fmt: skip
"""Functions of one operand, with their references on arrays of 64 bits."""

BINARY = {
    "atan2": np.arctan2, "hypot": np.hypot, "copysign": np.copysign, "pow": np.power, "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "fdim": lambda x, y: np.where(x <= y, 0, x - y), "remainder": guarded(math.remainder), "fmod": np.fmod,
    "add_rn": np.add, "sub_rn": np.subtract, "mul_rn": np.multiply, "div_rn": np.divide, "fast_dividef": np.divide,
    "fast_powf": np.power,
}  # fmt: skip

WHOLE = {"ilogb": guarded(ilogb), "signbit": np.signbit, "isnan": np.isnan, "finitef": np.isfinite, "float2int_rn": np.rint,
         "float2int_rd": np.floor, "float2int_ru": np.ceil, "float2int_rz": np.trunc, "float2uint_rn": np.rint}  # fmt: skip
"""Functions of one operand with whole results. Conversions are compared where the result fits."""

ONLY_32 = {"saturatef", "fast_expf", "fast_tanf", "fast_dividef", "fast_powf", *_libdevice.NARROW}

COUNT = 512


def kernel_text(name, call, operands):
    lines = ["@triton.jit", f"def {name}(x_ptr, y_ptr, z_ptr, out_ptr, BLOCK: tl.constexpr):", "    at = tl.arange(0, BLOCK)"]
    lines += [f"    {one} = tl.load({one}_ptr + at)" for one in operands]
    return "\n".join([*lines, f"    tl.store(out_ptr + at, {call})"])


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """A kernel for each function, in a file, which Triton reads."""
    texts = [kernel_text(f"k_{name}", f"libdevice.{name}(x)", "x") for name in (*UNARY, *WHOLE, *INVERSE)]
    texts += [kernel_text(f"k_{name}", f"libdevice.{name}(x, y)", "xy") for name in (*BINARY, "nextafter", "ldexp")]
    texts += [kernel_text(f"k_{name}", f"libdevice.{name}({', '.join('xyz'[: of[0]])})", "xyz"[: of[0]]) for name, of in INTEGERS.items()]
    path = tmp_path_factory.mktemp("libdevice") / "libdevice_kernels.py"
    head = "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n\n"
    path.write_text(head + "\n\n\n".join(texts) + "\n")
    spec = importlib.util.spec_from_file_location("libdevice_kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def numbers(seed, dtype):
    """Numbers of all sizes: special ones, random bits, and some of the ranges where functions change."""
    rng = np.random.default_rng(seed)
    whole = {np.float32: np.uint32, np.float64: np.uint64}[dtype]
    parts = [
        np.array(SPECIAL), rng.integers(0, np.iinfo(whole).max, 100, dtype=whole).view(dtype), rng.standard_normal(150),
        rng.uniform(-1, 1, 100), rng.normal(0, 10, 50), 10.0 ** rng.uniform(-12, 2, 50) * rng.choice([-1, 1], 50),
    ]  # fmt: skip
    found = np.concatenate([part.astype(dtype) for part in parts])
    return rng.permutation(np.resize(found, COUNT)) if seed else np.resize(found, COUNT)


def check(found, wanted, most=2.0):
    """Compares results with references of 64 bits, in steps of their own type; `f64` to 12 digits."""
    kind = found.dtype.type
    with np.errstate(all="ignore"):
        near = wanted.astype(kind)
        step = np.spacing(np.abs(np.where(np.isfinite(near), near, 1))) * (most if kind == np.float32 else 1e4)
        same = (near == found) | (np.isnan(near) & np.isnan(found)) | (np.abs(found.astype(np.float64) - wanted) <= step)
        # Numbers just below and above the greatest round either way.
        same |= np.isinf(found) & (np.abs(wanted) > np.finfo(kind).max * (1 - 1e-6)) & (np.sign(found) == np.sign(wanted))
    assert same.all(), (found[~same][:5], wanted[~same][:5], np.flatnonzero(~same)[:5])


def typed(names):
    """Names with the types that libdevice has a symbol for."""
    return [(name, dtype) for dtype in (np.float32, np.float64) for name in names if dtype == np.float32 or name not in ONLY_32]


@pytest.mark.parametrize("name, dtype", typed(UNARY))
def test_functions_of_one_number(kernels, name, dtype):
    x = numbers(0, dtype)
    x = np.clip(x, -1e4, 1e4).astype(dtype) if name == "tan" or (dtype == np.float64 and name in ("sinpi", "cospi")) else x
    out = np.zeros(COUNT, dtype)
    getattr(kernels, f"k_{name}")[(1,)](x, x, x, out, BLOCK=COUNT)
    with np.errstate(all="ignore"):
        check(out, UNARY[name](x.astype(np.float64)))


@pytest.mark.parametrize("name", sorted(_libdevice.NARROW))
def test_functions_with_too_few_digits_are_refused_by_name_and_line(kernels, name):
    x = np.zeros(COUNT)
    with pytest.raises(cubeyard.CubeyardError, match=rf"libdevice_kernels\.py:\d+: .*tt\.extern_elementwise __nv_{name} has no"):
        getattr(kernels, f"k_{name}")[(1,)](x, x, x, x, BLOCK=COUNT)


@pytest.mark.parametrize("name, dtype", typed(BINARY))
def test_functions_of_two_numbers(kernels, name, dtype):
    x, y = numbers(1, dtype), numbers(2, dtype)
    x[:100], y[:100] = np.repeat(numbers(0, dtype)[:10], 10), np.tile(numbers(0, dtype)[:10], 10)
    x[100:200], y[100:200] = np.repeat(numbers(0, dtype)[20:30], 10), np.tile(numbers(0, dtype)[17:27], 10)
    out = np.zeros(COUNT, dtype)
    getattr(kernels, f"k_{name}")[(1,)](x, y, x, out, BLOCK=COUNT)
    with np.errstate(all="ignore"):
        wanted = BINARY[name](x.astype(np.float64), y.astype(np.float64))
    if name == "remainder":
        wanted = np.where(np.isfinite(x) & np.isinf(y), x, wanted)
    check(out, wanted)
    if name in ("atan2", "copysign"):
        known = ~np.isnan(wanted)
        assert (np.signbit(out) == np.signbit(wanted))[known].all()


@pytest.mark.parametrize("name", WHOLE)
def test_functions_with_whole_results(kernels, name):
    x, out = numbers(0, np.float32), np.zeros(COUNT, np.int32)
    getattr(kernels, f"k_{name}")[(1,)](x, x, x, out, BLOCK=COUNT)
    with np.errstate(all="ignore"):
        wanted = WHOLE[name](x.astype(np.float64))
        low, high = (-0.4, 2**32) if "uint" in name else (-(2.0**31), 2**31)
        fits = np.isfinite(wanted) & (wanted >= low) & (wanted < high)
        assert fits.sum() > COUNT / 4 and (out[fits] == wanted[fits].astype(np.int64).astype(np.int32)).all()


def test_the_next_number_and_powers_of_two(kernels):
    x, y = numbers(1, np.float32), numbers(2, np.float32)
    y[:50] = x[:50]
    out = np.zeros(COUNT, np.float32)
    kernels.k_nextafter[(1,)](x, y, x, out, BLOCK=COUNT)
    with np.errstate(all="ignore"):
        wanted = np.nextafter(x, y)
    assert ((out == wanted) | (np.isnan(out) & np.isnan(wanted))).all() and (np.signbit(out) == np.signbit(wanted))[~np.isnan(out)].all()
    n = np.random.default_rng(3).integers(-320, 320, COUNT).astype(np.int32)
    n[:4] = [2**31 - 1, -(2**31), 149, -149]
    kernels.k_ldexp[(1,)](x, n, x, out, BLOCK=COUNT)
    with np.errstate(all="ignore"):
        wanted = np.ldexp(x, n)
    assert ((out == wanted) | (np.isnan(out) & np.isnan(wanted))).all()


INVERSE = {"erfinv": (math.erf, -1, 1), "erfcinv": (math.erfc, 0, 2), "normcdfinv": (lambda y: math.erfc(-y / math.sqrt(2)) / 2, 0, 1)}
"""Inverses, with the functions whose inverses they are, and their ranges."""


@pytest.mark.parametrize("name", INVERSE)
def test_inverses(kernels, name):
    function, low, high = INVERSE[name]
    rng = np.random.default_rng(5)
    small = 10.0 ** rng.uniform(-30, 0, COUNT // 4)
    x = np.concatenate([rng.uniform(low, high, COUNT // 2), small, small * high / 2]).astype(np.float32)
    x[:5] = [low, high, high + 1, math.nan, (low + high) / 2]
    out = np.zeros(COUNT, np.float32)
    getattr(kernels, f"k_{name}")[(1,)](x, x, x, out, BLOCK=COUNT)
    assert np.isinf(out[:2]).all() and out[0] == -out[1] and np.isnan(out[2:4]).all() and abs(out[4]) < 1e-7
    falling = name == "erfcinv"
    assert (out[0] > 0) == falling
    for value, y in zip(x[5:].astype(float), out[5:].astype(float), strict=True):
        if value in (low, high):
            continue
        ends = sorted(function(y * (1 + share)) for share in (-3e-7, 3e-7))
        slack = 4e-16 if abs(y) > 1e-3 else 1e-9 * abs(y)
        assert ends[0] - slack <= value <= ends[1] + slack, (value, y)


def signed(value, bits=32):
    return (int(value) + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


INTEGERS = {
    "popc": (1, lambda x, bits: bin(x % 2**bits).count("1")),
    "clz": (1, lambda x, bits: bits - (x % 2**bits).bit_length()),
    "ffs": (1, lambda x, bits: ((x & -x) % 2**bits).bit_length()),
    "brev": (1, lambda x, bits: signed(int(f"{x % 2**bits:0{bits}b}"[::-1], 2), bits)),
    "mulhi": (2, lambda x, y, bits: x * y >> bits), "mul24": (2, lambda x, y, bits: signed(low24(x) * low24(y))),
    "hadd": (2, lambda x, y, bits: x + y >> 1), "rhadd": (2, lambda x, y, bits: x + y + 1 >> 1),
    "sad": (3, lambda x, y, z, bits: signed(abs(x - y) + z)), "abs": (1, lambda x, bits: signed(abs(x), bits)),
}  # fmt: skip


def low24(x):
    return (x + 2**23) % 2**24 - 2**23


LONG = ("popc", "clz", "ffs", "brev", "abs", "mulhi")


@pytest.mark.parametrize("name, bits", [*((name, 32) for name in INTEGERS), *((name, 64) for name in LONG)])
def test_functions_of_whole_numbers(kernels, name, bits):
    count, function = INTEGERS[name]
    dtype = np.int32 if bits == 32 else np.int64
    rng = np.random.default_rng(6)
    given = [rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, COUNT, dtype=dtype, endpoint=True) for _ in range(3)]
    for one in given:
        one[:70] = rng.choice(np.array([0, 1, -1, 2, 255, np.iinfo(dtype).max, np.iinfo(dtype).min, 2**23, -(2**23)], dtype), 70)
    given[2] = given[2].view(np.uint32) if name == "sad" else given[2]
    out = np.zeros(COUNT, np.int64)
    getattr(kernels, f"k_{name}")[(1,)](*given, out, BLOCK=COUNT)
    assert out.tolist() == [function(*map(int, row), bits) for row in zip(*given[:count], strict=True)]


@triton.jit
def known(x_ptr, out_ptr, n, share, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    # Known numbers and indices, also as addresses; numbers beside tiles.
    square = libdevice.rint(libdevice.hypot(at.to(tl.float32), at.to(tl.float32))).to(tl.int32)
    tl.store(out_ptr + at, tl.load(x_ptr + square, mask=square < n))
    tl.store(out_ptr + BLOCK + at, libdevice.atan2(tl.load(x_ptr + at), 2.0))
    tl.store(out_ptr + 2 * BLOCK + at, libdevice.log1p(share) + libdevice.pow(3.0, tl.load(x_ptr + at)))
    tl.store(out_ptr + 3 * BLOCK + at, libdevice.fast_dividef(1.0, 1.0 + at) + tl.fdiv(at + 0.5, share))


def test_known_values_and_numbers():
    x, out = np.random.default_rng(7).standard_normal(64).astype(np.float32), np.zeros((4, 64), np.float32)
    with cubeyard.triton.record() as run:
        known[(1,)](x, out, 64, 0.1, BLOCK=64)
    assert not any("runs live" in note for note in run.launches[0].notes)
    at = np.rint(np.hypot(np.arange(64.0), np.arange(64.0))).astype(int)
    assert (out[0] == np.where(at < 64, x[np.minimum(at, 63)], 0)).all()
    wide = x.astype(np.float64)
    check(out[1], np.arctan2(wide, 2))
    check(out[2], math.log1p(np.float32(0.1)) + 3.0**wide, 3)
    check(out[3], 1 / (1 + np.arange(64.0)) + (np.arange(64) + 0.5) / float(np.float32(0.1)), 3)


@triton.jit
def arcs(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, libdevice.asin(tl.load(x_ptr + at)))


@triton.jit
def logarithms(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, libdevice.log1p(tl.load(x_ptr + at)))


def test_the_cost_of_a_function_is_that_of_its_operations():
    count, x, times = 65536, np.zeros(65536, np.float32), []
    for kernel in (arcs, logarithms):
        with cubeyard.triton.record(data=False) as run:
            kernel[(1,)](x, x, BLOCK=count)
        times.append(run.launches[0].kernel_ns)
    (special, simple), (others, plain) = tables.cost("asin"), tables.cost("log1p")
    # 64 special and 256 simple operations each nanosecond.
    wanted = count * ((special - others) / 64 + (simple - plain) / 256)
    assert times[0] - times[1] == pytest.approx(wanted, rel=0.02)


@triton.jit
def refusing(x_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x_ptr + at, libdevice.j0(tl.load(x_ptr + at)))


def test_other_functions_are_refused_by_name_and_line():
    with pytest.raises(cubeyard.CubeyardError, match=r"test_triton_libdevice\.py:\d+: .*tt\.extern_elementwise __nv_j0f has no counterpart"):
        refusing[(1,)](np.zeros(64, np.float32), BLOCK=64)
