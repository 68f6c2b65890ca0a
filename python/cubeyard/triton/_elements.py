"""Element types of Triton, and arithmetic on single elements."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from cubeyard.triton._ir import SIZES

__all__ = ["BITCASTS", "COMPARISONS", "DTYPES", "NUMPY", "SIZES", "UNSIGNED", "Array", "is_float", "number", "rounded", "scalar", "wrapped"]

Array = np.ndarray[Any, Any]

DTYPES = {
    "i1": "bool", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "f16": "f16", "bf16": "bf16", "f32": "f32",
    "f64": "f64", "f8E4M3FN": "fp8_e4m3", "f8E5M2": "fp8_e5m2", "ptr": "i64",
}  # fmt: skip
"""This package's element type names, by Triton's IR names."""

UNSIGNED = {"i1": "bool", "i8": "u8", "i16": "u16", "i32": "u32", "i64": "u64"}
"""Names of the unsigned types of the same width."""

NUMPY: dict[str, type] = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "ptr": np.int64,
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": np.float32,
}  # fmt: skip
"""NumPy types of known elements."""

BITCASTS = ("tt.bitcast", "arith.bitcast")
"""Operations that reinterpret the bits of elements as another type."""

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y,
}  # fmt: skip
"""Comparison functions by name."""


def is_float(element: str) -> bool:
    """Returns whether a type is a float."""
    return element[0] in "fb"


def wrapped(value: int, element: str) -> int:
    """Wraps an integer to a signed type. For `i1`, the result is a bool."""
    if element == "i1":
        return bool(value & 1)
    bits = 8 * SIZES[element]
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def unsigned(value: int, element: str) -> int:
    """Reinterprets the bits of a signed integer as an unsigned one."""
    return value & 1 if element == "i1" else value & ((1 << (8 * SIZES[element])) - 1)


def rounded(value: float, element: str) -> float:
    """Rounds a number to a float type."""
    if element == "f64":
        return value
    if element == "f16":
        with np.errstate(over="ignore"):
            return float(np.float16(value))
    single = ctypes.c_float(value).value
    if element == "f32" or not math.isfinite(single):
        return single
    if element == "bf16":
        bits = struct.unpack("<I", struct.pack("<f", single))[0]
        if single != value:
            # Truncated, with the last bit set as a sticky bit, to avoid rounding twice.
            bits = (bits - (abs(single) > abs(value))) | 1
        bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
        return float(struct.unpack("<f", struct.pack("<I", bits))[0])
    # 8-bit floats are rounded when they are stored in a tile.
    return single


def _rounded_once(whole: int, element: str) -> float:
    """Rounds an integer to a float type, once."""
    if element in ("f64", "f16") or abs(whole) < 1 << 53:
        return rounded(float(whole), element)
    # Truncated to 53 bits, with the last bit set as a sticky bit if any bits were lost, to avoid rounding twice.
    lost = abs(whole).bit_length() - 53
    kept = abs(whole) >> lost
    return rounded(math.copysign(math.ldexp(kept | ((kept << lost) != abs(whole)), lost), whole), element)


def of_bits(bits: int, element: str) -> float:
    """Returns the float with the given bits."""
    if element == "bf16":
        return float(struct.unpack("<f", struct.pack("<I", bits << 16))[0])
    form = {"f16": ("<H", "<e"), "f32": ("<I", "<f"), "f64": ("<Q", "<d")}[element]
    return float(struct.unpack(form[1], struct.pack(form[0], bits))[0])


def bits_of(value: float, element: str) -> int:
    """Returns the bits of an element as an unsigned integer."""
    if not is_float(element):
        return unsigned(int(value), element)
    if element == "bf16":
        return int(struct.unpack("<I", struct.pack("<f", value))[0]) >> 16
    form = {"f16": ("<H", "<e"), "f32": ("<I", "<f"), "f64": ("<Q", "<d")}[element]
    return int(struct.unpack(form[0], struct.pack(form[1], value))[0])


def recast(value: float, source: str, element: str) -> float:
    """Reinterprets the bits of an element as another type."""
    code = bits_of(value, source)
    return of_bits(code, element) if is_float(element) else wrapped(code, element)


def number(value: Any, element: str) -> Any:
    """Converts a number to an element type: rounds floats, wraps integers."""
    return rounded(float(value), element) if is_float(element) else wrapped(int(value), element)


def _divided(x: int, y: int) -> int:
    """Divides, rounding towards 0. Division by 0 gives 0, as on the machine."""
    return 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _float_divided(x: float, y: float) -> float:
    if y != 0:
        return x / y
    return math.nan if x == 0 or math.isnan(x) else math.copysign(math.inf, x) * math.copysign(1, y)


_INTEGERS: dict[str, Callable[..., int]] = {
    "arith.addi": lambda x, y: x + y,
    "arith.subi": lambda x, y: x - y,
    "arith.muli": lambda x, y: x * y,
    "arith.divsi": _divided,
    "arith.remsi": lambda x, y: x - _divided(x, y) * y,
    "arith.ceildivsi": lambda x, y: -((-x) // y) if y else 0,
    "arith.floordivsi": lambda x, y: x // y if y else 0,
    "arith.andi": lambda x, y: x & y,
    "arith.ori": lambda x, y: x | y,
    "arith.xori": lambda x, y: x ^ y,
    "arith.shli": lambda x, y: x << y if 0 <= y < 64 else 0,
    "arith.shrsi": lambda x, y: x >> (y if 0 <= y < 64 else 63),
    "arith.minsi": min,
    "arith.maxsi": max,
    "math.absi": abs,
}
_NATURALS: dict[str, Callable[..., int]] = {
    "arith.divui": lambda x, y: x // y if y else 0,
    "arith.remui": lambda x, y: x % y if y else 0,
    "arith.ceildivui": lambda x, y: -(-x // y) if y else 0,
    "arith.shrui": lambda x, y: x >> y if y < 64 else 0,
    "arith.minui": min,
    "arith.maxui": max,
}
_FLOATS: dict[str, Callable[..., float]] = {
    "arith.addf": lambda x, y: x + y,
    "arith.subf": lambda x, y: x - y,
    "arith.mulf": lambda x, y: x * y,
    "arith.divf": _float_divided,
    "tt.precise_divf": _float_divided,
    "tt.approx_divf": _float_divided,
    "arith.remf": lambda x, y: math.fmod(x, y) if math.isfinite(x) and y != 0 else math.nan,
    "arith.maxnumf": lambda x, y: y if math.isnan(x) else x if math.isnan(y) else max(x, y),
    "arith.minnumf": lambda x, y: y if math.isnan(x) else x if math.isnan(y) else min(x, y),
    "arith.maximumf": lambda x, y: math.nan if math.isnan(x) or math.isnan(y) else max(x, y),
    "arith.minimumf": lambda x, y: math.nan if math.isnan(x) or math.isnan(y) else min(x, y),
    "arith.negf": lambda x: -x,
    "math.absf": abs,
    "math.exp": lambda x: math.inf if x > 709.782712893384 else math.exp(x),
    "math.exp2": lambda x: math.inf if x >= 1024 else 2.0**x,
    "math.log": lambda x: math.log(x) if x > 0 else -math.inf if x == 0 else math.nan,
    "math.log2": lambda x: math.log2(x) if x > 0 else -math.inf if x == 0 else math.nan,
    "math.sqrt": lambda x: math.sqrt(x) if x >= 0 else math.nan,
    "tt.precise_sqrt": lambda x: math.sqrt(x) if x >= 0 else math.nan,
    "math.rsqrt": lambda x: 1 / math.sqrt(x) if x > 0 else math.inf if x == 0 else math.nan,
    "math.sin": lambda x: math.sin(x) if math.isfinite(x) else math.nan,
    "math.cos": lambda x: math.cos(x) if math.isfinite(x) else math.nan,
    "math.erf": math.erf,
    "math.tanh": math.tanh,
    "math.floor": np.floor,
    "math.ceil": np.ceil,
    "math.fma": lambda x, y, z: x * y + z,
    "tt.clampf": lambda x, low, high: min(max(x, low), high),
}

_TESTS: dict[str, Callable[[float], bool]] = {
    "ahbm.isnan": math.isnan, "ahbm.isinf": math.isinf, "ahbm.isfinite": math.isfinite,
}  # fmt: skip


def scalar(name: str, element: str, words: list[str], source: str) -> Callable[..., Any] | None:
    """Returns a function that performs an operation on single elements, or None if the operation is unknown.

    Args:
        name: name of the operation.
        element: element type of the result.
        words: keywords of the operation, such as the relation of a comparison.
        source: element type of the first operand.
    """
    if name in _INTEGERS:
        whole = _INTEGERS[name]
        return lambda *given: wrapped(whole(*given), element)
    if name in _NATURALS:
        natural = _NATURALS[name]
        return lambda *given: wrapped(natural(*(unsigned(one, element) for one in given)), element)
    if name in _FLOATS:
        real = _FLOATS[name]
        return lambda *given: rounded(float(real(*given)), element)
    if name in ("arith.cmpi", "arith.cmpf"):
        return _comparison(name, words[0], source)
    if name == "tt.mulhiui":
        bits = 8 * SIZES[element]
        return lambda x, y: wrapped(unsigned(x, element) * unsigned(y, element) >> bits, element)
    if name == "arith.select":
        return lambda condition, x, y: x if condition else y
    if name in _TESTS:
        test = _TESTS[name]
        return lambda x: int(test(x))
    return _conversion(name, element, source)


def _comparison(name: str, relation: str, source: str) -> Callable[..., bool]:
    if name == "arith.cmpi":
        compare = COMPARISONS[relation[-2:]]
        if relation[0] == "u":
            return lambda x, y: bool(compare(unsigned(x, source), unsigned(y, source)))
        return lambda x, y: bool(compare(x, y))
    if relation in ("ord", "uno"):
        return lambda x, y: (x != x or y != y) == (relation == "uno")
    compare, unordered = COMPARISONS[relation[1:]], relation[0] == "u"
    return lambda x, y: unordered if x != x or y != y else bool(compare(x, y))


def _conversion(name: str, element: str, source: str) -> Callable[..., Any] | None:
    if name in ("arith.extsi", "arith.trunci", "arith.index_cast", "tt.int_to_ptr", "tt.ptr_to_int"):
        if source == "i1":
            return lambda x: -int(x)
        return lambda x: wrapped(int(x), element) if element != "ptr" else int(x)
    if name == "arith.extui":
        return lambda x: unsigned(int(x), source)
    if name == "arith.sitofp":
        return lambda x: _rounded_once(int(x), element)
    if name == "arith.uitofp":
        return lambda x: _rounded_once(unsigned(int(x), source), element)
    if name in ("arith.fptosi", "arith.fptoui"):
        return lambda x: wrapped(int(x), element) if math.isfinite(x) else 0
    if name in ("arith.extf", "arith.truncf", "tt.fp_to_fp"):
        return lambda x: rounded(x, element)
    if name in BITCASTS and "f8" not in source + element:
        return lambda x: recast(x, source, element)
    return None
