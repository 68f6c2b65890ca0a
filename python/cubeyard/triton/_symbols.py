"""Symbols of libdevice as operations: of Triton where the machine has them, else compositions (`ahbm.…`)."""

from __future__ import annotations

from cubeyard.triton._integers import BITS
from cubeyard.triton._libdevice import FLOATS, NARROW

__all__ = ["COMPOSED", "counterpart"]

_EQUAL = {
    "tanh": "math.tanh", "erf": "math.erf", "exp": "math.exp", "exp2": "math.exp2", "log": "math.log", "log2": "math.log2",
    "sin": "math.sin", "cos": "math.cos", "sqrt": "math.sqrt", "rsqrt": "math.rsqrt", "fabs": "math.absf",
    "floor": "math.floor", "ceil": "math.ceil", "fma": "math.fma", "fmod": "arith.remf", "fdivide": "arith.divf",
    "isnan": "ahbm.isnan", "isinf": "ahbm.isinf", "finite": "ahbm.isfinite", "isnand": "ahbm.isnan", "isinfd": "ahbm.isinf",
    "isfinited": "ahbm.isfinite", "signbitd": "ahbm.signbit", "abs": "math.absi", "llabs": "math.absi",
    "umulhi": "tt.mulhiui", "umul64hi": "tt.mulhiui", "nearbyint": "ahbm.rint", "llrint": "ahbm.rint",
    "llround": "ahbm.round", "scalbn": "ahbm.ldexp", "powi": "ahbm.power", "popcll": "ahbm.popc", "clzll": "ahbm.clz",
    "ffsll": "ahbm.ffs", "brevll": "ahbm.brev", "double2float_rn": "arith.truncf", "frsqrt_rn": "math.rsqrt",
    "float_as_int": "tt.bitcast", "float_as_uint": "tt.bitcast", "int_as_float": "tt.bitcast", "uint_as_float": "tt.bitcast",
    "double_as_longlong": "tt.bitcast", "longlong_as_double": "tt.bitcast",
}  # fmt: skip
"""Operations by function, without prefix and suffix. Operations named `ahbm.…` belong to this package."""

_ROUNDED = {"add": "arith.addf", "sub": "arith.subf", "mul": "arith.mulf", "div": "tt.precise_divf", "sqrt": "tt.precise_sqrt",
            "rcp": "ahbm.rcp", "ma": "math.fma", "maf": "math.fma"}  # fmt: skip
"""Operations that round to the nearest number, by the names between `f` or `d` and `_rn`."""

_ROUNDINGS = {"rn": "rint", "rd": "floor", "ru": "ceil", "rz": "trunc"}

COMPOSED = frozenset({*FLOATS, *BITS, "power", *(f"unsigned_{name}" for name in _ROUNDINGS.values())})
"""Names of the compositions."""


def counterpart(symbol: str, element: str) -> str | None:
    """Returns the operation for a symbol of libdevice, or None if the machine has none.

    Args:
        symbol: symbol such as `__nv_expm1f`.
        element: element type of the first operand.
    """
    name = symbol.removeprefix("__nv_").removeprefix("fast_")
    for one in (name, name.removesuffix("f")):
        if one in _EQUAL:
            return _EQUAL[one]
        if one in COMPOSED:
            return None if one in NARROW and element == "f64" else f"ahbm.{one}"
    return _converted(name) or (_ROUNDED.get(name[1:-3]) if name[-3:] == "_rn" else None)


def _converted(name: str) -> str | None:
    """Returns the operation of a conversion between floats and whole numbers, such as `float2int_rn`."""
    source, _, rest = name.partition("2")
    into, _, rounding = rest.partition("_")
    if source in ("float", "double") and into in ("int", "ll", "uint", "ull"):
        return f"ahbm.{'unsigned_' if into[0] == 'u' else ''}{_ROUNDINGS[rounding]}"
    if source in ("int", "ll", "uint", "ull") and rounding == "rn":
        return "arith.uitofp" if source[0] == "u" else "arith.sitofp"
    return None
